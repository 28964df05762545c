"""Pool files as people write them: every field, its limits and its default."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from services.config.fields import FilePath, Seconds, Section, Seed, Share, Text
from services.core.families import FAMILIES
from services.core.local_pool import (
    Faults,
    Latency,
    LocalPool,
    RecordingPool,
    Recordings,
    ReplayPool,
    SimulatedModel,
    SimulatedPool,
    Skill,
)
from services.core.problem import ScorerKind

Milliseconds = Annotated[float, Field(ge=0, le=600_000, allow_inf_nan=False)]


def _pool_name(value: str) -> str:
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,63}", value):
        raise ValueError("at most 64 of a-z, 0-9 and dash, because it is a part of an address")
    return value


def _known_families(value: dict[str, SkillSection]) -> dict[str, SkillSection]:
    unknown = sorted(value.keys() - FAMILIES.keys())
    if unknown:
        raise ValueError(f"families among {', '.join(FAMILIES)}; {', '.join(unknown)} is not one")
    return value


class LatencySection(Section):
    mean_ms: Milliseconds = 0.0
    jitter_ms: Milliseconds = 0.0

    @model_validator(mode="after")
    def _time_runs_forward(self) -> Self:
        if self.jitter_ms > self.mean_ms:
            raise ValueError("a jitter_ms of at most mean_ms")
        return self


class FaultsSection(Section):
    rate_limited: Share = 0.0
    server_error: Share = 0.0
    hang: Share = 0.0
    malformed: Share = 0.0
    retry_after_seconds: Seconds = 1.0
    hang_seconds: Seconds = 60.0

    @model_validator(mode="after")
    def _is_a_distribution(self) -> Self:
        if self.rate_limited + self.server_error + self.hang + self.malformed > 1 + 1e-9:
            raise ValueError("rate_limited, server_error, hang and malformed that add up to at most 1")
        return self


class SkillSection(Section):
    worker: Share
    thinker: Share
    verifier: Share


class SimulatedModelSection(Section):
    name: Text
    skills: Annotated[dict[str, SkillSection], AfterValidator(_known_families)] = Field(default_factory=dict)
    otherwise: SkillSection

    def record(self) -> SimulatedModel:
        skills = {family: Skill(**vars(skill)) for family, skill in self.skills.items()}
        return SimulatedModel(self.name, skills, Skill(**vars(self.otherwise)))


class PoolSection(Section):
    """What all kinds have."""

    name: Annotated[str, AfterValidator(_pool_name)]
    seed: Seed = 0
    latency: LatencySection = LatencySection()
    faults: FaultsSection = FaultsSection()

    def _shared(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "seed": self.seed,
            "latency": Latency(**vars(self.latency)),
            "faults": Faults(**vars(self.faults)),
        }


class SimulatedSection(PoolSection):
    kind: Literal["simulated"]
    models: tuple[SimulatedModelSection, ...] = Field(min_length=1, strict=False)
    plan_gain: Share = 0.5

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        if len({model.name for model in self.models}) < len(self.models):
            raise ValueError("models with different names")
        return self

    def record(self) -> LocalPool:
        models = tuple(model.record() for model in self.models)
        return SimulatedPool(**self._shared(), models=models, plan_gain=self.plan_gain)


class RecordingsSection(Section):
    files: tuple[FilePath, ...] = Field(min_length=1, strict=False)
    question: Text = "question"
    answer: Text | None = None
    score: Text | None = None
    scorer: Annotated[ScorerKind, Field(strict=False)] | None = None
    id: Text = "id"
    texts: tuple[FilePath, ...] = Field(default=(), strict=False)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if (self.answer is None) == (self.score is None):
            raise ValueError("exactly one of `answer` (recorded answers) and `score` (recorded scores only)")
        if (self.scorer is None) != (self.answer is None) or self.scorer is ScorerKind.RECORDED:
            raise ValueError("a `scorer` (exact, numeric or literal) exactly beside `answer`")
        return self

    def record(self) -> Recordings:
        return Recordings(**vars(self))


class ModelNamesSection(PoolSection):
    """What both kinds that repeat have."""

    models: tuple[Text, ...] = Field(min_length=1, strict=False)

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        if len(set(self.models)) < len(self.models):
            raise ValueError("models with different names")
        return self


class ReplaySection(ModelNamesSection):
    kind: Literal["replay"]
    recordings: tuple[RecordingsSection, ...] = Field(min_length=1, strict=False)

    def record(self) -> LocalPool:
        recordings = tuple(one.record() for one in self.recordings)
        return ReplayPool(**self._shared(), models=self.models, recordings=recordings)


class RecordingSection(ModelNamesSection):
    kind: Literal["recording"]
    calls: FilePath

    def record(self) -> LocalPool:
        return RecordingPool(**self._shared(), models=self.models, calls=self.calls)
