"""What stands where in the parameter vector theta."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from services.core import seeds
from services.core.campaign import Campaign, HeadKind, HeadSpec, Matrix, Output
from services.core.errors import LayoutMismatch
from services.core.policy.head import Head
from services.core.policy.heads import head_of
from services.core.protocol.roles import ROLE_ORDER, Role


@dataclass(frozen=True)
class Layout:
    """theta = [singular-value offsets, matrix by matrix][head], as in the authors' code.

    The first logits are the agents', the next the roles'. A campaign that allows one role has no role rows; ``allowed``
    then holds that role alone.

    Attributes:
        agents: pool indices that have a row, ascending.
        allowed: the allowed roles in ROLE_ORDER.
        hidden: d, the width of the encoder's state.
        matrices: the matrices whose singular values are searched.
        spec: which head.
    """

    agents: tuple[int, ...]
    allowed: tuple[Role, ...]
    hidden: int
    matrices: tuple[Matrix, ...] = ()
    spec: HeadSpec = field(default_factory=HeadSpec)

    def __post_init__(self) -> None:
        if not self.agents or self.hidden < 1 or not self.allowed or any(matrix.size < 1 for matrix in self.matrices):
            raise ValueError(f"a layout needs at least one agent, role and hidden unit, got {self}")

    @classmethod
    def of(cls, agents: int, roles: Sequence[Role], hidden: int) -> Layout:
        """Return the layout of a linear head over ``agents`` models and the allowed roles, in whatever order."""
        return cls(tuple(range(agents)), tuple(role for role in ROLE_ORDER if role in roles), hidden)

    @classmethod
    def of_campaign(cls, campaign: Campaign) -> Layout:
        """Return the layout of a campaign's candidates."""
        allowed = campaign.protocol.agents
        agents = tuple(index for index, model in enumerate(campaign.pool) if not allowed or model.name in allowed)
        roles = tuple(role for role in ROLE_ORDER if role in campaign.protocol.roles)
        return cls(agents, roles, campaign.hidden_size, campaign.encoder.singular_values, campaign.head)

    @property
    def role_rows(self) -> int:
        return len(self.allowed) if len(self.allowed) > 1 else 0

    @property
    def rows(self) -> int:
        return len(self.agents) + self.role_rows

    @property
    def svf(self) -> int:
        """Entries of the singular-value block."""
        return sum(matrix.size for matrix in self.matrices)

    @cached_property
    def head(self) -> Head:
        """The head, which knows the parts of its block by name.

        Raises:
            SpecError: the head cannot have these rows, width or rank; see ``head_of``.
        """
        return head_of(self.spec, self.rows, self.hidden)

    @property
    def blocks(self) -> dict[str, int]:
        return {"svf": self.svf, "head": self.head.size}

    @property
    def size(self) -> int:
        """n, the dimension of the search."""
        return sum(self.blocks.values())

    def split(self, theta: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Return the blocks of theta as views.

        Raises:
            LayoutMismatch: theta is not one-dimensional with ``size`` entries.
        """
        if theta.shape != (self.size,):
            raise LayoutMismatch(self.blocks, int(theta.size))
        return {"svf": theta[: self.svf], "head": theta[self.svf :]}

    def start(self, seed: int) -> NDArray[np.float64]:
        """Return the search's first mean, shape (size,): zeros, and the head's own start, which for most is zero, too.

        Args:
            seed: the campaign's.
        """
        return np.concatenate([np.zeros(self.svf), self.head.start(seeds.generator(seed, "head", "start"))])

    def to_json(self) -> dict[str, Any]:
        """Return plain data that ``from_json`` reads back."""
        return {
            "agents": list(self.agents),
            "roles": [str(role) for role in self.allowed],
            "hidden": self.hidden,
            "matrices": [[matrix.name, matrix.size] for matrix in self.matrices],
            "head": {"kind": str(self.spec.kind), "output": str(self.spec.output), "rank": self.spec.rank},
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Layout:
        """Read back; data of the first release has a number of agents, and a linear head alone."""
        agents, head = data["agents"], data.get("head", {})
        return cls(
            tuple(range(agents)) if isinstance(agents, int) else tuple(agents),
            tuple(Role(role) for role in data["roles"]),
            int(data["hidden"]),
            tuple(Matrix(name, size) for name, size in data.get("matrices", ())),
            HeadSpec(HeadKind(head["kind"]), Output(head["output"]), head["rank"]) if head else HeadSpec(),
        )
