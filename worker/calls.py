"""One model call of an episode: reserve its largest cost, call, settle to the real cost; retried by one policy.

A reply that is kept for the same question and sample is taken instead, where the campaign wants that.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal

from services.core.campaign import Campaign, Reuse
from services.core.errors import (
    AuthenticationFailed,
    BudgetExhausted,
    CallTimedOut,
    CircuitOpen,
    ContextTooLong,
    PoolError,
    RateLimited,
    Throttled,
    TransientPoolError,
)
from services.core.ids import CallId
from services.core.limits.window import SLACK_SECONDS
from services.core.protocol.ports import LabelledPool, Message, ModelPool, Reply
from services.core.protocol.roles import CallRole, Role
from services.pool.retry import RetryPolicy, call_with_retries
from services.storage.operations import Reserve, Settle
from services.storage.records import Answer, Settlement
from worker import counts
from worker.asking import Ask, Asking
from worker.counts import Counts
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
    counts: Counts = field(default_factory=Counts)
    _settling: Pending | None = None

    def __post_init__(self) -> None:
        self._asking = Asking(self.campaign, self.lease.claim)

    def __call__(
        self,
        *,
        turn: int,
        agent: int,
        role: Role | CallRole,
        messages: Sequence[Message],
        max_output_tokens: int | None = None,
    ) -> Reply:
        """Return the reply of pool model ``agent``, at most as long as told, by default as the protocol says.

        Raises:
            PoolError: the last try failed; its cost is booked all the same.
            CircuitOpen: the model is left alone; nothing was sent.
            BudgetExhausted: the call's largest cost does not fit any more; nothing was sent.
            LeaseLost: somebody else owns the attempt by now; nothing was sent.
            AttemptInterrupted: the campaign no longer runs, or the worker is stopping.
            DatabaseUnavailable: nobody could be asked for as long as the lease lasts.
        """
        ask = self._asking.of(turn, agent, role, messages, max_output_tokens)
        if (kept := self._recall(ask)) is not None:
            return Reply(kept.text, kept.finish_reason, kept.usage, 0.0)
        # Jitter is not part of the result, so it needs no seed that could be replayed.
        jitter = random.Random()  # noqa: S311
        reply = call_with_retries(lambda number: self._try(ask, number), self.retries, self.lease.wait, jitter)
        return self._keep(ask, reply)

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

    def _recall(self, ask: Ask) -> Answer | None:
        if ask.answer_key is None or self.campaign.answers.reuse is Reuse.NEVER:
            return None
        asked_at = time.monotonic()
        kept = self.writer.do(ask.recall(ask.answer_key, self.lease.seconds))
        self.settled()
        if kept is not None:
            self.lease.renewed_at = asked_at
            self.counts.add(counts.HITS)
        return kept

    def _keep(self, ask: Ask, reply: Reply) -> Reply:
        """Keep the reply and return what is kept: calls that asked the same at the same time all go on with one."""
        if ask.answer_key is None or reply.fault is not None:
            return reply
        kept = self.writer.do(ask.keep(ask.answer_key, reply))
        return replace(reply, text=kept.text, finish_reason=kept.finish_reason)

    def _try(self, ask: Ask, number: int) -> Reply:
        protocol = self.campaign.protocol
        timeout = min(ask.timeout_seconds(protocol), self.deadline - time.monotonic())
        if timeout <= 0:
            raise CallTimedOut(f"the episode's deadline of {protocol.episode_timeout_seconds:g} s has passed")
        call = self._reserve(ask.reserve(number, self.lease.seconds))
        self.counts.add(counts.CALLS)
        started = time.monotonic()
        pool = self.pool.labelled(ask.label) if isinstance(self.pool, LabelledPool) else self.pool
        try:
            reply = pool.complete(
                ask.agent,
                ask.messages,
                max_output_tokens=ask.max_output_tokens,
                temperature=protocol.temperature,
                timeout_seconds=timeout,
            )
        except PoolError as error:
            cost = None if error.billed_unknown else Decimal(0)
            received = error.received
            if received is not None:
                cost = ask.model.price.cost(received)
            settlement = Settlement(received, cost, time.monotonic() - started, error_kind=type(error).__name__)
            self.counts.add(counts.ERRORS)
            self._settle(ask, call, settlement, answered=_answered(error), rest_seconds=self._asked_rest(error))
            raise
        cost = ask.model.price.cost(reply.usage)
        self._settle(ask, call, Settlement(reply.usage, cost, reply.latency_seconds, reply.finish_reason, reply.fault))
        return reply

    def _reserve(self, request: Reserve) -> CallId:
        while True:
            asked_at = time.monotonic()
            try:
                call = self.writer.do(request)
                # Whatever a limit allows has to reach the provider soon; later it is asked for anew.
                if not request.limits.any or time.monotonic() - asked_at < SLACK_SECONDS / 2:
                    break
                continue
            except BudgetExhausted as error:
                if not error.may_come_free or asked_at > self.deadline:
                    raise
                self.settled()
                self.lease.wait(CONTENTION_SECONDS)
            except Throttled as error:
                self._await_limit(error.seconds)
            except CircuitOpen:
                self.counts.add(counts.REFUSED)
                raise
        self.lease.renewed_at = asked_at
        self.settled()  # the call before: asked for earlier, hence answered by now
        return call

    def _await_limit(self, seconds: float) -> None:
        """Wait, which is no part of the episode's time and holds no money; the heartbeat keeps the lease meanwhile."""
        self.settled()
        self.counts.add(counts.WAITED, seconds)
        with self.aside():
            self.lease.wait(seconds)

    def _settle(
        self,
        ask: Ask,
        call: CallId,
        settlement: Settlement,
        *,
        answered: bool | None = True,
        rest_seconds: float | None = None,
    ) -> None:
        # Not waited for: the next reservation or the score, asked for right after, goes in the same batch.
        ended = Settle(call, ask.claim.campaign_id, settlement, ask.meter, answered, rest_seconds)
        self._settling = self.writer.post(ended)

    def _asked_rest(self, error: PoolError) -> float | None:
        """Return how long the provider wants a pause, which is everybody's, as far as such a wait is waited at all."""
        if not isinstance(error, RateLimited) or error.retry_after_seconds is None:
            return None
        return min(error.retry_after_seconds, self.retries.longest_wait_seconds)


def _answered(error: PoolError) -> bool | None:
    """Tell whether the provider answered at all: a refusal, even one for haste, shows that the model is there.

    None where that is not known: a key may be missing here, and a prompt too long to be sent.
    """
    if isinstance(error, AuthenticationFailed) or (isinstance(error, ContextTooLong) and error.foreseen):
        return None
    return isinstance(error, RateLimited) or not isinstance(error, TransientPoolError)
