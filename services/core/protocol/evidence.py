"""What a machine can find out about a Worker's answer before it is final, from nothing but what the question shows.

A Verifier is itself a model and errs. Where the campaign wants it, a program answer is run on the question's public
examples, and plain arithmetic in a Worker's working is recomputed. Hidden tests and references take no part: whatever
looks for evidence gets ``shown(problem)``, which has none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from services.core.problem import Problem, ScorerKind
from services.core.protocol.equations import recompute
from services.core.protocol.transcript import Item

LONGEST = 1000  # characters that a Verifier is shown


@dataclass(frozen=True)
class Evidence:
    """What was found, a function of problem and answer alone: no times, no paths, nothing of this machine.

    Attributes:
        conclusive: whether it settles by itself that the answer is wrong. Nothing settles that one is right: a program
            that passes every public example may still fail others.
        passed: whether what was checked held; None when the check itself came to nothing.
        text: what to tell a Verifier.
    """

    conclusive: bool
    passed: bool | None
    text: str

    @property
    def refutes(self) -> bool:
        """Whether it may stand in for a Verifier's REVISE."""
        return self.conclusive and self.passed is False


# Looks at a Worker's turn; None when there is nothing to check. GradingUnavailable and PrerequisiteMissing pass through.
Examine = Callable[[Item], Evidence | None]
# Runs a program answer on a problem's public examples.
CheckProgram = Callable[[Problem, str], Evidence | None]


def shown(problem: Problem) -> Problem:
    """Return the problem without its reference, its recorded scores and its hidden tests."""
    program = problem.program and replace(problem.program, hidden=(), source="")
    return replace(problem, answer=None, scores={}, program=program)


def examiner(problem: Problem, check_program: CheckProgram) -> Examine:
    """Return what gathers evidence on the answers to a problem.

    Args:
        problem: the problem as stored; only what ``shown`` leaves of it is used.
        check_program: runs a program; called for problems with public examples only.
    """
    seen = shown(problem)

    def examine(work: Item) -> Evidence | None:
        if work.answer is None or seen.scorer is ScorerKind.RECORDED:
            return None
        if seen.scorer is not ScorerKind.PROGRAM:
            return of_working(work)
        public = seen.program is not None and seen.program.public
        found = check_program(seen, work.answer) if public else None
        return found and replace(found, text=cut(found.text))

    return examine


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
