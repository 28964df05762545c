"""What ``reproduce`` does: find or submit the campaigns, wait for them one after the other, gather, report."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from services.cli import connections, first_run, render, reporting, study_results, submission, watching
from services.cli.advice import what_now
from services.cli.studies import PreparedStudy, Run, identity
from services.config.settings import Settings
from services.core.errors import SpecError
from services.core.problem import content_hash
from services.core.states import CampaignState
from services.core.studies.learners import booked
from services.reports.studies import StudyCampaign, StudyFacts
from services.storage import campaigns
from services.storage.engine import Database
from services.storage.records import CampaignRecord

UNDER_WAY = frozenset({CampaignState.SUBMITTED, CampaignState.RUNNING})
ENDED_BADLY = frozenset({CampaignState.FAILED, CampaignState.CANCELLED})

# Of several campaigns with the same specification the first of these is taken, and of equals the oldest.
PREFERENCE = (
    CampaignState.COMPLETED,
    CampaignState.RUNNING,
    CampaignState.SUBMITTED,
    CampaignState.PAUSED,
    CampaignState.BUDGET_EXHAUSTED,
    CampaignState.FAILED,
    CampaignState.CANCELLED,
)


@dataclass(frozen=True)
class Given:
    """How a study is to be run: the base file as it was given, the report's folder, and the command's options."""

    file: Path
    out: Path | None = None
    again: bool = False
    keep: bool = False
    as_json: bool = False


def run(planned: PreparedStudy, settings: Settings, given: Given) -> int:
    """Return the exit status: 0 when every campaign is complete, else 1. The report is written either way."""
    began = time.monotonic()
    submission.require_sandbox(planned.base.problems, settings)
    encoders = [one.prepared.campaign.encoder for one in planned.runs]
    for encoder in {(one.model, one.revision): one for one in encoders}.values():
        first_run.obtain_weights(encoder, settings)
    # Progress goes to stderr: stdout is for the comparison.
    with (
        first_run.terminable(),
        redirect_stdout(sys.stderr),
        first_run.running_services(settings, keep=given.keep) as own,
        connections.open_database(settings) as database,
    ):
        records = carried_out(database, settings, planned.runs, given, own.require)
        facts = gathered(database, planned, records, given)
    folder = given.out or settings.var_dir / "reports" / f"{planned.base.campaign.name}-{planned.study.name}"
    study_results.show(facts, folder, as_json=given.as_json)
    render.say(f"{planned.study.name} took {render.duration(time.monotonic() - began)}")
    return 1 if facts.missing() else 0


def carried_out(
    database: Database, settings: Settings, runs: Sequence[Run], given: Given, alive: Callable[[], None]
) -> list[CampaignRecord]:
    """Return every campaign after it was waited for; one that stands still is left as it is."""
    records = []
    for number, one in enumerate(runs, start=1):
        record = known(database, one)
        if record is None or (given.again and record.state in ENDED_BADLY):
            record = submitted(database, settings, one)
            done = f"submitted {record.name}: {one.prepared.sizes()}"
        else:
            done = f"{record.name} is {record.state} already"
        render.say(f"[{number} of {len(runs)}] {done}")
        if record.state in UNDER_WAY:
            waited_for(database, settings, record.name, alive)
        records.append(read(database, record.name))
    return records


def waited_for(database: Database, settings: Settings, name: str, alive: Callable[[], None]) -> None:
    try:
        watching.watch(database, settings, name, interval=1.0, stop_at=first_run.STOPPED, alive=alive)
    except KeyboardInterrupt:
        render.say(
            f"interrupted; the same command goes on from here. As long as services run, {name} does too: "
            f"`manage.py campaign pause {name}` holds it"
        )
        raise


def known(database: Database, wanted: Run) -> CampaignRecord | None:
    """Return the campaign with the same specification, problems and search library, whatever its name."""
    prepared = wanted.prepared
    with database.transaction() as conn:
        found = campaigns.with_problems(conn, content_hash(prepared.problems))
    own, version = identity(prepared.spec), submission.versions()["search"]
    same = [one for one in found if one.versions.get("search") == version and has_identity(one, own)]
    return min(same, key=lambda one: (PREFERENCE.index(one.state), one.id), default=None)


def has_identity(record: CampaignRecord, wanted: str) -> bool:
    """Return whether a stored specification is the wanted one; what an older product wrote may be unreadable."""
    try:
        return record.forked_from is None and identity(record.spec) == wanted
    except SpecError:
        return False


def submitted(database: Database, settings: Settings, wanted: Run) -> CampaignRecord:
    name = first_run.free_name(database, wanted.name)
    submission.submit(submission.renamed(wanted.prepared, name), settings)
    return read(database, name)


def read(database: Database, name: str) -> CampaignRecord:
    with database.transaction() as conn:
        return campaigns.by_name(conn, name)


def gathered(database: Database, planned: PreparedStudy, records: Sequence[CampaignRecord], given: Given) -> StudyFacts:
    """Read what the complete campaigns found."""
    base = planned.base.campaign
    return StudyFacts(
        study=planned.study,
        base=base.name,
        file=str(given.file),
        models=tuple(model.name for model in base.pool),
        seed=base.seed,
        seeds=planned.seeds,
        rows=planned.rows,
        left_out=planned.left_out,
        campaigns=tuple(campaign_of(database, one, record) for one, record in zip(planned.runs, records, strict=True)),
    )


def campaign_of(database: Database, one: Run, record: CampaignRecord) -> StudyCampaign:
    complete = record.state is CampaignState.COMPLETED
    return StudyCampaign(
        name=record.name,
        keys=one.keys,
        seed=one.seed,
        state=record.state.value,
        reason=record.stop_reason,
        advice=advice(record),
        booked=booked(one.prepared.campaign),
        episodes=record.spend.episodes_reserved,
        calls=record.spend.calls_started,
        tokens=record.spend.tokens_charged,
        usd=record.spend.usd_charged,
        seconds=record.running_seconds,
        facts=reporting.facts_of(database, record.name) if complete else None,
    )


def advice(record: CampaignRecord) -> str | None:
    """Return how to go on with a campaign that has no result yet."""
    if record.state in ENDED_BADLY:
        return "`manage.py reproduce ... --again` runs it anew"
    return what_now(record)
