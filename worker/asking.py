"""One call of an episode before it is made: what is asked of whom, and what it is known by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from services.core.campaign import Campaign, ModelSpec, ProtocolSpec, Reuse
from services.core.ledger.budget import bound_tokens, largest_call_cost
from services.core.limits.meter import Meter, meter_of
from services.core.protocol.asked import answer_key, call_label, messages_digest, with_sample
from services.core.protocol.ports import Message, Reply
from services.core.protocol.roles import CallRole, Role
from services.storage.operations import Keep, Recall, Reserve
from services.storage.records import Answer, ClaimedEpisode

# Calls whose replies are no turns: a judge's and a prompted coordinator's.
UNTOLD = (CallRole.JUDGE.value, CallRole.COORDINATOR.value)


@dataclass(frozen=True)
class Ask:
    """A call to come.

    Attributes:
        asked: digest of the messages.
        max_output_tokens: limit of its reply.
        answer_key: under which its reply may be kept; None when none is.
        label: names the call within its campaign, and which sample it wants.
    """

    claim: ClaimedEpisode
    model: ModelSpec
    meter: Meter
    turn: int
    agent: int
    role: Role | CallRole
    messages: Sequence[Message]
    max_output_tokens: int
    asked: str
    answer_key: str | None
    label: str

    def timeout_seconds(self, protocol: ProtocolSpec) -> float:
        """Return how long it may take; with a multiple of the tokens as many times as long as others."""
        return protocol.call_timeout_seconds * max(1.0, self.max_output_tokens / protocol.max_output_tokens)

    def reserve(self, number: int, lease_seconds: float) -> Reserve:
        return Reserve(
            self.claim,
            turn=self.turn,
            try_=number,
            agent=self.agent,
            model=self.model.name,
            role=self.role,
            tokens=bound_tokens(self.messages, self.max_output_tokens),
            usd=largest_call_cost(self.model.price, self.messages, self.max_output_tokens),
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

    def of(
        self,
        turn: int,
        agent: int,
        role: Role | CallRole,
        messages: Sequence[Message],
        max_output_tokens: int | None = None,
    ) -> Ask:
        """Return the next call; None takes the protocol's limit of tokens."""
        claim, model, digest = self.claim, self.campaign.pool[agent], messages_digest(messages)
        limit = self.campaign.protocol.max_output_tokens if max_output_tokens is None else max_output_tokens
        sample = self._before[agent, digest]
        self._before[agent, digest] += 1
        label = call_label(
            claim.generation_number,
            claim.candidate_kind.value,
            claim.candidate_index,
            claim.purpose.value,
            claim.replicate,
            turn,
        )
        key = self._key(model, role, digest, label, sample, limit)
        told = with_sample(label, sample)
        return Ask(claim, model, meter_of(model), turn, agent, role, messages, limit, digest, key, told)

    def _key(
        self, model: ModelSpec, role: Role | CallRole, digest: str, label: str, repeated: int, limit: int
    ) -> str | None:
        reuse = self.campaign.answers.reuse
        scope: tuple[int | str, ...] = ()
        if reuse is Reuse.NEVER:
            # What stands in no transcript is kept for recordings and answers nobody.
            if role.value not in UNTOLD:
                return None
            scope = (self.claim.campaign_id, label)
        elif reuse is Reuse.WITHIN_GENERATION:
            scope = (self.claim.campaign_id, self.claim.generation_id)
        protocol = replace(self.campaign.protocol, max_output_tokens=limit)
        return answer_key(model, protocol, digest, (self.claim.replicate, repeated), scope)
