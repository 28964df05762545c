"""From a campaign file to a row in the database, checking everything that can be checked before anything is written."""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

from services.benchmarks.registry import load as load_problems
from services.benchmarks.registry import require_sizes, resolved
from services.cli import comparable, connections
from services.cli.state_norms import median_state_norm
from services.config import campaign as campaign_file
from services.config import document
from services.config.changes import Change
from services.config.pool_file import load as load_pool
from services.config.pool_file import require_local_models
from services.config.sections import CampaignFile
from services.config.settings import LOCAL_PREFIX, Settings
from services.core.campaign import Campaign
from services.core.errors import PrerequisiteMissing, SpecError
from services.core.ids import CampaignId
from services.core.ledger.plan import Plan, plan_of, with_cost_unit
from services.core.local_pool import LocalPool
from services.core.optimiser.sep_cma_es import library_version
from services.core.problem import Problem, ScorerKind, Split
from services.core.problem_source import ProblemSource
from services.core.scoring.scorer import check_reference
from services.encoder import catalogue
from services.storage import campaigns
from services.storage.engine import Connection
from services.storage.records import Fork, NewCampaign

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


@dataclass(frozen=True)
class Prepared:
    """A campaign that passed every check that needs no service."""

    campaign: Campaign
    problems: Mapping[Split, list[Problem]]
    plan: Plan
    spec: Mapping[str, Any]
    sha256: str
    pools: Mapping[str, LocalPool]

    def sizes(self) -> str:
        """Return the figures that people ask for first."""
        splits = " + ".join(f"{len(self.problems[split]):,} {split}" for split in Split)
        plan = self.plan
        return (
            f"dimension {plan.dimension:,}, population {plan.population}, {plan.episodes:,} episodes, {splits} problems"
        )


@dataclass(frozen=True)
class Loaded:
    """Problems that were read and checked once, for several campaigns, and where they came from."""

    source: ProblemSource
    problems: Mapping[Split, list[Problem]]


def load(file: CampaignFile) -> Loaded:
    """Read the problems of a campaign file and check their references. Raises as ``prepare`` does."""
    source = resolved(campaign_file.problem_source(file))
    problems = load_problems(source, [model.name for model in file.pool])
    for problem in (problem for split in problems.values() for problem in split):
        check_reference(problem)
    return Loaded(source, problems)


def prepare(
    path: Path,
    settings: Settings,
    name: str | None = None,
    changes: Sequence[Change] = (),
    *,
    loaded: Loaded | None = None,
) -> Prepared:
    """Read and check a campaign file.

    Args:
        path: the file.
        settings: where data and local pools lie.
        name: replaces the file's own name.
        changes: of the file's fields.
        loaded: problems to take instead of reading the file's.

    Raises:
        SpecError, UnknownPrice, Unscorable: the file, its problems or its local pools are wrong; says where.
        PrerequisiteMissing: the encoder's shapes, or its states' length where the file needs it, cannot be found out.
    """
    file = campaign_file.load(path, connections.variables(settings), changes)
    architecture = catalogue.architecture(file.encoder.model, file.encoder.revision)
    campaign = campaign_file.resolve(file, architecture, partial(median_state_norm, settings=settings))
    if name is not None:
        campaign = replace(campaign, name=campaign_name(name))
    pools = local_pools(campaign, settings)
    found = load(file) if loaded is None else loaded
    require_sizes(campaign, found.problems)
    require_judge(campaign, found.problems)
    campaign = with_cost_unit(campaign, question_bytes(found.problems))
    spec = document.to_json(campaign, found.source)
    plan = plan_of(campaign, question_bytes(found.problems))
    return Prepared(campaign, found.problems, plan, spec, document.sha256(spec), pools)


def renamed(prepared: Prepared, name: str) -> Prepared:
    """Return the same campaign under another name."""
    if name == prepared.campaign.name:
        return prepared
    spec = {**prepared.spec, "campaign": {**prepared.spec["campaign"], "name": name}}
    campaign = replace(prepared.campaign, name=name)
    return replace(prepared, campaign=campaign, spec=spec, sha256=document.sha256(spec))


def campaign_name(name: str) -> str:
    """Return a name given on the command line if a campaign file could carry it, else raise SpecError."""
    if not NAME.fullmatch(name):
        raise SpecError(
            "--name", name, "at most 64 of a-z, 0-9, dot, dash and underscore, beginning with a letter or digit"
        )
    return name


def require_judge(campaign: Campaign, problems: Mapping[Split, list[Problem]]) -> None:
    """Raise SpecError when answers have to be rated and no model is named for it."""
    if campaign.scoring.judge is None:
        for problem in (problem for split in problems.values() for problem in split):
            if problem.scorer is ScorerKind.JUDGE:
                names = ", ".join(model.name for model in campaign.pool)
                wanted = f"a model of the pool that rates answers, as problem {problem.key} needs one: {names}"
                raise SpecError("scoring.judge", None, wanted)


def require_sandbox(problems: Mapping[Split, list[Problem]], settings: Settings) -> None:
    """Raise PrerequisiteMissing when programs have to be run and nothing confines them on this machine."""
    if not any(problem.scorer is ScorerKind.PROGRAM for split in problems.values() for problem in split):
        return
    from services.sandbox.opening import available

    try:
        available(python=settings.sandbox_python)
    except PrerequisiteMissing as error:
        elsewhere = "or `--sandbox-elsewhere`, if all workers run on machines that have one"
        raise PrerequisiteMissing(f"the answers are programs: {error.what}", f"{error.cure}; {elsewhere}") from error


def question_bytes(problems: Mapping[Split, list[Problem]]) -> list[int]:
    """Return the lengths of the questions in bytes; a judge reads the reference as well."""
    judged = ScorerKind.JUDGE
    texts = (
        problem.question + (problem.answer or "" if problem.scorer is judged else "")
        for split in problems.values()
        for problem in split
    )
    return [len(text.encode("utf-8", "surrogatepass")) for text in texts]


def local_pools(campaign: Campaign, settings: Settings) -> dict[str, LocalPool]:
    """Return the local pools that the campaign names, held against it, if their files lie on this machine."""
    addresses = [model.base_url or "" for model in campaign.pool]
    wanted = {url.removeprefix(LOCAL_PREFIX) for url in addresses if url.startswith(LOCAL_PREFIX)}
    if not wanted or not settings.local_pool_dir.is_dir():
        return {}
    files = {path.stem: path for path in sorted(settings.local_pool_dir.glob("*.yaml"))}
    read = partial(load_pool, variables=connections.variables(settings))
    pools = {name: read(files[name]) for name in sorted(wanted & set(files))}
    require_local_models(campaign, pools)
    return pools


def submit(prepared: Prepared, settings: Settings) -> CampaignId:
    """Insert the campaign once database and broker answer; nothing is written otherwise.

    Raises:
        PrerequisiteMissing: database, its schema or the broker.
        SpecError: the name is used.
    """
    return submit_all([prepared], settings)[0]


def submit_all(prepared: Sequence[Prepared], settings: Settings) -> list[CampaignId]:
    """Insert several campaigns together, or none. Raises as ``submit`` does."""
    opened = connections.open_database(settings), connections.open_queues(settings)
    with opened[0] as database, opened[1], database.transaction() as conn:
        return [inserted(conn, each) for each in prepared]


def inserted(conn: Connection, prepared: Prepared) -> CampaignId:
    """Insert one campaign; SpecError moreover when the coordinator that it compares is not there or does not fit."""
    compared = comparable.coordinator_of(conn, prepared.campaign)
    campaign_id = campaigns.insert(conn, new_campaign(prepared), prepared.problems)
    if compared is not None:
        comparable.bind_reading(conn, campaign_id, compared)
    return campaign_id


def new_campaign(prepared: Prepared, forked_from: Fork | None = None) -> NewCampaign:
    campaign = prepared.campaign
    return NewCampaign(
        name=campaign.name,
        spec=prepared.spec,
        spec_sha256=prepared.sha256,
        seed=campaign.seed,
        dimension=prepared.plan.dimension,
        versions=versions(),
        budget=campaign.budget,
        max_attempts=campaign.max_attempts,
        weight=campaign.weight,
        forked_from=forked_from,
    )


def versions() -> dict[str, str]:
    """Return what the result depends on beside the specification; ``search`` is held against every replay."""
    return {
        "search": library_version(),
        "product": metadata.version("trinity-coordinator"),
        "python": platform.python_version(),
    }
