"""Composing a generation that is about to open from the plan, the vectors that act, and the stored problems."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from services.core.campaign import Campaign
from services.core.composition import MEAN, Actor, candidates_of, planned_episodes
from services.core.problem import Split
from services.core.states import CandidateKind, GenerationKind
from services.storage.records import NewCandidate, NewEpisode

Vector = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Composition:
    """A generation about to open."""

    kind: GenerationKind
    candidates: tuple[NewCandidate, ...]
    episodes: tuple[NewEpisode, ...]


def compose(
    campaign: Campaign,
    kind: GenerationKind,
    number: int,
    vectors: Mapping[Actor, Vector],
    ids: Mapping[Split, Sequence[int]],
) -> Composition:
    """Return a generation with its candidates and episodes.

    Args:
        campaign: the specification.
        kind: of the generation.
        number: of the generation in its campaign, from 0.
        vectors: of the candidates that have one.
        ids: numbers of the stored problems by split, in order.
    """
    actors = candidates_of(campaign, kind, number)
    places = {actor: place for place, actor in enumerate(actors)}
    planned = planned_episodes(campaign, kind, number, {split: len(ids.get(split, ())) for split in Split})
    episodes = tuple(
        NewEpisode(places[key[:2]], key[2], replicate, ids[episode.split][episode.position], episode.seed)
        for (key, replicate), episode in planned.items()
    )
    candidates = tuple(NewCandidate(kind, index, vectors.get((kind, index))) for kind, index in actors)
    return Composition(kind, candidates, episodes)


def vectors_of(population: Iterable[Vector], mean: Vector, rivals: Mapping[int, Vector]) -> dict[Actor, Vector]:
    """Return the vectors of samples, mean and fitted rivals by candidate."""
    samples = {(CandidateKind.SAMPLE, index): theta for index, theta in enumerate(population)}
    fitted = {(CandidateKind.RIVAL, index): parameters for index, parameters in rivals.items()}
    return {**samples, MEAN: mean, **fitted}
