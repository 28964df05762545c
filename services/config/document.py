"""A resolved campaign as a JSON document, the form in which the database keeps it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from services.config.across_sections import unknown_agents, unknown_judge
from services.config.encoder_section import RecordedEncoder, RecordedHead
from services.config.fields import Positive, Section, Surroundings
from services.config.messages import masked, shown, wanted_of
from services.config.model_section import ModelSection
from services.config.rival_faults import rival_faults
from services.config.sections import (
    LONGEST_HOURS,
    AnswersSection,
    EvaluationSection,
    LabelsSection,
    ProtocolSection,
    RecordedSearch,
    ReinforceSection,
    ScoringSection,
    SpendSection,
    SupervisedSection,
    TopSection,
    ValidationSection,
)
from services.config.yaml_reader import ABSENT, Key
from services.core.campaign import Campaign, ModelSpec
from services.core.errors import SpecError
from services.core.problem_source import ProblemSource
from services.core.rivals import RivalSpec

VERSION = 1

# Fields that documents of version 1 did not always have, without places in lists; a document without them has the
# defaults.
ADDED: frozenset[tuple[Key, ...]] = frozenset(
    {("weight",), ("max_failure_share",), ("head",), ("scoring",), ("answers",), ("budget", "calls")}
    | {("encoder", "norm"), ("encoder", "singular_values"), ("protocol", "agents"), ("protocol", "notes")}
    | {("protocol", "evidence")}
    | {("search", name) for name in ("step_size", "entropy_bonus", "turn_bonus", "algorithm", "start")}
    | {
        ("search", name)
        for name in ("half_width", "mean_rate", "antithetic", "cost_weight", "cost_unit_usd", "coordinator")
    }
    | {("labels",), ("reinforce",), ("supervised",), ("evaluation", "rivals"), ("evaluation", "repeats")}
    | {("pool", name) for name in ("context_window", "limits", "stream", "description")}
    | {("pool", "price", "cached_input_per_million"), ("pool", "price", "reasoning_per_million")}
    | {("sets", name) for name in ("choices", "answer_form", "tests", "ask")}
)


class RecordedBudget(SpendSection):
    """The budget as the record has it: episodes resolved, hours as seconds."""

    episodes: Positive
    wall_clock_seconds: Annotated[float, Field(gt=0, le=LONGEST_HOURS * 3600, allow_inf_nan=False)] | None = None


# The record's sections with their limits.
LIMITED_SECTIONS: Mapping[str, type[Section]] = {
    "encoder": RecordedEncoder,
    "head": RecordedHead,
    "protocol": ProtocolSection,
    "search": RecordedSearch,
    "validation": ValidationSection,
    "evaluation": EvaluationSection,
    "scoring": ScoringSection,
    "answers": AnswersSection,
    "labels": LabelsSection,
    "reinforce": ReinforceSection,
    "supervised": SupervisedSection,
    "budget": RecordedBudget,
}

# What the file calls otherwise than the record.
FILE_NAMES = {"litellm_model": "model", "input_per_million": "input", "output_per_million": "output"}
FILE_NAMES |= {"cached_input_per_million": "cached_input", "reasoning_per_million": "reasoning"}
RECORD_NAMES = {file: record for record, file in FILE_NAMES.items()}


def to_json(campaign: Campaign, problems: ProblemSource | None = None) -> dict[str, Any]:
    """Return a document of plain JSON values; amounts of money are strings, so that no digit is lost."""
    return {
        "version": VERSION,
        "campaign": _campaigns().dump_python(campaign, mode="json"),
        "problems": None if problems is None else _sources().dump_python(problems, mode="json"),
    }


def from_json(document: Mapping[str, Any]) -> Campaign:
    """Return the campaign of a document written by ``to_json``, equal in every field.

    Raises:
        SpecError: another version, or a document that would not be written the same way again but for added fields.
    """
    _require_version(document)
    campaign: Campaign = _read(_campaigns(), document, "campaign")
    _require_limits(campaign)
    return campaign


def problems_from_json(document: Mapping[str, Any]) -> ProblemSource | None:
    """Return where the problems came from, or None when the document does not say. Raises as ``from_json`` does."""
    _require_version(document)
    return None if document.get("problems") is None else _read(_sources(), document, "problems")


def sha256(document: Mapping[str, Any]) -> str:
    """Return the hash of the document's canonical text (sorted keys, no white space)."""
    return hashlib.sha256(json.dumps(document, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


# Built at the first use: pydantic's schema work is not for import time.
@cache
def _campaigns() -> TypeAdapter[Campaign]:
    return TypeAdapter(Campaign)


@cache
def _sources() -> TypeAdapter[ProblemSource]:
    return TypeAdapter(ProblemSource)


def _require_version(document: Mapping[str, Any]) -> None:
    if document.get("version") != VERSION:
        raise SpecError("version", document.get("version"), f"a campaign document of version {VERSION}")


def _read(adapter: TypeAdapter[Any], document: Mapping[str, Any], part: str) -> Any:
    try:
        value = adapter.validate_python(document[part])
    except KeyError as error:
        raise SpecError(part, ABSENT, "a campaign document with this part") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise SpecError(_dotted(first["loc"]) or part, first["input"], wanted_of(first)) from error
    # Dataclasses ignore unknown keys and coerce quietly; what does not come out again was not ours.
    difference = _difference(document[part], adapter.dump_python(value, mode="json"), ())
    if difference is not None:
        raise SpecError(_dotted(difference[0]) or part, difference[1], difference[2])
    return value


def _require_limits(campaign: Campaign) -> None:
    """Hold the record to the same limits as a file: ``campaign fork --set`` changes it field by field."""
    for path, section, fields in _limited(campaign):
        try:
            section.model_validate(fields, context=Surroundings(Path("/"), {}))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = (*path, *(RECORD_NAMES.get(str(part), part) for part in first["loc"]))
            raise SpecError(_dotted(where), shown(masked(where, first["input"])), wanted_of(first)) from None
    names = [model.name for model in campaign.pool]
    for index, got, wanted in unknown_agents(campaign.protocol.agents, names):
        raise SpecError(f"protocol.agents.{index}", got, wanted)
    for got, wanted in unknown_judge(campaign.scoring.judge, names):
        raise SpecError("scoring.judge", got, wanted)
    agents = len(campaign.protocol.agents) or len(names)
    # Whether scores are recorded is the problems' part of the document, which no change of a field touches.
    for place, found, required in rival_faults(campaign.evaluation.rivals, names, agents, recorded=False):
        raise SpecError(_dotted(("evaluation", "rivals", *place)), found, required)


def _limited(campaign: Campaign) -> Iterator[tuple[tuple[Key, ...], type[Section], Mapping[str, Any]]]:
    yield (), TopSection, {name: getattr(campaign, name) for name in TopSection.model_fields}
    for name, section in LIMITED_SECTIONS.items():
        fields = vars(getattr(campaign, name))
        yield (name,), section, {key: _plain(value) for key, value in fields.items() if key in section.model_fields}
    for index, model in enumerate(campaign.pool):
        yield ("pool", index), ModelSection, _model_in_file(model)


def _plain(value: Any) -> Any:
    """Return a list of rivals as one of mappings, and anything else as it is."""
    if not isinstance(value, tuple):
        return value
    return tuple(vars(each) if isinstance(each, RivalSpec) else each for each in value)


def _model_in_file(model: ModelSpec) -> dict[str, Any]:
    fields = vars(model) | vars(model.limits) | {"price": _in_file(vars(model.price))}
    return _in_file({name: value for name, value in fields.items() if name != "limits"})


def _in_file(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {FILE_NAMES.get(name, name): value for name, value in fields.items()}


def _difference(given: Any, written: Any, path: tuple[Key, ...]) -> tuple[tuple[Key, ...], object, str] | None:
    if isinstance(given, Mapping) and isinstance(written, Mapping):
        for key in [*given, *written]:
            if key not in written:
                return path, key, f"one of the keys {', '.join(sorted(written))}"
            if key not in given and tuple(part for part in (*path, key) if not isinstance(part, int)) in ADDED:
                continue
            found = _difference(given.get(key, ABSENT), written[key], (*path, key))
            if found is not None:
                return found
        return None
    if isinstance(given, list) and isinstance(written, list) and len(given) == len(written):
        pairs = enumerate(zip(given, written, strict=True))
        return next((d for i, (a, b) in pairs if (d := _difference(a, b, (*path, i))) is not None), None)
    same = given == written and isinstance(given, bool) == isinstance(written, bool)
    return None if same else (path, given, repr(written))


def _dotted(path: Iterable[Key]) -> str:
    return ".".join(str(part) for part in path)
