"""Campaign files: YAML text in, checked sections, plain core records out.

``load`` needs nothing but the file and the variables its paths use; ``resolve`` fills in what depends on the encoder.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from services.config.fields import Section, Surroundings
from services.config.messages import spec_error
from services.config.problems_section import GeneratedSection, JsonlSection, SeededSplitSection
from services.config.sections import CampaignFile, ModelSection
from services.config.yaml_reader import Key, read_text
from services.config.yaml_reader import parse as parse_yaml
from services.core.campaign import (
    BudgetLimits,
    Campaign,
    EncoderSpec,
    EvaluationSpec,
    ModelSpec,
    ProtocolSpec,
    SearchSpec,
    ValidationSpec,
)
from services.core.errors import SpecError
from services.core.ledger.plan import plan_of
from services.core.ledger.price import Price
from services.core.optimiser.ports import population_size
from services.core.policy.layout import Layout
from services.core.problem import ScorerKind
from services.core.problem_source import ProblemSource
from services.core.protocol.roles import Role

Fault = tuple[tuple[Key, ...], object, str]


def load(path: Path, variables: Mapping[str, str]) -> CampaignFile:
    """Read and check a campaign file; ``variables`` stand for ``${NAME}`` in its paths.

    Raises:
        SpecError: the file is unreadable or a field is wrong; names the field and its line.
        UnknownPrice: a pool model has no price.
    """
    return parse(read_text(path), path.name, path.parent.absolute(), variables)


def parse(text: str, name: str, folder: Path, variables: Mapping[str, str]) -> CampaignFile:
    """Check a campaign file's text; relative paths in it start at ``folder``. Raises as ``load`` does."""
    document = parse_yaml(text, name)
    try:
        file = CampaignFile.model_validate(document.value, context=Surroundings(folder, variables))
    except ValidationError as error:
        # Without a cause: pydantic's own report would repeat values that may be secrets.
        raise spec_error(error, document, CampaignFile) from None
    for where, got, wanted in _faults(file):
        raise SpecError(document.where(where), got, wanted)
    return file


def problem_source(file: CampaignFile) -> ProblemSource:
    """Return where the problems come from; a source without a seed of its own uses the campaign's."""
    return file.problems.record(file.seed)


def resolve(file: CampaignFile, hidden_size: int) -> Campaign:
    """Return the campaign with every default filled in.

    Args:
        file: the checked file.
        hidden_size: length of the encoder's state, which sets the dimension and with it the default population.

    Raises:
        SpecError: the budget does not hold the first generation.
    """
    roles = file.protocol.roles
    dimension = Layout.of(len(file.pool), roles, hidden_size).size
    campaign = Campaign(
        name=file.name,
        seed=file.seed,
        pool=tuple(_model(model) for model in file.pool),
        encoder=EncoderSpec(**_fields(file.encoder)),
        hidden_size=hidden_size,
        protocol=ProtocolSpec(**_fields(file.protocol)),
        search=SearchSpec(**_fields(file.search) | {"population": _population(file, dimension)}),
        validation=ValidationSpec(**_fields(file.validation)),
        evaluation=EvaluationSpec(**_fields(file.evaluation)),
        budget=BudgetLimits(
            episodes=file.budget.episodes or 0,
            calls=file.budget.calls,
            tokens=file.budget.tokens,
            usd=file.budget.usd,
            wall_clock_seconds=None if file.budget.hours is None else file.budget.hours * 3600,
        ),
        max_attempts=file.max_attempts,
        max_failure_share=file.max_failure_share,
        weight=file.weight,
    )
    if file.budget.episodes is None:
        planned = plan_of(campaign, (0,)).episodes
        return replace(campaign, budget=replace(campaign.budget, episodes=planned))
    require_first_generation(campaign)
    return campaign


def require_first_generation(campaign: Campaign) -> None:
    """Raise SpecError when the limit on episodes ends before the first generation does."""
    search, validation = campaign.search, campaign.validation
    first = search.population * search.replicates + validation.problems
    if campaign.budget.episodes < first:
        parts = f"{search.population} candidates x {search.replicates} replicates + {validation.problems} validation"
        raise SpecError("budget.episodes", campaign.budget.episodes, f"at least {first} for one generation ({parts})")


def _population(file: CampaignFile, dimension: int) -> int:
    return file.search.population or population_size(dimension)


def _fields(section: Section) -> dict[str, Any]:
    return dict(vars(section))


def _model(model: ModelSection) -> ModelSpec:
    return ModelSpec(
        name=model.name,
        litellm_model=model.model,
        price=Price(model.price.input, model.price.output),
        base_url=model.base_url,
        api_key_env=model.api_key_env,
        options=dict(model.options),
    )


def _faults(file: CampaignFile) -> Iterator[Fault]:
    """Yield what is wrong between sections that are right on their own."""
    yield from _repeated_models(file)
    yield from _too_few_problems(file)
    yield from _recorded_scores(file)
    if file.search.population is not None and file.search.population < 2:
        yield ("search", "population"), file.search.population, "auto or at least 2 candidates"


def _repeated_models(file: CampaignFile) -> Iterator[Fault]:
    seen: dict[str, int] = {}
    for index, model in enumerate(file.pool):
        if model.name in seen:
            yield ("pool", index, "name"), model.name, f"a name that pool.{seen[model.name]} does not have"
        seen.setdefault(model.name, index)


def _too_few_problems(file: CampaignFile) -> Iterator[Fault]:
    problems = file.problems
    sizes = problems if isinstance(problems, GeneratedSection) else problems.split
    if not isinstance(sizes, GeneratedSection | SeededSplitSection):
        return
    for section, size, wanted in (
        ("validation", sizes.validation, file.validation.problems),
        ("evaluation", sizes.heldout, file.evaluation.problems),
    ):
        if isinstance(size, int) and wanted > size:
            split = "validation" if section == "validation" else "heldout"
            yield (section, "problems"), wanted, f"at most the {size} problems of the {split} split"
    common = file.search.minibatch == "common" and isinstance(sizes.training, int)
    if common and sizes.training < file.search.replicates:
        wanted_text = f"at most the {sizes.training} training problems: a common minibatch takes each once"
        yield ("search", "replicates"), file.search.replicates, wanted_text


def _recorded_scores(file: CampaignFile) -> Iterator[Fault]:
    """A recorded score belongs to one model's own first answer, so nothing else may happen in the episode."""
    if not isinstance(file.problems, JsonlSection):
        return
    if not any(one.scorer is ScorerKind.RECORDED for one in file.problems.sets):
        return
    if file.protocol.roles != (Role.WORKER,):
        roles = [str(role) for role in file.protocol.roles]
        yield ("protocol", "roles"), roles, "[worker], because recorded scores are those of single Worker turns"
    if file.protocol.max_turns != 1:
        yield ("protocol", "max_turns"), file.protocol.max_turns, "1, because recorded scores are those of single turns"
