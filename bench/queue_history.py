"""History for growth: a campaign that already has closed generations, with everything a run would have left behind."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

import numpy as np
from sqlalchemy import text

from bench.queue_campaigns import DIMENSION, Size
from services.core.ids import CampaignId
from services.core.optimiser.sep_cma_es import SepCmaEs
from services.storage.binary import pack64
from services.storage.engine import Connection

SIGMA = 0.1

GENERATION = text("""
insert into generation (campaign_id, number, kind, state, epoch, mean, sigma, checksum, fitness, summary, closed_at)
values (:campaign, :number, 'training', 'closed', 0, :mean, :sigma, :checksum, :fitness,
    '{"mean_fitness": 0.5, "best_fitness": 0.9}', now())
""")
# Triggers, the foreign keys among them, are left out while the rows come in: they are right by construction.
FAST = text("set local session_replication_role = replica")
ANALYZE = text("analyze")
FILL = [
    text(statement)
    for statement in (
        """
insert into candidate (generation_id, kind, index, fitness, rank)
select g.id, 'sample', i, 0.5, i from generation g cross join generate_series(0, :population - 1) i
where g.campaign_id = :campaign order by g.id, i
""",
        """
insert into episode (campaign_id, generation_id, candidate_id, purpose, replicate, problem_id, seed, state, attempt,
    published_at, reward, termination, turns, scored_at)
select g.campaign_id, g.id, c.id, 'training', r, (select min(id) from problem where campaign_id = :campaign), r,
    'scored', 1, now(), r % 2, 'turn_limit', 1, now()
from generation g join candidate c on c.generation_id = g.id cross join generate_series(0, :replicates - 1) r
where g.campaign_id = :campaign order by c.id, r
""",
        """
insert into attempt (episode_id, number, worker, outcome, ended_at)
select id, 1, 'history', 'done', now() from episode where campaign_id = :campaign order by id
""",
        """
insert into turn (episode_id, attempt, number, agent, role, role_source, text, output, answer)
select id, 1, 1, 0, 'worker', 'fixed', 'thought', '<idea>thought</idea><answer>1</answer>', '1'
from episode where campaign_id = :campaign order by id
""",
        """
insert into llm_call (campaign_id, episode_id, attempt, turn, try, agent, model, role, state, reserved_usd,
    reserved_tokens, prompt_tokens, completion_tokens, cost_usd, latency_seconds, settled_at)
select campaign_id, id, 1, 1, 1, 0, 'm0', 'worker', 'settled', 0.001, 200, 100, 20, 0.00008, 0.2, now()
from episode where campaign_id = :campaign order by id
""",
        """
insert into ledger_entry (llm_call_id, campaign_id, kind, tokens, usd)
select l.id, l.campaign_id, k.kind, case k.kind when 'charge' then 120 else 200 end,
    case k.kind when 'charge' then 0.00008 else 0.001 end
from llm_call l cross join (values ('reservation'), ('charge'), ('release')) k(kind)
where l.campaign_id = :campaign order by l.id
""",
        """
insert into event (campaign_id, type, payload, processed_at)
select e.campaign_id, 'episode.scored', jsonb_build_object('episode', e.id, 'generation', g.number, 'attempt', 1), now()
from episode e join generation g on g.id = e.generation_id where e.campaign_id = :campaign order by e.id
""",
        """
update campaign c set episodes_reserved = s.episodes, calls_started = s.episodes, tokens_charged = 120 * s.episodes,
    usd_charged = 0.00008 * s.episodes
from (select count(*) as episodes from episode where campaign_id = :campaign) s where c.id = :campaign
""",
    )
]


@dataclass(frozen=True)
class Step:
    """A closed generation: the search as it stood when it opened, and the fitness it was told."""

    mean: bytes
    sigma: float
    checksum: str
    fitness: bytes


class History:
    """Closed generations of one search, made once for all campaigns of the same seed and population."""

    def __init__(self, seed: int, population: int) -> None:
        self._search = SepCmaEs(seed, DIMENSION, population, SIGMA)
        self._luck = np.random.default_rng(seed)
        self._steps: list[Step] = []

    def steps(self, count: int) -> list[Step]:
        """Return the first ``count`` generations."""
        while len(self._steps) < count:
            search = self._search
            fitness = self._luck.random(search.population).round(4)
            self._steps.append(Step(pack64(search.mean), search.sigma, search.checksum(), pack64(fitness)))
            search.tell(fitness)
        return list(islice(self._steps, count))

    def insert(self, conn: Connection, campaign: CampaignId, size: Size) -> None:
        """Store ``size.stored`` generations of a campaign with all their rows, in the caller's transaction."""
        conn.execute(FAST)
        for number, step in enumerate(self.steps(size.stored)):
            conn.execute(GENERATION, {"campaign": campaign, "number": number, **vars(step)})
        values = {"campaign": campaign, "population": size.population, "replicates": size.replicates}
        for statement in FILL:
            wanted = {name: value for name, value in values.items() if f":{name}" in statement.text}
            conn.execute(statement, wanted)
        conn.execute(ANALYZE)  # as autovacuum would have done on the way
