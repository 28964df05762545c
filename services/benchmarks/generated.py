"""Generated problems: reasoning-gym data sets with exact answers, seeded, no question twice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count, islice
from typing import Any

from services.core import seeds
from services.core.errors import PrerequisiteMissing, SpecError
from services.core.families import FAMILIES, Family, solve
from services.core.problem import Problem, Split
from services.core.problem_source import GeneratedFamily, GeneratedProblems

# Optional: a campaign on files runs without it.
try:
    import reasoning_gym
except ImportError:  # pragma: no cover
    reasoning_gym = None

BATCH = 256
# A family whose last five batches brought nothing new is taken to be exhausted.
PATIENCE = 5

# Held-out problems come first in each family's stream: they stay the same when more training problems are asked for.
STREAM_ORDER = (Split.HELDOUT, Split.VALIDATION, Split.TRAINING)


def load(source: GeneratedProblems) -> dict[Split, list[Problem]]:
    """Return the three splits; families take turns, so that every prefix of a split is balanced.

    Raises:
        SpecError: an unknown or repeated family, options that the generator refuses, or too few different questions.
    """
    if reasoning_gym is None:
        cure = "install it with the `problems` extra: pip install 'trinity-coordinator[problems]'"
        raise PrerequisiteMissing("generated problems need the package reasoning-gym", cure)
    _require_families(source)
    sizes = {Split.TRAINING: source.training, Split.VALIDATION: source.validation, Split.HELDOUT: source.heldout}
    streams = [_stream(source.seed, index, family) for index, family in enumerate(source.families)]
    return {split: _balanced(streams, sizes[split], source) for split in STREAM_ORDER}


def _require_families(source: GeneratedProblems) -> None:
    seen: set[str] = set()
    for index, family in enumerate(source.families):
        if family.name not in FAMILIES:
            wanted = f"one of {', '.join(FAMILIES)}"
            raise SpecError(f"problems.families.{index}.name", family.name, wanted)
        if family.name in seen:
            raise SpecError(f"problems.families.{index}.name", family.name, "each family once")
        seen.add(family.name)


def _balanced(streams: list[Iterator[Problem]], size: int, source: GeneratedProblems) -> list[Problem]:
    columns = []
    for index, stream in enumerate(streams):
        share = size // len(streams) + (index < size % len(streams))
        column = list(islice(stream, share))
        if len(column) < share:
            family = source.families[index]
            wanted = "options that allow more different questions, or smaller splits"
            raise SpecError(f"problems.families.{index}", f"{family.name} with {dict(family.options)}", wanted)
        columns.append(column)
    return [column[row] for row in range(len(columns[0])) for column in columns if row < len(column)]


def _stream(seed: int, index: int, asked: GeneratedFamily) -> Iterator[Problem]:
    """Yield different, solvable problems of one family, in an order that only the seed and the options decide."""
    family = FAMILIES[asked.name]
    options = {**family.config, **asked.options}
    seen: set[str] = set()
    fruitless = 0
    for batch in count():
        found = len(seen)
        for question, answer in _items(seeds.derive(seed, "generated", asked.name, batch), index, family, options):
            if question not in seen:
                seen.add(question)
                key = f"{asked.name}-{len(seen)}"
                yield Problem(key, asked.name, question, family.scorer, answer)
        fruitless = fruitless + 1 if len(seen) == found else 0
        if fruitless == PATIENCE:
            return


def _items(seed: int, index: int, family: Family, options: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    try:
        dataset = reasoning_gym.create_dataset(family.name, seed=seed % 2**32, size=BATCH, **options)
    except (AssertionError, TypeError, ValueError) as error:
        reason = str(error).split("\n")[0] or "the generator refuses them"
        wanted = f"options that the generator {family.name} takes: {reason}"
        raise SpecError(f"problems.families.{index}.options", dict(options), wanted) from error
    for place in range(BATCH):
        question = str(dataset[place]["question"]).strip()
        # The answer is worked out again from the text: what reads ambiguously is no problem with an exact answer.
        solution = solve(question)
        if solution is not None and solution.family.name == family.name:
            yield question, solution.answer
