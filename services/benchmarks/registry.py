"""Problem sources by kind, and what every source owes: three disjoint splits of checkable problems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from services.benchmarks import files, generated, loading
from services.core.campaign import Campaign
from services.core.errors import SpecError
from services.core.problem import Problem, Split
from services.core.problem_source import BenchmarkProblems, GeneratedProblems, ProblemSource


def load(source: ProblemSource, models: Sequence[str]) -> dict[Split, list[Problem]]:
    """Return the problems of each split, in an order that depends on the source alone.

    Args:
        source: where they come from.
        models: names of the pool's models, whose recorded scores are kept where the source has scores.

    Raises:
        SpecError: names the field of the campaign file, or file and line of the problem file.
        PrerequisiteMissing: files or packages are not here; says how to get them.
    """
    if isinstance(source, BenchmarkProblems):
        return loading.load(source)
    if isinstance(source, GeneratedProblems):
        return generated.load(source)
    return files.load(source, models)


def resolved(source: ProblemSource) -> ProblemSource:
    """Return the source with what is known of its files at this moment, for the campaign's record."""
    return loading.resolved(source) if isinstance(source, BenchmarkProblems) else source


def require_sizes(campaign: Campaign, problems: Mapping[Split, Sequence[Problem]]) -> None:
    """Raise SpecError when the campaign wants more problems of a split than there are."""
    training, validation, heldout = (len(problems[split]) for split in Split)
    if campaign.validation.problems > validation:
        wanted = f"at most the {validation} problems of the validation split"
        raise SpecError("validation.problems", campaign.validation.problems, wanted)
    if campaign.evaluation.problems > heldout:
        wanted = f"at most the {heldout} problems of the heldout split"
        raise SpecError("evaluation.problems", campaign.evaluation.problems, wanted)
    if campaign.labels.problems > training:
        raise SpecError("labels.problems", campaign.labels.problems, f"at most the {training} training problems")
    if training == 0:
        raise SpecError("problems", "no training problem", "at least one")
    if campaign.search.minibatch == "common" and campaign.search.replicates > training:
        wanted = f"at most the {training} training problems: a common minibatch takes each once"
        raise SpecError("search.replicates", campaign.search.replicates, wanted)
