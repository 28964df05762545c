"""Putting answers to the pool's models as Verifiers, within a price that is known before the first call."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from decimal import Decimal

from services.core.campaign import Campaign, EvidenceUse
from services.core.errors import AuthenticationFailed, PoolError, UnknownModel
from services.core.ledger.assumptions import BYTES_PER_TOKEN, TYPICAL_OUTPUT_TOKENS
from services.core.ledger.budget import bound_usage, largest_call_cost
from services.core.ledger.usage import Usage
from services.core.protocol.evidence import Evidence
from services.core.protocol.ports import Message, ModelPool, Reply
from services.core.protocol.prompts import messages_for
from services.core.protocol.roles import Role, RoleSource
from services.core.protocol.transcript import Item, Transcript
from services.core.protocol.verdict import Verdict, parse_verdict
from services.pool.retry import RetryPolicy, call_with_retries
from services.verifiers.planting import Planted

RETRIES = RetryPolicy(tries=2)

Call = tuple[int, tuple[Message, ...]]  # agent and what it reads; the same call is made once
FindEvidence = Callable[[Planted, Item], Evidence | None]


@dataclass(frozen=True)
class Question:
    """One answer put to one model under one use of evidence; ``call`` is None where a machine's finding decides."""

    planted: Planted
    agent: int
    use: EvidenceUse
    call: Call | None


@dataclass(frozen=True)
class Answered:
    """A question with its verdict; None when the model gave no reply."""

    question: Question
    verdict: Verdict | None


@dataclass(frozen=True)
class Price:
    """Calls to make and what they cost: at most, every try counted, and with short replies."""

    calls: int
    largest_usd: Decimal
    expected_usd: Decimal


def questions(
    campaign: Campaign,
    planted: Sequence[Planted],
    agents: Sequence[int],
    uses: Sequence[EvidenceUse],
    find: FindEvidence,
) -> list[Question]:
    """Return every answer for every model under every use of evidence, in that order."""
    found: list[Question] = []
    for one in planted:
        item = Item(1, 0, Role.WORKER, RoleSource.POLICY, "", one.ideas, one.answer)
        transcript = Transcript(one.problem.question, (item,))
        evidence = None if set(uses) == {EvidenceUse.NONE} else find(one, item)
        for use in uses:
            shown = None if use is EvidenceUse.NONE else evidence
            decided = use is EvidenceUse.DECIDE and shown is not None and shown.refutes
            protocol = replace(campaign.protocol, evidence=use)
            messages = tuple(messages_for(Role.VERIFIER, transcript, protocol, shown))
            found.extend(Question(one, agent, use, None if decided else (agent, messages)) for agent in agents)
    return found


def price_of(campaign: Campaign, asked: Sequence[Question]) -> Price:
    """Return what the questions cost; the same messages to the same model are sent once."""
    calls = _calls(asked)
    most = campaign.protocol.max_output_tokens
    largest = sum(
        (largest_call_cost(campaign.pool[agent].price, messages, most) for agent, messages in calls), Decimal(0)
    )
    expected = Decimal(0)
    for agent, messages in calls:
        usage = Usage(
            bound_usage(messages, 0).total // BYTES_PER_TOKEN, min(TYPICAL_OUTPUT_TOKENS, most), estimated=True
        )
        expected += campaign.pool[agent].price.cost(usage)
    return Price(len(calls), largest * RETRIES.tries, expected)


@dataclass
class Asking:
    """Makes the calls, several at once, and keeps what they cost.

    Attributes:
        pool: the campaign's models.
        parallel: calls at once.
        say: told now and then how many are done.
        spent: in USD; a call that may have been billed without an answer counts at its largest cost.
        failures: calls without a reply, by the kind of error.
    """

    campaign: Campaign
    pool: ModelPool
    parallel: int
    say: Callable[[str], None]
    retries: RetryPolicy = field(default_factory=lambda: RETRIES)

    def __post_init__(self) -> None:
        self.spent = Decimal(0)
        self.failures: dict[str, int] = {}

    def ask(self, asked: Sequence[Question]) -> list[Answered]:
        """Return the verdicts in the order of the questions.

        Raises:
            AuthenticationFailed, UnknownModel: no call can succeed; those under way are waited for.
        """
        calls = _calls(asked)
        verdicts: dict[Call, Verdict | None] = {}
        with ThreadPoolExecutor(self.parallel) as threads:
            waiting = [(call, threads.submit(self._one, call)) for call in calls]
            try:
                for done, (call, future) in enumerate(waiting, start=1):
                    reply, cost, failure = future.result()
                    self.spent += cost
                    verdicts[call] = None if reply is None else parse_verdict(reply.text)[0]
                    if failure is not None:
                        self.failures[failure] = self.failures.get(failure, 0) + 1
                    if done % 100 == 0:
                        self.say(f"{done} of {len(calls)} calls, {self.spent:.4f} USD")
            except BaseException:
                threads.shutdown(cancel_futures=True)
                raise
        return [Answered(each, _verdict(each, verdicts)) for each in asked]

    def _one(self, call: Call) -> tuple[Reply | None, Decimal, str | None]:
        """Return the reply if there is one, what all tries cost, and why there is none."""
        agent, messages = call
        protocol, price = self.campaign.protocol, self.campaign.pool[agent].price
        cost = Decimal(0)

        def attempt(number: int) -> Reply:
            nonlocal cost
            try:
                reply = self.pool.complete(
                    agent,
                    messages,
                    max_output_tokens=protocol.max_output_tokens,
                    temperature=protocol.temperature,
                    timeout_seconds=protocol.call_timeout_seconds,
                )
            except PoolError as error:
                if error.billed_unknown:
                    cost += largest_call_cost(price, messages, protocol.max_output_tokens)
                raise
            cost += price.cost(reply.usage)  # also of an empty one, which is asked for again
            return reply

        try:
            reply = call_with_retries(attempt, self.retries, time.sleep, random.Random())  # noqa: S311 - only waits
        except (AuthenticationFailed, UnknownModel):
            raise
        except PoolError as error:
            return None, cost, type(error).__name__
        return reply, cost, None


def _calls(asked: Sequence[Question]) -> list[Call]:
    return list(dict.fromkeys(each.call for each in asked if each.call is not None))


def _verdict(question: Question, verdicts: Mapping[Call, Verdict | None]) -> Verdict | None:
    return Verdict.REVISE if question.call is None else verdicts[question.call]
