"""What a campaign file may not say although each of its sections is right on its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from services.config.learning import label_faults, learning_faults, measuring_faults
from services.config.problems_section import BenchmarksSection, GeneratedSection, JsonlSection, SeededSplitSection
from services.config.rival_faults import rival_faults
from services.config.sections import CampaignFile
from services.config.yaml_reader import Key
from services.core.campaign import Algorithm, HeadKind
from services.core.problem import ScorerKind
from services.core.protocol.roles import Role
from services.core.rivals import RivalKind, RivalSpec

# With fewer there is nothing to recombine; the search takes no less.
SMALLEST_POPULATION = 3

# Of a role's instruction and a short question.
SMALLEST_PROMPT = 512

BLIND_TO_COST = frozenset({Algorithm.REINFORCE, Algorithm.SFT})

Fault = tuple[tuple[Key, ...], object, str]


def faults(file: CampaignFile) -> Iterator[Fault]:
    """Yield what is wrong between sections that are right on their own."""
    yield from _repeated_models(file)
    yield from _narrow_windows(file)
    yield from _too_few_problems(file)
    yield from _recorded_scores(file)
    yield from _agents_and_step_size(file)
    yield from _cost(file)
    yield from _rivals(file)
    matrices, targets = file.encoder.singular_values, file.supervised.targets
    yield from learning_faults(file.search, file.head, file.protocol, matrices, targets, len(file.pool))
    yield from label_faults(file.search, [rival.kind for rival in file.evaluation.rivals], file.labels.problems)
    yield from measuring_faults(file.search, file.validation.problems, file.evaluation.problems)
    if file.search.population is not None and file.search.population < SMALLEST_POPULATION:
        yield ("search", "population"), file.search.population, f"auto or at least {SMALLEST_POPULATION} candidates"


def _repeated_models(file: CampaignFile) -> Iterator[Fault]:
    seen: dict[str, int] = {}
    for index, model in enumerate(file.pool):
        if model.name in seen:
            yield ("pool", index, "name"), model.name, f"a name that pool.{seen[model.name]} does not have"
        seen.setdefault(model.name, index)


def _narrow_windows(file: CampaignFile) -> Iterator[Fault]:
    """A window that the longest reply fills lets no call through, and every turn of the model would be empty."""
    longest = file.protocol.max_output_tokens
    for index, model in enumerate(file.pool):
        if model.context_window is not None and model.context_window < longest + SMALLEST_PROMPT:
            wanted = f"at least protocol.max_output_tokens ({longest}) and {SMALLEST_PROMPT} tokens for the prompt"
            yield ("pool", index, "context_window"), model.context_window, wanted


def _too_few_problems(file: CampaignFile) -> Iterator[Fault]:
    problems = file.problems
    if isinstance(problems, BenchmarksSection):  # known once their files are read
        return
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
    if isinstance(sizes.training, int) and file.labels.problems > sizes.training:
        yield ("labels", "problems"), file.labels.problems, f"at most the {sizes.training} training problems"
    common = file.search.minibatch == "common" and isinstance(sizes.training, int)
    if common and sizes.training < file.search.replicates:
        wanted_text = f"at most the {sizes.training} training problems: a common minibatch takes each once"
        yield ("search", "replicates"), file.search.replicates, wanted_text


def _recorded_scores(file: CampaignFile) -> Iterator[Fault]:
    """A recorded score belongs to one model's own first answer, so nothing else may happen in the episode."""
    if not _has_recorded_scores(file):
        return
    if file.protocol.roles != (Role.WORKER,):
        roles = [str(role) for role in file.protocol.roles]
        yield ("protocol", "roles"), roles, "[worker], because recorded scores are those of single Worker turns"
    if file.protocol.max_turns != 1:
        yield ("protocol", "max_turns"), file.protocol.max_turns, "1, because recorded scores are those of single turns"


def _has_recorded_scores(file: CampaignFile) -> bool:
    problems = file.problems
    return isinstance(problems, JsonlSection) and any(one.scorer is ScorerKind.RECORDED for one in problems.sets)


def _rivals(file: CampaignFile) -> Iterator[Fault]:
    rivals = [RivalSpec(**vars(rival)) for rival in file.evaluation.rivals]
    names = [model.name for model in file.pool]
    agents = len(file.protocol.agents) or len(names)
    recorded = _has_recorded_scores(file)
    for where, got, wanted in rival_faults(rivals, names, agents, recorded=recorded):
        yield ("evaluation", "rivals", *where), got, wanted
    windows = {model.name: model.context_window for model in file.pool}
    for index, rival in enumerate(rivals):
        window, tokens = windows.get(rival.model or ""), rival.samples * file.protocol.max_output_tokens
        if rival.kind is RivalKind.LONG and window is not None and window < tokens + SMALLEST_PROMPT:
            wanted = f"a multiple whose tokens ({tokens}) and {SMALLEST_PROMPT} for the prompt fit in {window}"
            yield ("evaluation", "rivals", index, "samples"), rival.samples, wanted


def _agents_and_step_size(file: CampaignFile) -> Iterator[Fault]:
    names = [model.name for model in file.pool]
    for index, got, wanted in unknown_agents(file.protocol.agents, names):
        yield ("protocol", "agents", index), got, wanted
    for got, wanted in unknown_judge(file.scoring.judge, names):
        yield ("scoring", "judge"), got, wanted
    if file.search.logit_sigma0 is not None and file.head.kind is not HeadKind.LINEAR:
        wanted = f"sigma0 beside head.kind {file.head.kind}: its logits are no plain products of weights and state"
        yield ("search", "logit_sigma0"), file.search.logit_sigma0, wanted


def _cost(file: CampaignFile) -> Iterator[Fault]:
    """What learns from single rewards, or from labels, sees no fitness in which costs could count."""
    algorithm = file.search.algorithm
    if file.search.cost_weight and algorithm in BLIND_TO_COST:
        yield (
            ("search", "cost_weight"),
            file.search.cost_weight,
            f"0 beside {algorithm}, which does not rank candidates",
        )


def unknown_agents(agents: Sequence[str], names: Sequence[str]) -> Iterator[tuple[int, str, str]]:
    """Yield position, name and what is wanted for each allowed agent that the pool does not have."""
    for index, agent in enumerate(agents):
        if agent not in names:
            yield index, agent, f"a name of the pool: {', '.join(names)}"


def unknown_judge(judge: str | None, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the judge's name and what is wanted if the pool has no such model."""
    if judge is not None and judge not in names:
        yield judge, f"a name of the pool: {', '.join(names)}"
