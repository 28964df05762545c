"""One call of an episode before it is made: what is asked of whom, and what it is known by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from services.core.campaign import Campaign, ModelSpec, ProtocolSpec, Reuse
from services.core.ledger.budget import bound_tokens, largest_call_cost
from services.core.limits.meter import Meter, meter_of
from services.core.protocol.asked import answer_key, call_label, messages_digest
from services.core.protocol.ports import Message, Reply
from services.core.protocol.roles import CallRole, Role
from services.storage.operations import Keep, Recall, Reserve
from services.storage.records import Answer, ClaimedEpisode


@dataclass(frozen=True)
class Ask:
    """A call to come.

    Attributes:
        asked: digest of the messages.
        answer_key: under which its reply may be kept; None when none is.
        label: names the call within its campaign.
    """

    claim: ClaimedEpisode
    model: ModelSpec
    meter: Meter
    turn: int
    agent: int
    role: Role | CallRole
    messages: Sequence[Message]
    asked: str
    answer_key: str | None
    label: str

    def reserve(self, number: int, protocol: ProtocolSpec, lease_seconds: float) -> Reserve:
        return Reserve(
            self.claim,
            turn=self.turn,
            try_=number,
            agent=self.agent,
            model=self.model.name,
            role=self.role,
            tokens=bound_tokens(self.messages, protocol.max_output_tokens),
            usd=largest_call_cost(self.model.price, self.messages, protocol.max_output_tokens),
            lease_seconds=lease_seconds,
            meter=self.meter,
            limits=self.model.limits,
            asked=self.asked,
            answer_key=self.answer_key,
        )

    def recall(self, key: str, lease_seconds: float) -> Recall:
        return Recall(
            self.claim, self.turn, self.agent, self.model.name, self.role, self.asked, key, lease_seconds, self.meter
        )  # fmt: skip

    def keep(self, key: str, reply: Reply) -> Keep:
        answer = Answer(reply.text, reply.finish_reason, reply.usage)
        return Keep(self.claim.campaign_id, key, self.model.name, answer)


@dataclass
class Asking:
    """Names the calls of one attempt. A call that asks what an earlier one asked wants another sample."""

    campaign: Campaign
    claim: ClaimedEpisode
    _before: Counter[tuple[int, str]] = field(default_factory=Counter)

    def of(self, turn: int, agent: int, role: Role | CallRole, messages: Sequence[Message]) -> Ask:
        claim, model = self.claim, self.campaign.pool[agent]
        digest = messages_digest(messages)
        label = call_label(
            claim.generation_number,
            claim.candidate_kind.value,
            claim.candidate_index,
            claim.purpose.value,
            claim.replicate,
            turn,
        )
        key = self._key(agent, role, digest, label)
        return Ask(claim, model, meter_of(model), turn, agent, role, messages, digest, key, label)

    def _key(self, agent: int, role: Role | CallRole, digest: str, label: str) -> str | None:
        reuse = self.campaign.answers.reuse
        repeated = self._before[agent, digest]
        self._before[agent, digest] += 1
        scope: tuple[int | str, ...] = ()
        if reuse is Reuse.NEVER:
            # A judge's reply stands in no transcript; it is kept for recordings and answers nobody.
            if role.value != CallRole.JUDGE.value:
                return None
            scope = (self.claim.campaign_id, label)
        elif reuse is Reuse.WITHIN_GENERATION:
            scope = (self.claim.campaign_id, self.claim.generation_id)
        sample = (self.claim.replicate, repeated)
        return answer_key(self.campaign.pool[agent], self.campaign.protocol, digest, sample, scope)
