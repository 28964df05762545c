"""Judging tools of a worker: opened once, when needed, by whichever thread needs them first."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from services.core.errors import GradingUnavailable, PrerequisiteMissing
from services.core.problem import Case, Problem, ProgramForm, ProgramTests, ScorerKind
from services.core.protocol.roles import Role, RoleSource
from services.core.protocol.transcript import Item
from services.core.scoring.ports import Ending, Execution, Job
from services.core.scoring.scorer import Graders
from tests.support.plain_runner import PlainRunner
from worker import calls
from worker.grading import LazyEquivalence, LazyRunner, OnDemand
from worker.playing import examining


class Tool:
    """Stands in for both kinds of tools; says which one of them was closed."""

    name = "tool 1.0"

    def __init__(self) -> None:
        self.closed = threading.Event()

    def equal(self, reference: str, answer: str) -> bool | None:
        return reference == answer

    def run(self, job: Job) -> Execution:
        return Execution(Ending.EXITED, 0, job.stdin, b"", 0.0, 0.0)

    def examine(self, examiner: Job, candidate: Job) -> tuple[Execution, Execution]:
        return self.run(examiner), self.run(candidate)


class Opening:
    """Opens tools and counts; the first ``failures`` times there is none."""

    def __init__(self, failures: int = 0) -> None:
        self.opened: list[Tool] = []
        self.tries = 0
        self._failures = failures

    def __call__(self, closing: ExitStack) -> Tool:
        self.tries += 1
        if self.tries <= self._failures:
            raise PrerequisiteMissing("no tool", "buy one")
        self.opened.append(Tool())
        closing.callback(self.opened[-1].closed.set)
        return self.opened[-1]


def test_nothing_is_opened_before_it_is_needed_and_then_once_for_all_threads() -> None:
    opening = Opening()
    equivalence = LazyEquivalence(OnDemand(opening))
    assert opening.tries == 0
    with ThreadPoolExecutor(32) as threads:
        answers = list(threads.map(lambda number: equivalence.equal("1", str(number % 2)), range(200)))
    assert answers == [False, True] * 100
    assert (opening.tries, equivalence.name) == (1, "tool 1.0")


def test_a_missing_tool_is_said_each_time_and_looked_for_again() -> None:
    opening = Opening(failures=2)
    runner = LazyRunner(OnDemand(opening))
    for _ in range(2):
        with pytest.raises(PrerequisiteMissing, match="buy one"):
            runner.run(Job("", b"in"))
    assert runner.run(Job("", b"in")).stdout == b"in"
    assert [each.stdout for each in runner.examine(Job("", b"a"), Job("", b"b"))] == [b"a", b"b"]
    assert runner.name == "tool 1.0"


def test_a_closed_tool_gives_no_verdict_and_is_not_opened_again() -> None:
    opening = Opening()
    used, unused = OnDemand(opening), OnDemand(opening)
    used.get()
    for tool in (used, unused):
        tool.close()
        tool.close()
        with pytest.raises(GradingUnavailable, match="stopping"):
            tool.get()
    assert [tool.closed.is_set() for tool in opening.opened] == [True]


def test_what_is_no_call_does_not_count_against_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([100.0, 107.0, 200.0, 200.0])
    monkeypatch.setattr("worker.calls.time", SimpleNamespace(monotonic=lambda: next(clock)))
    nothing: Any = None
    lease: Any = SimpleNamespace(claim=None)
    metered = calls.MeteredCalls(nothing, nothing, nothing, lease, 150.0, nothing)
    with metered.aside():
        assert metered.deadline == 150.0
    assert metered.deadline == 157.0
    metered.leave_at_least(30.0)
    assert metered.deadline == 230.0
    metered.leave_at_least(5.0)
    assert metered.deadline == 230.0


def test_an_answer_that_is_verified_again_is_not_run_again() -> None:
    class Counting(PlainRunner):
        runs = 0

        def run(self, job: Job) -> Execution:
            self.runs += 1
            return super().run(job)

    programs = Counting()
    tests = ProgramTests(ProgramForm.STDIN, public=(Case("2", "4"),))
    problem = Problem("p", "code", "Double it.", ScorerKind.PROGRAM, program=tests)
    runtime: Any = SimpleNamespace(graders=Graders(programs=programs))
    metered: Any = SimpleNamespace(aside=nullcontext)
    examine = examining(runtime, problem, metered)
    work = [Item(turn, 0, Role.WORKER, RoleSource.POLICY, "", "", answer="print(4)") for turn in (1, 3)]
    assert examine(work[0]) == examine(work[0])
    assert programs.runs == 1
    examine(work[1])
    assert programs.runs == 2
