"""Whether a final answer is the same mathematical object as the reference.

In this order: the same text, the same exact number, words by words only; what is left goes to ``Equivalence``. Tuples,
sets, intervals and matrices are taken apart here and compared entry by entry, so that only plain expressions do.
"""

from __future__ import annotations

from dataclasses import dataclass

from services.core.errors import PrerequisiteMissing
from services.core.scoring.comparison import DEEPEST, Comparison
from services.core.scoring.extraction import final_answer
from services.core.scoring.grade import Grade, Outcome
from services.core.scoring.latex import balanced, depth, key, tidy
from services.core.scoring.ports import Equivalence
from services.core.scoring.shapes import Group, Scalar, listed, read

_LONGEST = 2_000


@dataclass(frozen=True)
class Verdict:
    """Whether two answers are the same.

    Attributes:
        equal: None when it needs ``Equivalence`` and there is none.
        by: what decided.
        undecided: why something could not be compared; ``equal`` is then False.
    """

    equal: bool | None
    by: str
    undecided: str = ""


def grade_mathematics(reference: str, answer: str, equivalence: Equivalence | None) -> Grade:
    """Grade a final answer: 1 for the same object, else 0; an answer without a final expression has its own outcome.

    An expression that cannot be compared within the limits is wrong, and the detail says that it was not compared.

    Raises:
        GradingUnavailable: the symbolic comparison could not be had.
        PrerequisiteMissing: the symbolic comparison is needed and there is none.
    """
    final = final_answer(answer)
    if final is None:
        return Grade(0.0, Outcome.NO_ANSWER, "no box, no answer field, and no single expression", "extraction")
    verdict = compare(reference, final, equivalence)
    if verdict.equal is None:
        raise PrerequisiteMissing(
            "comparing expressions needs math-verify", "install the extra: pip install 'trinity-coordinator[worker]'"
        )
    outcome = Outcome.CORRECT if verdict.equal else Outcome.WRONG
    detail = "" if verdict.equal else f"answered {final!r:.300}" + (verdict.undecided and f"; {verdict.undecided}")
    return Grade(float(verdict.equal), outcome, detail, verdict.by)


def compare(reference: str, final: str, equivalence: Equivalence | None) -> Verdict:
    """Compare a final expression with the reference; the reference decides which form is asked for."""
    if len(final) > _LONGEST:
        return Verdict(False, "length", f"not compared: longer than {_LONGEST} characters")
    wanted, given = tidy(final_answer(reference) or reference), tidy(final)
    if key(wanted) == key(given):
        return Verdict(True, "text")
    if depth(given) > DEEPEST:
        return Verdict(False, "depth", f"not compared: brackets more than {DEEPEST} deep")
    comparison = Comparison(equivalence)
    equal = comparison.shapes(read(wanted), read(given))
    for left, right in ((listed(wanted), read(given)), (read(wanted), listed(given))):
        if equal is False and left is not None and isinstance(right, Group) and len(right.items) > 1:
            equal = comparison.shapes(left, right)
    if equal is False and isinstance(read(wanted), Scalar):
        equal = comparison.alternatives(wanted, read(given))
    by = equivalence.name if equivalence is not None and comparison.asked else "exact comparison"
    return Verdict(equal, by, "" if equal else comparison.undecided)


def mathematics_agree(a: str, b: str) -> bool:
    """Tell whether two answers are the same without symbolic comparison."""
    left, right = final_answer(a), final_answer(b)
    return left is not None and right is not None and compare(left, right, None).equal is True


def readable(reference: str) -> bool:
    """Tell whether a text can serve as a reference: not empty once tidied, braces that match, not out of all bounds."""
    if len(reference) > _LONGEST:
        return False
    plain = tidy(final_answer(reference) or reference)
    return bool(key(plain)) and balanced(plain) and len(plain) <= _LONGEST and depth(plain) <= DEEPEST
