"""Results of studies made up for tests: campaigns whose scores are given by a rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal

from services.core.studies.catalogue import STUDIES
from services.core.studies.study import BASE, Ground, LeftOut, Row, StudyName
from services.reports.policies import COORDINATOR, RANDOM
from services.reports.records import CampaignFacts, ChoiceFigure, CurveFigure, Effort, PolicyKind, Score
from services.reports.studies import StudyCampaign, StudyFacts
from tests.support.campaigns import small_campaign

PROBLEMS = 40
GROUND = Ground(small_campaign(), 60)

# (campaign's key, policy, number of the problem) -> reward
Rule = Callable[[str, str, int], float]


def effort(tokens: int | None) -> Effort:
    return Effort(1, 0, 0, 0, 10, tokens, Decimal(0), Decimal(0), 1.0, 1, "turn_limit")


def scores(key: str, rule: Rule, rivals: Sequence[str] = ()) -> tuple[Score, ...]:
    """Return the coordinator's, the singles', chance's and the rivals' scores on two families of problems."""
    policies = [(PolicyKind.COORDINATOR, COORDINATOR), (PolicyKind.RANDOM, RANDOM)]
    policies += [(PolicyKind.SINGLE, name) for name in GROUND.models]
    policies += [(PolicyKind.RIVAL, name) for name in rivals]
    return tuple(
        Score(kind, name, f"p{at}", ("sums", "words")[at % 2], rule(key, name, at), effort(100 + at))
        for kind, name in policies
        for at in range(PROBLEMS)
    )


def curve(share: float) -> tuple[CurveFigure, ...]:
    """Three generations that move from equal shares to ``share`` of the first model."""
    return tuple(
        CurveFigure(number, 0.1, 0.5, 0.6, None, {"ada": part, "bob": 1 - part}, {"worker": 1.0}, 1.0, Decimal(0))
        for number, part in enumerate((0.5, (0.5 + share) / 2, share))
    )


def campaign_facts(key: str, seed: int, rule: Rule, rivals: Sequence[str] = ()) -> CampaignFacts:
    return CampaignFacts(
        name=f"small-{key}",
        state="completed",
        reason=None,
        seed=seed,
        settings={},
        models=GROUND.models,
        roles=("worker",),
        population=4,
        replicates=3,
        validation_problems=2,
        curve=curve(0.9),
        last_validation=None,
        scores=scores(key, rule, rivals),
        calls=(),
        commands=(),
        specification={},
        choices=(ChoiceFigure(COORDINATOR, 1, "ada", "worker", 30), ChoiceFigure(COORDINATOR, 1, "bob", "worker", 10)),
    )


def study_facts(
    name: StudyName,
    rule: Rule,
    seeds: Sequence[int] = (5,),
    stopped: Mapping[str, str] | None = None,
    base: str = "small",
) -> StudyFacts:
    """Return a study's facts.

    Args:
        name: which study.
        rule: the rewards.
        seeds: under which every campaign was run.
        stopped: states of the campaigns that are not complete, by key.
        base: name of the base.
    """
    lines = STUDIES[name].rows(GROUND)
    rows = tuple(line for line in lines if isinstance(line, Row))
    keys = list(dict.fromkeys(row.variant.key for row in rows))
    states = {key: (stopped or {}).get(key, "completed") for key in keys}
    rivals = [row.policy.name for row in rows if row.variant.rivals]
    campaigns = tuple(
        StudyCampaign(
            name=f"{base}-{key}",
            keys=frozenset({key}),
            seed=seed,
            state=states[key],
            reason=None if states[key] == "completed" else "lunch",
            advice=None if states[key] == "completed" else "cure it, then resume",
            booked=60,
            episodes=100,
            calls=200,
            tokens=3000,
            usd=Decimal("0.5"),
            seconds=60.0,
            facts=campaign_facts(key, seed, rule, rivals) if states[key] == "completed" else None,
        )
        for seed in seeds
        for key in keys
    )
    left = tuple(line for line in lines if isinstance(line, LeftOut))
    study = STUDIES[name]
    return StudyFacts(study, base, "small.yaml", GROUND.models, 5, tuple(seeds), rows, left, campaigns)


def better_base(key: str, policy: str, at: int) -> float:
    """The base gets nine of ten, every other campaign and policy five of ten."""
    return float(at % 10 > 0) if key == BASE.key and policy == COORDINATOR else float(at % 2)
