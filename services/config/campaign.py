"""Campaign files: YAML text in, checked sections, plain core records out.

``load`` needs nothing but the file and the variables its paths use; ``resolve`` fills in what depends on the encoder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from services.config.across_sections import faults
from services.config.changes import Change, changed
from services.config.fields import Section, Surroundings
from services.config.messages import spec_error
from services.config.model_section import ModelSection
from services.config.presets import filled
from services.config.sections import CampaignFile
from services.config.yaml_reader import parse as parse_yaml
from services.config.yaml_reader import read_text
from services.core.architecture import Architecture
from services.core.campaign import (
    AnswersSpec,
    BudgetLimits,
    Campaign,
    EncoderSpec,
    EvaluationSpec,
    HeadSpec,
    LabelsSpec,
    ModelLimits,
    ModelSpec,
    ProtocolSpec,
    ScoringSpec,
    SearchSpec,
    ValidationSpec,
)
from services.core.errors import SpecError
from services.core.learners import ReinforceSpec, SupervisedSpec
from services.core.ledger.plan import plan_of
from services.core.ledger.price import Price
from services.core.optimiser.ports import population_size
from services.core.policy.heads import LowRankHead
from services.core.policy.layout import Layout
from services.core.problem_source import ProblemSource
from services.core.rivals import RivalSpec

# Median length of the states that an encoder gives the reference questions, in a pool of so many models.
StateNorm = Callable[[EncoderSpec, int], float]


def load(path: Path, variables: Mapping[str, str], changes: Sequence[Change] = ()) -> CampaignFile:
    """Read and check a campaign file, with changes; ``variables`` stand for ``${NAME}`` in its paths.

    Raises:
        SpecError: the file is unreadable or a field is wrong; names the field and its line.
        UnknownPrice: a pool model has no price.
    """
    return parse(read_text(path), path.name, path.parent.absolute(), variables, changes)


def parse(
    text: str, name: str, folder: Path, variables: Mapping[str, str], changes: Sequence[Change] = ()
) -> CampaignFile:
    """Check a campaign file's text; relative paths in it start at ``folder``. Raises as ``load`` does."""
    document = parse_yaml(text, name)
    written = reduce(changed, changes, document.value)
    try:
        file = CampaignFile.model_validate(filled(written), context=Surroundings(folder, variables))
    except ValidationError as error:
        # Without a cause: pydantic's own report would repeat values that may be secrets.
        raise spec_error(error, document, CampaignFile) from None
    for where, got, wanted in faults(file):
        raise SpecError(document.where(where), got, wanted)
    return file


def problem_source(file: CampaignFile) -> ProblemSource:
    """Return where the problems come from; a source without a seed of its own uses the campaign's."""
    return file.problems.record(file.seed)


def models(file: CampaignFile) -> tuple[ModelSpec, ...]:
    """Return the pool, which depends on nothing outside the file."""
    return tuple(_model(model) for model in file.pool)


def protocol(file: CampaignFile) -> ProtocolSpec:
    """Return the protocol, which depends on nothing outside the file."""
    return ProtocolSpec(**_fields(file.protocol))


def encoder_spec(file: CampaignFile, architecture: Architecture) -> EncoderSpec:
    """Return the encoder with its matrices by name and size; raises SpecError for matrices it does not have."""
    matrices = architecture.matrices(file.encoder.singular_values)
    return EncoderSpec(**_fields(file.encoder) | {"singular_values": matrices})


def resolve(file: CampaignFile, architecture: Architecture, state_norm: StateNorm | None = None) -> Campaign:
    """Return the campaign with every default filled in.

    Args:
        file: the checked file.
        architecture: of its encoder; sets the dimension and with it the default population.
        state_norm: measures the encoder; called, and needed, for ``search.logit_sigma0`` only.

    Raises:
        SpecError: the encoder has no such matrices or is too narrow for the head, or the budget does not hold the
            first generation.
    """
    encoder = encoder_spec(file, architecture)
    campaign = Campaign(
        name=file.name,
        seed=file.seed,
        pool=models(file),
        encoder=encoder,
        hidden_size=architecture.hidden,
        protocol=protocol(file),
        search=_search(file, encoder, state_norm),
        validation=ValidationSpec(**_fields(file.validation)),
        evaluation=_evaluation(file),
        budget=_budget(file),
        max_attempts=file.max_attempts,
        max_failure_share=file.max_failure_share,
        weight=file.weight,
        head=HeadSpec(**_fields(file.head)),
        scoring=ScoringSpec(**_fields(file.scoring)),
        answers=AnswersSpec(**_fields(file.answers)),
        labels=LabelsSpec(**_fields(file.labels)),
        reinforce=ReinforceSpec(**_fields(file.reinforce)),
        supervised=SupervisedSpec(**_fields(file.supervised)),
    )
    return _with_episodes(_with_population(_with_rank(campaign)))


def _search(file: CampaignFile, encoder: EncoderSpec, state_norm: StateNorm | None) -> SearchSpec:
    fields = _fields(file.search) | {"population": file.search.population or 0}
    logit_sigma0 = fields.pop("logit_sigma0")
    if logit_sigma0 is not None:
        if state_norm is None:
            raise ValueError("search.logit_sigma0 needs a measured encoder")
        # A logit is w h with entries of w from N(0, sigma0^2), so its standard deviation is sigma0 |h|.
        fields["sigma0"] = logit_sigma0 / state_norm(encoder, len(file.pool))
    return SearchSpec(**fields)


def _evaluation(file: CampaignFile) -> EvaluationSpec:
    rivals = tuple(RivalSpec(**_fields(rival)) for rival in file.evaluation.rivals)
    return EvaluationSpec(**_fields(file.evaluation) | {"rivals": rivals})


def _budget(file: CampaignFile) -> BudgetLimits:
    fields = _fields(file.budget)
    hours = fields.pop("hours")
    seconds = None if hours is None else hours * 3600
    return BudgetLimits(**fields | {"episodes": file.budget.episodes or 0}, wall_clock_seconds=seconds)


def _with_rank(campaign: Campaign) -> Campaign:
    head = Layout.of_campaign(campaign).head
    rank = head.rank if isinstance(head, LowRankHead) else None
    return replace(campaign, head=replace(campaign.head, rank=rank))


def _with_population(campaign: Campaign) -> Campaign:
    size = campaign.search.population or population_size(Layout.of_campaign(campaign).size)
    return replace(campaign, search=replace(campaign.search, population=size))


def _with_episodes(campaign: Campaign) -> Campaign:
    if not campaign.budget.episodes:
        return replace(campaign, budget=replace(campaign.budget, episodes=plan_of(campaign, (0,)).episodes))
    require_first_generation(campaign)
    return campaign


def require_first_generation(campaign: Campaign) -> None:
    """Raise SpecError when the limit on episodes ends before the first generation does."""
    labels, search, validation = campaign.labels, campaign.search, campaign.validation
    first = search.population * search.replicates + validation.problems
    parts = f"{search.population} candidates x {search.replicates} replicates + {validation.problems} validation"
    if labels.problems:
        first = len(campaign.pool) * labels.problems * labels.repeats
        parts = f"{len(campaign.pool)} models x {labels.problems} labelled problems x {labels.repeats} repeats"
    if campaign.budget.episodes < first:
        raise SpecError("budget.episodes", campaign.budget.episodes, f"at least {first} for one generation ({parts})")


def _fields(section: Section) -> dict[str, Any]:
    return dict(vars(section))


def _model(model: ModelSection) -> ModelSpec:
    return ModelSpec(
        name=model.name,
        litellm_model=model.model,
        price=Price(model.price.input, model.price.output, model.price.cached_input, model.price.reasoning),
        base_url=model.base_url,
        api_key_env=model.api_key_env,
        options=dict(model.options),
        context_window=model.context_window,
        limits=ModelLimits(model.requests_per_minute, model.tokens_per_minute, model.max_concurrency),
        stream=model.stream,
        description=model.description,
    )
