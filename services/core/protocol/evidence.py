"""What a machine can find out about a Worker's answer before it is final, from nothing but what the question shows.

A Verifier is itself a model and errs. Where the campaign wants it, a program answer is run on the question's public
examples, and plain arithmetic in a Worker's working is recomputed. Hidden tests and references take no part: whatever
looks for evidence gets ``shown(problem)``, which has none.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace

from services.core.errors import PrerequisiteMissing
from services.core.problem import Problem, ScorerKind
from services.core.protocol.equations import recompute
from services.core.protocol.transcript import Item
from services.core.scoring.grade import Outcome
from services.core.scoring.ports import CodeRunner
from services.core.scoring.program.public import PublicCheck, check_public

LONGEST = 1000  # characters that a Verifier is shown
_LONGEST_CASE = 200

# A program that runs out of time or memory here may not do so on another machine.
_SETTLED = frozenset({Outcome.WRONG, Outcome.CRASH, Outcome.NO_ANSWER, Outcome.OUTPUT})


@dataclass(frozen=True)
class Evidence:
    """What was found, a function of problem and answer alone: no times, no paths, nothing of this machine.

    Attributes:
        conclusive: whether it settles by itself that the answer is wrong. Nothing settles that one is right: a program
            that passes every public example may still fail others.
        passed: whether what was checked held.
        text: what to tell a Verifier.
    """

    conclusive: bool
    passed: bool
    text: str

    @property
    def refutes(self) -> bool:
        """Whether it may stand in for a Verifier's REVISE."""
        return self.conclusive and not self.passed


Examine = Callable[[Item], Evidence | None]  # of a Worker's turn; None when there is nothing to check


def shown(problem: Problem) -> Problem:
    """Return the problem without its reference, its recorded scores and its hidden tests."""
    program = problem.program and replace(problem.program, hidden=(), source="")
    return replace(problem, answer=None, scores={}, program=program)


def examiner(problem: Problem, programs: CodeRunner | None) -> Examine:
    """Return what gathers evidence on the answers to a problem; only what ``shown`` leaves of it is used.

    What it returns raises GradingUnavailable when a program could not be run for reasons that are not its own, and
    PrerequisiteMissing when there is nowhere to run one. Neither is ever a verdict.
    """
    seen = shown(problem)

    def examine(work: Item) -> Evidence | None:
        if work.answer is None or seen.scorer is ScorerKind.RECORDED:
            return None
        if seen.scorer is not ScorerKind.PROGRAM:
            return of_working(work)
        if seen.program is None or not seen.program.public:
            return None
        if programs is None:
            raise PrerequisiteMissing(
                "there is no sandbox to run public examples in", "`manage.py sandbox check` says why"
            )
        found = check_public(seen, work.answer, programs)
        return None if found is None else of_examples(found)

    return examine


def of_examples(found: PublicCheck) -> Evidence:
    """Return how a program did on the public examples; a failure is conclusive where every machine would see it.

    What the program printed is shown as a JSON string: it cannot begin a line of its own among the findings.
    """
    examples = "the one public example" if found.total == 1 else f"the {found.total} public examples"
    if found.outcome is Outcome.CORRECT:
        return Evidence(
            False, True, f"The program was run on {examples} of the question and passed. There may be more."
        )
    what = " ".join(found.what.split())
    where = "" if found.failed is None else f" number {found.passed + 1}"
    lines = [f"The program was run on {examples} of the question and failed{where}: {what}."]
    if found.failed is not None:
        lines += [f"given: {_short(found.failed.given)}", f"wanted: {_short(found.failed.wanted)}"]
        lines += [] if found.got is None else [f"got: {_short(found.got)}"]
    return Evidence(found.outcome in _SETTLED, False, cut("\n".join(lines)))


def of_working(work: Item) -> Evidence | None:
    """Recompute the plain equations in a Worker's ideas and answer; None when it states none.

    Never conclusive: a wrong step does not make a wrong answer, and right steps do not make a right one.
    """
    found = recompute(f"{work.text}\n{work.answer or ''}")
    if not found.right and not found.wrong:
        return None
    if not found.wrong:
        held = "the one equation" if found.right == 1 else f"all {found.right} equations"
        return Evidence(False, True, f"Recomputed exactly: {held} between plain numbers in the working hold.")
    lines = [f"{claim.text} does not hold: {claim.left} against {claim.right}." for claim in found.wrong]
    head = f"Recomputed exactly: {found.right} equations between plain numbers in the working hold; not these:"
    return Evidence(False, False, cut("\n".join([head, *lines])))


def cut(text: str) -> str:
    """Return at most ``LONGEST`` characters, the beginning kept."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 6]} [...]"


def _short(text: str) -> str:
    plain = text.strip()
    short = plain if len(plain) <= _LONGEST_CASE else f"{plain[: _LONGEST_CASE - 6]} [...]"
    return json.dumps(short, ensure_ascii=False)
