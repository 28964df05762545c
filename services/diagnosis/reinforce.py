"""What a policy gradient would see in the logged episodes: signal and noise of REINFORCE."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from services.core import seeds
from services.core.campaign import Output
from services.core.policy.gradient import log_probability_gradient
from services.core.policy.layout import Layout
from services.core.protocol.roles import RoleSource
from services.core.protocol.transcript import Item, Transcript
from services.core.statistics import gradients
from services.diagnosis.evidence import Evidence
from services.reports.diagnosis import Figure, Section, missing
from services.storage.diagnosis import PlayedEpisode

TITLE = "REINFORCE on the logged episodes"
NAME = "SNR of the policy gradient"
SHUFFLES = 20
Encode = Callable[[Sequence[Transcript]], NDArray[np.float64]]


def section(evidence: Evidence, encode: Encode) -> Section:
    """Return signal-to-noise ratio, split-half cosine and the share of telling coordinates, or why there are none."""
    if reason := cannot(evidence):
        return Section(TITLE, (missing(NAME, reason),))
    episodes = evidence.played
    scores = score_functions(episodes, evidence.layout, encode)
    rewards = np.array([episode.reward for episode in episodes])
    groups = np.array([episode.generation for episode in episodes])
    found = gradients.signal(scores * baselined(rewards, groups)[:, None], evidence.seed)
    rng = seeds.generator(evidence.seed, "shuffled rewards")
    luck = [
        gradients.ratio(scores * baselined(shuffled(rewards, groups, rng), groups)[:, None]) for _ in range(SHUFFLES)
    ]
    which = f"generations {groups.min()} to {groups.max()}, each at its own candidate's vector"
    return Section(
        TITLE,
        (
            Figure(
                NAME, found.snr, found.low, found.high, found.n, "episodes",
                f"{which}; shuffled rewards give {max(0.0, float(np.quantile(luck, 0.95))):.3f} or less in 95 %",
            ),
            Figure(
                "split-half cosine of the gradient", found.cosine, n=found.n, of="episodes", remark="luck gives 0"
            ),
            Figure(
                "share of coordinates with |t| > 2", found.beyond, n=found.n, of="episodes",
                remark=f"chance is {found.chance:.3f}; coordinates share their states, so it scatters widely",
            ),
        ),
    )  # fmt: skip


def cannot(evidence: Evidence) -> str:
    """Return why there is no estimate; nothing when there is one."""
    if not evidence.linear:
        return f"the head is {evidence.layout.spec.kind}; the estimator is of the linear one"
    if evidence.layout.spec.output is not Output.SOFTMAX:
        return "actions are not drawn (argmax), so there is no policy gradient"
    if evidence.layout.svf:
        return "singular values are searched as well: every candidate has states of its own, which are not kept"
    if len(evidence.played) < 4:
        return f"{len(evidence.played)} scored training episodes; four are needed"
    if any(item.logits is None for episode in evidence.played for item in episode.items):
        return "turns without stored logits"
    return ""


def score_functions(episodes: Sequence[PlayedEpisode], layout: Layout, encode: Encode) -> NDArray[np.float64]:
    """Return each episode's sum over turns of d log pi / dW = (e_a - pi) h', shape (episodes, rows * d)."""
    places, transcripts = [], []
    for at, episode in enumerate(episodes):
        for turn in range(len(episode.items)):
            places.append((at, episode.items[turn]))
            transcripts.append(Transcript(episode.question, episode.items[:turn]))
    states = encode(transcripts)
    found = np.zeros((len(episodes), layout.rows * layout.hidden))
    for (at, item), state in zip(places, states, strict=True):
        found[at] += score_function(item, layout, state).ravel()
    return found


def score_function(item: Item, layout: Layout, state: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return d log pi / dW of one turn, shape (rows, d); a role that the head did not choose has no part in it."""
    logits = np.array(item.logits, dtype=np.float64)
    if item.role_source is RoleSource.POLICY:
        return log_probability_gradient(logits, layout, item.agent, item.role, state)
    found = log_probability_gradient(logits, layout, item.agent, layout.allowed[0], state)
    found[len(layout.agents) :] = 0.0
    return found


def baselined(rewards: NDArray[np.float64], groups: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return rewards less their generation's mean."""
    means = {group: rewards[groups == group].mean() for group in np.unique(groups)}
    return np.array([reward - means[group] for reward, group in zip(rewards, groups, strict=True)])


def shuffled(rewards: NDArray[np.float64], groups: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Return the rewards in another order within each generation."""
    found = rewards.copy()
    for group in np.unique(groups):
        members = np.flatnonzero(groups == group)
        found[members] = rewards[rng.permutation(members)]
    return found
