"""A benchmark's folder: which files hold which part, and the items in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from services.benchmarks.jsonl import Line
from services.benchmarks.record import Benchmark, Choices, Item, LeftOut, Part
from services.benchmarks.tables import rows
from services.core.errors import PrerequisiteMissing


@dataclass(frozen=True)
class Opened:
    """What a folder has of a benchmark.

    Attributes:
        benchmark: the benchmark.
        folder: the folder.
        files: the files of each part that is there.
        rows: how many rows each part has.
        items: the items of each part.
        left_out: how many rows were left out, by reason.
    """

    benchmark: Benchmark
    folder: Path
    files: Mapping[str, Sequence[Path]]
    rows: Mapping[str, int]
    items: Mapping[str, Sequence[Item]]
    left_out: Mapping[str, int]

    @property
    def missing(self) -> tuple[Part, ...]:
        """The parts that the folder does not have and some split needs."""
        return tuple(part for part in self.benchmark.parts if part.feeds and part.name not in self.files)


def find(part: Part, folder: Path) -> list[Path]:
    """Return the files of a part: the hub's own if all are there, else those of the first pattern that fits any."""
    hub = [folder / file.path for file in part.hub]
    if hub and all(path.is_file() for path in hub):
        return hub
    fitting = (sorted(path for path in folder.glob(pattern) if path.is_file()) for pattern in part.local)
    return next((found for found in fitting if found), [])


def open_folder(benchmark: Benchmark, folder: Path, choices: Choices) -> Opened:
    """Read the parts of a benchmark that a folder has.

    Raises:
        PrerequisiteMissing: it has none of them; says how to get them.
        SpecError: a row that is not as the benchmark promises, or whose reference is no good; names file and row.
    """
    files = {part.name: found for part in benchmark.parts if (found := find(part, folder))}
    if not any(part.feeds and part.name in files for part in benchmark.parts):
        raise absent(benchmark, folder, benchmark.parts)
    counts: Counter[str] = Counter()
    lines = {name: _counted(name, paths, counts) for name, paths in files.items()}
    read = benchmark.read(lines, choices)
    left_out = Counter(one.reason for part in read.values() for one in part if isinstance(one, LeftOut))
    items = {name: [one for one in part if isinstance(one, Item)] for name, part in read.items()}
    return Opened(benchmark, folder, files, dict(counts), items, left_out)


def _counted(name: str, paths: Sequence[Path], counts: Counter[str]) -> Iterator[Line]:
    for line in chain.from_iterable(map(rows, paths)):
        counts[name] += 1
        yield line


def absent(benchmark: Benchmark, folder: Path, parts: Sequence[Part]) -> PrerequisiteMissing:
    """Return the error for parts that are not in a folder."""
    names = [name for part in parts if part.feeds for name in (*(file.path for file in part.hub), *part.local)]
    cure = f"`manage.py benchmark fetch {benchmark.name}`, or put one of {', '.join(names)} there"
    if benchmark.gated:
        cure = f"accept the terms at {benchmark.source}, set HF_TOKEN to your token of the hub, then {cure}"
    which = ", ".join(part.name for part in parts if part.feeds)
    return PrerequisiteMissing(f"{folder} has no file of {benchmark.title} ({which})", cure)
