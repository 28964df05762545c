"""From a checkpoint folder to the evidence: the coordinator as it was taken home, on problems from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from services.checkpoint import folder as checkpoints
from services.checkpoint.folder import CONFIG, Checkpoint
from services.config import campaign as campaign_file
from services.core.problem import Problem, Split
from services.diagnosis.evidence import Evidence
from services.diagnosis.reading import problems_of
from services.storage import campaigns
from services.storage.engine import Database

Problems = Mapping[Split, tuple[Problem, ...]]


def is_checkpoint(subject: str) -> bool:
    """Tell a checkpoint folder from a campaign's name: it is a path, or a folder here with a checkpoint's file."""
    return "/" in subject or (Path(subject) / CONFIG).is_file()


def of_checkpoint(checkpoint: Checkpoint, problems: Problems, source: str) -> Evidence:
    """Return what a checkpoint tells of itself.

    Args:
        checkpoint: what was read from its folder.
        problems: whose questions are read.
        source: where they come from, in words.
    """
    description, origin = checkpoint.description, checkpoint.description.origin
    vector = f"generation {origin.generation} of campaign {origin.name}, on the problems of {source}"
    unknown = "; nobody recorded which encoder it was trained with" if description.reading is None else ""
    return Evidence(
        subject=f"coordinator {description.name}",
        seed=origin.seed,
        agents=names_of(checkpoint),
        encoder=description.encoder,
        protocol=description.protocol,
        layout=description.layout,
        theta=checkpoint.theta.astype(np.float64),
        vector=vector + unknown,
        problems=problems,
        reading=description.reading,
    )


def read(folder: str) -> Checkpoint:
    """Read and check a checkpoint folder; raises as ``services.checkpoint.folder.read`` does."""
    return checkpoints.read(Path(folder))


def names_of(checkpoint: Checkpoint) -> tuple[str, ...]:
    return tuple(model.name for model in checkpoint.description.pool)


def problems_of_file(path: Path, variables: Mapping[str, str], models: Sequence[str]) -> Problems:
    """Return the problems of a campaign file.

    Args:
        path: of the file.
        variables: stand for ``${NAME}`` in its paths.
        models: names in the coordinator's pool, of which recorded scores are wanted.

    Raises:
        SpecError, UnknownPrice, PrerequisiteMissing: the file or its problems are wrong or not here; says where.
    """
    # Imports a second's worth of generators, which a campaign's diagnosis does not need.
    from services.benchmarks.registry import load as load_problems

    source = campaign_file.problem_source(campaign_file.load(path, variables))
    return {split: tuple(found) for split, found in load_problems(source, models).items()}


def problems_of_campaign(database: Database, name: str) -> Problems:
    """Return the problems of a submitted campaign; SpecError if there is none of that name."""
    with database.transaction() as conn:
        return problems_of(conn, campaigns.by_name(conn, name))
