"""What judges answers, put together for commands that judge: only what the scorers at hand need."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from services.core.problem import ScorerKind
from services.core.scoring.scorer import Graders


@contextmanager
def open_graders(scorers: Collection[ScorerKind], jobs: int, python: Path | None = None) -> Iterator[Graders]:
    """Yield graders for answers under these scorers, and end their processes afterwards.

    Args:
        scorers: of the problems at hand.
        jobs: how many answers are judged at once.
        python: interpreter whose packages programs may import; None: the standard library alone.

    Raises:
        PrerequisiteMissing: programs cannot be confined on this machine; says what was tried and what to do.
    """
    with ExitStack() as closing:
        equivalence = programs = None
        if ScorerKind.MATHEMATICS in scorers:
            from services.symbolic.pool import SymbolicPool

            equivalence = closing.enter_context(SymbolicPool(jobs))
        if ScorerKind.PROGRAM in scorers:
            from services.sandbox.opening import open_runner

            programs = closing.enter_context(open_runner(places=jobs, python=python))
        yield Graders(equivalence, programs)
