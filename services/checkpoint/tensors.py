"""theta as named float32 tensors: one for each matrix whose singular values are searched, one for each head block."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load, save

from services.core.errors import LayoutMismatch, SpecError
from services.core.policy.layout import Layout

SVF = "svf"
FILE = "coordinator.safetensors"

_NAMED = 5  # tensors of another length that an error names


def sizes_of(layout: Layout) -> dict[str, int]:
    """Return the tensors' names and lengths in the order of theta; an empty block has no tensor."""
    sizes: dict[str, int] = {}
    for block, size in layout.blocks.items():
        if block == SVF:
            sizes |= {f"{SVF}.{matrix.name}": matrix.size for matrix in layout.matrices}
        elif size:
            sizes[block] = size
    return sizes


def pack(theta: npt.NDArray[Any], layout: Layout) -> bytes:
    """Return theta, shape (layout.size,), as a safetensors file. Raises LayoutMismatch."""
    blocks = layout.split(np.asarray(theta, dtype="<f4"))
    in_order = np.concatenate([blocks[block] for block in layout.blocks])
    sizes = sizes_of(layout)
    ends = np.cumsum(list(sizes.values()))
    parts = np.split(in_order, ends[:-1])
    return bytes(save({name: np.ascontiguousarray(part) for name, part in zip(sizes, parts, strict=True)}))


def unpack(data: bytes, layout: Layout) -> npt.NDArray[np.float32]:
    """Return theta, float32 of shape (layout.size,).

    Raises:
        LayoutMismatch: a tensor is missing, unknown or of another length.
        SpecError: no safetensors file, or one with other numbers than finite float32 in rows of one dimension.
    """
    try:
        found: dict[str, npt.NDArray[Any]] = load(data)
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise SpecError(FILE, f"{error}"[:200], "a complete safetensors file") from error
    wanted = sizes_of(layout)
    _require_sizes(wanted, {name: int(tensor.size) for name, tensor in found.items()})
    for name, tensor in found.items():
        if tensor.dtype != np.float32 or tensor.ndim != 1:
            raise SpecError(f"{FILE}: {name}", f"{tensor.dtype} of shape {tensor.shape}", "float32 of one dimension")
        if not np.isfinite(tensor).all():
            raise SpecError(f"{FILE}: {name}", "NaN or infinity", "finite numbers")
    theta: npt.NDArray[np.float32] = np.concatenate([found[name] for name in wanted]).astype(np.float32)
    return theta


def _require_sizes(wanted: dict[str, int], found: dict[str, int]) -> None:
    differing = [name for name in sorted({*wanted, *found}) if wanted.get(name) != found.get(name)]
    if differing:
        parts = [f"{name!r} has {found.get(name, 'no')} entries, not {wanted.get(name, 'any')}" for name in differing]
        more = f", and {len(parts) - _NAMED} more" if len(parts) > _NAMED else ""
        raise LayoutMismatch(wanted, sum(found.values()), ", ".join(parts[:_NAMED]) + more)
