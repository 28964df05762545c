"""``python -m services.verifiers CAMPAIGN``: measure the Verifiers of a campaign's pool; JSON on stdout."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from services.config import document
from services.config.settings import Settings, load_settings
from services.core.campaign import Campaign, EvidenceUse
from services.core.errors import SpecError, TrinityError
from services.core.problem import Problem, ScorerKind, Split
from services.core.protocol.evidence import examiner
from services.core.protocol.ports import ModelPool
from services.core.scoring.ports import CodeRunner
from services.local import endpoints
from services.storage import answers, campaigns, problems, schema
from services.storage.engine import Database
from services.verifiers.asking import Asking, Price, Question, price_of, questions
from services.verifiers.counting import rates
from services.verifiers.planting import Planted, planted, played

MakePool = Callable[[Campaign], ModelPool]


@dataclass(frozen=True)
class Wanted:
    """What to measure: so many problems (or answers of either kind), drawn by a seed, for at most so much money."""

    campaign: str
    source: str
    problems: int
    seed: int
    evidence: tuple[EvidenceUse, ...]
    models: tuple[str, ...]
    largest_usd: Decimal
    parallel: int
    plan: bool


@dataclass(frozen=True)
class Known:
    """A campaign with answers that are known to be right or wrong."""

    campaign: Campaign
    planted: tuple[Planted, ...]


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit status: 0 with JSON on stdout, 1 with one sentence on stderr."""
    try:
        wanted, settings = read_arguments(arguments), load_settings()
        known = known_answers(settings, wanted)
        with ExitStack() as closing:
            programs = runner(known, wanted, settings, closing)
            found = measure(wanted, known, lambda campaign: pool_of(campaign, settings), programs)
    except TrinityError as error:
        progress(f"error: {error}")
        return 1
    sys.stdout.write(json.dumps(found, allow_nan=False) + "\n")
    return 0


def read_arguments(arguments: Sequence[str] | None) -> Wanted:
    parser = argparse.ArgumentParser(prog="python -m services.verifiers", description="Measure Verifiers.")
    parser.add_argument("campaign")
    parser.add_argument("--answers", choices=("planted", "played"), required=True)
    parser.add_argument("--problems", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--evidence", action="append", choices=[use.value for use in EvidenceUse], required=True)
    parser.add_argument("--model", action="append", default=[])
    parser.add_argument("--max-usd", type=Decimal, required=True)
    parser.add_argument("--parallel", type=int, required=True)
    parser.add_argument("--plan", action="store_true")
    given = parser.parse_args(arguments)
    return Wanted(
        campaign=given.campaign,
        source=given.answers,
        problems=given.problems,
        seed=given.seed,
        evidence=tuple(use for use in EvidenceUse if use.value in given.evidence),
        models=tuple(given.model),
        largest_usd=given.max_usd,
        parallel=given.parallel,
        plan=given.plan,
    )


def known_answers(settings: Settings, wanted: Wanted) -> Known:
    """Read the campaign from the configured database."""
    url = endpoints.database_url(settings.database_url, settings.var_dir)
    database = Database(url, application_name="trinity verifiers", pool_size=1)
    try:
        return read(database, wanted)
    finally:
        database.close()


def read(database: Database, wanted: Wanted) -> Known:
    """Return the campaign with the answers to ask about.

    Raises:
        SpecError: there is no such campaign, or it has nothing to ask about.
    """
    with database.transaction() as conn:
        schema.check(conn)
        record = campaigns.by_name(conn, wanted.campaign)
        by_id: dict[int, Problem] = {}
        for split in Split:
            by_id |= problems.load(conn, record.id, split)
        given = answers.graded(conn, record.id) if wanted.source == "played" else []
    campaign = document.from_json(record.spec)
    if wanted.source == "played":
        found, need = played(by_id, given, wanted.problems, wanted.seed), "scored episodes"
    else:
        found, need = planted(list(by_id.values()), wanted.problems, wanted.seed), "problems with references"
    if not found:
        raise SpecError("campaign", wanted.campaign, f"a campaign that has {need} to ask about")
    return Known(campaign, tuple(found))


def measure(wanted: Wanted, known: Known, make_pool: MakePool, programs: CodeRunner | None) -> dict[str, Any]:
    """Return price and rates as JSON; only the price where no more is wanted.

    Raises:
        SpecError: a model is unknown, or the largest price is above the limit; nothing was asked then.
    """
    campaign = known.campaign
    asked = questions(
        campaign,
        known.planted,
        agents_of(campaign, wanted.models),
        wanted.evidence,
        lambda one, item: examiner(one.problem, programs)(item),
    )
    price = price_of(campaign, asked)
    found = head(wanted, known, price)
    if wanted.plan:
        return found
    if price.largest_usd > wanted.largest_usd:
        raise SpecError("--max-usd", str(wanted.largest_usd), f"at least {price.largest_usd:.4f}, or fewer --problems")
    return found | answered(wanted, known, asked, make_pool(campaign))


def head(wanted: Wanted, known: Known, price: Price) -> dict[str, Any]:
    right = sum(one.right for one in known.planted)
    return {
        "campaign": wanted.campaign,
        "answers": {"source": wanted.source, "right": right, "wrong": len(known.planted) - right, "seed": wanted.seed},
        "price": {
            "calls": price.calls,
            "largest_usd": format(price.largest_usd, "f"),
            "expected_usd": format(price.expected_usd, "f"),
        },
    }


def answered(wanted: Wanted, known: Known, asked: Sequence[Question], pool: ModelPool) -> dict[str, Any]:
    asking = Asking(known.campaign, pool, wanted.parallel, progress)
    verdicts = asking.ask(asked)
    rows = rates(known.campaign, verdicts)
    return {"spent_usd": format(asking.spent, "f"), "failures": asking.failures, "verifiers": rows}


def agents_of(campaign: Campaign, names: Sequence[str]) -> list[int]:
    """Return the places of the named models, of all if none is named; SpecError for an unknown one."""
    pool = [model.name for model in campaign.pool]
    for name in names:
        if name not in pool:
            raise SpecError("--model", name, f"a name of the pool: {', '.join(pool)}")
    return [place for place, name in enumerate(pool) if not names or name in names]


def pool_of(campaign: Campaign, settings: Settings) -> ModelPool:
    # litellm takes seconds to import: a price is told without it.
    from services.pool.litellm_client import LitellmPool

    return LitellmPool(campaign.pool, settings.resolve_base_url)


def runner(known: Known, wanted: Wanted, settings: Settings, closing: ExitStack) -> CodeRunner | None:
    """Return where programs run, opened if any is to be run for evidence."""
    programs = any(one.problem.scorer is ScorerKind.PROGRAM for one in known.planted)
    if not programs or set(wanted.evidence) == {EvidenceUse.NONE}:
        return None
    from services.sandbox.opening import open_runner

    return closing.enter_context(open_runner(python=settings.sandbox_python))


def progress(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
