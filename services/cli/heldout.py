"""Held-out episodes as the reports tell them: policies by their names, kept replies at their list price."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from itertools import groupby

from services.core.campaign import Campaign
from services.core.states import CandidateKind, EpisodeState
from services.reports.policies import COORDINATOR, RANDOM
from services.reports.records import ChoiceFigure, Effort, LeftOut, PolicyKind, Score
from services.storage.evaluations import Choice, HeldOutEpisode


def policy_of(kind: CandidateKind, index: int, campaign: Campaign) -> tuple[PolicyKind, str]:
    """Return a candidate's kind and its name in tables."""
    match kind:
        case CandidateKind.MEAN | CandidateKind.SAMPLE:
            return PolicyKind.COORDINATOR, COORDINATOR
        case CandidateKind.RANDOM:
            return PolicyKind.RANDOM, RANDOM
        case CandidateKind.SINGLE:
            return PolicyKind.SINGLE, campaign.pool[index].name
        case CandidateKind.RIVAL:
            return PolicyKind.RIVAL, rival_names(campaign)[index]


def rival_names(campaign: Campaign) -> list[str]:
    """Return the rivals' labels; several of one label carry the number of their samples, or else their place."""
    rivals = campaign.evaluation.rivals
    labels = [rival.label for rival in rivals]
    counted = [f"{rival.label} x{rival.samples}" for rival in rivals]
    return [
        label if labels.count(label) == 1 else longer if counted.count(longer) == 1 else f"{longer} (rival {place + 1})"
        for place, (label, longer) in enumerate(zip(labels, counted, strict=True))
    ]


def scores(episodes: Iterable[HeldOutEpisode], campaign: Campaign) -> tuple[Score, ...]:
    """Return the rewards with what they took, of all episodes that have one."""
    return tuple(score(episode, campaign) for episode in episodes if episode.reward is not None)


def score(episode: HeldOutEpisode, campaign: Campaign) -> Score:
    if episode.reward is None:
        raise ValueError("the episode has no reward")
    kind, policy = policy_of(episode.candidate_kind, episode.candidate_index, campaign)
    return Score(kind, policy, episode.problem_key, episode.family, episode.reward, effort(episode, campaign))


def effort(episode: HeldOutEpisode, campaign: Campaign) -> Effort:
    usages = [each.usage for each in episode.reused if each.usage is not None]
    known = len(usages) == len(episode.reused)
    return Effort(
        calls=episode.calls,
        hits=episode.hits,
        errors=episode.errors,
        estimated=episode.estimated + sum(usage.estimated for usage in usages),
        tokens_in=episode.prompt_tokens + sum(usage.prompt_tokens for usage in usages) if known else None,
        tokens_out=episode.completion_tokens + sum(usage.completion_tokens for usage in usages) if known else None,
        usd=episode.usd,
        usd_without_reuse=with_list_prices(episode, campaign),
        latency_seconds=with_latencies(episode),
        turns=episode.turns or 0,
        stop=episode.termination or "not told",
        outcome=episode.outcome,
        drawn=episode.drawn,
    )


def with_list_prices(episode: HeldOutEpisode, campaign: Campaign) -> Decimal | None:
    """Return an episode's USD with its kept replies at their models' prices; None when one was deleted."""
    usd = episode.usd
    for each in episode.reused:
        if each.usage is None:
            return None
        usd += campaign.pool[each.agent].price.cost(each.usage)
    return usd


def with_latencies(episode: HeldOutEpisode) -> float | None:
    """Return an episode's seconds with what its kept replies once took; None when that is not known of one."""
    known = [each.latency_seconds for each in episode.reused if each.latency_seconds is not None]
    return episode.latency_seconds + sum(known) if len(known) == len(episode.reused) else None


def left_out(episodes: Sequence[HeldOutEpisode], campaign: Campaign) -> tuple[LeftOut, ...]:
    """Return what came of no reward, policy by policy in the order of the episodes."""

    def key(episode: HeldOutEpisode) -> tuple[CandidateKind, int]:
        return episode.candidate_kind, episode.candidate_index

    return tuple(
        left_out_of(policy_of(*candidate, campaign)[1], list(own)) for candidate, own in groupby(episodes, key)
    )


def left_out_of(policy: str, episodes: Sequence[HeldOutEpisode]) -> LeftOut:
    return LeftOut(
        policy,
        unscored=sum(episode.state is not EpisodeState.SCORED for episode in episodes),
        failures=sum(episode.failures for episode in episodes),
        usd=sum((episode.uncounted_usd for episode in episodes), Decimal(0)),
        grading_usd=sum((episode.grading_usd for episode in episodes), Decimal(0)),
    )


def choices(found: Iterable[Choice], campaign: Campaign) -> tuple[ChoiceFigure, ...]:
    return tuple(
        ChoiceFigure(
            policy_of(each.candidate_kind, each.candidate_index, campaign)[1],
            each.number,
            campaign.pool[each.agent].name,
            each.role.value,
            each.turns,
        )
        for each in found
    )


def family_choice(labels: Mapping[str, Mapping[int, float]], campaign: Campaign) -> dict[str, str]:
    """Return family -> the model with the highest mean reward on labelled problems, the first of the pool on ties."""
    return {
        family: campaign.pool[max(sorted(rewards), key=lambda agent: rewards[agent])].name
        for family, rewards in labels.items()
    }
