"""``campaign fork``: a new campaign that starts where another one stood."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from services.benchmarks.registry import require_sizes
from services.cli import submission
from services.config import document
from services.core.campaign import Campaign
from services.core.errors import SpecError
from services.core.ids import CampaignId
from services.core.ledger.plan import plan_of
from services.core.policy.layout import Layout
from services.core.problem import Split
from services.core.states import GenerationKind
from services.storage import campaigns, generations, problems
from services.storage.engine import Connection, Database
from services.storage.records import CampaignRecord, Fork

EPISODES_FIELD = "budget.episodes="


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
        generation: one of its closed generations; None for the last training one.
        new_name: the new campaign's name.
        changes: ``field=value`` with a dotted field of the specification and a JSON value (or plain text).

    Raises:
        SpecError: unknown campaign, generation or field, a wrong value, or a change of theta's size.
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
    training = [item.number for item in history if item.kind is GenerationKind.TRAINING]
    if not training:
        raise SpecError("fork", origin.name, "a campaign with at least one closed generation")
    if wanted is None:
        return training[-1]
    if wanted not in [item.number for item in history]:
        raise SpecError("--generation", wanted, f"a closed generation of {origin.name}: 0 to {history[-1].number}")
    return wanted


def changed(
    origin: CampaignRecord, new_name: str, changes: Sequence[str], own: dict[Split, list[Any]]
) -> submission.Prepared:
    """Return the origin's specification under a new name, with the changes, checked like a file's."""
    spec = copy.deepcopy(dict(origin.spec))
    spec["campaign"]["name"] = new_name
    for change in changes:
        apply(spec["campaign"], change)
    campaign = document.from_json(spec)
    if not any(change.startswith(EPISODES_FIELD) for change in changes):
        spec["campaign"]["budget"]["episodes"] = inherited_episodes(document.from_json(origin.spec), campaign, own)
        campaign = document.from_json(spec)
    size = Layout.of(len(campaign.pool), campaign.protocol.roles, campaign.hidden_size).size
    if size != origin.dimension:
        wanted = (
            f"changes that keep theta's size, {origin.dimension}, because the fork starts from a vector of that size"
        )
        raise SpecError("--set", f"a theta of {size} entries", wanted)
    require_sizes(campaign, own)
    plan = plan_of(campaign, submission.question_bytes(own))
    return submission.Prepared(campaign, own, plan, spec, document.sha256(spec), pools={})


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
    place[int(last) if isinstance(place, list) else last] = value_of(text)


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


def value_of(text: str) -> Any:
    """Return the JSON value, or the text itself when it is none."""
    try:
        return json.loads(text)
    except ValueError:
        return text
