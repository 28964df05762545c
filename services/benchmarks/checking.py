"""Grading the references themselves: whoever answers with the reference has to get the whole reward."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from services.benchmarks.record import Item
from services.core.errors import GradingUnavailable, Unscorable
from services.core.scoring.scorer import Graders, grade


@dataclass(frozen=True)
class Checked:
    """The grade of one reference.

    Attributes:
        key: of the problem.
        passed: whether it got the whole reward.
        outcome: the grade's, or ``unscorable`` or ``unavailable`` where there is none.
        detail: why, in a sentence.
        seconds: real time that grading took.
    """

    key: str
    passed: bool
    outcome: str
    detail: str
    seconds: float


@dataclass(frozen=True)
class Report:
    """All grades.

    Attributes:
        graded: in the order of the problems.
        without: how many problems have no reference that could be graded.
    """

    graded: Sequence[Checked]
    without: int

    @property
    def failed(self) -> list[Checked]:
        return [one for one in self.graded if not one.passed]

    def seconds(self, share: float) -> float | None:
        """Return the time that this share of the grades took at most; None without grades."""
        times = sorted(one.seconds for one in self.graded)
        return times[min(len(times) - 1, int(share * len(times)))] if times else None


def check(items: Sequence[Item], graders: Graders, jobs: int, done: Callable[[int, int], None]) -> Report:
    """Grade the reference of each item, ``jobs`` of them at once; ``done`` hears how many are graded of how many.

    Raises:
        PrerequisiteMissing: ``graders`` lack what an item needs.
    """
    with_solution = [item for item in items if item.solution is not None]
    graded = []
    with ThreadPoolExecutor(jobs, thread_name_prefix="check") as threads:
        for one in threads.map(lambda item: _checked(item, graders), with_solution):
            graded.append(one)
            done(len(graded), len(with_solution))
    return Report(graded, len(items) - len(with_solution))


def _checked(item: Item, graders: Graders) -> Checked:
    started = time.perf_counter()
    try:
        found = grade(item.problem, item.solution, None, graders)
        passed, outcome, detail = found.reward == 1.0, str(found.outcome), found.detail
    except (Unscorable, GradingUnavailable) as error:
        passed, detail = False, str(error)
        outcome = "unscorable" if isinstance(error, Unscorable) else "unavailable"
    return Checked(item.problem.key, passed, outcome, detail, time.perf_counter() - started)
