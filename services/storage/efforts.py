"""What the training episodes of samples took, as far as a campaign's fitness depends on it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from decimal import Decimal

from sqlalchemy import Connection, text

from services.core.campaign import Campaign
from services.core.fitness import Effort, counts_cost, has_bonuses
from services.core.ids import GenerationId
from services.core.ledger.usage import Usage

CHOSEN = text("""
select c.generation_id, c.index as place_in_kind, t.agent, count(*) as turns
from candidate c
join episode e on e.candidate_id = c.id and e.purpose = 'training' and e.state = 'scored'
join turn t on t.episode_id = e.id and t.attempt = e.attempt
where c.generation_id = any(cast(:generations as bigint[])) and c.kind = 'sample'
group by 1, 2, 3
""")

# Of the tries of a turn the last one was read. A kept reply counts as if it had been paid for: otherwise a candidate
# would seem cheap because another one asked the same before. What grading takes is not the candidate's.
TOKENS = text("""
select c.generation_id, c.index as place_in_kind, l.agent, l.estimated, sum(l.prompt) as prompt,
    sum(l.completion) as completion, bool_and(l.known) as known
from candidate c
join episode e on e.candidate_id = c.id and e.purpose = 'training' and e.state = 'scored'
cross join lateral (
    select distinct on (turn) agent, estimated,
        coalesce(kept_prompt_tokens, prompt_tokens, 0) as prompt,
        coalesce(kept_completion_tokens, completion_tokens, 0) as completion,
        not cache_hit or kept_prompt_tokens is not null as known
    from llm_call where episode_id = e.id and attempt = e.attempt and role <> 'judge'
    order by turn, try desc
) l
where c.generation_id = any(cast(:generations as bigint[])) and c.kind = 'sample'
group by 1, 2, 3, 4
""")


def of(conn: Connection, generation_ids: Sequence[GenerationId], campaign: Campaign) -> dict[GenerationId, Effort]:
    """Return the efforts of one campaign's generations; those without samples are left out."""
    chosen = _chosen(conn, generation_ids) if has_bonuses(campaign) else {}
    spent = _spent(conn, generation_ids, campaign) if counts_cost(campaign) else {}
    return {each: Effort(chosen.get(each, {}), spent.get(each, {})) for each in {*chosen, *spent}}


def _chosen(conn: Connection, generation_ids: Sequence[GenerationId]) -> dict[GenerationId, dict[int, dict[int, int]]]:
    found: dict[GenerationId, dict[int, dict[int, int]]] = defaultdict(lambda: defaultdict(dict))
    for row in conn.execute(CHOSEN, {"generations": list(generation_ids)}):
        found[GenerationId(row.generation_id)][row.place_in_kind][row.agent] = row.turns
    return found


def _spent(
    conn: Connection, generation_ids: Sequence[GenerationId], campaign: Campaign
) -> dict[GenerationId, dict[int, Decimal]]:
    """Return what every sample's episodes cost at list price; a sample with a reply of unknown length has no cost."""
    found: dict[GenerationId, dict[int, Decimal]] = defaultdict(lambda: defaultdict(Decimal))
    unknown: set[tuple[GenerationId, int]] = set()
    for row in conn.execute(TOKENS, {"generations": list(generation_ids)}):
        generation = GenerationId(row.generation_id)
        usage = Usage(int(row.prompt), int(row.completion), row.estimated)
        found[generation][row.place_in_kind] += campaign.pool[row.agent].price.cost(usage)
        if not row.known:
            unknown.add((generation, row.place_in_kind))
    for generation, sample in unknown:
        del found[generation][sample]
    return found
