"""What a failed program is told by: an outcome and one sentence."""

from __future__ import annotations

from dataclasses import dataclass

from services.core.scoring.grade import Outcome
from services.core.scoring.ports import Ending, Execution

_SHOWN = 300

_LIMITS = {
    Ending.CPU_TIME: (Outcome.TIMEOUT, "it used up its CPU time"),
    Ending.WALL_TIME: (Outcome.TIMEOUT, "it used up its time"),
    Ending.MEMORY: (Outcome.MEMORY, "it used up its memory"),
    Ending.OUTPUT: (Outcome.OUTPUT, "it wrote more than is read"),
}


@dataclass(frozen=True)
class Failure:
    """Why a program did not pass.

    Attributes:
        outcome: the kind.
        what: a phrase for people; never what a test wanted.
        number: the case that failed, counted from 1; 0 when it is none in particular.
        got: what the program answered, cut; None when it did not answer.
    """

    outcome: Outcome
    what: str
    number: int = 0
    got: str | None = None


def cut(text: str, longest: int = _SHOWN) -> str:
    """Return a text of at most ``longest`` characters, marked where it was cut."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


def over_limit(execution: Execution, number: int = 0) -> Failure | None:
    """Return the failure of a program that was ended for a limit, or None."""
    if execution.ending not in _LIMITS:
        return None
    outcome, what = _LIMITS[execution.ending]
    return Failure(outcome, what, number)


def raised(name: str, message: str, number: int = 0) -> Failure:
    """Return the failure of a program that raised an error."""
    outcome = Outcome.MEMORY if name == "MemoryError" else Outcome.CRASH
    return Failure(outcome, cut(f"it raised {name}{': ' if message else ''}{message}"), number)


def gone(execution: Execution, number: int = 0) -> Failure:
    """Return the failure of a program that ended before it answered."""
    how = (
        f"by signal {-(execution.status or 0)}"
        if execution.ending is Ending.KILLED
        else f"with status {execution.status}"
    )
    return over_limit(execution, number) or Failure(Outcome.CRASH, f"it ended {how} before it answered", number)


def loading(names: object, number: int = 0) -> Failure:
    """Return the failure of a program that could not be loaded, as ``inside.loading.describe`` tells it."""
    name, message = named(names)
    failure = raised(name, message, number)
    return Failure(failure.outcome, failure.what + " when it was loaded", number)


def named(names: object) -> tuple[str, str]:
    """Return name and message of an error that a program reported about itself: any text."""
    if isinstance(names, list) and len(names) > 1 and all(isinstance(name, str) for name in names):
        return cut(names[0], 60), cut(names[-1])
    return "an error", ""
