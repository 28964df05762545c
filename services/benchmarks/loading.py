"""Benchmarks of a campaign: their splits, cut as the campaign says, and merged so that none of them comes late."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from services.benchmarks import manifest
from services.benchmarks.catalogue import benchmark
from services.benchmarks.folders import Opened, absent, open_folder
from services.benchmarks.record import Choices
from services.core.errors import SpecError
from services.core.problem import Problem, Split
from services.core.problem_source import BenchmarkProblems, BenchmarkSet

# Held-out problems come first: what stands in two splits is taken out of the later one.
ORDER = (Split.HELDOUT, Split.VALIDATION, Split.TRAINING)

Splits = dict[Split, list[Problem]]


@dataclass(frozen=True)
class Place:
    """A set of the campaign file and where it stands there."""

    index: int
    asked: BenchmarkSet

    def field(self, name: str) -> str:
        return f"problems.sets.{self.index}.{name}"

    def most(self, split: Split) -> int | None:
        limits = {
            Split.TRAINING: self.asked.training,
            Split.VALIDATION: self.asked.validation,
            Split.HELDOUT: self.asked.heldout,
        }
        return limits[split]


def load(source: BenchmarkProblems) -> Splits:
    """Return the three splits. No question is in two of them, and any stretch of one holds its sets in proportion.

    Raises:
        SpecError: an unknown or repeated benchmark, more problems wanted than there are, or a bad row.
        PrerequisiteMissing: a folder lacks what a wanted split is made of.
    """
    places = [Place(index, asked) for index, asked in enumerate(source.sets)]
    _require_each_once(places)
    dealt = [_dealt(place, source.seed) for place in places]
    seen: set[str] = set()
    for split in ORDER:
        fresh = [[one for one in splits[split] if one.question not in seen] for splits in dealt]
        seen.update(one.question for problems in fresh for one in problems)
        for splits, problems in zip(dealt, fresh, strict=True):
            splits[split] = problems
    cut = [_cut(place, splits) for place, splits in zip(places, dealt, strict=True)]
    if source.balance:
        _balance(cut)
    return {split: _merged([splits[split] for splits in cut]) for split in Split}


def splits_of(opened: Opened) -> Splits:
    """Return the splits of one benchmark as its own rule deals them."""
    parts = {name: [item.problem for item in items] for name, items in opened.items.items()}
    dealt = opened.benchmark.deal(parts)
    return {split: list(dealt.get(split, ())) for split in Split}


def resolved(source: BenchmarkProblems) -> BenchmarkProblems:
    """Return the source with the hub data set of each set and the revision in its folder, for the campaign's record."""
    return replace(source, sets=tuple(_described(one) for one in source.sets))


def _described(one: BenchmarkSet) -> BenchmarkSet:
    found = manifest.read(one.folder)
    return replace(one, hub=benchmark(one.name).hub, revision=None if found is None else found.revision)


def _require_each_once(places: Sequence[Place]) -> None:
    names = [place.asked.name for place in places]
    for place in places:
        benchmark(place.asked.name, place.field("name"))
        if place.asked.name in names[: place.index]:
            raise SpecError(place.field("name"), place.asked.name, "each benchmark once")


def _dealt(place: Place, seed: int) -> Splits:
    asked = place.asked
    most = None if asked.test_megabytes is None else asked.test_megabytes * 1_000_000
    opened = open_folder(benchmark(asked.name), asked.folder, Choices(seed, asked.packages, most))
    wanted = {split for split in Split if place.most(split) != 0}
    lacking = [part for part in opened.missing if wanted & set(part.feeds)]
    if lacking:
        raise absent(opened.benchmark, asked.folder, lacking)
    return _without(place, splits_of(opened))


def _without(place: Place, splits: Splits) -> Splits:
    known = {problem.key for problems in splits.values() for problem in problems}
    for key in place.asked.exclude:
        if key not in known:
            raise SpecError(place.field("exclude"), key, f"keys of problems of {place.asked.name} in some split")
    return {split: [one for one in found if one.key not in place.asked.exclude] for split, found in splits.items()}


def _cut(place: Place, splits: Mapping[Split, list[Problem]]) -> Splits:
    for split, problems in splits.items():
        most = place.most(split)
        if most is not None and most > len(problems):
            wanted = f"at most the {len(problems)} {split} problems that {place.asked.name} has in {place.asked.folder}"
            raise SpecError(place.field(split), most, wanted)
    return {split: problems[: place.most(split)] for split, problems in splits.items()}


def _balance(cut: Sequence[Splits]) -> None:
    """Cut the training problems of every set that has some to the smallest of them."""
    smallest = min((len(splits[Split.TRAINING]) for splits in cut if splits[Split.TRAINING]), default=0)
    for splits in cut:
        splits[Split.TRAINING] = splits[Split.TRAINING][:smallest]


def _merged(columns: Sequence[Sequence[Problem]]) -> list[Problem]:
    """Merge evenly: the k-th of m problems stands at (k + 1/2) / m of the row."""
    placed = [
        ((rank + 0.5) / len(column), index, problem)
        for index, column in enumerate(columns)
        for rank, problem in enumerate(column)
    ]
    return [problem for _, _, problem in sorted(placed, key=lambda one: one[:2])]
