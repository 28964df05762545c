"""``coordinator list``, ``show``, ``export`` and ``import``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from services.checkpoint import folder as checkpoints
from services.checkpoint.description import Description, Score
from services.checkpoint.folder import Checkpoint
from services.cli import candidates, render
from services.cli.describing import describe
from services.cli.submission import campaign_name
from services.storage import coordinators
from services.storage.engine import Database
from services.storage.records import CoordinatorRecord, NewCoordinator

UNKNOWN = "unknown: nobody recorded with which weights, tokenizer and template it was trained"


def show_list(database: Database, *, as_json: bool) -> None:
    with database.transaction() as conn:
        rows = coordinators.list_all(conn)
    if as_json:
        render.show_json([list_document(row) for row in rows])
        return
    columns = ("name", "origin", "generation", "validation", "numbers", "encoder", "reading", "released")
    render.show_table(columns, [list_row(row) for row in rows])


def list_document(row: CoordinatorRecord) -> Mapping[str, Any]:
    kept = ("id", "name", "campaign_id", "generation", "validation", "origin", "layout", "encoder", "reading", "pool")
    return {name: getattr(row, name) for name in (*kept, "released_at")} | {"numbers": row.theta.size}


def list_row(row: CoordinatorRecord) -> tuple[object, ...]:
    reading = "unknown" if row.reading is None else "recorded"
    moment = render.moment(row.released_at)[:-3]
    size, model = render.count(row.theta.size), row.encoder["model"]
    return (row.name, row.origin, row.generation, render.figure(row.validation), size, model, reading, moment)


def show(database: Database, name: str, *, as_json: bool) -> None:
    show_description(checkpoint_of(database, name).description, as_json=as_json)


def show_folder(folder: Path, *, as_json: bool) -> None:
    """Show a checkpoint after checking all of it, its parameters included."""
    show_description(checkpoints.read(folder).description, as_json=as_json)


def export(database: Database, name: str, folder: Path) -> Checkpoint:
    """Write a coordinator as a checkpoint and return what was written. Raises SpecError for a folder with contents."""
    checkpoint = checkpoint_of(database, name)
    checkpoints.write(folder, checkpoint)
    return checkpoint


def bring_in(database: Database, folder: Path, name: str | None) -> str:
    """Store a checkpoint and return its name; raises as ``checkpoints.read`` does, and SpecError for a taken name."""
    found = checkpoints.read(folder)
    description = replace(found.description, name=campaign_name(name or found.description.name))
    new = NewCoordinator(
        campaign_id=None,
        name=description.name,
        generation=description.origin.generation,
        theta=found.theta,
        layout=description.layout.to_json(),
        encoder=asdict(description.encoder),
        pool={"models": [asdict(model) for model in description.pool]},
        validation=None if description.scores.validation is None else description.scores.validation.mean,
        reading=None if description.reading is None else description.reading.to_json(),
        description=description.to_json(),
    )
    with database.transaction() as conn:
        coordinators.add_imported(conn, new)
    return description.name


def checkpoint_of(database: Database, name: str) -> Checkpoint:
    """Return a stored coordinator as its checkpoint; SpecError for an unknown name."""
    with database.transaction() as conn:
        row = coordinators.by_name(conn, name)
        if row.description is not None:
            return Checkpoint(Description.from_json(row.description), row.theta)
        return Checkpoint(describe(conn, row), row.theta)


def show_description(description: Description, *, as_json: bool) -> None:
    if as_json:
        render.show_json(description.to_json())
        return
    render.show(f"coordinator {render.printable(description.name)}")
    for heading, text in facts(description).items():
        render.show(f"  {heading:<12}{render.printable(text)}")
    rows = [score_row("held-out", score) for score in description.scores.evaluation]
    if (validation := description.scores.validation) is not None:
        rows.insert(0, score_row("validation", validation))
    if rows:
        render.show("\nscores (95 % intervals)")
        render.show_table(("problems", "policy", "n", "mean", "low", "high"), rows, indent=2)


def facts(description: Description) -> dict[str, str]:
    layout, encoder, origin = description.layout, description.encoder, description.origin
    reading, training = description.reading, description.training
    blocks = " + ".join(f"{name} {size:,}" for name, size in layout.blocks.items() if size)
    return {
        "pool": ", ".join(f"{model.name} ({model.model})" for model in description.pool),
        "encoder": f"{encoder.model}, {encoder.position} position, norm {encoder.norm}"
        + (", centred" if encoder.center else ""),
        "reading": UNKNOWN if reading is None else f"weights {reading.weights[:12]}, digest {reading.digest()[:12]}",
        "theta": f"{layout.size:,} numbers: {blocks}",
        "matrices": candidates.matrices_text(layout.matrices),
        "head": candidates.head_text(layout.spec),
        "roles": f"{', '.join(layout.allowed)}; at most {description.protocol.max_turns} turns; "
        f"{candidates.notes_text(description.protocol.notes)}",
        "origin": f"campaign {origin.name}, generation {origin.generation}, seed {origin.seed}, "
        f"specification {origin.spec_sha256[:12]}",
        "training": f"{training.generations} generations of {training.population} x {training.replicates}; "
        f"the campaign took {training.episodes:,} episodes, {render.usd(training.usd)}",
        "preset": training.preset or "unknown: written before it was kept",
        "product": description.product,
    }


def score_row(problems: str, score: Score) -> tuple[object, ...]:
    figures = (render.figure(value) for value in (score.mean, score.low, score.high))
    return (problems, score.policy, score.n, *figures)
