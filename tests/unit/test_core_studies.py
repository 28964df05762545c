"""The studies as data: the paper's figures, the rows on different bases, and names."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.cli import submission
from services.core.campaign import Algorithm, LabelsSpec, Start
from services.core.ledger.plan import plan_of
from services.core.protocol.roles import Role
from services.core.studies import paper
from services.core.studies.ablations import ablation_rows, head_rows, turn_rows
from services.core.studies.catalogue import STUDIES
from services.core.studies.learners import booked, learner_rows
from services.core.studies.names import LONGEST, campaign_name, slug
from services.core.studies.paper import PaperTable
from services.core.studies.rivals import compared_rows, prompted_rows, vote_rows
from services.core.studies.study import BASE, Ground, LeftOut, Row, StudyName, Who
from tests.support.campaigns import small_campaign

PRINTED_AVERAGES = {
    "TRINITY": 70.44,
    "w/o SVF": 67.85,
    "w/o Thinker": 68.69,
    "w/o tri-role": 67.02,
    "last token": 64.66,
    "Claude-4-Sonnet only": 61.12,
    "Gemini-2.5-pro only": 62.99,
    "GPT-5 only": 65.95,
}


def lines(rows: object) -> dict[str, Row]:
    assert isinstance(rows, list)
    return {row.label: row for row in rows if isinstance(row, Row)}


def left(rows: object) -> dict[str, str]:
    assert isinstance(rows, list)
    return {row.label: row.reason for row in rows if isinstance(row, LeftOut)}


GROUND = Ground(small_campaign(), 60)


@pytest.mark.parametrize(("row", "printed"), list(PRINTED_AVERAGES.items()))
def test_the_averages_of_table_2_are_those_that_the_paper_prints(row: str, printed: float) -> None:
    average = paper.TABLE_2.average(row)
    assert average is not None
    assert 100 * average == pytest.approx(printed, abs=0.0051)


def test_table_8_gives_its_own_average_and_not_that_of_the_text() -> None:
    average = paper.TABLE_8.average("LLM as coordinator (Gemini-2.5-pro)")
    assert average is not None
    assert 100 * average == pytest.approx(53.76, abs=0.01)
    assert any("64.14" in conflict for conflict in paper.TABLE_8.conflicts)


@pytest.mark.parametrize(
    ("table", "row", "figures"),
    [
        (paper.TABLE_2, "last token", (0.5085, 0.87, 0.8219, 0.386)),
        (paper.TABLE_3, "block-diagonal-10 + argmax", (0.551, 0.812, 0.802, 0.376)),
        (paper.TABLE_4, "REINFORCE", (0.253, 0.459, 0.5, 0.266)),
        (paper.TABLE_4, "RS", (0.374, 0.794, 0.897, 0.345)),
        (paper.TABLE_7, "Majority@5 Gemini-2.5-pro", (0.9157,)),
        (paper.TABLE_8, "TRINITY", (0.6149, 0.88, 0.9156, 0.4072)),
        (paper.TABLE_9, "MoA", (21634, 6871, 5218, 11086)),
        (paper.TABLE_9, "5xSR Gemini-2.5-pro", (11046, 5142, 5460, 6710)),
        (paper.TABLE_9, "5xCTX GPT-5", (1207, 221, 66, 219)),
        (paper.TABLE_9, "Claude-4-Sonnet", (530, 382, 217, 304)),
        (paper.FIGURE_3, "MoA", (0.39, 0.83, None, 0.38)),
        (paper.TURNS, "6 turns", (0.863,)),
    ],
)
def test_the_figures_are_the_papers(table: PaperTable, row: str, figures: tuple[float | None, ...]) -> None:
    assert table.rows[row] == figures


@pytest.mark.parametrize("study", STUDIES.values(), ids=lambda study: str(study.name))
def test_every_study_has_figures_or_statements_for_what_it_compares(study: object) -> None:
    found = STUDIES[StudyName(getattr(study, "name"))]  # noqa: B009
    table = found.paper
    assert table.source
    assert all(len(figures) == len(table.columns) for figures in table.rows.values())
    named = {row.paper for row in found.rows(GROUND) if row.paper is not None}
    known = set(table.rows) | set(table.statements)
    assert named & known, "no line stands beside one of the paper"
    against = {row.against for row in found.rows(GROUND) if isinstance(row, Row) and row.against is not None}
    assert found.name is StudyName.TURNS or against <= known


def test_a_difference_is_taken_over_the_columns_that_both_rows_have() -> None:
    assert paper.FIGURE_3.difference("MoA", "TRINITY") == pytest.approx(
        ((0.39 - 0.6146) + (0.83 - 0.88) + (0.38 - 0.4072)) / 3
    )
    assert paper.FIGURE_3.average("MoA") is None
    assert paper.TURNS.difference("4 turns", "2 turns") is None
    assert paper.TURNS.difference("no such row", "2 turns") is None


@pytest.mark.parametrize("name", list(StudyName))
def test_every_study_is_in_the_catalogue_and_begins_with_what_differences_are_taken_to(name: StudyName) -> None:
    first = STUDIES[name].rows(GROUND)[0]
    assert isinstance(first, Row)
    assert first.variant is BASE


def test_what_the_base_lacks_is_not_taken_away() -> None:
    campaign = GROUND.campaign
    roles = replace(campaign.protocol, roles=(Role.WORKER, Role.VERIFIER))
    rows = ablation_rows(replace(GROUND, campaign=replace(campaign, protocol=roles)))
    assert "w/o Thinker" in left(rows)
    assert lines(rows)["w/o tri-role"].variant.changes["protocol"] == {"roles": ["worker"]}
    alone = replace(campaign.protocol, roles=(Role.WORKER,), agents=(campaign.pool[0].name,))
    last = replace(campaign.encoder, position="last")
    rows = ablation_rows(replace(GROUND, campaign=replace(campaign, protocol=alone, encoder=last)))
    assert set(left(rows)) == {"w/o Thinker", "w/o tri-role", "last token", "one model only"}


def test_a_base_without_singular_values_is_compared_with_one_that_has_them() -> None:
    assert not GROUND.campaign.encoder.singular_values
    row = lines(ablation_rows(GROUND))["with SVF (the base has none)"]
    assert (row.paper, row.against) == ("TRINITY", "w/o SVF")


def test_the_bases_own_head_and_number_of_turns_are_the_base_itself() -> None:
    assert [row.label for row in lines(head_rows(GROUND)).values() if row.variant is BASE] == ["linear"]
    protocol = replace(GROUND.campaign.protocol, max_turns=4)
    rows = lines(turn_rows(replace(GROUND, campaign=replace(GROUND.campaign, protocol=protocol))))
    assert list(rows) == ["4 turns (base)", "2 turns", "6 turns"]


def test_every_learner_books_at_most_what_the_base_does() -> None:
    campaign, limit = GROUND.campaign, booked(GROUND.campaign)
    rows = lines(learner_rows(GROUND))
    assert limit == plan_of(campaign, (0,)).episodes - plan_of(campaign, (0,)).evaluation_episodes
    search = rows["random search"].variant.changes["search"]
    trials = search["population"] * search.get("replicates", campaign.search.replicates)
    assert trials == campaign.search.population * campaign.search.replicates
    assert rows["REINFORCE"].variant.changes["search"]["population"] == campaign.search.population
    labels = rows["SFT"].variant.changes["labels"]
    spent = labels["problems"] * labels["repeats"] * len(campaign.pool) + campaign.validation.problems
    assert limit - labels["problems"] * len(campaign.pool) < spent <= limit


def test_a_base_with_another_learner_gets_sep_cma_es_beside_it() -> None:
    search = replace(GROUND.campaign.search, algorithm=Algorithm.REINFORCE)
    (first, *_) = learner_rows(replace(GROUND, campaign=replace(GROUND.campaign, search=search)))
    assert isinstance(first, Row)
    assert first.variant.changes["search"] == {"algorithm": "sep_cma_es", "start": Start.ZERO.value}


def test_labels_for_which_there_is_no_budget_are_left_out() -> None:
    search = replace(GROUND.campaign.search, population=3, replicates=1, generations=1)
    validation = replace(GROUND.campaign.validation, problems=0)
    poor = replace(GROUND.campaign, search=search, validation=validation, pool=GROUND.campaign.pool * 2)
    assert "SFT" in left(learner_rows(replace(GROUND, campaign=poor)))


def test_rivals_of_one_study_are_in_one_campaign_and_each_model_is_there() -> None:
    for rows, keys in ((vote_rows(GROUND), {"", "votes"}), (prompted_rows(GROUND), {"", "prompted"})):
        assert {row.variant.key for row in lines(rows).values()} == keys
        rivals = [row for row in lines(rows).values() if row.policy.who is Who.RIVAL]
        assert [row.variant.rivals[0]["model"] for row in rivals] == list(GROUND.models)
    labelled = {row.label for row in lines(compared_rows(GROUND)).values() if "labels" in row.variant.changes}
    assert "RouterDC" in labelled
    assert "MoA" not in labelled
    own = replace(GROUND.campaign, labels=LabelsSpec(problems=5))
    assert not [row for row in lines(compared_rows(replace(GROUND, campaign=own))).values()
                if "labels" in row.variant.changes]  # fmt: skip


NAMES = st.from_regex(r"\A[a-z0-9][a-z0-9._-]{0,63}\Z")


@given(NAMES, st.sampled_from(["", "table2-last-token", "x" * 60]), st.one_of(st.none(), st.integers(0, 2**63 - 1)))
def test_a_campaigns_name_is_one_that_a_file_may_carry(base: str, key: str, seed: int | None) -> None:
    name = campaign_name(base, key, seed)
    assert len(name) <= LONGEST
    assert submission.NAME.fullmatch(name)
    assert name == campaign_name(base, key, seed)


@given(NAMES, st.lists(st.tuples(st.text(max_size=30), st.integers(0, 3)), unique=True, max_size=6))
def test_two_variants_never_share_a_name(base: str, variants: list[tuple[str, int]]) -> None:
    names = [campaign_name(base, f"table2-only-{slug(text)}", seed) for text, seed in variants]
    assert len(set(names)) == len(names)


def test_names_are_stable() -> None:
    assert campaign_name("quickstart", "") == "quickstart"
    assert campaign_name("quickstart", "table4-reinforce", 2) == "quickstart-table4-reinforce-seed2"
    assert slug("qwen3-32b-direct") == "qwen3-32b-direct"
    assert slug("Qwen/Qwen3") == "qwen-qwen3-cf17"
