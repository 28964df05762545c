"""One model call of an episode: reserve its largest cost, call, settle to the real cost; retried by one policy."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal

from services.core.campaign import Campaign
from services.core.errors import BudgetExhausted, CallTimedOut, PoolError
from services.core.ids import CallId
from services.core.ledger.budget import bound_tokens, largest_call_cost
from services.core.protocol.ports import Message, ModelPool, Reply
from services.core.protocol.roles import CallRole, Role
from services.pool.retry import RetryPolicy, call_with_retries
from services.storage.operations import Reserve, Settle
from services.storage.records import Settlement
from worker.leases import Lease
from worker.writer import Pending, Writer

# Pause before asking again for money that calls under way hold.
CONTENTION_SECONDS = 0.25


@dataclass
class MeteredCalls:
    """The model calls of one attempt. Each try is reserved and settled alone, by (episode, attempt, turn, try).

    Attributes:
        deadline: on the monotonic clock, when the whole episode has to be over.
    """

    writer: Writer
    pool: ModelPool
    campaign: Campaign
    lease: Lease
    deadline: float
    retries: RetryPolicy
    _settling: Pending | None = None

    def __call__(self, *, turn: int, agent: int, role: Role | CallRole, messages: Sequence[Message]) -> Reply:
        """Return the reply of pool model ``agent``.

        Raises:
            PoolError: the last try failed; its cost is booked all the same.
            BudgetExhausted: the call's largest cost does not fit any more; nothing was sent.
            LeaseLost: somebody else owns the attempt by now; nothing was sent.
            AttemptInterrupted: the campaign no longer runs, or the worker is stopping.
            DatabaseUnavailable: nobody could be asked for as long as the lease lasts.
        """
        # Jitter is not part of the result, so it needs no seed that could be replayed.
        jitter = random.Random()  # noqa: S311
        return call_with_retries(
            lambda number: self._try(turn, agent, role, messages, number), self.retries, self.lease.wait, jitter
        )

    def leave_at_least(self, seconds: float) -> None:
        """Move the deadline back, if need be, so that so much time is left from now."""
        self.deadline = max(self.deadline, time.monotonic() + seconds)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Let what happens within, which is no call, not count against the deadline."""
        started = time.monotonic()
        try:
            yield
        finally:
            self.deadline += time.monotonic() - started

    def settled(self) -> None:
        """Wait until the last call is settled; raise the error if it could not be."""
        if self._settling is not None:
            settling, self._settling = self._settling, None
            settling.result()

    def _try(self, turn: int, agent: int, role: Role | CallRole, messages: Sequence[Message], number: int) -> Reply:
        protocol = self.campaign.protocol
        timeout = min(protocol.call_timeout_seconds, self.deadline - time.monotonic())
        if timeout <= 0:
            raise CallTimedOut(f"the episode's deadline of {protocol.episode_timeout_seconds:g} s has passed")
        call = self._reserve(turn, agent, role, messages, number)
        started = time.monotonic()
        try:
            reply = self.pool.complete(
                agent,
                messages,
                max_output_tokens=protocol.max_output_tokens,
                temperature=protocol.temperature,
                timeout_seconds=timeout,
            )
        except PoolError as error:
            cost = None if error.billed_unknown else Decimal(0)
            self._settle(call, Settlement(None, cost, time.monotonic() - started, error_kind=type(error).__name__))
            raise
        cost = self.campaign.pool[agent].price.cost(reply.usage)
        self._settle(call, Settlement(reply.usage, cost, reply.latency_seconds, reply.finish_reason, reply.fault))
        return reply

    def _reserve(
        self, turn: int, agent: int, role: Role | CallRole, messages: Sequence[Message], number: int
    ) -> CallId:
        model, protocol = self.campaign.pool[agent], self.campaign.protocol
        request = Reserve(
            self.lease.claim,
            turn=turn,
            try_=number,
            agent=agent,
            model=model.name,
            role=role,
            tokens=bound_tokens(messages, protocol.max_output_tokens),
            usd=largest_call_cost(model.price, messages, protocol.max_output_tokens),
            lease_seconds=self.lease.seconds,
        )
        while True:
            asked_at = time.monotonic()
            try:
                call = self.writer.do(request)
                break
            except BudgetExhausted as error:
                if not error.may_come_free or asked_at > self.deadline:
                    raise
            self.settled()
            self.lease.wait(CONTENTION_SECONDS)
        self.lease.renewed_at = asked_at
        self.settled()  # the call before: asked for earlier, hence answered by now
        return call

    def _settle(self, call: CallId, settlement: Settlement) -> None:
        # Not waited for: the next reservation or the score, asked for right after, goes in the same batch.
        self._settling = self.writer.post(Settle(call, self.lease.claim.campaign_id, settlement))
