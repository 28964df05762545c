"""What the catalogue says of a benchmark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from services.benchmarks.jsonl import Line
from services.core.problem import Problem, ScorerKind, Split


@dataclass(frozen=True)
class HubFile:
    """A file of a hub data set; ``sha256`` where it is known beforehand."""

    path: str
    sha256: str | None = None


@dataclass(frozen=True)
class Part:
    """Rows that belong together, such as one split of the hub.

    Attributes:
        name: unique within the benchmark.
        rows: how many it has on the hub; None: not known.
        feeds: the splits it is needed for; none: it only adds to the others.
        hub: the hub's files with these rows.
        local: patterns of file names that also stand for it in a folder, tried in order after the hub's own.
    """

    name: str
    rows: int | None
    feeds: tuple[Split, ...]
    hub: tuple[HubFile, ...] = ()
    local: tuple[str, ...] = ()


@dataclass(frozen=True)
class Choices:
    """What a campaign may choose about how a benchmark is read.

    Attributes:
        seed: of the order of options that come unordered.
        packages: Python packages beyond the standard library that programs find where they run.
        test_characters: most characters of hidden tests that a problem keeps, the largest tests left out; None: all.
    """

    seed: int = 0
    packages: tuple[str, ...] = ()
    test_characters: int | None = None


@dataclass(frozen=True)
class Item:
    """A problem with the row it came from.

    Attributes:
        place: of the row, as ``file:number``; the row itself may be large.
        problem: the problem.
        solution: an answer that has to be graded as right; None where there is none.
    """

    place: str
    problem: Problem
    solution: str | None


@dataclass(frozen=True)
class LeftOut:
    """A row that the benchmark's own rules leave out; the reason is one of few, so that it can be counted."""

    reason: str


Rows = Mapping[str, Iterable[Line]]
Read = Mapping[str, Sequence[Item | LeftOut]]
Dealt = Mapping[Split, Sequence[Problem]]


@dataclass(frozen=True)
class Benchmark:
    """One benchmark.

    Attributes:
        name: in the catalogue, and of its folder.
        title: as people know it.
        hub: owner and name of the hub data set.
        revision: commit of the data set that is fetched; ``main`` is resolved to a commit when it is.
        licence: of the data, as their authors state it.
        scorer: how answers are judged.
        fields: that each row must have.
        splits: one sentence on which rows belong to which split.
        prompt: one sentence on what stands in the question.
        parts: its files.
        read: makes items of the rows of each part.
        deal: sorts the problems of each part into splits.
        filters: one sentence on rows that are left out; empty: none.
        gated: the hub asks for consent before it gives the files.
    """

    name: str
    title: str
    hub: str
    revision: str
    licence: str
    scorer: ScorerKind
    fields: tuple[str, ...]
    splits: str
    prompt: str
    parts: tuple[Part, ...]
    read: Callable[[Rows, Choices], Read] = field(compare=False)
    deal: Callable[[Mapping[str, Sequence[Problem]]], Dealt] = field(compare=False)
    filters: str = ""
    gated: bool = False

    @property
    def source(self) -> str:
        return f"https://huggingface.co/datasets/{self.hub}"


def each(make: Callable[[Line, str, Choices], Item | LeftOut]) -> Callable[[Rows, Choices], Read]:
    """Return a reader that makes one item of each row by itself; ``make`` gets the row and the name of its part."""

    def read(rows: Rows, choices: Choices) -> Read:
        return {part: [make(line, part, choices) for line in lines] for part, lines in rows.items()}

    return read
