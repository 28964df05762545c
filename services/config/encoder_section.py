"""What reads the conversation and what is trained on it, as a campaign file and the record describe them."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, PlainValidator, ValidationInfo, model_validator

from services.config.fields import Section, Surroundings, Text, expand
from services.config.presets import DEFAULT_ENCODER
from services.core.architecture import CHOICES
from services.core.campaign import HeadKind, Matrix, Norm, Output

LARGEST_RANK = 4096
LARGEST_MATRIX = 1 << 20


def _encoder_model(value: Any, info: ValidationInfo) -> str:
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise ValueError(f"{DEFAULT_ENCODER}, a hub name such as Qwen/Qwen3-0.6B, or a folder")
    if value.startswith((".", "/")) or "${" in value:
        assert isinstance(info.context, Surroundings)
        return str(info.context.folder / expand(value, info.context.variables))
    return value


def _matrix_names(value: Any) -> str | tuple[str, ...]:
    if isinstance(value, str) and value in CHOICES:
        return value
    if isinstance(value, list) and 1 <= len(value) <= 1000 and all(isinstance(name, str) and name for name in value):
        return tuple(value)
    raise ValueError(f"{', '.join(CHOICES)}, or a list of matrices such as [layers.-2.mlp.up_proj]")


def _matrices(value: tuple[Matrix, ...]) -> tuple[Matrix, ...]:
    if len({matrix.name for matrix in value}) != len(value):
        raise ValueError("each matrix once")
    if not all(1 <= matrix.size <= LARGEST_MATRIX for matrix in value):
        raise ValueError(f"matrices of 1 to {LARGEST_MATRIX} singular values")
    return value


class ReadingSection(Section):
    """What the file and the record both have; the fields without a default here have one in every preset."""

    model: Annotated[str, PlainValidator(_encoder_model)]
    revision: Text | None = None
    position: Literal["penultimate", "last"]
    max_tokens: int = Field(default=4096, ge=16, le=131_072)
    item_tokens: int = Field(default=512, ge=8, le=131_072)
    center: bool
    norm: Norm = Field(strict=False)


class EncoderSection(ReadingSection):
    singular_values: Annotated[str | tuple[str, ...], PlainValidator(_matrix_names)]


class RecordedEncoder(ReadingSection):
    """The encoder as the record has it: matrices by name and size."""

    singular_values: Annotated[tuple[Matrix, ...], AfterValidator(_matrices)]


class HeadSection(Section):
    """In the file a rank of None is the authors' smallest one, ``services.config.campaign`` fills it in."""

    kind: HeadKind = Field(strict=False)
    output: Output = Field(strict=False)
    rank: Annotated[int, Field(ge=1, le=LARGEST_RANK)] | None = None

    @model_validator(mode="after")
    def _only_one_kind_has_a_rank(self) -> Self:
        if self.rank is not None and self.kind is not HeadKind.LOW_RANK:
            raise ValueError("`rank` only beside `kind: low_rank`")
        return self


class RecordedHead(HeadSection):
    @model_validator(mode="after")
    def _low_rank_has_one(self) -> Self:
        if self.rank is None and self.kind is HeadKind.LOW_RANK:
            raise ValueError("a `rank` beside `kind: low_rank`")
        return self
