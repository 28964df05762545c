"""Every learner at the same booked episodes: the paper's Table 4, and how its choices move (Figure 6)."""

from __future__ import annotations

from services.core.campaign import Algorithm, Campaign, Start
from services.core.ledger.plan import plan_of
from services.core.studies.ablations import changed
from services.core.studies.study import BASE, Ground, LeftOut, Row, Variant

PAPER_SIGMA0 = 0.03
PAPER_HALF_WIDTH = 0.5  # of the box of random search (appendix A.5)
HEAD_ALONE = {"singular_values": "none"}
LINEAR = {"kind": "linear", "output": "softmax", "rank": None}
MOST_REPEATS = 1000  # of the labels, as a campaign file allows


def learner_rows(ground: Ground) -> list[Row | LeftOut]:
    """Return the lines of Table 4. Each books at most as many episodes before the evaluation as sep-CMA-ES does."""
    return [
        Row("sep-CMA-ES", _evolution(ground), paper="sep-CMA-ES"),
        _supervised(ground),
        Row("random search", _random_search(ground), paper="RS"),
        Row("REINFORCE", _reinforce(ground), paper="REINFORCE"),
    ]


def choice_rows(ground: Ground) -> list[Row | LeftOut]:
    """Return the learners that move through generations; a fit to labels has none."""
    rows = [row for row in learner_rows(ground) if isinstance(row, Row) and row.paper != "SFT"]
    return [*rows, LeftOut("SFT", "it is fitted at once: there are no generations over which choices could move")]


def booked(campaign: Campaign) -> int:
    """Return the episodes that a campaign books before its held-out evaluation."""
    plan = plan_of(campaign, (0,))
    return plan.episodes - plan.evaluation_episodes


def _evolution(ground: Ground) -> Variant:
    search = ground.campaign.search
    if search.algorithm is Algorithm.SEP_CMA_ES and search.start is Start.ZERO:
        return BASE
    return changed("table4-sep-cma-es", search={"algorithm": Algorithm.SEP_CMA_ES.value, "start": Start.ZERO.value})


def _random_search(ground: Ground) -> Variant:
    """Return random search with the paper's twice as many trials of each vector, where they can be had."""
    search = ground.campaign.search
    fields: dict[str, object] = {"algorithm": Algorithm.RANDOM_SEARCH.value, "start": Start.ZERO.value}
    fields["half_width"] = round(PAPER_HALF_WIDTH * search.sigma0 / PAPER_SIGMA0, 6)
    fields["population"] = search.population
    fits = search.minibatch == "fresh" or 2 * search.replicates <= ground.training_problems
    if search.population % 2 == 0 and search.population >= 6 and fits:
        fields |= {"population": search.population // 2, "replicates": 2 * search.replicates}
    return changed("table4-random-search", search=fields)


def _reinforce(ground: Ground) -> Variant:
    """Return REINFORCE, whose batches are all episodes that a generation of the search has (512 in the paper)."""
    search = ground.campaign.search
    fields = {"algorithm": Algorithm.REINFORCE.value, "start": Start.ZERO.value, "population": search.population}
    fields |= {"entropy_bonus": 0, "turn_bonus": 0}
    return changed("table4-reinforce", search=fields, encoder=HEAD_ALONE, head=LINEAR)


def _supervised(ground: Ground) -> Row | LeftOut:
    """Return SFT on labels that cost as many episodes; it chooses the one model of one Worker turn."""
    campaign, models = ground.campaign, len(ground.models)
    left = booked(campaign) - campaign.validation.problems
    problems = min(ground.training_problems, left // models)
    if problems < 1:
        reason = f"{left} booked episodes label no problem with {models} models"
        return LeftOut("SFT", reason, paper="SFT")
    repeats = min(MOST_REPEATS, left // (problems * models))
    variant = changed(
        "table4-sft",
        search={"algorithm": Algorithm.SFT.value, "start": Start.ZERO.value},
        labels={"problems": problems, "repeats": repeats},
        protocol={"roles": ["worker"], "max_turns": 1},
        encoder=HEAD_ALONE,
        head=LINEAR,
    )
    return Row("SFT", variant, paper="SFT")
