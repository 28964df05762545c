"""What stands where in the parameter vector theta."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from services.core.errors import LayoutMismatch
from services.core.protocol.roles import ROLE_ORDER, Role


@dataclass(frozen=True)
class Layout:
    """theta = [singular-value block][head, (L + R) x d, row-major], as in the authors' code.

    The head's first L rows give the agents' logits, the next R the roles'. A campaign that allows one role has no role
    rows; ``allowed`` then holds that role alone.

    Attributes:
        agents: L, the pool's size.
        allowed: the allowed roles in ROLE_ORDER.
        hidden: d, the width of the encoder's state.
        svf: entries of the singular-value block; 0 when it is not trained.
    """

    agents: int
    allowed: tuple[Role, ...]
    hidden: int
    svf: int = 0

    def __post_init__(self) -> None:
        if self.agents < 1 or self.hidden < 1 or self.svf < 0 or not self.allowed:
            raise ValueError(f"a layout needs at least one agent, role and hidden unit, got {self}")

    @classmethod
    def of(cls, agents: int, roles: Sequence[Role], hidden: int) -> Layout:
        """Return the layout of a head over ``agents`` models and the allowed roles, in whatever order they come."""
        return cls(agents, tuple(role for role in ROLE_ORDER if role in roles), hidden)

    @property
    def role_rows(self) -> int:
        return len(self.allowed) if len(self.allowed) > 1 else 0

    @property
    def rows(self) -> int:
        return self.agents + self.role_rows

    @property
    def blocks(self) -> dict[str, int]:
        return {"svf": self.svf, "head": self.rows * self.hidden}

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

    def head(self, theta: NDArray[Any]) -> NDArray[Any]:
        """Return the head's weights, shape (rows, hidden), as a view of theta. Raises LayoutMismatch."""
        return self.split(theta)["head"].reshape(self.rows, self.hidden)

    def to_json(self) -> dict[str, Any]:
        """Return plain data that ``from_json`` reads back."""
        roles = [str(role) for role in self.allowed]
        return {"agents": self.agents, "roles": roles, "hidden": self.hidden, "svf": self.svf}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Layout:
        roles = tuple(Role(role) for role in data["roles"])
        return cls(int(data["agents"]), roles, int(data["hidden"]), int(data["svf"]))
