"""Field types shared by the files that people write: strict, with the wanted value in words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator, ValidationInfo

PRICE_DECIMALS = 6  # makes the cost of a call exact, see services.core.ledger.price
LARGEST_AMOUNT = Decimal(10**6)
LARGEST_WEIGHT = 1000

# What looks like a key, or like the part of an address that carries one.
SECRET = re.compile(
    r"\bsk-[\w-]{6,}|\bAIza[\w-]{20,}|\bbearer\s|[?&;][\w-]*(key|token|secret|passw\w*)=", re.IGNORECASE
)

_VARIABLE = re.compile(r"\$\{([^}]*)\}")


class Section(BaseModel):
    """A part of a file: unknown keys are refused, nothing is coerced, nothing changes afterwards."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", hide_input_in_errors=True)


@dataclass(frozen=True)
class Surroundings:
    """What a file's meaning depends on besides its text: its folder and the variables for ``${NAME}``."""

    folder: Path
    variables: Mapping[str, str]


def _whole(value: Any) -> Any:
    # 1e6 is how people write a million tokens, and YAML makes it a float.
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _decimal(value: Any) -> Decimal:
    wanted = f"a number from 0 to {LARGEST_AMOUNT} with at most {PRICE_DECIMALS} decimals"
    if isinstance(value, Decimal):
        amount = value
    elif isinstance(value, int | float) and not isinstance(value, bool):
        amount = Decimal(str(value))  # the shortest text of the float, which is what stood in the file
    else:
        raise ValueError(wanted)
    if not amount.is_finite() or not 0 <= amount <= LARGEST_AMOUNT:
        raise ValueError(wanted)
    if amount != round(amount, PRICE_DECIMALS):
        raise ValueError(wanted)
    return amount


def _auto_or_whole(value: Any) -> int | None:
    whole = _whole(value)
    if whole == "auto":
        return None
    if isinstance(whole, int) and not isinstance(whole, bool) and 1 <= whole < 2**31:
        return whole
    raise ValueError("auto or a whole number of at least 1")


def _amount(value: Any) -> int | float:
    if isinstance(value, float) and 0 < value < 1:
        return value
    whole = _whole(value)
    if isinstance(whole, int) and not isinstance(whole, bool) and whole >= 0:
        return whole
    raise ValueError("a number of problems, or a share between 0 and 1")


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace every ``${NAME}``.

    Raises:
        ValueError: a variable is not set or empty; the message says which.
    """

    def value_of(match: re.Match[str]) -> str:
        if not variables.get(match[1]):
            raise ValueError(f"a path whose variables are set; set {match[1]} to the folder it stands for")
        return variables[match[1]]

    return _VARIABLE.sub(value_of, text)


def _path(value: Any, info: ValidationInfo) -> Path:
    if not isinstance(value, str) or not value or "\0" in value:
        raise ValueError("the path of a file")
    surroundings = info.context
    assert isinstance(surroundings, Surroundings)
    return surroundings.folder / expand(value, surroundings.variables)


Whole = Annotated[int, BeforeValidator(_whole)]
Count = Annotated[int, BeforeValidator(_whole), Field(ge=0, lt=2**31)]
Positive = Annotated[int, BeforeValidator(_whole), Field(ge=1, lt=2**31)]
Seed = Annotated[int, BeforeValidator(_whole), Field(ge=0, lt=2**63)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Weight = Annotated[float, Field(gt=0, le=LARGEST_WEIGHT, allow_inf_nan=False)]
Seconds = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]
Money = Annotated[Decimal, PlainValidator(_decimal)]
AutoOrPositive = Annotated[int | None, PlainValidator(_auto_or_whole)]
AmountOfProblems = Annotated[int | float, PlainValidator(_amount)]
FilePath = Annotated[Path, PlainValidator(_path)]
Text = Annotated[str, Field(min_length=1, max_length=1000)]
