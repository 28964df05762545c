"""The campaigns of the bench: submitting them, and reading from the database how long what took."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import psycopg

from bench.queue_processes import wait_until
from services.config.document import sha256, to_json
from services.core.campaign import (
    BudgetLimits,
    Campaign,
    EncoderSpec,
    EvaluationSpec,
    ModelSpec,
    ProtocolSpec,
    SearchSpec,
    ValidationSpec,
    VerifierWithoutAnswer,
)
from services.core.ids import CampaignId
from services.core.ledger.price import Price
from services.core.optimiser.sep_cma_es import library_version
from services.core.policy.layout import Layout
from services.core.problem import Problem, ScorerKind, Split
from services.core.protocol.roles import Role
from services.storage import campaigns
from services.storage.engine import Connection, Database
from services.storage.records import NewCampaign

HIDDEN = 1024
ROWS = 19
DIMENSION = ROWS * HIDDEN  # 19,456, the paper's head and singular values together
PRICE = Price(Decimal("0.5"), Decimal("1.5"))
PROBLEMS = 200

# From the last result of the generation before to the opening and to the first claim.
TURNS = """
select extract(epoch from g.opened_at - ended.at)::float * 1000, extract(epoch from first.at - ended.at)::float * 1000
from generation g
join lateral (
    select max(e.scored_at) as at from generation p join episode e on e.generation_id = p.id
    where p.campaign_id = g.campaign_id and p.number = g.number - 1) as ended on true
join lateral (
    select min(a.started_at) as at from episode e join attempt a on a.episode_id = e.id and a.number = 1
    where e.generation_id = g.id) as first on true
where g.campaign_id = any(%s) and g.number > %s and first.at is not null
order by g.id
"""
SPAN = """
select count(*), extract(epoch from max(closed_at) - min(opened_at))::float from generation
where campaign_id = any(%s) and state = 'closed' and number >= %s
"""
CALLS = "select count(*), coalesce(sum(latency_seconds), 0)::float from llm_call where campaign_id = any(%s)"
STATES = "select state, stop_reason from campaign where id = any(%s)"
COMPLETED, GOING = "completed", ("submitted", "running", "completed")


@dataclass(frozen=True)
class Size:
    """How large a campaign is. ``stored`` generations of it are history that is put there before it starts."""

    generations: int
    population: int = 32
    replicates: int = 16
    turns: int = 1
    stored: int = 0

    @property
    def episodes(self) -> int:
        return self.population * self.replicates

    @property
    def total(self) -> int:
        return self.episodes * self.generations


def campaign(name: str, size: Size, seed: int = 1) -> Campaign:
    """Return a campaign over a head of ``DIMENSION`` weights, without validation and comparison.

    With one turn the Worker alone acts; with more, every turn is a call, and a Verifier may end an episode early.
    """
    roles = (Role.WORKER,) if size.turns == 1 else (Role.WORKER, Role.THINKER, Role.VERIFIER)
    agents = ROWS if size.turns == 1 else ROWS - len(roles)
    whole = size.generations + size.stored
    return Campaign(
        name=name,
        seed=seed,
        pool=tuple(ModelSpec(f"m{number}", f"openai/m{number}", PRICE) for number in range(agents)),
        encoder=EncoderSpec("stub"),
        hidden_size=HIDDEN,
        protocol=ProtocolSpec(
            roles=roles,
            max_turns=size.turns,
            max_output_tokens=64,
            verifier_without_answer=VerifierWithoutAnswer.FORCE_WORKER,
        ),
        search=SearchSpec(size.population, size.replicates, whole, sigma0=0.1),
        validation=ValidationSpec(every=1, problems=0),
        evaluation=EvaluationSpec(problems=0),
        budget=BudgetLimits(size.episodes * whole, tokens=10**12, usd=Decimal(10**6)),
    )


def submit(
    database: Database, wanted: Campaign, before: Callable[[Connection, CampaignId], None] = lambda *_: None
) -> CampaignId:
    """Submit with generated problems; ``before`` adds to the same transaction. The scheduler starts it."""
    document = to_json(wanted)
    asked = [
        Problem(f"p{number}", "sums", f"What is {number} + 1?", ScorerKind.NUMERIC, str(number + 1))
        for number in range(PROBLEMS)
    ]
    new = NewCampaign(
        name=wanted.name,
        spec=document,
        spec_sha256=sha256(document),
        seed=wanted.seed,
        dimension=Layout.of_campaign(wanted).size,
        versions={"search": library_version()},
        budget=wanted.budget,
        max_attempts=wanted.max_attempts,
    )
    with database.transaction() as conn:
        made = campaigns.insert(conn, new, {Split.TRAINING: asked, Split.VALIDATION: [], Split.HELDOUT: []})
        before(conn, made)
        return made


@dataclass(frozen=True)
class Turn:
    """Milliseconds from the last result of a generation to the opening of the next, and to its first claim."""

    opened: float
    claimed: float


class Watch:
    """Reads of a few milliseconds, on one connection of its own."""

    def __init__(self, database_url: str) -> None:
        self._connection: psycopg.Connection[Any] = psycopg.connect(database_url, autocommit=True)

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self._connection.execute(statement.encode(), values).fetchall()

    def wait_for_end(self, ids: Sequence[CampaignId], seconds: float = 600.0) -> None:
        """Return when all campaigns have completed; raise RuntimeError when one stopped otherwise."""

        def ended() -> bool:
            states = self.rows(STATES, (list(ids),))
            if bad := [row for row in states if row[0] not in GOING]:
                raise RuntimeError(f"a campaign stopped: {bad[0]}")
            return all(state == COMPLETED for state, _ in states)

        wait_until(ended, seconds, "the campaigns to complete", every=0.1)

    def turns(self, ids: Sequence[CampaignId], stored: int = 0) -> list[Turn]:
        """Return every turn within the campaigns; the first generation after stored ones follows no result."""
        return [Turn(*row) for row in self.rows(TURNS, (list(ids), stored))]

    def span(self, ids: Sequence[CampaignId], stored: int = 0) -> tuple[int, float]:
        """Return closed generations, and seconds from the first opening to the last closing."""
        count, seconds = self.rows(SPAN, (list(ids), stored))[0]
        return int(count), float(seconds)

    def calls(self, ids: Sequence[CampaignId]) -> tuple[int, float]:
        """Return the number of model calls and the seconds they took by themselves."""
        count, seconds = self.rows(CALLS, (list(ids),))[0]
        return int(count), float(seconds)

    def close(self) -> None:
        self._connection.close()
