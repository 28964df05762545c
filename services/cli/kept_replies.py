"""``answers list``, ``answers export`` and ``answers delete``."""

from __future__ import annotations

import json
from pathlib import Path

from services.cli import render
from services.storage import campaigns, replies
from services.storage.engine import Connection, Database
from services.storage.replies import Choice, Kept


def show(database: Database, *, as_json: bool) -> None:
    with database.transaction() as conn:
        found = replies.tally(conn)
    if as_json:
        render.show_json(found)
        return
    columns = ("model", "replies", "bytes", "hits", "oldest", "newest")
    rows = [
        (
            each.model,
            render.count(each.answers),
            render.count(each.bytes),
            render.count(each.hits),
            render.moment(each.oldest),
            render.moment(each.newest),
        )
        for each in found
    ]
    render.show_table(columns, rows)


def export(database: Database, file: Path, campaign: str | None, model: str | None, older_than: float | None) -> int:
    """Write the chosen replies and return how many they are."""
    count = 0
    with database.transaction() as conn, file.open("w", encoding="utf-8") as out:
        for kept in replies.export(conn, choice_of(conn, campaign, model, older_than)):
            out.write(json.dumps(line(kept), allow_nan=False) + "\n")
            count += 1
    return count


def delete(database: Database, campaign: str | None, model: str | None, older_than: float | None) -> int:
    with database.transaction() as conn:
        return replies.delete(conn, choice_of(conn, campaign, model, older_than))


def choice_of(conn: Connection, campaign: str | None, model: str | None, older_than: float | None) -> Choice:
    """Return the choice; raise SpecError for a campaign that there is not."""
    campaign_id = None if campaign is None else campaigns.by_name(conn, campaign).id
    return Choice(campaign_id, model, older_than)


def line(kept: Kept) -> dict[str, object]:
    usage = kept.answer.usage
    return {
        "key": kept.key,
        "model": kept.model,
        "text": kept.answer.text,
        "finish_reason": kept.answer.finish_reason,
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "estimated": usage.estimated,
        "kept_at": kept.created_at.isoformat(),
    }
