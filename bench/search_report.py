"""Measures and prints what bench/search.py is about."""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from bench.search_adaptive import adaptive
from bench.search_levers import levers
from bench.search_objectives import KINDS, Common, Kinds
from bench.search_runs import DRAWS, Found, methods, ours, settings_for
from services.core.statistics.intervals import mean_interval

N = 10_240
COMPARED = 3  # instances of a comparison
STUDIED = 16  # instances on which settings are compared


def main(description: str | None) -> int:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, help="instances of each objective (default 3, of a study 16)")
    parser.add_argument("--first", type=int, default=0, help="seed of the first instance")
    parser.add_argument("--objective", choices=KINDS, help="one of the two alone")
    parser.add_argument("--levers", action="store_true", help="one setting changed at a time instead")
    parser.add_argument("--adaptive", action="store_true", help="bad candidates dropped early instead")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    kinds = KINDS if given.objective is None else {given.objective: KINDS[given.objective]}
    before, begun = os.getloadavg()[0], time.process_time()
    if given.levers or given.adaptive:
        study = levers if given.levers else adaptive
        result: dict[str, Any] = study(instances_of(given.first, given.seeds or STUDIED), N, kinds)
    else:
        result = compared(instances_of(given.first, given.seeds or COMPARED), N, kinds)
    result |= {
        "draws": DRAWS,
        "cpu_s": round(time.process_time() - begun, 1),
        "load_1m": [round(before, 2), round(os.getloadavg()[0], 2)],
        "cores": os.cpu_count(),
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
        "versions": {name: _version(name) for name in ("numpy", "cma", "cmaes")},
    }
    print(json.dumps(result) if given.json else "\n".join(_lines(result)))
    return 0


def instances_of(first: int, count: int) -> range:
    return range(first, first + count)


def compared(instances: Sequence[int], n: int, kinds: Kinds) -> dict[str, Any]:
    """Return our figures and the rivals'.

    Args:
        instances: seeds of the objectives and of the runs.
        n: dimension.
        kinds: the objectives.
    """
    result: dict[str, Any] = {"instances": len(instances)}
    gaps: list[float] = []
    rivals: dict[str, Any] = {}
    for name, kind in kinds.items():
        objectives = [(seed, kind(n, seed)) for seed in instances]
        found = [ours(objective, seed) for seed, objective in objectives]
        result |= _own(name, found)
        gaps.append(float(np.mean([one.reported - one.released for one in found])))
        if name == "head":
            shared = [
                ours(objective, seed, settings_for(objective, Common.SEEDS)).value for seed, objective in objectives
            ]
            result["head_j_common_seeds"] = _told(shared)
        rivals[name] = {
            rival: _told([dict(methods(objective))[rival](seed).value for seed, objective in objectives])
            for rival, _ in methods(objectives[0][1])
        }
    worst = max(gaps, key=abs)
    return result | {"reported_minus_true": round(worst, 4), "rivals": rivals}


def _own(name: str, found: Sequence[Found]) -> dict[str, Any]:
    return {
        f"{name}_j": round(float(np.mean([one.value for one in found])), 4),
        f"{name}_j_each": _told([one.value for one in found]),
        f"{name}_released": _told([one.released for one in found]),
        f"{name}_reported_minus_true": _told([one.reported - one.released for one in found]),
        f"{name}_luckiest_minus_true": _told([one.claimed - one.luckiest for one in found]),
    }


def _told(values: Sequence[float]) -> dict[str, Any]:
    """Return mean and, of ten instances or more, its 95 % bootstrap interval; of fewer the values."""
    told: dict[str, Any] = {"mean": round(float(np.mean(values)), 4)}
    if len(values) < 10:
        return told | {"each": [round(value, 4) for value in values]}
    interval = mean_interval(values, 0)
    return told | {"interval": [round(interval.low, 4), round(interval.high, 4)]}


def _lines(result: dict[str, Any]) -> list[str]:
    lines = []
    for name, value in result.items():
        if isinstance(value, dict) and value and all(isinstance(one, dict) for one in value.values()):
            lines += [name] + [f"  {inner:38} {one}" for inner, one in value.items()]
        else:
            lines.append(f"{name:40} {value}")
    return lines


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed: left out"
