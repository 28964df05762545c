"""Measures and prints what bench/scoring.py is about."""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.scoring_mathematics import measure_mathematics
from bench.scoring_sandbox import measure_sandbox

ROOT = Path(__file__).resolve().parents[1]

# Each part returns its own figures, given the folder of data and whether it may take long.
PARTS: tuple[Callable[[Path, bool], dict[str, Any]], ...] = (
    measure_mathematics,
    lambda data, full: measure_sandbox(1000 if full else 100),
)


def main(description: str | None) -> int:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = Path(os.environ.get("TRINITY_DATA_DIR") or ROOT.parent / "shared" / "data")
    parser.add_argument("--data", type=Path, default=data, help="folder with math500 and replay")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    before = os.getloadavg()[0]
    result: dict[str, Any] = {}
    for part in PARTS:
        result |= part(given.data, given.full)
    result |= {
        "load_1m": [round(before, 2), round(os.getloadavg()[0], 2)],
        "cores": os.cpu_count(),
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
    }
    lines = [json.dumps(result)] if given.json else [f"{name:32} {value}" for name, value in result.items()]
    print("\n".join(lines))
    return 0
