"""From measured seeds to rows: means with intervals over seeds and questions, paired where policies are compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from bench.comparison_game import Float64, Indices
from bench.comparison_measure import Measured
from services.core.statistics.crossed import crossed_interval
from services.core.statistics.intervals import Interval

SEED = 7  # of the resampling


@dataclass
class Entry:
    """What one policy came to under every seed.

    Attributes:
        name: in tables.
        kind: ``learner``, ``rival`` or ``bound``.
        note: what to know about it.
        measured: for every seed.
        booked: training episodes, labels included, for every seed; likewise those of validation.
        curves: for every seed, (episodes, validation score).
    """

    name: str
    kind: str
    note: str = ""
    measured: list[Measured] = field(default_factory=list)
    booked: list[int] = field(default_factory=list)
    validation: list[int] = field(default_factory=list)
    curves: list[tuple[tuple[int, float], ...]] = field(default_factory=list)


@dataclass(frozen=True)
class Row:
    """An entry's figures; intervals are 95 %.

    Attributes:
        reward: mean over seeds and held-out questions.
        over_single: minus the best single model, on the same questions.
        over_domain: minus the best model per domain, likewise.
        recovered: over_single as a share of what best per domain has over best single; None where that is nothing.
    """

    name: str
    kind: str
    note: str
    reward: Interval
    over_single: Interval
    over_domain: Interval
    recovered: float | None
    calls: float
    turns: float
    usd_per_1000: float
    booked: float
    validation: float


def rows(
    entries: Mapping[str, Entry], heldout: Sequence[Indices], questions: int, single: str, domain: str
) -> list[Row]:
    """Return the table, the best first.

    Args:
        entries: by name.
        heldout: the held-out questions of every seed.
        questions: of the set.
        single: name of the entry that is the best single model.
        domain: of the best model per domain.
    """
    room = _mean(entries[domain]) - _mean(entries[single])
    found = []
    for entry in entries.values():
        own = [each.rewards for each in entry.measured]
        over = [_over(entry, entries[other], heldout, questions) for other in (single, domain)]
        found.append(
            Row(
                entry.name,
                entry.kind,
                entry.note,
                crossed_interval(_table(own, heldout, questions), SEED),
                over[0],
                over[1],
                over[0].estimate / room if room > 0 else None,
                float(np.mean([each.calls.mean() for each in entry.measured])),
                float(np.mean([each.turns.mean() for each in entry.measured])),
                1000 * float(np.mean([each.usd.mean() for each in entry.measured])),
                float(np.mean(entry.booked)),
                float(np.mean(entry.validation)),
            )
        )
    return sorted(found, key=lambda row: -row.reward.estimate)


def _over(entry: Entry, other: Entry, heldout: Sequence[Indices], questions: int) -> Interval:
    pairs = zip(entry.measured, other.measured, strict=True)
    return crossed_interval(_table([one.rewards - two.rewards for one, two in pairs], heldout, questions), SEED)


def _table(values: Sequence[Float64], heldout: Sequence[Indices], questions: int) -> Float64:
    """Return values by seed and question, NaN where a question is not held out."""
    table = np.full((len(values), questions), np.nan)
    for row, (found, chosen) in enumerate(zip(values, heldout, strict=True)):
        table[row, chosen] = found
    return table[:, ~np.isnan(table).all(axis=0)]


def _mean(entry: Entry) -> float:
    return float(np.mean([each.rewards.mean() for each in entry.measured]))
