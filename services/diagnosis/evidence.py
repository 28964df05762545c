"""What a diagnosis is made from, read once, whatever is diagnosed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from services.core.campaign import EncoderSpec, HeadKind, ProtocolSpec, SearchSpec
from services.core.fingerprint import Fingerprint
from services.core.policy.layout import Layout
from services.core.problem import Problem, Split
from services.core.protocol.roles import Role
from services.core.statistics.steps import Samples
from services.core.statistics.variance import Rewards
from services.storage.diagnosis import ChoiceRow, PlayedEpisode


@dataclass(frozen=True)
class SearchTrace:
    """The search told again: one entry per closed training generation, and the end.

    Attributes:
        samples: z, (population, n), in units of the generation's own distribution.
        fitness: (population,), as it was told.
        rewards: (population, replicates), single rewards without bonuses.
        means: with which each generation opened, and the last one.
        conditions: kappa_D with which each generation opened, and the last one; empty when the search has no scaling.
    """

    samples: tuple[Samples, ...] = ()
    fitness: tuple[NDArray[np.float64], ...] = ()
    rewards: tuple[Rewards, ...] = ()
    means: tuple[NDArray[np.float64], ...] = ()
    conditions: tuple[float, ...] = ()


@dataclass(frozen=True)
class Evidence:
    """The subject and everything that is known of it; a coordinator without its campaign has no history.

    Attributes:
        agents: names of the pool's models.
        theta: the vector that is diagnosed, float64 of shape (n,).
        vector: which one it is, in words.
        problems: by split, in their order.
        reading: of the encoder it was trained with; None when nobody recorded it.
        logged: the search whose log is at hand; None for a coordinator without its campaign.
        choices: of heads, in closed generations.
        played: conversations of the newest training generations.
    """

    subject: str
    seed: int
    agents: tuple[str, ...]
    encoder: EncoderSpec
    protocol: ProtocolSpec
    layout: Layout
    theta: NDArray[np.float64]
    vector: str
    problems: Mapping[Split, tuple[Problem, ...]]
    reading: Fingerprint | None = None
    logged: SearchSpec | None = None
    trace: SearchTrace = SearchTrace()
    choices: tuple[ChoiceRow, ...] = ()
    played: tuple[PlayedEpisode, ...] = ()

    @property
    def search(self) -> SearchSpec:
        """The logged search. Raises ValueError where there is none."""
        if self.logged is None:
            raise ValueError(f"{self.subject} has no log of its search")
        return self.logged

    @property
    def generations(self) -> int:
        return len(self.trace.fitness)

    @property
    def crossed(self) -> bool:
        return self.search.minibatch == "common"

    @property
    def linear(self) -> bool:
        return self.layout.spec.kind is HeadKind.LINEAR

    @cached_property
    def offsets(self) -> NDArray[np.float32]:
        found: NDArray[np.float32] = self.layout.split(self.theta)["svf"].astype(np.float32)
        return found

    @cached_property
    def head(self) -> NDArray[np.float64]:
        """The linear head's weights, shape (rows, d)."""
        found: NDArray[np.float64] = self.layout.split(self.theta)["head"].reshape(self.layout.rows, self.layout.hidden)
        return found

    def no_table(self) -> str:
        """Return why there is no closed form over recorded answers; nothing when there is one."""
        protocol, wanted = self.protocol, {self.agents[index] for index in self.layout.agents}
        if any(not wanted <= problem.scores.keys() for part in self.problems.values() for problem in part):
            return "the problems have no recorded score of every model"
        if protocol.max_turns != 1 or protocol.roles != (Role.WORKER,):
            return f"an episode is more than one Worker turn (at most {protocol.max_turns} turns)"
        if not self.linear:
            return f"the head is {self.layout.spec.kind}, the closed form is of the linear one"
        if self.layout.svf:
            return "singular values are searched as well, and the states depend on them"
        return ""
