"""From a base campaign file to the campaigns of a study, each checked as if it were a file of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from services.cli import connections, submission
from services.cli.submission import Loaded, Prepared
from services.config import campaign as campaign_file
from services.config import document
from services.config.changes import Change
from services.config.settings import Settings
from services.core.errors import SpecError
from services.core.problem import Split
from services.core.studies.catalogue import STUDIES
from services.core.studies.names import campaign_name
from services.core.studies.study import Ground, LeftOut, Row, Study, StudyName, Variant


@dataclass(frozen=True)
class Run:
    """One campaign of a study: the variants of these keys under one seed, which are the same campaign."""

    keys: frozenset[str]
    seed: int
    prepared: Prepared

    @property
    def name(self) -> str:
        return self.prepared.campaign.name


@dataclass(frozen=True)
class PreparedStudy:
    """A study on a base.

    Attributes:
        base: the base itself, under its own seed.
        rows: the lines that this base has campaigns for.
        left_out: the others, each with its reason.
        runs: the campaigns, no two of them the same.
    """

    study: Study
    base: Prepared
    seeds: tuple[int, ...]
    rows: tuple[Row, ...]
    left_out: tuple[LeftOut, ...]
    runs: tuple[Run, ...]

    def run_of(self, row: Row, seed: int) -> Run:
        """Return the campaign that a line is read from."""
        return next(run for run in self.runs if run.seed == seed and row.variant.key in run.keys)


class Workshop:
    """Makes campaigns from a base file and changes; the problems are those of the base for all of them."""

    def __init__(self, path: Path, settings: Settings) -> None:
        self._path = path
        self._settings = settings
        file = campaign_file.load(path, connections.variables(settings))
        self.loaded: Loaded = submission.load(file)
        self.base = self.made({})

    def made(self, changes: Mapping[str, Any], key: str = "", seed: int | None = None) -> Prepared:
        """Return the campaign of a variant under a seed, None for the base's own. Raises as ``prepare`` does."""
        own = list(fields_of(changes if seed is None else {**changes, "seed": seed}))
        prepared = submission.prepare(self._path, self._settings, changes=own, loaded=self.loaded)
        return submission.renamed(prepared, campaign_name(prepared.campaign.name, key, seed))


def prepare(name: StudyName, path: Path, settings: Settings, seeds: Sequence[int] = ()) -> PreparedStudy:
    """Return the study on the base campaign of a file.

    Args:
        name: which study.
        path: the base's campaign file.
        settings: where data and local pools lie.
        seeds: of the campaigns; none for the base's own. The problems are the same for all of them.

    Raises:
        SpecError, PrerequisiteMissing: the base itself is wrong, or has no held-out evaluation.
    """
    workshop, study = Workshop(path, settings), STUDIES[name]
    base = workshop.base
    if not base.campaign.evaluation.problems:
        raise SpecError("evaluation.problems", 0, "held-out problems: a study compares nothing else")
    ground = Ground(base.campaign, len(workshop.loaded.problems[Split.TRAINING]))
    checked = [checked_line(workshop, line) for line in study.rows(ground)]
    rows = tuple(line for line in checked if isinstance(line, Row))
    left_out = tuple(line for line in checked if isinstance(line, LeftOut))
    wanted = tuple(dict.fromkeys(seeds)) or (base.campaign.seed,)
    return PreparedStudy(study, base, wanted, rows, left_out, tuple(runs_of(workshop, rows, wanted)))


def checked_line(workshop: Workshop, line: Row | LeftOut) -> Row | LeftOut:
    """Return the line, or why this base has no such campaign."""
    if isinstance(line, LeftOut) or not line.variant.key:
        return line
    try:
        workshop.made(changes_of([line.variant]), line.variant.key)
    except SpecError as error:
        return LeftOut(line.label, str(error), line.paper)
    return line


def runs_of(workshop: Workshop, rows: Sequence[Row], seeds: Sequence[int]) -> list[Run]:
    """Return the campaigns of the lines; variants that come out as the same campaign are one."""
    own = workshop.base.campaign.seed
    keys = dict.fromkeys(row.variant.key for row in rows)
    runs: dict[tuple[int, str], Run] = {}
    for seed in seeds:
        for key in keys:
            changes = changes_of([row.variant for row in rows if row.variant.key == key])
            prepared = workshop.made(changes, key, None if seed == own else seed)
            place = seed, identity(prepared.spec)
            known = runs.get(place)
            runs[place] = replace(known, keys=known.keys | {key}) if known else Run(frozenset({key}), seed, prepared)
    return list(runs.values())


def changes_of(variants: Sequence[Variant]) -> dict[str, Any]:
    """Return the changes of variants of one key, with the rivals of all of them, each once."""
    merged: dict[str, Any] = {}
    for variant in variants:
        for section, fields in variant.changes.items():
            merged[section] = {**merged.get(section, {}), **fields}
    rivals = [dict(entry) for entry in dict.fromkeys(tuple(entry.items()) for one in variants for entry in one.rivals)]
    return {**merged, "evaluation": {**merged.get("evaluation", {}), "rivals": rivals}} if rivals else merged


def fields_of(changes: Mapping[str, Any]) -> Iterator[Change]:
    """Yield the changes field by field, those of a section with the section's name before them."""
    for name, value in changes.items():
        if isinstance(value, Mapping):
            yield from (Change(f"{name}.{field}", one) for field, one in value.items())
        else:
            yield Change(name, value)


def identity(spec: Mapping[str, Any]) -> str:
    """Return a hash of everything in a specification that its results depend on: all but name and weight.

    Raises:
        SpecError: the specification is of a version that cannot be read.
    """
    campaign = replace(document.from_json(spec), name="", weight=1.0)
    return document.sha256(document.to_json(campaign, document.problems_from_json(spec)))
