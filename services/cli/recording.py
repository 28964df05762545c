"""``campaign export --recording``: the replies of a real campaign as a pool that plays them back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from services.cli import render
from services.config.document import from_json
from services.core.errors import SpecError
from services.core.protocol.asked import PROMPT_VERSION
from services.storage import campaigns, recording
from services.storage.engine import Connection, Database
from services.storage.records import CampaignRecord

VERSION = 1
HEAD = "# Written by `manage.py campaign export --recording`; docs/answers.md tells how to play it back.\n"
POOL_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")


@dataclass
class Written:
    """What a recording has: its files, its calls, and how many calls it lacks because their reply is kept nowhere."""

    files: tuple[Path, Path]
    calls: int = 0
    missing: int = 0


def record(database: Database, name: str, file: Path) -> Written:
    """Write the recording and, beside it, the file of the pool that plays it.

    Raises:
        SpecError: the file's name cannot be that of a pool, or its pool file is another one.
    """
    pool = file.with_suffix(".yaml")
    if file.suffix != ".jsonl" or not POOL_NAME.fullmatch(file.stem):
        raise SpecError("--recording", str(file), "a name of a-z, 0-9 and dash that ends in .jsonl; it names the pool")
    if pool.exists() and not pool.read_text(encoding="utf-8").startswith(HEAD):
        raise SpecError("--recording", str(file), f"another name: {pool} is the file of another pool")
    file.parent.mkdir(parents=True, exist_ok=True)
    written = Written((file, pool))
    with database.transaction() as conn:
        campaign = campaigns.by_name(conn, name)
        with file.open("w", encoding="utf-8") as out:
            for document in documents(conn, campaign, written):
                out.write(json.dumps(document, allow_nan=False) + "\n")
    pool.write_text(pool_file(campaign, file), encoding="utf-8")
    return written


def show(written: Written) -> None:
    """Print the files; say on stderr what they have."""
    for path in written.files:
        render.show(str(path))
    render.say(f"{written.calls:,} calls recorded")
    if written.missing:
        render.say(f"{written.missing:,} calls are missing: their replies are kept nowhere")


def documents(conn: Connection, campaign: CampaignRecord, written: Written) -> Iterator[Mapping[str, Any]]:
    yield {
        "recording": VERSION,
        "campaign": campaign.name,
        "specification": campaign.spec_sha256,
        "prompts": PROMPT_VERSION,
    }
    for call in recording.calls(conn, campaign.id):
        if call.asked is None or call.output is None:
            written.missing += 1
            continue
        written.calls += 1
        yield {
            "model": call.model,
            "asked": call.asked,
            "call": call.call,
            "text": call.output,
            "finish_reason": call.finish_reason,
            "prompt_tokens": call.prompt_tokens,
            "completion_tokens": call.completion_tokens,
        }


def pool_file(campaign: CampaignRecord, file: Path) -> str:
    models = "".join(f"  - {json.dumps(model.name)}\n" for model in from_json(campaign.spec).pool)
    return f"{HEAD}kind: recording\nname: {json.dumps(file.stem)}\ncalls: {json.dumps(file.name)}\nmodels:\n{models}"
