from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from services.cli import diagnose
from services.core.campaign import HeadKind, HeadSpec, Matrix, Output, ProtocolSpec
from services.core.policy.layout import Layout
from services.core.problem import Problem, ScorerKind, Split
from services.core.protocol.roles import ROLE_ORDER, Role, RoleSource
from services.core.protocol.transcript import Item
from services.core.states import CandidateKind, Purpose
from services.core.statistics.answer_table import AnswerTable
from services.diagnosis import blocks, choices, first_turn, reinforce
from services.diagnosis.classify import Classified, classify
from services.diagnosis.encoding import chosen
from services.diagnosis.evidence import Evidence
from services.diagnosis.states import Read
from services.reports import diagnosis_page
from services.reports.diagnosis import Diagnosis, Figure, Section, Table, missing, shown
from services.storage.diagnosis import ChoiceRow, PlayedEpisode
from tests.support.campaigns import small_campaign

LAYOUT = Layout.of(2, ROLE_ORDER, 3)


def item(number: int = 1, role: Role = Role.WORKER, source: RoleSource = RoleSource.POLICY) -> Item:
    return Item(number, 1, role, source, "", "", logits=(0.0, 1.0, 0.5, -0.5, 0.0))


def evidence() -> Evidence:
    campaign = small_campaign()
    layout = Layout.of_campaign(campaign)
    names = tuple(model.name for model in campaign.pool)
    theta = np.zeros(layout.size)
    return Evidence("campaign small", 1, names, campaign.encoder, campaign.protocol, layout, theta, "none", {})


def test_a_role_that_a_thinker_chose_has_no_part_in_the_gradient() -> None:
    state = np.array([1.0, 2.0, 3.0])
    own = reinforce.score_function(item(), LAYOUT, state)
    other = reinforce.score_function(item(source=RoleSource.THINKER), LAYOUT, state)
    np.testing.assert_array_equal(own[:2], other[:2])
    assert np.abs(own[2:]).sum() > 0
    assert (other[2:] == 0).all()


def test_an_episode_adds_up_the_scores_of_its_turns() -> None:
    episode = PlayedEpisode(0, 1, "sums", "q", 1.0, (item(1), item(2, Role.THINKER)))
    read: list[int] = []

    def encode(transcripts):  # type: ignore[no-untyped-def]
        read.extend(len(transcript.items) for transcript in transcripts)
        return np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])

    (found,) = reinforce.score_functions([episode], LAYOUT, encode)
    wanted = [reinforce.score_function(each, LAYOUT, row) for each, row in zip(episode.items, np.eye(3), strict=False)]
    np.testing.assert_allclose(found.reshape(5, 3), sum(wanted))
    assert read == [0, 1]  # each turn is decided on what stood before it


def test_rewards_are_compared_and_shuffled_within_their_generation() -> None:
    rewards, groups = np.array([1.0, 3.0, 10.0, 20.0]), np.array([0, 0, 1, 1])
    assert reinforce.baselined(rewards, groups).tolist() == [-1, 1, -5, 5]
    again = reinforce.shuffled(rewards, groups, np.random.default_rng(1))
    assert sorted(again[:2]) == [1, 3]
    assert sorted(again[2:]) == [10, 20]


def test_separable_classes_are_told_apart_and_luck_is_not() -> None:
    rng = np.random.default_rng(1)
    labels = ["a", "b", "c"] * 30
    apart = classify(np.eye(3)[[0, 1, 2] * 30] * 9 + rng.normal(size=(90, 3)), labels, 1)
    alike = classify(rng.normal(size=(90, 3)), labels, 1)
    assert isinstance(apart, Classified)
    assert isinstance(alike, Classified)
    assert (apart.right, apart.n, apart.chance) == (90, 90, 1 / 3)
    assert alike.right / alike.n < 0.55
    assert classify(np.ones((3, 2)), ["a", "a", "b"], 1) == "1 families with two questions or more; two are needed"


def test_families_come_in_turn_so_that_rare_ones_are_read() -> None:
    problems = [Problem(f"{n}", "rare" if n < 3 else "frequent", "q", ScorerKind.EXACT, "1") for n in range(100)]
    picked = chosen(problems, 10, seed=1)
    assert [problem.family for problem in picked] == ["rare"] * 3 + ["frequent"] * 7


def test_shares_of_turns_and_their_intervals_over_problems() -> None:
    rows = [
        ChoiceRow(0, Purpose.TRAINING, CandidateKind.SAMPLE, problem, "sums", agent, Role.WORKER, 5)
        for problem in range(20)
        for agent in ((0, 1) if problem % 2 else (0,))
    ]
    always = choices.share(rows, lambda row: True, 1)
    never = choices.share(rows, lambda row: row.agent == 7, 1)
    some = choices.share(rows, lambda row: row.agent == 1, 1)
    assert some.estimate == pytest.approx(1 / 3)
    assert some.low < 1 / 3 < some.high
    assert (always.estimate, never.estimate) == (1.0, 0.0)
    assert always.low < 1  # twenty problems do not prove a certainty
    assert never.high > 0
    assert choices.agent_shares(rows, ("ada", "bob"))["sums"] == (150, [2 / 3, 1 / 3])


def test_rows_of_a_head_far_from_a_maximum_have_no_epsilon() -> None:
    rng = np.random.default_rng(2)
    table = AnswerTable(rng.normal(size=(40, 6)), rng.uniform(size=(40, 2)))
    found = blocks.section(evidence(), table, np.zeros((2, 6)), "here")
    figures = {figure.name: figure for figure in found.figures}
    assert "not applicable" in figures["epsilon_H, B2"].remark
    assert figures["share of negative diagonals, random directions"].n == 40


def test_rows_near_a_maximum_have_one_and_two_rows_are_coupled_along_a_common_direction() -> None:
    states = np.abs(np.random.default_rng(3).normal(size=(40, 6)))
    table = AnswerTable(states, np.repeat([[1.0, 0.0]], 40, axis=0))
    weights = np.array([[1.0] * 6, [-1.0] * 6])
    found = blocks.section(evidence(), table, weights, "here")
    figures = {figure.name: figure for figure in found.figures}
    largest = figures["epsilon_H, B2, largest"]
    assert largest.value == pytest.approx(1.0, abs=1e-6)  # both rows' gradients are the same line
    assert largest.n == 40


def test_the_closed_form_wants_recorded_scores_one_worker_turn_and_a_linear_head() -> None:
    found = evidence()
    recorded = Problem("k", "sums", "q", ScorerKind.RECORDED, scores={"ada": 1.0, "bob": 0.0})
    one_turn = ProtocolSpec(roles=(Role.WORKER,), max_turns=1)
    other_head = replace(found.layout, spec=HeadSpec(HeadKind.BLOCK_DIAGONAL_2))
    searched = replace(found.layout, matrices=(Matrix("layers.0.mlp.up_proj", 4),))

    known = replace(found, problems={Split.TRAINING: (recorded,)})
    fit = replace(known, protocol=one_turn)
    exact = {Split.TRAINING: (Problem("k", "sums", "q", ScorerKind.EXACT, "1"),)}
    assert "no recorded score" in replace(fit, problems=exact).no_table()
    assert "at most 2 turns" in known.no_table()
    assert "block_diagonal_2" in replace(fit, layout=other_head).no_table()
    assert "singular values" in replace(fit, layout=searched).no_table()
    assert fit.no_table() == ""


def test_a_figure_is_never_without_its_sample_size() -> None:
    with pytest.raises(ValueError, match="sample size"):
        Figure("share", 0.5)
    with pytest.raises(ValueError, match="reason"):
        Figure("share", None)
    with pytest.raises(ValueError, match="not finite"):
        Figure("share", float("nan"), n=3)


def test_a_diagnosis_survives_json_and_its_page_escapes_what_it_is_told() -> None:
    found = Diagnosis(
        "campaign <b>",
        "a vector",
        (
            Section("S", (Figure("f", 0.5, 0.4, 0.6, 12, "turns"), missing("g", "too <few>"))),
            Section("T", (), (Table("t", ("family", "n"), (("<i>", 3), (None, 1.5)), "remark"),)),
        ),
        ("states.png",),
    )
    assert Diagnosis.from_json(found.to_json()) == found
    page = diagnosis_page.document(found, {"states.png": b"png"})
    assert "&lt;b&gt;" in page
    assert "too &lt;few&gt;" in page
    assert "<i>" not in page
    assert "12 turns" in page


def test_the_terminal_shows_figures_reasons_and_tables(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table("t", ("family", "n"), (("sums", 3),), "how to read it")
    diagnose.show(Diagnosis("campaign x", "v", (Section("S", (missing("g", "too few"),), (table,)),)))
    out = capsys.readouterr().out
    assert "too few" in out
    assert "how to read it" in out


@pytest.mark.parametrize(
    ("cell", "text"), [(None, "-"), (12345, "12,345"), (0.12345, "0.123"), (1e-5, "1.00e-05"), (12345.6, "12,346")]
)
def test_cells_show_the_digits_that_count(cell: float | None, text: str) -> None:
    assert shown(cell) == text


def test_first_turns_are_the_softmaxes_of_the_logits_or_the_largest() -> None:
    logits = np.array([[0.0, np.log(3), 0.0, 0.0, 0.0], [np.log(3), 0.0, np.log(2), 0.0, 0.0]])
    drawn = first_turn.probabilities(logits, LAYOUT)
    np.testing.assert_allclose(drawn, [[0.25, 0.75, 1 / 3, 1 / 3, 1 / 3], [0.75, 0.25, 0.5, 0.25, 0.25]])
    largest = first_turn.probabilities(logits, replace(LAYOUT, spec=HeadSpec(output=Output.ARGMAX)))
    np.testing.assert_array_equal(largest, [[0, 1, 1, 0, 0], [1, 0, 1, 0, 0]])
    one_role = Layout.of(2, (Role.WORKER,), 3)
    np.testing.assert_allclose(first_turn.probabilities(logits[:, :2], one_role), drawn[:, :2])


def test_first_turns_are_shown_by_family_with_the_number_of_questions() -> None:
    found = Read(("sums", "words", "sums"), np.zeros((3, 4)), np.zeros((3, 5)))
    section = first_turn.section(evidence(), found)
    figures = {figure.name: figure for figure in section.figures}
    assert (figures["first turn: ada"].value, figures["first turn: thinker"].size) == (0.5, "3 questions")
    assert [row[:2] for row in section.tables[0].rows] == [("sums", 2), ("words", 1)]
