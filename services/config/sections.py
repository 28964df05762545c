"""The campaign file as people write it: every field, its limits and its default, in one place."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, PlainValidator, ValidationInfo, model_validator

from services.config.fields import (
    AutoOrPositive,
    Count,
    Money,
    Positive,
    Seconds,
    Section,
    Seed,
    Share,
    Surroundings,
    Text,
    Weight,
    Whole,
    expand,
)
from services.config.problems_section import ProblemsSection
from services.config.settings import LOCAL_PREFIX
from services.core.campaign import VerifierWithoutAnswer
from services.core.protocol.roles import ROLE_ORDER, Role

DEFAULT_ENCODER = "smollm2-135m-instruct"
LONGEST_HOURS = 87_600

# What the product decides itself for every call: who is asked, with which key, how long, how much, and how often.
# Headers are among them because keys travel in headers, and a campaign file is stored and shown.
RESERVED_OPTIONS = frozenset(
    {"model", "messages", "api_key", "api_base", "base_url", "timeout", "stream", "n"}
    | {"headers", "extra_headers", "max_tokens", "max_completion_tokens", "num_retries", "max_retries", "mock_response"}
)

_CAMPAIGN_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_MODEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+:/-]{0,99}")
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")


def _campaign_name(value: str) -> str:
    if not _CAMPAIGN_NAME.fullmatch(value):
        raise ValueError("at most 64 of a-z, 0-9, dot, dash and underscore, beginning with a letter or digit")
    return value


def _model_name(value: str) -> str:
    if not _MODEL_NAME.fullmatch(value):
        raise ValueError("a name without spaces, such as qwen2.5-7b-instruct")
    return value


def _variable_name(value: str) -> str:
    if not _VARIABLE_NAME.fullmatch(value):
        raise ValueError("the name of an environment variable, never the key itself")
    return value


def _base_url(value: str) -> str:
    wanted = "http(s)://HOST/... without a password, or local:POOL"
    if value.startswith(LOCAL_PREFIX):
        if not re.fullmatch(r"[a-z0-9][a-z0-9-]*", value.removeprefix(LOCAL_PREFIX)):
            raise ValueError(wanted)
        return value
    try:
        parts = urlsplit(value)
        usable = parts.scheme in ("http", "https") and parts.hostname and not parts.username and not parts.password
        usable = usable and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = False
    if not usable:
        raise ValueError(wanted)
    return value.rstrip("/")


def _options(value: dict[str, Any]) -> dict[str, Any]:
    reserved = sorted(RESERVED_OPTIONS & value.keys())
    if reserved:
        raise ValueError(f"options other than {', '.join(reserved)}, which the product sets itself")
    return value


def _encoder_model(value: Any, info: ValidationInfo) -> str:
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise ValueError(f"{DEFAULT_ENCODER}, a hub name such as Qwen/Qwen3-0.6B, or a folder")
    if value.startswith((".", "/")) or "${" in value:
        assert isinstance(info.context, Surroundings)
        return str(info.context.folder / expand(value, info.context.variables))
    return value


def _roles(value: tuple[Role, ...]) -> tuple[Role, ...]:
    if len(set(value)) != len(value) or Role.WORKER not in value:
        raise ValueError("each role at most once, worker among them: only a Worker answers")
    return tuple(role for role in ROLE_ORDER if role in value)


class PriceSection(Section):
    """USD per million tokens."""

    input: Money
    output: Money


class ModelSection(Section):
    name: Annotated[str, AfterValidator(_model_name)]
    model: Annotated[str, AfterValidator(_model_name)]
    price: PriceSection
    base_url: Annotated[str, AfterValidator(_base_url)] | None = None
    api_key_env: Annotated[str, AfterValidator(_variable_name)] | None = None
    options: Annotated[dict[str, Any], AfterValidator(_options)] = Field(default_factory=dict)


class EncoderSection(Section):
    model: Annotated[str, PlainValidator(_encoder_model)] = DEFAULT_ENCODER
    revision: Text | None = None
    position: Literal["penultimate", "last"] = "penultimate"
    max_tokens: int = Field(default=4096, ge=16, le=131_072)
    item_tokens: int = Field(default=512, ge=8, le=131_072)
    center: bool = False


class ProtocolSection(Section):
    roles: Annotated[
        tuple[Annotated[Role, Field(strict=False)], ...], Field(min_length=1, strict=False), AfterValidator(_roles)
    ] = ROLE_ORDER
    max_turns: int = Field(default=5, ge=1, le=100)
    max_output_tokens: Annotated[Positive, Field(le=1_000_000)] = 4096
    temperature: float = Field(default=0.1, ge=0, le=2, allow_inf_nan=False)
    thinker_sets_role: bool = True
    verifier_without_answer: VerifierWithoutAnswer = Field(default=VerifierWithoutAnswer.COUNT_AS_REVISE, strict=False)
    call_timeout_seconds: Seconds = 120.0
    episode_timeout_seconds: Seconds = 900.0

    @model_validator(mode="after")
    def _episode_holds_a_call(self) -> Self:
        if self.episode_timeout_seconds < self.call_timeout_seconds:
            raise ValueError("an episode_timeout_seconds of at least call_timeout_seconds")
        return self


class SearchSection(Section):
    """Defaults are the paper's: 60 iterations, 16 replicates, sigma 0.1, population from the dimension."""

    population: AutoOrPositive = None
    replicates: Annotated[Positive, Field(le=100_000)] = 16
    generations: Annotated[Positive, Field(le=1_000_000)] = 60
    sigma0: float = Field(default=0.1, gt=0, le=1e6, allow_inf_nan=False)
    minibatch: Literal["common", "fresh"] = "common"


class ValidationSection(Section):
    every: Positive = 5
    problems: Count = 0


class EvaluationSection(Section):
    problems: Count = 0
    baselines: tuple[Literal["single", "random"], ...] = Field(default=("single", "random"), strict=False)


class SpendSection(Section):
    """Limits that the file and the record both have; None is unlimited."""

    calls: Annotated[Whole, Field(ge=1, lt=2**62)] | None = None
    tokens: Annotated[Whole, Field(ge=1, lt=2**62)] | None = None
    usd: Money | None = None


class BudgetSection(SpendSection):
    episodes: AutoOrPositive = None
    hours: Annotated[float, Field(gt=0, le=LONGEST_HOURS, allow_inf_nan=False)] | None = None


class TopSection(Section):
    """Fields that stand in no section, the same in the file and in the record."""

    seed: Seed = 0
    max_attempts: int = Field(default=5, ge=1, le=100)
    max_failure_share: Share = 0.5
    weight: Weight = 1.0


class CampaignFile(TopSection):
    """A whole campaign file, checked field by field; ``services.config.campaign`` checks what spans sections."""

    name: Annotated[str, AfterValidator(_campaign_name)]
    problems: ProblemsSection
    pool: tuple[ModelSection, ...] = Field(min_length=1, max_length=100, strict=False)
    encoder: EncoderSection = EncoderSection()
    protocol: ProtocolSection = ProtocolSection()
    search: SearchSection = SearchSection()
    validation: ValidationSection = ValidationSection()
    evaluation: EvaluationSection = EvaluationSection()
    budget: BudgetSection = BudgetSection()
