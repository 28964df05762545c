"""Replies that are kept, so that a call which asks the same need not be made. The first one under a key stays."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, text

from services.core.ids import CampaignId
from services.core.ledger.usage import Usage
from services.storage.operations import Keep, Recall
from services.storage.records import Answer
from services.storage.text_codec import escape, unescape

PAGE = 500

KEEP = text("""
insert into answer (key, campaign_id, model, output, finish_reason, prompt_tokens, completion_tokens, estimated)
select key, campaign, model, output, finish, prompt, completion, estimated
from jsonb_to_recordset(cast(:rows as jsonb)) as k(key text, campaign bigint, model text, output text, finish text,
    prompt bigint, completion bigint, estimated boolean)
order by key on conflict (key) do nothing
""")
KEPT = text("""
select key, output, finish_reason, prompt_tokens, completion_tokens, estimated from answer
where key = any(cast(:keys as text[]))
""")

# The caller holds the locks of campaigns and episodes, as for a reservation, and the same may be asked for again.
RECALL = text("""
with mine as materialized (
    select w.*, a.output, a.finish_reason, a.prompt_tokens, a.completion_tokens, a.estimated
    from jsonb_to_recordset(cast(:rows as jsonb)) as w(place integer, campaign bigint, episode bigint, attempt integer,
        owner text, turn integer, agent integer, model text, role text, lease double precision, meter text, asked text,
        key text)
    join episode e on e.id = w.episode and e.attempt = w.attempt and e.state = 'running' and e.lease_owner = w.owner
    join campaign c on c.id = w.campaign and c.state = 'running'
        and (c.wall_clock_budget_seconds is null or c.running_seconds
            + extract(epoch from clock_timestamp() - c.running_since) < c.wall_clock_budget_seconds)
    join answer a on a.key = w.key
), leased as (
    update episode e set lease_expires_at = clock_timestamp() + make_interval(secs => m.lease)
    from mine m where e.id = m.episode
), noted as (
    insert into llm_call (campaign_id, episode_id, attempt, turn, try, agent, model, role, state, reserved_usd,
        reserved_tokens, prompt_tokens, completion_tokens, cost_usd, latency_seconds, finish_reason, cache_hit, meter,
        asked, answer_key, settled_at, estimated, kept_prompt_tokens, kept_completion_tokens)
    select campaign, episode, attempt, turn, 1, agent, model, role, 'settled', 0, 0, 0, 0, 0, 0, finish_reason, true,
        meter, asked, key, clock_timestamp(), estimated, prompt_tokens, completion_tokens
    from mine order by place
    on conflict (episode_id, attempt, turn, try) do nothing
)
select place, output, finish_reason, prompt_tokens, completion_tokens, estimated from mine
""")

TALLY = text("""
with hits as (
    select a.model, count(*) as hits from llm_call l join answer a on a.key = l.answer_key where l.cache_hit
    group by a.model
)
select a.model, count(*) as answers, sum(octet_length(a.output)) as bytes, coalesce(max(h.hits), 0) as hits,
    min(a.created_at) as oldest, max(a.created_at) as newest
from answer a left join hits h on h.model = a.model
group by a.model order by a.model
""")
DELETE = text("""
delete from answer
where (cast(:campaign as bigint) is null or campaign_id = :campaign)
    and (cast(:model as text) is null or model = :model)
    and (cast(:days as double precision) is null or created_at < now() - make_interval(secs => :days * 86400.0))
""")
EXPORT = text("""
select id, key, model, output, finish_reason, prompt_tokens, completion_tokens, estimated, created_at from answer
where id > :after and (cast(:campaign as bigint) is null or campaign_id = :campaign)
    and (cast(:model as text) is null or model = :model)
    and (cast(:days as double precision) is null or created_at < now() - make_interval(secs => :days * 86400.0))
order by id limit :page
""")


@dataclass(frozen=True)
class Tally:
    """The kept replies of one model, under its campaigns' name for it, and the calls that they answered."""

    model: str
    answers: int
    bytes: int
    hits: int
    oldest: datetime
    newest: datetime


@dataclass(frozen=True)
class Choice:
    """Which kept replies are meant: of one campaign, of one model, older than so many days; None for any."""

    campaign_id: CampaignId | None = None
    model: str | None = None
    older_than_days: float | None = None

    def values(self) -> dict[str, Any]:
        model = None if self.model is None else escape(self.model)
        return {"campaign": self.campaign_id, "model": model, "days": self.older_than_days}


@dataclass(frozen=True)
class Kept:
    """A reply with the key under which it is kept."""

    key: str
    model: str
    answer: Answer
    created_at: datetime


def keep_all(conn: Connection, given: Sequence[Keep]) -> list[Answer]:
    """Keep replies and return, for each, what is kept under its key: of several the first that was kept."""
    conn.execute(KEEP, {"rows": json.dumps([_row(each) for each in given])})
    kept = {row.key: _answer(row) for row in conn.execute(KEPT, {"keys": [each.key for each in given]})}
    return [kept[each.key] for each in given]


def recall_all(conn: Connection, asked: Sequence[Recall]) -> list[Answer | None]:
    """Return what is kept for each call, noted as answered; None where a call has to be made, or nothing may run."""
    rows = json.dumps([_wanted(place, each) for place, each in enumerate(asked)])
    found = {row.place: _answer(row) for row in conn.execute(RECALL, {"rows": rows})}
    return [found.get(place) for place in range(len(asked))]


def tally(conn: Connection) -> list[Tally]:
    """Return what is kept, model by model."""
    return [
        Tally(unescape(row.model), row.answers, int(row.bytes), row.hits, row.oldest, row.newest)
        for row in conn.execute(TALLY)
    ]


def delete(conn: Connection, choice: Choice) -> int:
    """Delete kept replies and return how many they were. Transcripts and ledgers stay as they are."""
    return conn.execute(DELETE, choice.values()).rowcount


def export(conn: Connection, choice: Choice) -> Iterator[Kept]:
    """Yield kept replies in the order in which they were kept, a page at a time."""
    after = 0
    while page := conn.execute(EXPORT, {**choice.values(), "after": after, "page": PAGE}).all():
        for row in page:
            yield Kept(row.key, unescape(row.model), _answer(row), row.created_at)
        after = page[-1].id


def _answer(row: Row[Any]) -> Answer:
    usage = Usage(row.prompt_tokens, row.completion_tokens, row.estimated)
    return Answer(unescape(row.output), unescape(row.finish_reason), usage)


def _row(each: Keep) -> dict[str, Any]:
    return {
        "key": each.key,
        "campaign": each.campaign_id,
        "model": escape(each.model),
        "output": escape(each.answer.text),
        "finish": escape(each.answer.finish_reason),
        "prompt": each.answer.usage.prompt_tokens,
        "completion": each.answer.usage.completion_tokens,
        "estimated": each.answer.usage.estimated,
    }


def _wanted(place: int, each: Recall) -> dict[str, Any]:
    claim = each.claim
    return {
        "place": place,
        "campaign": claim.campaign_id,
        "episode": claim.episode_id,
        "attempt": claim.attempt,
        "owner": claim.owner,
        "turn": each.turn,
        "agent": each.agent,
        "model": escape(each.model),
        "role": each.role.value,
        "lease": each.lease_seconds,
        "meter": None if each.meter is None else each.meter.key,
        "asked": each.asked,
        "key": each.answer_key,
    }
