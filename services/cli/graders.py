"""What judges answers, put together for commands that judge: only what the scorers at hand need."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from services.core.errors import PrerequisiteMissing
from services.core.problem import ScorerKind
from services.core.scoring.scorer import Graders


@contextmanager
def open_graders(scorers: Collection[ScorerKind]) -> Iterator[Graders]:
    """Yield graders for answers under these scorers, and end their processes.

    Raises:
        PrerequisiteMissing: this machine cannot judge one of them; says why and what to do.
    """
    for scorer, module in ((ScorerKind.PROGRAM, "services.sandbox"), (ScorerKind.MATHEMATICS, "services.symbolic")):
        if scorer in scorers and find_spec(module) is None:
            raise PrerequisiteMissing(f"this installation has no {module}", "install one that has")
    yield Graders()
