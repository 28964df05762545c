"""What a device can do at best, measured, and what a decision demands of it, counted."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

Work = Callable[[], object]


@dataclass(frozen=True)
class Ceilings:
    """Operations and bytes a second."""

    flops: float
    bandwidth: float


@dataclass(frozen=True)
class Demand:
    """Of one decision: floating-point operations, and bytes that must be moved."""

    flops: float
    bytes: float

    def seconds(self, ceilings: Ceilings) -> float:
        """Return the time below which no implementation can go: the longer of arithmetic and traffic."""
        return max(self.flops / ceilings.flops, self.bytes / ceilings.bandwidth)


def wait(device: str) -> None:
    """Return when the device has done all it was given; kernels are launched ahead of their end."""
    if device != "cpu":
        torch.cuda.synchronize(device)


def median_seconds(work: Work, device: str, *, least: int = 3, most: int = 20, seconds: float = 1.0) -> float:
    """Return the median time of ``work`` after one call that is not counted, from start to the device's end."""
    work()
    times: list[float] = []
    while len(times) < least or (len(times) < most and sum(times) < seconds):
        wait(device)
        begun = time.perf_counter()
        work()
        wait(device)
        times.append(time.perf_counter() - begun)
    return statistics.median(times)


def ceilings(device: str, dtype: torch.dtype, *, side: int, copied: int, times: int) -> Ceilings:
    """Measure ``times`` products of square matrices and copies in a row, so that launching them does not count."""
    one, other = (torch.randn(side, side, device=device).to(dtype) for _ in range(2))
    product = torch.empty_like(one)
    source = torch.ones(copied, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)

    def multiply() -> None:
        for _ in range(times):
            torch.mm(one, other, out=product)

    def copy() -> None:
        for _ in range(times):
            target.copy_(source)

    return Ceilings(
        times * 2 * side**3 / median_seconds(multiply, device), times * 2 * copied / median_seconds(copy, device)
    )


def demand(config: Any, new: int, known: int, company: int, number_bytes: int) -> Demand:
    """Return what a decision of ``new`` tokens after ``known`` ones demands, read beside ``company`` - 1 others.

    With d hidden units, f inner ones, L layers, H query heads and K key heads of size s, a layer's matrices have
    W = 2dHs + 2dKs + 3df entries, of which KV = 2dKs make keys and values. Operations: in L - 1 layers 2W a new token
    and 4Hs for each of the tokens it looks at; in the last layer keys and values of all new tokens, and the rest for
    one row. Bytes: L matrices once for the whole company, and keys and values of all tokens. Making a candidate's
    weights is not counted.
    """
    size, layers, width = config.head_dim, config.num_hidden_layers, config.hidden_size
    queries, keys = config.num_attention_heads * size, config.num_key_value_heads * size
    pairs = 2 * width * keys
    matrices = 2 * width * queries + pairs + 3 * width * config.intermediate_size
    looks = new * known + new * (new + 1) // 2
    linear = 2 * new * ((layers - 1) * matrices + pairs) + 2 * (matrices - pairs)
    attention = 4 * queries * ((layers - 1) * looks + known + new)
    moved = layers * matrices / company + 2 * layers * keys * (known + new)
    return Demand(linear + attention, number_bytes * moved)
