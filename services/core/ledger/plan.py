"""What a campaign will cost at most and roughly, before it spends anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from services.core.campaign import Campaign, EvidenceUse, ProtocolSpec
from services.core.errors import SpecError
from services.core.ledger.assumptions import BYTES_PER_TOKEN, NOTE_BYTES, TYPICAL_OUTPUT_TOKENS, usual_turns
from services.core.ledger.budget import bound_usage
from services.core.ledger.price import Price
from services.core.ledger.rival_plan import rivals_plan
from services.core.ledger.usage import Usage
from services.core.minibatch import validates
from services.core.policy.layout import Layout
from services.core.problem import Problem, ScorerKind
from services.core.protocol.episode import single_turn
from services.core.protocol.evidence import LONGEST, Evidence
from services.core.protocol.prompts import messages_for
from services.core.protocol.roles import Role
from services.core.protocol.transcript import Transcript
from services.core.scoring.judge import ASKS, judge_messages


@dataclass(frozen=True)
class Plan:
    """Figures of a campaign as specified.

    ``largest_*`` hold if every episode uses all its turns, every reply its whole token limit (at four bytes a token)
    and every call the dearest model that may be chosen. ``expected_*`` assume uniform models, the middle of the
    possible turns and short replies. Where a judge is named, every episode is counted as one that it rates: once as
    expected, as often as it may be asked at most. Attempts that have to be repeated come on top; the budget's limits
    bound them.

    Attributes:
        dimension: n, the length of theta.
        blocks: the lengths of theta's parts.
    """

    dimension: int
    blocks: Mapping[str, int]
    population: int
    training_episodes: int
    validation_episodes: int
    evaluation_episodes: int
    labelling_episodes: int
    largest_calls: int
    largest_tokens: int
    largest_usd: Decimal
    expected_calls: int
    expected_tokens: int
    expected_usd: Decimal

    @property
    def episodes(self) -> int:
        measured = self.validation_episodes + self.evaluation_episodes
        return self.labelling_episodes + self.training_episodes + measured


def plan_of(campaign: Campaign, question_bytes: Sequence[int]) -> Plan:
    """Return the plan of a campaign.

    Args:
        campaign: the resolved specification.
        question_bytes: UTF-8 length of each question it may use; the longest and the mean are looked at.
    """
    training = campaign.search.candidates * campaign.search.trials * campaign.search.rounds
    labelling = len(campaign.pool) * campaign.labels.problems * campaign.labels.repeats
    validation = _validation_episodes(campaign)
    coordinated, single = _evaluation_episodes(campaign)
    evaluation, single = coordinated + single, single + labelling
    several = training + validation + coordinated
    rivals = rivals_plan(campaign, question_bytes)
    longest = max(question_bytes, default=0)
    mean = sum(question_bytes) // max(1, len(question_bytes))
    turns = campaign.protocol.max_turns
    largest = [_episode(campaign.protocol, longest, turns, campaign.protocol.max_output_tokens, bytes_per_token=1)]
    largest.append(_episode(single_turn(campaign.protocol), longest, 1, campaign.protocol.max_output_tokens, 1))
    output = min(TYPICAL_OUTPUT_TOKENS, campaign.protocol.max_output_tokens)
    usual = [_episode(campaign.protocol, mean, usual_turns(campaign.protocol), output, BYTES_PER_TOKEN)]
    usual.append(_episode(single_turn(campaign.protocol), mean, 1, output, BYTES_PER_TOKEN))
    rated = several + single + rivals.episodes if campaign.judge is not None else 0
    most_rated = _times(_rating(longest, campaign.protocol.max_output_tokens, bytes_per_token=1), rated * ASKS)
    some_rated = _times(_rating(mean, output, BYTES_PER_TOKEN), rated)
    layout = Layout.of_campaign(campaign)
    pool = [model.price for model in campaign.pool]
    chosen = [pool[agent] for agent in layout.agents]
    judge = pool[campaign.judge or 0]
    most, most_single = _times(largest[0], several), _times(largest[1], single)
    some, some_single = _times(usual[0], several), _times(usual[1], single)
    return Plan(
        dimension=layout.size,
        blocks=layout.blocks,
        population=campaign.search.population,
        training_episodes=training,
        validation_episodes=validation,
        evaluation_episodes=evaluation + rivals.episodes,
        labelling_episodes=labelling,
        largest_calls=several * turns + single + rated * ASKS + rivals.largest.calls,
        largest_tokens=most.total + most_single.total + most_rated.total + rivals.largest.tokens,
        largest_usd=_largest_cost(chosen, most)
        + _largest_cost(pool, most_single)
        + judge.cost(most_rated)
        + rivals.largest.usd,
        expected_calls=several * usual_turns(campaign.protocol) + single + rated + rivals.expected.calls,
        expected_tokens=some.total + some_single.total + some_rated.total + rivals.expected.tokens,
        expected_usd=_mean_cost(chosen, some)
        + _mean_cost(pool, some_single)
        + judge.cost(some_rated)
        + rivals.expected.usd,
    )


def episode_usd(campaign: Campaign, question_bytes: Sequence[int]) -> Decimal:
    """Return what a training episode is expected to cost, by the assumptions of the plan; nobody rates it."""
    mean = sum(question_bytes) // max(1, len(question_bytes))
    output = min(TYPICAL_OUTPUT_TOKENS, campaign.protocol.max_output_tokens)
    usual = _episode(campaign.protocol, mean, usual_turns(campaign.protocol), output, BYTES_PER_TOKEN)
    return _mean_cost([campaign.pool[agent].price for agent in Layout.of_campaign(campaign).agents], usual)


def with_cost_unit(campaign: Campaign, question_bytes: Sequence[int]) -> Campaign:
    """Return the campaign with the unit in which costs count, where they count and nobody gave one.

    Raises:
        SpecError: its models cost nothing.
    """
    search = campaign.search
    if search.cost_weight == 0 or search.cost_unit_usd is not None:
        return campaign
    unit = float(f"{episode_usd(campaign, question_bytes):.6g}")
    if unit == 0:
        wanted = "0, as no model of the pool has a price; or name search.cost_unit_usd"
        raise SpecError("search.cost_weight", search.cost_weight, wanted)
    return replace(campaign, search=replace(search, cost_unit_usd=unit))


def _validation_episodes(campaign: Campaign) -> int:
    if not campaign.validation.problems:
        return 0
    rounds = sum(validates(number, campaign.validation.every) for number in range(campaign.search.rounds))
    return (rounds + 1) * campaign.validation.problems  # and the last mean, after the search


def _evaluation_episodes(campaign: Campaign) -> tuple[int, int]:
    """Return the episodes of the coordinator and of chance, and those of single models."""
    baselines, episodes = campaign.evaluation.baselines, campaign.evaluation.problems * campaign.evaluation.repeats
    coordinated = 1 + ("random" in baselines)
    single = len(campaign.pool) if "single" in baselines else 0
    return coordinated * episodes, single * episodes


def _episode(
    protocol: ProtocolSpec, question_bytes: int, turns: int, output_tokens: int, bytes_per_token: int
) -> Usage:
    """Return the tokens of one episode whose every turn reads the question and all earlier replies."""
    finds = Role.VERIFIER in protocol.roles and protocol.evidence is not EvidenceUse.NONE
    evidence = Evidence(False, False, "x" * 4 * LONGEST) if finds else None
    frame = max(
        bound_usage(messages_for(role, Transcript("x" * question_bytes), protocol, evidence), 0).prompt_tokens
        for role in protocol.roles
    )
    reply_bytes = 4 * output_tokens
    prompt_bytes = sum(frame + earlier * (reply_bytes + NOTE_BYTES) for earlier in range(turns))
    return Usage(prompt_bytes // bytes_per_token, turns * output_tokens, estimated=True)


def _rating(question_bytes: int, output_tokens: int, bytes_per_token: int) -> Usage:
    """Return the tokens of a judge's rating; questions count with their references."""
    problem = Problem("", "", "x" * question_bytes, ScorerKind.JUDGE)
    prompt = bound_usage(judge_messages(problem, "x" * 4 * output_tokens), 0).prompt_tokens
    return Usage(prompt // bytes_per_token, output_tokens, estimated=True)


def _times(usage: Usage, episodes: int) -> Usage:
    return Usage(usage.prompt_tokens * episodes, usage.completion_tokens * episodes, estimated=True)


def _largest_cost(prices: Sequence[Price], usage: Usage) -> Decimal:
    return max(price.cost(usage) for price in prices)


def _mean_cost(prices: Sequence[Price], usage: Usage) -> Decimal:
    return sum((price.cost(usage) for price in prices), Decimal(0)) / len(prices)
