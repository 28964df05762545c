"""Whether the search's steps repeat, point uphill, and how far its scaling has come."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from services.core import seeds
from services.core.statistics import attenuation, steps, theory
from services.diagnosis import figures
from services.diagnosis.evidence import Evidence, SearchTrace
from services.diagnosis.noise import TOO_SMALL
from services.reports.diagnosis import Figure, Section, missing

Vector = NDArray[np.float64]


def section(evidence: Evidence) -> Section:
    """Step reproducibility, slope and curvature along directions found elsewhere, and proposition 2's figures."""
    parts = [*_reproducible(evidence), *_uphill(evidence), *_transient(evidence)]
    return Section("Steps of the search", tuple(parts))


def _reproducible(evidence: Evidence) -> list[Figure]:
    name = "split-half cosine of a step"
    trace = _drawn(evidence.trace)
    if not trace.rewards or min(trace.rewards[0].shape) < 2 or trace.rewards[0].shape[1] < 2:
        return [missing(name, TOO_SMALL)]
    values = np.array(
        [
            steps.split_half_cosine(samples, rewards, seeds.derive(evidence.seed, "halves", number))
            for number, (samples, rewards) in enumerate(zip(trace.samples, trace.rewards, strict=True))
        ]
    )
    remark = "same samples ranked by either half of the replicates; luck gives 0"
    return [
        figures.clustered(
            name, lambda chosen: float(values[chosen].mean()), len(values), evidence.seed, "generations", remark
        )
    ]


def _uphill(evidence: Evidence) -> list[Figure]:
    trace = _drawn(evidence.trace)
    if len(trace.samples) < 2:
        reason = f"{len(trace.samples)} closed generations; a direction from other generations needs two"
        return [missing("gamma sigma", reason), missing("curvature share", reason)]
    units = steps.directions(trace.samples, trace.fitness, evidence.seed)
    positions = [samples @ units[(number + 1) % 2] for number, samples in enumerate(trace.samples)]
    lengths = [(samples.astype(np.float64) ** 2).sum(axis=1) for samples in trace.samples]
    count, seed = len(positions), evidence.seed

    def estimate(field: str, chosen: NDArray[np.intp]) -> float:
        picked = [[parts[at] for at in chosen] for parts in (positions, lengths, trace.fitness)]
        return float(getattr(steps.regression(*picked), field))

    n = sum(len(each) for each in positions)
    chance = 1.96 / math.sqrt(trace.samples[0].shape[1])
    return [
        figures.clustered(
            "gamma sigma", lambda chosen: estimate("slope", chosen), count, seed, "generations",
            f"fitness per sd along the direction of the other half of the generations, {n:,} candidates; "
            "a lower bound, since that direction is noisy",
        ),
        figures.clustered(
            "R^2 of that direction", lambda chosen: estimate("explained", chosen), count, seed, "generations",
            f"chance is about {1 / n:.4f}",
        ),
        figures.clustered(
            "curvature share", lambda chosen: estimate("curvature", chosen), count, seed, "generations",
            f"R^2 gained by the squared length; chance is about {1 / n:.4f}",
        ),
        Figure(
            "cosine of the two halves' directions", float(units[0] @ units[1]), n=count, of="generations",
            remark=f"even against odd generations; luck stays within {chance:.3f} in 95 %",
        ),
    ]  # fmt: skip


def _transient(evidence: Evidence) -> list[Figure]:
    told, n = evidence.generations, evidence.layout.size
    if not told:
        return [missing("T / n", "no generation has been closed")]
    kappa_bar = attenuation.quality_gain(evidence.search.population, evidence.seed)[1]
    removed = theory.contraction(kappa_bar, n, told)
    unfinished = "transient not finished: proposition 2 says nothing yet" if told < n else "transient finished"
    found = [
        Figure("T / n", told / n, n=told, of="generations", remark=f"n = {n:,}; {unfinished}"),
        Figure(
            "predicted share of r^2 removed, no noise", removed, n=told, of="generations",
            remark=f"1 - (1 - kappa-bar/n)^T with kappa-bar = {kappa_bar:.1f}",
        ),
    ]  # fmt: skip
    if not evidence.trace.conditions:
        return [*found, missing("kappa_D", "this search keeps no diagonal scaling")]
    first, last = evidence.trace.conditions[0], evidence.trace.conditions[-1]
    remark = f"{first:.4f} at the start; 1 is isotropic"
    return [*found, Figure("kappa_D", last, n=told, of="generations", remark=remark)]


def _drawn(trace: SearchTrace) -> SearchTrace:
    """Return the trace without the samples that lie on the line of the last step (two-point step size)."""
    kept = [steps.drawn(samples) for samples in trace.samples]

    def of(parts: tuple[Vector, ...]) -> tuple[Vector, ...]:
        return tuple(part[chosen] for part, chosen in zip(parts, kept, strict=True))

    samples = tuple(part[chosen] for part, chosen in zip(trace.samples, kept, strict=True))
    return SearchTrace(samples, of(trace.fitness), of(trace.rewards), trace.means, trace.conditions)
