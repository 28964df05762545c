"""The ledger against the provider's own count, with many calls at once, faults and a hard cap.

TRINITY_TEST_FULL=1 makes 10,000 episodes of it.
"""

from __future__ import annotations

import os
import random
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from decimal import Decimal

import pytest

from services.core.campaign import BudgetLimits, Campaign, ModelSpec, ProtocolSpec, SearchSpec
from services.core.ledger.budget import largest_call_cost
from services.core.protocol.prompts import messages_for
from services.core.protocol.roles import Role
from services.core.protocol.transcript import Transcript
from services.pool.litellm_client import LitellmPool
from services.storage.engine import Database
from tests.support.campaigns import PRICE, small_campaign
from tests.support.fault_doubles import StubEncoders
from tests.support.provider import Logged, ScriptedProvider, Step, error, hang, raw, reply
from tests.support.worker import Bench, bench_of

FULL = os.environ.get("TRINITY_TEST_FULL") == "1"
POPULATION, REPLICATES = (100, 100) if FULL else (16, 25)
CALLERS = 50
FREE = [error(500), error(429), error(503, retry_after="0")]
CHARGED_PERHAPS = [raw(b"<html>hello</html>", "text/html"), raw(b'{"choices": [', cut=True), hang(0.01)]
ANSWER = "<idea>counted</idea><answer>1</answer>"


@dataclass
class Bill:
    """Answers, and keeps its own books; one request in twenty gets a fault."""

    fault_share: float = 0.05
    prompt_tokens: int = 0
    completion_tokens: int = 0
    answered: Counter[str] = field(default_factory=Counter)
    _draw: random.Random = field(default_factory=lambda: random.Random(7))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, request: Logged) -> Step:
        with self._lock:
            if self._draw.random() < self.fault_share:
                free = self._draw.random() < 0.5
                self.answered["free" if free else "charged perhaps"] += 1
                return self._draw.choice(FREE if free else CHARGED_PERHAPS)
            prompt, completion = self._draw.randrange(20, 200), self._draw.randrange(5, 64)
            self.prompt_tokens += prompt
            self.completion_tokens += completion
            self.answered["answered"] += 1
        usage = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
        return reply(ANSWER, usage=usage)

    @property
    def usd(self) -> Decimal:
        """What it will write on its bill for what it answered."""
        paid = self.prompt_tokens * PRICE.input_per_million + self.completion_tokens * PRICE.output_per_million
        return paid / 1_000_000


def campaign_of(provider: ScriptedProvider, usd: Decimal | None) -> Campaign:
    models = tuple(ModelSpec(name, f"openai/{name}", PRICE, provider.url) for name in ("ada", "bob"))
    return small_campaign(
        pool=models,
        protocol=ProtocolSpec(roles=(Role.WORKER,), max_turns=1, max_output_tokens=64),
        search=SearchSpec(POPULATION, REPLICATES, 1, 0.1, minibatch="fresh"),
        budget=BudgetLimits(episodes=2 * POPULATION * REPLICATES, usd=usd),
    )


def play(database: Database, provider: ScriptedProvider, usd: Decimal | None) -> Bench:
    campaign = campaign_of(provider, usd)
    with bench_of(database, campaign, StubEncoders(), lambda spec: LitellmPool(spec.pool)) as at:
        at.runtime.retries = replace(at.runtime.retries, tries=3)
        with ThreadPoolExecutor(CALLERS) as threads:
            list(threads.map(at.run, range(len(at.episodes))))
    return at


@pytest.mark.usefixtures("ends_clean")
def test_the_ledger_is_the_providers_bill(database: Database) -> None:
    bill = Bill()
    with ScriptedProvider(bill) as provider:
        at = play(database, provider, Decimal(1000))

    assert bill.answered.total() == len(provider.requests)
    assert at.query("SELECT count(*) FROM llm_call") == [(len(provider.requests),)]
    states = dict(at.query("SELECT state, count(*) FROM llm_call GROUP BY state"))
    assert states == {"settled": bill.answered["answered"] + bill.answered["free"]} | {
        "unknown": bill.answered["charged perhaps"]
    }
    settled = "FROM llm_call WHERE state = 'settled'"
    assert at.query(f"SELECT sum(prompt_tokens), sum(completion_tokens), sum(cost_usd) {settled}") == [
        (bill.prompt_tokens, bill.completion_tokens, bill.usd)
    ]
    spend = at.campaign().spend
    perhaps = at.query("SELECT sum(cost_usd) FROM llm_call WHERE state = 'unknown'")[0][0]
    assert (spend.usd_charged, spend.usd_reserved) == (bill.usd + perhaps, Decimal(0))


@pytest.mark.usefixtures("ends_clean")
def test_a_hard_cap_is_never_passed_and_refuses_nothing_that_fits(database: Database) -> None:
    asked = messages_for(Role.WORKER, Transcript("What is 0 + 1? (training)"), ProtocolSpec())
    largest = largest_call_cost(PRICE, asked, 64)
    cap = round(20 * largest, 6)
    bill = Bill(fault_share=0.0)
    with ScriptedProvider(bill) as provider:
        at = play(database, provider, cap)

    spend = at.campaign().spend
    assert len(provider.requests) == bill.answered["answered"] < len(at.episodes)
    assert (spend.usd_charged, spend.usd_reserved) == (bill.usd, Decimal(0))
    assert cap - 2 * largest < spend.usd_charged <= cap
