"""What judges the answers of an episode: opened when first needed, shared by all threads, and the campaign's judge."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from services.core.campaign import Campaign
from services.core.errors import GradingUnavailable, PrerequisiteMissing
from services.core.problem import Problem, ScorerKind
from services.core.protocol.ports import Message
from services.core.protocol.roles import CallRole
from services.core.scoring.ports import CodeRunner, Equivalence, Execution, Job
from services.core.scoring.scorer import Graders
from worker.calls import MeteredCalls

Tool = TypeVar("Tool")


class OnDemand(Generic[Tool]):
    """Opens something at its first use, once, and again only after a failure to open it.

    Args:
        open_tool: opens it; raises PrerequisiteMissing when this machine has no such thing.
        closing: closes it at the end.
    """

    def __init__(self, open_tool: Callable[[ExitStack], Tool]) -> None:
        self._open = open_tool
        self._closing = ExitStack()
        self._tool: Tool | None = None
        self._closed = False
        self._lock = threading.Lock()

    def get(self) -> Tool:
        """Return it; of many threads that need it at once, one opens it.

        Raises:
            PrerequisiteMissing: this machine has no such thing.
            GradingUnavailable: the worker is stopping.
        """
        with self._lock:
            if self._closed:
                raise GradingUnavailable("the worker is stopping")
            if self._tool is None:
                self._tool = self._open(self._closing)
            return self._tool

    def close(self) -> None:
        """Close it if it was opened; nothing is opened any more."""
        with self._lock:
            self._closed = True
            self._tool = None
            self._closing.close()


@dataclass(frozen=True)
class LazyEquivalence:
    """An ``Equivalence`` whose processes start when the first answer needs them."""

    tool: OnDemand[Equivalence]

    @property
    def name(self) -> str:
        return self.tool.get().name

    def equal(self, reference: str, answer: str) -> bool | None:
        return self.tool.get().equal(reference, answer)


@dataclass(frozen=True)
class LazyRunner:
    """A ``CodeRunner`` that is opened, and tests itself, when the first program needs it."""

    tool: OnDemand[CodeRunner]

    @property
    def name(self) -> str:
        return self.tool.get().name

    def run(self, job: Job) -> Execution:
        return self.tool.get().run(job)

    def examine(self, examiner: Job, candidate: Job) -> tuple[Execution, Execution]:
        return self.tool.get().examine(examiner, candidate)


def graders(closing: ExitStack, sandbox_python: Path | None = None) -> Graders:
    """Return what judges mathematics and programs, each opened when first needed; ``closing`` closes them.

    Args:
        closing: of the process.
        sandbox_python: the interpreter whose packages programs may import; None for the standard library alone.
    """

    def symbolic(opened: ExitStack) -> Equivalence:
        from services.symbolic.pool import SymbolicPool

        return opened.enter_context(SymbolicPool())

    def sandbox(opened: ExitStack) -> CodeRunner:
        from services.sandbox.opening import open_runner

        return opened.enter_context(open_runner(python=sandbox_python))

    equivalence, programs = OnDemand(symbolic), OnDemand(sandbox)
    closing.callback(equivalence.close)
    closing.callback(programs.close)
    return Graders(LazyEquivalence(equivalence), LazyRunner(programs))


def require(problem: Problem, judging: Graders) -> None:
    """Make sure, before anything is paid, that answers to a problem can be judged here.

    Raises:
        PrerequisiteMissing: this machine lacks what that takes.
        GradingUnavailable: it could not be opened for now.
    """
    needed = {ScorerKind.MATHEMATICS: judging.equivalence, ScorerKind.PROGRAM: judging.programs}
    if problem.scorer in needed:
        tool = needed[problem.scorer]
        if tool is None or not tool.name:
            raise PrerequisiteMissing(
                f"nothing here judges answers of the kind {problem.scorer}", "see `manage.py doctor`"
            )


@dataclass
class EpisodeJudge:
    """The judge for one episode's answer. Its calls are metered like the turns and numbered after the last of them."""

    calls: MeteredCalls
    agent: int
    turn: int

    @classmethod
    def of(cls, campaign: Campaign, calls: MeteredCalls, turns: int) -> EpisodeJudge | None:
        """Return the judge after so many turns; None when the campaign names none."""
        return None if campaign.judge is None else cls(calls, campaign.judge, turns + 1)

    @property
    def name(self) -> str:
        return self.calls.campaign.pool[self.agent].name

    def ask(self, messages: Sequence[Message]) -> str:
        """Return the reply. The episode's deadline is that of its turns; a rating has the time of a call beyond it."""
        self.calls.leave_at_least(self.calls.campaign.protocol.call_timeout_seconds)
        reply = self.calls(turn=self.turn, agent=self.agent, role=CallRole.JUDGE, messages=messages)
        self.turn += 1
        return reply.text
