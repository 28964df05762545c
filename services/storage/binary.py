"""Vectors as little-endian bytes and JSON as text: the two encodings that the tables use."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from services.storage.records import Float32, Float64
from services.storage.text_codec import escape_json, unescape_json


def pack64(vector: npt.NDArray[Any]) -> bytes:
    """Return a vector as float64, 8 bytes an entry."""
    return np.ascontiguousarray(vector, dtype="<f8").tobytes()


def unpack64(data: bytes) -> Float64:
    return np.frombuffer(data, dtype="<f8").astype(np.float64)


def pack32(vector: npt.NDArray[Any]) -> bytes:
    """Return a vector as float32, 4 bytes an entry; this is the precision in which a policy acts."""
    return np.ascontiguousarray(vector, dtype="<f4").tobytes()


def unpack32(data: bytes) -> Float32:
    return np.frombuffer(data, dtype="<f4").astype(np.float32)


def pack_json(value: Mapping[str, Any]) -> str:
    """Return a JSON object as text; NaN and infinity are refused (ValueError), they are not JSON."""
    return json.dumps(escape_json(dict(value)), allow_nan=False)


def unpack_json(value: Any) -> dict[str, Any]:
    """Return a JSON object as ``pack_json`` was given it; the driver has parsed it already."""
    unpacked: dict[str, Any] = unescape_json(value)
    return unpacked
