"""From what a campaign file says about singular values to the matrices of the encoder at hand."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from services.core.architecture import EMBEDDING, FAMILIES, LAYER_MATRICES, OUTPUT, Architecture
from services.core.campaign import Matrix
from services.core.errors import SpecError

NONE = "none"
SECOND_TO_LAST_LAYER = "second_to_last_layer"
AUTHORS_NINE = "authors_nine"
CHOICES = (NONE, SECOND_TO_LAST_LAYER, AUTHORS_NINE)

FIELD = "encoder.singular_values"

_LAYER = re.compile(r"layers\.(-[0-9]{1,6})\.(.+)")


def resolve_matrices(choice: str | Sequence[str], architecture: Architecture) -> tuple[Matrix, ...]:
    """Return the matrices in the order of theta.

    Args:
        choice: one of CHOICES, or names such as ``layers.-2.mlp.up_proj``; negative layers count from the last one.
        architecture: of the encoder.

    Raises:
        SpecError: the encoder's family is not known, it has no such matrix, or one is named twice.
    """
    if choice == NONE:
        return ()
    if architecture.decoder is None:
        wanted = f"none: matrices of {architecture.family} models are not known, only of {', '.join(FAMILIES)} models"
        raise SpecError(FIELD, choice, wanted)
    known, layers = architecture.matrices(), architecture.decoder.layers
    given = _names(choice, layers)
    names = [_counted_from_the_front(name, layers) for name in given]
    for index, name in enumerate(names):
        where = FIELD if isinstance(choice, str) else f"{FIELD}.{index}"
        if name not in known:
            raise SpecError(where, given[index], _there_is(known, layers))
        if name in names[:index]:
            raise SpecError(where, given[index], f"each matrix once; {name} is entry {names.index(name)} already")
    return tuple(known[name] for name in names)


def _names(choice: str | Sequence[str], layers: int) -> list[str]:
    inner = [f"layers.{layers - 2}.{name}" for name in LAYER_MATRICES]
    if choice == SECOND_TO_LAST_LAYER:
        return inner
    if choice == AUTHORS_NINE:
        return [EMBEDDING, *inner, OUTPUT]
    return list(choice)


def _counted_from_the_front(name: str, layers: int) -> str:
    match = _LAYER.fullmatch(name)
    return f"layers.{layers + int(match[1])}.{match[2]}" if match else name


def _there_is(known: Mapping[str, Matrix], layers: int) -> str:
    inner = ", ".join(LAYER_MATRICES)
    outer = ", ".join(name for name in known if not name.startswith("layers."))
    return f"{outer}, or layers.N.NAME with N from 0 to {layers - 1} (or -{layers} to -1) and NAME one of {inner}"
