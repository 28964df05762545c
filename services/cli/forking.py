"""``campaign fork``: a new campaign that starts where another one stood."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from typing import Any

from services.benchmarks.registry import require_sizes
from services.cli import submission
from services.config import document
from services.config.across_sections import BLIND_TO_COST, SMALLEST_POPULATION
from services.config.campaign import require_first_generation
from services.config.learning import Fault, label_faults, learning_faults, measuring_faults
from services.config.rival_faults import ONE_OWN_ANSWER
from services.core.campaign import Algorithm, Campaign
from services.core.errors import SpecError
from services.core.ids import CampaignId
from services.core.ledger.plan import plan_of, with_cost_unit
from services.core.policy.layout import Layout
from services.core.problem import ScorerKind, Split
from services.core.states import GenerationKind
from services.encoder import catalogue
from services.storage import campaigns, generations, problems
from services.storage.engine import Connection, Database
from services.storage.records import CampaignRecord, Fork

EPISODES_FIELD = "budget.episodes="
MONEY = frozenset({"usd", "input_per_million", "output_per_million"})
MONEY |= {"cached_input_per_million", "reasoning_per_million"}


@dataclass(frozen=True)
class Forked:
    """The new campaign and the generation whose opening it starts from."""

    id: CampaignId
    name: str
    generation: int


def fork(database: Database, name: str, generation: int | None, new_name: str, changes: Sequence[str]) -> Forked:
    """Submit a campaign with the same problems, starting from a closed generation's mean and step size.

    Args:
        database: where both campaigns are.
        name: the campaign to fork from.
        generation: one of its closed generations; None for the last training one, where there is one.
        new_name: the new campaign's name.
        changes: ``field=value`` with a dotted field of the specification and a JSON value (or plain text).

    Raises:
        SpecError: unknown campaign, generation or field, a wrong value, or a change of what theta's entries mean.
    """
    with database.transaction() as conn:
        origin = campaigns.by_name(conn, name)
        number = closed_generation(conn, origin, generation)
        own = {split: [item for _, item in problems.load(conn, origin.id, split)] for split in Split}
        prepared = changed(origin, submission.campaign_name(new_name), changes, own)
        new = submission.new_campaign(prepared, Fork(origin.id, number))
        return Forked(campaigns.insert(conn, new, own), new_name, number)


def closed_generation(conn: Connection, origin: CampaignRecord, wanted: int | None) -> int:
    """Return the generation to start from; SpecError when it is not among the closed ones."""
    history = generations.history(conn, origin.id)
    learnt = [item.number for item in history if item.kind is not GenerationKind.LABELLING]
    training = [item.number for item in history if item.kind is GenerationKind.TRAINING]
    if not learnt:
        raise SpecError("fork", origin.name, "a campaign with at least one closed generation")
    if wanted is None:
        return (training or learnt)[-1]
    if wanted not in [item.number for item in history]:
        raise SpecError("--generation", wanted, f"a closed generation of {origin.name}: 0 to {history[-1].number}")
    return wanted


def changed(
    origin: CampaignRecord, new_name: str, changes: Sequence[str], own: dict[Split, list[Any]]
) -> submission.Prepared:
    """Return the origin's specification under a new name, with the changes, checked like a file's.

    Limits and weight are those of the specification, not what `campaign budget` and `campaign weight` made of them.
    """
    before = document.from_json(origin.spec)
    source = document.problems_from_json(origin.spec)
    # Written anew, so that fields which older specifications lack are there to be changed.
    spec = document.to_json(replace(before, name=new_name), source)
    for change in changes:
        apply(spec["campaign"], change)
    campaign = document.from_json(spec)
    require_same_vector(before, campaign)
    if not any(change.startswith(EPISODES_FIELD) for change in changes):
        episodes = inherited_episodes(before, campaign, own)
        campaign = replace(campaign, budget=replace(campaign.budget, episodes=episodes))
    require_first_generation(campaign)
    require_sizes(campaign, own)
    require_sound(campaign, own)
    submission.require_judge(campaign, own)
    campaign = with_cost_unit(campaign, submission.question_bytes(own))
    spec = document.to_json(campaign, source)
    plan = plan_of(campaign, submission.question_bytes(own))
    return submission.Prepared(campaign, own, plan, spec, document.sha256(spec), pools={})


def require_same_vector(origin: Campaign, campaign: Campaign) -> None:
    """Raise SpecError when the origin's mean and step size would mean something else in the new campaign, or nothing.

    Sizes alone do not tell: a model more and a role fewer make a theta of the same size.
    """
    before, after = Layout.of_campaign(origin), Layout.of_campaign(campaign)
    for field, theirs, ours in (
        ("pool", f"{len(origin.pool)} models", f"{len(campaign.pool)} models"),
        ("protocol.agents", _agents(before), _agents(after)),
        ("protocol.roles", ", ".join(before.allowed), ", ".join(after.allowed)),
        ("hidden_size", before.hidden, after.hidden),
        ("encoder.singular_values", _matrices(before), _matrices(after)),
        ("head.kind", before.spec.kind, after.spec.kind),
        ("head.rank", before.spec.rank, after.spec.rank),
    ):
        if theirs != ours:
            raise SpecError(f"--set {field}", ours, f"{theirs} as before: the fork begins with the origin's theta")
    if campaign.search.sigma0 != origin.search.sigma0:
        wanted = "no change: the fork begins with the step size of the origin's generation"
        raise SpecError("--set search.sigma0", campaign.search.sigma0, wanted)
    stepless = (Algorithm.REINFORCE, Algorithm.RANDOM_SEARCH)
    if campaign.search.algorithm is Algorithm.SEP_CMA_ES and origin.search.algorithm in stepless:
        wanted = f"{origin.search.algorithm} as before: its step size is none for another search"
        raise SpecError("--set search.algorithm", str(campaign.search.algorithm), wanted)
    if campaign.encoder != origin.encoder:
        _require_encoder(campaign)


def _agents(layout: Layout) -> str:
    return f"numbers {', '.join(map(str, layout.agents))} of the pool"


def _matrices(layout: Layout) -> str:
    return ", ".join(f"{matrix.name} ({matrix.size})" for matrix in layout.matrices) or "none"


def _require_encoder(campaign: Campaign) -> None:
    """Raise SpecError when the changed encoder has other states or matrices than theta was made for."""
    encoder = campaign.encoder
    architecture = catalogue.architecture(encoder.model, encoder.revision)
    if architecture.hidden != campaign.hidden_size:
        theirs, ours = campaign.hidden_size, architecture.hidden
        wanted = f"an encoder whose states have {theirs} entries as before; those of this one have {ours}"
        raise SpecError("--set encoder", encoder.model, wanted)
    known = architecture.known()
    for matrix in encoder.singular_values:
        if known.get(matrix.name) != matrix:
            wanted = f"an encoder with a matrix {matrix.name} of {matrix.size} singular values as before"
            raise SpecError("--set encoder", encoder.model, wanted)


def require_sound(campaign: Campaign, own: dict[Split, list[Any]]) -> None:
    """Raise SpecError for what a campaign file may not say across its sections."""
    names = [model.name for model in campaign.pool]
    recorded = [one for split in own.values() for one in split if one.scorer is ScorerKind.RECORDED]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise SpecError(f"--set pool.{index}.name", name, "a name that no other model of the pool has")
        if any(name not in one.scores for one in recorded):
            raise SpecError(f"--set pool.{index}.name", name, "a model that the problems have recorded scores of")
    if recorded and campaign.protocol.max_turns != 1:
        wanted = "1, because recorded scores are those of single turns"
        raise SpecError("--set protocol.max_turns", campaign.protocol.max_turns, wanted)
    if campaign.search.cost_weight and campaign.search.algorithm in BLIND_TO_COST:
        wanted = f"0 beside {campaign.search.algorithm}, which does not rank candidates"
        raise SpecError("--set search.cost_weight", campaign.search.cost_weight, wanted)
    refused = [rival.kind for rival in campaign.evaluation.rivals if rival.kind not in ONE_OWN_ANSWER]
    if recorded and refused:
        raise SpecError(
            "--set evaluation.rivals", refused[0].value, "rivals of one answer, which recorded scores are of"
        )
    if campaign.search.algorithm is Algorithm.SFT:
        wanted = "a search: what is fitted to labels goes on from nothing; submit a campaign of its own"
        raise SpecError("--set search.algorithm", "sft", wanted)
    for path, got, wanted in learner_faults(campaign):
        raise SpecError(f"--set {'.'.join(map(str, path))}", got, wanted)
    if campaign.search.population < SMALLEST_POPULATION:
        raise SpecError(
            "--set search.population", campaign.search.population, f"at least {SMALLEST_POPULATION} candidates"
        )


def learner_faults(campaign: Campaign) -> Iterator[Fault]:
    """Yield what learners and fitted rivals lack in the campaign."""
    rivals = [rival.kind for rival in campaign.evaluation.rivals]
    matrices = tuple(matrix.name for matrix in campaign.encoder.singular_values)
    protocol, targets = campaign.protocol, campaign.supervised.targets
    yield from learning_faults(campaign.search, campaign.head, protocol, matrices, targets, len(campaign.pool))
    yield from label_faults(campaign.search, rivals, campaign.labels.problems)
    yield from measuring_faults(campaign.search, campaign.validation.problems, campaign.evaluation.problems)


def inherited_episodes(origin: Campaign, campaign: Campaign, own: dict[Split, list[Any]]) -> int:
    """Return the origin's limit of episodes; if that was just its plan, the limit is the plan again."""
    lengths = submission.question_bytes(own)
    if origin.budget.episodes != plan_of(origin, lengths).episodes:
        return campaign.budget.episodes
    return plan_of(campaign, lengths).episodes


def apply(fields: dict[str, Any], change: str) -> None:
    """Set one field of the specification in place; SpecError for a field that it does not have."""
    path, equals, text = change.partition("=")
    if not equals or not path:
        raise SpecError("--set", change, "FIELD=VALUE, e.g. search.generations=40")
    *parents, last = path.split(".")
    place: Any = fields
    for key in parents:
        place = child(place, key, path)
    if last == "name" and not parents:
        raise SpecError("--set", change, "the new name in --name")
    child(place, last, path)
    place[int(last) if isinstance(place, list) else last] = money(text) if last in MONEY else value_of(text)


def child(place: Any, key: str, path: str) -> Any:
    """Return one step down a dotted path; SpecError naming what there is instead."""
    if isinstance(place, dict) and key in place:
        return place[key]
    if isinstance(place, list) and key.isdecimal() and int(key) < len(place):
        return place[int(key)]
    there = (
        ", ".join(place) if isinstance(place, dict) else f"0 to {len(place) - 1}" if isinstance(place, list) else "none"
    )
    raise SpecError("--set", path, f"a field of the specification; at {key!r} there are: {there}")


def money(text: str) -> Any:
    """Return an amount as the specification has it, as text; what is none is left for the checks to refuse."""
    try:
        return str(Decimal(text))
    except InvalidOperation:
        return value_of(text)


def value_of(text: str) -> Any:
    """Return the JSON value, or the text itself when it is none."""
    try:
        return json.loads(text)
    except ValueError:
        return text
