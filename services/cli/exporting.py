"""``campaign export``: a campaign as files that need nothing of ours to be read."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from services.cli import render
from services.storage import campaigns, coordinators, evaluations, generations, ledger
from services.storage.engine import Connection, Database
from services.storage.records import CoordinatorRecord, GenerationRecord


def export(database: Database, name: str, folder: Path) -> list[Path]:
    """Write the campaign into ``folder`` and return the files.

    ``campaign.json`` is the specification with limits and spend; ``generations.jsonl`` has mean, sigma and fitness of
    every closed generation; ``episodes.jsonl`` one line per episode; ``calls.json`` the totals by model and role;
    ``evaluation.jsonl`` the held-out episodes of all policies with what they took; ``coordinator.json`` the released
    vector, if there is one.
    Vectors are base64 of little-endian floats, 8 bytes a number for means and fitness, 4 bytes for the coordinator.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with database.transaction() as conn:
        record = campaigns.by_name(conn, name)
        history = generations.history(conn, record.id)
        written = [
            write(folder / "campaign.json", [record], indent=2),
            write(folder / "generations.jsonl", map(generation_line, history)),
            write(folder / "episodes.jsonl", episode_lines(conn, history)),
            write(folder / "evaluation.jsonl", evaluations.read(conn, record.id).episodes),
            write(folder / "calls.json", [ledger.totals(conn, record.id)], indent=2),
        ]
        coordinator = coordinators.of_campaign(conn, record.id)
    if coordinator is not None:
        written.append(write(folder / "coordinator.json", [coordinator_document(coordinator)], indent=2))
    return written


def write(path: Path, documents: Iterable[Any], indent: int | None = None) -> Path:
    """Write documents one after another, so that a long campaign is never in memory as a whole."""
    with path.open("w", encoding="utf-8") as file:
        for document in documents:
            file.write(json.dumps(render.plain(document), ensure_ascii=False, allow_nan=False, indent=indent) + "\n")
    return path


def generation_line(generation: GenerationRecord) -> Mapping[str, Any]:
    return {
        "number": generation.number,
        "kind": generation.kind,
        "state": generation.state,
        "sigma": generation.sigma,
        "checksum": generation.checksum,
        "mean_float64": base64_of(generation.mean, "<f8"),
        "fitness": None if generation.fitness is None else generation.fitness.tolist(),
        "summary": generation.summary,
        "opened_at": generation.opened_at,
        "closed_at": generation.closed_at,
    }


def episode_lines(conn: Connection, history: Iterable[GenerationRecord]) -> Iterator[Mapping[str, Any]]:
    for generation in history:
        for outcome in generations.outcomes(conn, generation.id):
            yield {"generation": generation.number, **render.plain(outcome)}


def coordinator_document(coordinator: CoordinatorRecord) -> Mapping[str, Any]:
    return {
        "name": coordinator.name,
        "generation": coordinator.generation,
        "layout": coordinator.layout,
        "encoder": coordinator.encoder,
        "pool": coordinator.pool,
        "validation": coordinator.validation,
        "released_at": coordinator.released_at,
        "theta_float32": base64_of(coordinator.theta, "<f4"),
    }


def base64_of(vector: np.ndarray[Any, Any], kind: str) -> str:
    return base64.b64encode(np.ascontiguousarray(vector).astype(kind).tobytes()).decode("ascii")
