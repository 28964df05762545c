"""Random histories of one campaign, with mistakes and deaths in them, against the accounting identities."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from decimal import Decimal
from itertools import count

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services.core.campaign import BudgetLimits
from services.core.errors import DatabaseUnavailable, TrinityError
from services.core.ids import CallId
from services.core.ledger.usage import Usage
from services.core.protocol.roles import Role
from services.core.scoring.grade import graded
from services.storage import campaign_states, campaigns, episodes, leases, ledger
from services.storage.engine import Connection, Database
from services.storage.records import ClaimedEpisode, Settlement
from tests.support.storage import Scene, query, scene, worker_turn
from tests.support.threads import at_once

# Steps prefer what is new, or most would meet attempts that have ended.
RECENT = 6
LIMITS = BudgetLimits(episodes=100, tokens=900, usd=Decimal("0.9"))


class History:
    """Draws one step after another; whatever the rules refuse is part of the history."""

    def __init__(self, made: Scene, seed: int, shared: History | None = None) -> None:
        self.made = made
        self.random = random.Random(seed)
        self.claims: list[ClaimedEpisode] = shared.claims if shared else []
        self.calls: list[CallId] = shared.calls if shared else []
        self.turns: Iterator[int] = shared.turns if shared else count(1)
        self.steps: list[Callable[[Connection], object]] = [
            self.claim,
            self.claim,
            self.reserve,
            self.reserve,
            self.reserve,
            self.settle,
            self.settle,
            self.score,
            self.fail,
            self.give_back,
            self.die,
            self.pause_and_resume,
        ]

    def step(self) -> None:
        try:
            with self.made.database.transaction() as conn:
                self.random.choice(self.steps)(conn)
        except DatabaseUnavailable:
            raise  # a deadlock, or a lock held too long
        except TrinityError:
            pass

    def claim(self, conn: Connection) -> None:
        claimed = episodes.claim(conn, self.random.choice(self.made.episodes), "w", 3600)
        if claimed is not None:
            self.claims.append(claimed)

    def reserve(self, conn: Connection) -> None:
        if self.claims:
            call = ledger.reserve_call(
                conn,
                self.random.choice(self.claims[-RECENT:]),
                turn=next(self.turns),
                try_=1,
                agent=0,
                model="m",
                role=Role.WORKER,
                tokens=self.random.randrange(200),
                usd=Decimal(self.random.randrange(200)) / 1000,
                lease_seconds=3600,
            )
            self.calls.append(call)

    def settle(self, conn: Connection) -> None:
        if self.calls:
            usage = self.random.choice([None, Usage(self.random.randrange(150), self.random.randrange(80))])
            cost = self.random.choice([None, Decimal(0), Decimal(self.random.randrange(10**12)) / 10**13])
            ledger.settle_call(conn, self.random.choice(self.calls[-RECENT:]), Settlement(usage, cost, 0.1))

    def score(self, conn: Connection) -> None:
        if self.claims:
            episodes.record_score(
                conn, self.random.choice(self.claims[-RECENT:]), graded(0.5), "accepted", [worker_turn()]
            )

    def fail(self, conn: Connection) -> None:
        if self.claims:
            claim = self.random.choice(self.claims[-RECENT:])
            episodes.record_failure(conn, claim, "E", "", retry=self.random.random() < 0.8, backoff_seconds=0)

    def give_back(self, conn: Connection) -> None:
        if self.claims:
            episodes.give_back(conn, self.random.choice(self.claims[-RECENT:]))

    def die(self, conn: Connection) -> None:
        if self.claims:
            dead = self.random.choice(self.claims[-RECENT:])
            with self.made.database.statement() as other:
                leases.heartbeat(other, [dead], -1)
            leases.expire(conn, epoch=self.made.epoch, orphan_seconds=0)

    def pause_and_resume(self, conn: Connection) -> None:
        campaign_states.pause(conn, self.made.campaign, "a pause")
        if self.claims:
            self.give_back(conn)
        campaign_states.resume(conn, self.made.campaign)


LEDGER = """
select coalesce(sum(usd) filter (where kind = 'charge'), 0), coalesce(sum(tokens) filter (where kind = 'charge'), 0),
    coalesce(sum(case kind when 'reservation' then usd when 'release' then -usd end), 0),
    coalesce(sum(case kind when 'reservation' then tokens when 'release' then -tokens end), 0),
    count(*) filter (where kind = 'reservation')
from ledger_entry where campaign_id = {}
"""
UNBALANCED = """
select l.id from llm_call l left join ledger_entry e on e.llm_call_id = l.id
where l.campaign_id = {}
group by l.id
having array_agg(e.kind order by e.kind) <> case l.state when 'open' then array['reservation']
    else array['charge', 'release', 'reservation'] end
"""
WRONG_ATTEMPTS = """
select e.id from episode e left join attempt a on a.episode_id = e.id
where e.campaign_id = {}
group by e.id
having count(a.number) <> e.attempt
    or (count(*) filter (where a.outcome = 'done') = 1) <> (e.state = 'scored')
    or (count(*) filter (where a.outcome = 'running') = 1) <> (e.state = 'running')
"""


def check(made: Scene) -> None:
    with made.database.transaction() as conn:
        record = campaigns.by_id(conn, made.campaign)
        spend, limits = record.spend, record.budget
        assert query(conn, LEDGER.format(made.campaign)) == [
            (spend.usd_charged, spend.tokens_charged, spend.usd_reserved, spend.tokens_reserved, spend.calls_started)
        ]
        assert query(conn, UNBALANCED.format(made.campaign)) == []
        assert query(conn, WRONG_ATTEMPTS.format(made.campaign)) == []
    assert limits.tokens is not None
    assert limits.usd is not None
    assert spend.tokens_charged + spend.tokens_reserved - spend.tokens_overrun <= limits.tokens
    assert spend.usd_charged + spend.usd_reserved - spend.usd_overrun <= limits.usd


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32), length=st.integers(20, 80))
def test_the_ledger_balances_after_every_history(database: Database, seed: int, length: int) -> None:
    made = scene(database, candidates=2, replicates=2, limits=LIMITS, max_attempts=4)
    history = History(made, seed)
    for _ in range(length):
        history.step()
    check(made)


def test_the_ledger_balances_when_many_do_everything_at_once(database_url: str) -> None:
    database = Database(database_url, application_name="crowd", pool_size=16)
    limits = BudgetLimits(episodes=400, tokens=50_000, usd=Decimal(50))
    made = scene(database, candidates=10, replicates=20, limits=limits, max_attempts=50)
    first = History(made, 0)

    def take_part(number: int) -> None:
        history = History(made, number, first)
        for _ in range(150):
            history.step()

    at_once(7, take_part)
    check(made)
    with database.transaction() as conn:
        found = query(conn, "select count(*) > 5 from llm_call union all select count(*) > 20 from attempt")
    assert found == [(True,), (True,)]
    database.close()
