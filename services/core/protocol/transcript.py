"""The conversation so far: the query and one item per turn (paper, section 3.2: C_k = (Q, O_1, ..., O_k))."""

from __future__ import annotations

from dataclasses import dataclass

from services.core.protocol.roles import Role, RoleSource
from services.core.protocol.verdict import Verdict, VerdictSource


@dataclass(frozen=True)
class Item:
    """One turn as it was appended to the transcript.

    Attributes:
        number: 1-based turn.
        agent: index of the pool model that acted.
        role: the role it acted in.
        role_source: who chose the role.
        output: the model's whole text.
        text: O_k, what the next turns see of it: a Worker's ideas, a Thinker's plan, a Verifier's diagnosis.
        answer: the Worker's final answer; None when it gave none or for the other roles.
        verdict: the Verifier's verdict; None for the other roles.
        logits: the head's output, or None.
        truncated: whether the output was cut off at its limit of tokens.
        verdict_source: who gave the verdict; None for the other roles.
    """

    number: int
    agent: int
    role: Role
    role_source: RoleSource
    output: str
    text: str
    answer: str | None = None
    verdict: Verdict | None = None
    logits: tuple[float, ...] | None = None
    truncated: bool = False
    verdict_source: VerdictSource | None = None


@dataclass(frozen=True)
class Transcript:
    query: str
    items: tuple[Item, ...] = ()

    def with_item(self, item: Item) -> Transcript:
        return Transcript(self.query, (*self.items, item))

    @property
    def latest_work(self) -> Item | None:
        """The last Worker turn, whose answer is the one returned (authors' code; the paper's O_tau)."""
        return next((item for item in reversed(self.items) if item.role is Role.WORKER), None)
