"""theta as named float32 tensors: one for each matrix whose singular values are searched, one for each head part."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load, save

from services.core.errors import LayoutMismatch, SpecError
from services.core.policy.layout import Layout

FILE = "coordinator.safetensors"

_NAMED = 5  # tensors of another length that an error names


def shapes_of(layout: Layout) -> dict[str, tuple[int, ...]]:
    """Return the tensors' names and shapes in the order of theta.

    Raises:
        SpecError: the head cannot have this width or rank.
    """
    matrices = {f"svf.{matrix.name}": (matrix.size,) for matrix in layout.matrices}
    return matrices | {f"head.{name}": tuple(shape) for name, shape in layout.head.shapes.items()}


def pack(theta: npt.NDArray[Any], layout: Layout) -> bytes:
    """Return theta, shape (layout.size,), as a safetensors file. Raises LayoutMismatch."""
    shapes = shapes_of(layout)
    ordered = np.asarray(theta, dtype="<f4")
    layout.split(ordered)
    ends = np.cumsum([math.prod(shape) for shape in shapes.values()])
    parts = zip(shapes.items(), np.split(ordered, ends[:-1]), strict=True)
    return bytes(save({name: np.ascontiguousarray(part).reshape(shape) for (name, shape), part in parts}))


def unpack(data: bytes, layout: Layout) -> npt.NDArray[np.float32]:
    """Return theta, float32 of shape (layout.size,).

    Raises:
        LayoutMismatch: a tensor is missing, unknown or of another length.
        SpecError: no safetensors file, or one with another type or shape than the layout's, or NaN or infinity.
    """
    try:
        found: dict[str, npt.NDArray[Any]] = load(data)
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise SpecError(FILE, f"{error}"[:200], "a complete safetensors file") from error
    wanted = shapes_of(layout)
    _require_sizes(
        {name: math.prod(shape) for name, shape in wanted.items()},
        {name: int(tensor.size) for name, tensor in found.items()},
    )
    for name, shape in wanted.items():
        tensor = found[name]
        if tensor.dtype != np.float32 or tensor.shape != shape:
            raise SpecError(f"{FILE}: {name}", f"{tensor.dtype} of shape {tensor.shape}", f"float32 of shape {shape}")
        if not np.isfinite(tensor).all():
            raise SpecError(f"{FILE}: {name}", "NaN or infinity", "finite numbers")
    return np.concatenate([found[name].reshape(-1) for name in wanted]).astype(np.float32)


def _require_sizes(wanted: dict[str, int], found: dict[str, int]) -> None:
    differing = [name for name in sorted({*wanted, *found}) if wanted.get(name) != found.get(name)]
    if differing:
        parts = [f"{name!r} has {found.get(name, 'no')} entries, not {wanted.get(name, 'any')}" for name in differing]
        more = f", and {len(parts) - _NAMED} more" if len(parts) > _NAMED else ""
        raise LayoutMismatch(wanted, sum(found.values()), ", ".join(parts[:_NAMED]) + more)
