"""Where rewards of single models come from: a submitted campaign, a campaign file with recordings, or a table."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from services.benchmarks.registry import load as load_problems
from services.benchmarks.registry import resolved
from services.cli import apart, connections, outcome_rows
from services.cli.graders import open_graders
from services.config import campaign as campaign_file
from services.config import document
from services.config.pool_file import load as load_pool
from services.config.settings import LOCAL_PREFIX, Settings
from services.core.campaign import Campaign, ModelSpec
from services.core.errors import SpecError
from services.core.local_pool import ReplayPool
from services.core.problem import Problem, ScorerKind, Split
from services.core.scoring.scorer import grade
from services.core.states import GenerationKind
from services.core.statistics.outcome_table import Answered, Tabulated, tabulate
from services.pool.local.recordings import Recorded, read_index
from services.storage import campaigns, outcome_reads

CAMPAIGN_FILES = frozenset({".yaml", ".yml"})
TABLES = frozenset({".csv", ".jsonl", ".json", ".parquet"})


@dataclass(frozen=True)
class Outcomes:
    """Rewards of single models.

    Attributes:
        source: what was read, in words.
        tabulated: the table.
        prices: model -> USD per million output tokens, of those that have a known price.
    """

    source: str
    tabulated: Tabulated
    prices: Mapping[str, Decimal]

    @property
    def remarks(self) -> list[str]:
        """Return what was left aside, in sentences."""
        found = self.tabulated
        return [
            *([f"{found.incomplete:,} questions left out: some model did not answer them"] * bool(found.incomplete)),
            *([f"{found.surplus:,} answers left out: not every question has as many"] * bool(found.surplus)),
        ]


def read(
    sources: Sequence[str],
    settings: Settings,
    columns: outcome_rows.Columns,
    *,
    heldout: bool = False,
    with_states: bool = False,
) -> Outcomes:
    """Read rewards from the name of a campaign, from a campaign file, or from tables.

    Args:
        sources: the name, the file, or one or more tables.
        settings: where database, data and pools are.
        columns: fields of the tables.
        heldout: whether held-out problems of a campaign file count too.
        with_states: whether the encoder of a campaign file reads its questions, which takes a while.

    Raises:
        SpecError: nothing of the kind, or no question that every model answered.
    """
    paths = [Path(source) for source in sources]
    if len(paths) == 1 and paths[0].suffix in CAMPAIGN_FILES:
        return of_file(paths[0], settings, heldout=heldout, with_states=with_states)
    if with_states:
        raise SpecError("--states", ", ".join(sources), "a campaign file, whose encoder reads the questions")
    if all(path.is_file() for path in paths):
        answers = [row for path in paths for row in outcome_rows.read(path, columns)]
        models = tuple(dict.fromkeys(each.model for each in answers))
        prices = outcome_rows.prices(paths, columns)
        names = ", ".join(path.name for path in paths)
        return Outcomes(names, tabulated(answers, models, names), prices)
    missing = next(path for path in paths if not path.is_file())
    if len(paths) > 1 or missing.suffix in TABLES:
        raise SpecError("SOURCE", str(missing), "a readable file")
    return of_campaign(sources[0], settings)


def tabulated(answers: Sequence[Answered], models: Sequence[str], source: str) -> Tabulated:
    try:
        return tabulate(answers, models)
    except ValueError as error:
        raise SpecError(source, str(error), "rewards of every model on the same questions") from error


def prices_of(pool: Sequence[ModelSpec]) -> dict[str, Decimal]:
    return {model.name: model.price.output_per_million for model in pool}


def of_campaign(name: str, settings: Settings) -> Outcomes:
    """Return what models were worth on the labelled problems of a campaign, else on the ones they were evaluated on."""
    with connections.open_database(settings) as database, database.transaction() as conn:
        record = campaigns.by_name(conn, name)
        campaign: Campaign = document.from_json(record.spec)
        for kind in (GenerationKind.LABELLING, GenerationKind.EVALUATION):
            rows = outcome_reads.singles(conn, record.id, kind)
            states = outcome_reads.states(conn, record.id, kind)
            if rows:
                break
        else:
            wanted = "a campaign with labelled problems, or evaluated with the baseline `single`"
            raise SpecError("SOURCE", name, wanted)
    models = [model.name for model in campaign.pool]
    answers = [Answered(row.key, row.family, models[row.model], row.reward) for row in rows]
    found = tabulated(answers, models, f"campaign {name}")
    if states and all(key in states for key in found.keys):
        read = np.stack([states[key] for key in found.keys]).astype(np.float64)
        found = replace(found, table=replace(found.table, states=read))
    return Outcomes(f"campaign {name}, {kind} generation", found, prices_of(campaign.pool))


def of_file(path: Path, settings: Settings, *, heldout: bool, with_states: bool) -> Outcomes:
    """Return recorded scores of a campaign file's problems, or recorded answers of its replay pools, graded here."""
    file = campaign_file.load(path, connections.variables(settings))
    pool = campaign_file.models(file)
    names = [model.name for model in pool]
    splits = load_problems(resolved(campaign_file.problem_source(file)), names)
    wanted = [split for split in Split if heldout or split is not Split.HELDOUT]
    problems = [problem for split in wanted for problem in splits[split]]
    index = answers_of(pool, settings) if any(one.scorer is not ScorerKind.RECORDED for one in problems) else {}
    scorers = {problem.scorer for problem in problems}
    with open_graders(scorers, jobs=1, python=settings.sandbox_python) as graders, warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # Python's remarks on what models wrote as literals
        answers = [
            Answered(problem.key, problem.family, name, grade(problem, answer, name, graders).reward)
            for problem in problems
            for name, answer in given(problem, names, index)
        ]
    what = f"{path.name}, {' and '.join(wanted)} problems"
    found = tabulated(answers, names, str(path))
    if with_states:
        questions = {problem.key: problem.question for problem in problems}
        read = states_of(path, [questions[key] for key in found.keys])
        found = replace(found, table=replace(found.table, states=read))
    return Outcomes(what, found, prices_of(pool))


def states_of(path: Path, questions: Sequence[str]) -> NDArray[np.float64]:
    """Return what a campaign file's encoder reads of questions, in a process of its own, shape (questions, d)."""
    with TemporaryDirectory() as folder:
        asked, written = Path(folder) / "questions.json", Path(folder) / "states.npy"
        asked.write_text(json.dumps(list(questions)), encoding="utf-8")
        words = [str(path), "--questions", str(asked), "--output", str(written)]
        apart.answer("services.diagnosis.question_states", words, ("torch",))
        states: NDArray[np.float64] = np.load(written)
    return states


def given(
    problem: Problem, names: Sequence[str], index: Mapping[str, Mapping[str, Recorded]]
) -> Iterator[tuple[str, str | None]]:
    """Yield the models with a record of this problem and what they answered."""
    for name in names:
        if problem.scorer is ScorerKind.RECORDED:
            yield name, ""
        elif (recorded := index[name].get(problem.question)) is not None and name in recorded.answers:
            yield name, recorded.answers[name]


def answers_of(pool: Sequence[ModelSpec], settings: Settings) -> dict[str, dict[str, Recorded]]:
    """Return for every model question -> record, under the campaign's names for the models."""
    found: dict[str, dict[str, Recorded]] = {}
    read_pools: dict[str, tuple[ReplayPool, dict[str, Recorded]]] = {}
    for place, model in enumerate(pool):
        address = model.base_url or ""
        name = address.removeprefix(LOCAL_PREFIX)
        if name not in read_pools:
            read_pools[name] = _replay(place, address, settings)
        replay, index = read_pools[name]
        asked = model.litellm_model.partition("/")[2]
        if asked not in replay.models:
            raise SpecError(f"pool.{place}.model", model.litellm_model, f"a model of the pool {name}")
        found[model.name] = {
            question: replace(record, answers={model.name: record.answers[asked]})
            for question, record in index.items()
            if asked in record.answers
        }
    return found


def _replay(place: int, address: str, settings: Settings) -> tuple[ReplayPool, dict[str, Recorded]]:
    path = settings.local_pool_dir / f"{address.removeprefix(LOCAL_PREFIX)}.yaml"
    if not address.startswith(LOCAL_PREFIX) or not path.is_file():
        raise SpecError(f"pool.{place}.base_url", address or None, WANTED)
    replay = load_pool(path, connections.variables(settings))
    if not isinstance(replay, ReplayPool):
        raise SpecError(f"pool.{place}.base_url", address, WANTED)
    return replay, read_index(replay.recordings, replay.models)


WANTED = (
    "`local:NAME` of a replay pool, or problems with recorded scores; models that have to be asked are weighed by a "
    "submitted campaign with `labels.problems`"
)
