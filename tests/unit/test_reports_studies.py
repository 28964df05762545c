"""A study's lines, page, plots and CSV from made-up campaigns with known figures."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import replace
from pathlib import Path

import pytest

from services.cli.study_results import taken
from services.core.statistics.intervals import Interval, wilson
from services.core.studies.study import StudyName
from services.reports.studies import Direction, Family, Line, lines_of
from services.reports.study_choices import choices_of, entropy_share
from services.reports.study_files import choices_csv, comparison_csv
from services.reports.study_page import answers, write
from services.reports.study_plots import two_sides
from tests.support.studies import PROBLEMS, better_base, study_facts

HOSTILE = '<script>alert("x")</script>'


def by_label(lines: tuple[Line, ...]) -> dict[str, Line]:
    return {line.label: line for line in lines}


def test_a_line_has_the_papers_figures_and_ours_with_the_paired_difference() -> None:
    lines = by_label(lines_of(study_facts(StudyName.TABLE_2, better_base)))
    base, last = lines["TRINITY (base)"], lines["last token"]
    assert base.paper_average == pytest.approx(0.70435)
    assert base.paper_difference is None
    assert base.ours == wilson(36, PROBLEMS)
    assert base.difference is None
    assert base.n == PROBLEMS
    assert last.paper_difference == pytest.approx(0.646600 - 0.70435, abs=1e-6)
    assert last.ours == wilson(20, PROBLEMS)
    assert last.difference is not None
    assert last.difference.estimate == pytest.approx(-0.4)
    assert last.difference.low < -0.2 < last.difference.high + 0.4
    assert last.direction is Direction.SAME
    assert last.families == {"sums": Family(wilson(0, 20), 20), "words": Family(wilson(20, 20), 20)}


def test_what_goes_the_other_way_or_nowhere_is_called_so() -> None:
    lines = by_label(lines_of(study_facts(StudyName.TABLE_2, lambda key, policy, at: 1 - better_base(key, policy, at))))
    assert lines["last token"].direction is Direction.OPPOSITE
    lines = by_label(lines_of(study_facts(StudyName.TABLE_2, lambda key, policy, at: float(at % 2))))
    assert lines["last token"].direction is Direction.UNTOLD
    assert lines["ada only"].direction is None


def test_a_paper_row_may_be_taken_against_another_reference() -> None:
    line = by_label(lines_of(study_facts(StudyName.TABLE_2, better_base)))["with SVF (the base has none)"]
    assert line.paper_difference == pytest.approx(0.70435 - 0.6785)
    assert line.direction is Direction.OPPOSITE


def test_the_page_has_every_row_of_the_paper(tmp_path: Path) -> None:
    page = write(study_facts(StudyName.TABLE_2, better_base), tmp_path).read_text()
    for name in ("w/o SVF", "Claude-4-Sonnet only", "Gemini-2.5-pro only", "GPT-5 only"):
        assert f"<td>{name}</td>" in page


def test_the_page_tells_what_each_campaign_is_for_and_what_all_have_taken(tmp_path: Path) -> None:
    facts = study_facts(StudyName.TABLE_3, better_base)
    page = write(facts, tmp_path).read_text()
    assert "<td>small-table3-low_rank</td><td>low-rank</td>" in page
    assert "<td>all</td><td>5 campaigns</td>" in page
    for figure in ("500", "300", "1,000", "15,000", "2.5000"):
        assert f"<td class=number>{figure}</td>" in page[page.index("<td>all</td>") :]
    assert taken(facts) == "5 campaigns booked 500 episodes and took 1,000 calls, 15,000 tokens and $2.50 in all."


def test_a_campaign_without_result_leaves_its_line_empty_and_says_why() -> None:
    facts = study_facts(StudyName.TURNS, better_base, stopped={"turns-4": "paused"})
    line = by_label(lines_of(facts))["4 turns"]
    assert (line.ours, line.difference, line.remark) == (None, None, "campaign paused")
    assert [one.name for one in facts.missing()] == ["small-turns-4"]
    assert answers(facts)[-1] == "1 of 3 campaigns have no result yet."


def test_without_the_reference_there_are_levels_and_no_differences() -> None:
    lines = by_label(lines_of(study_facts(StudyName.TURNS, better_base, stopped={"": "failed"})))
    assert lines["6 turns"].ours is not None
    assert lines["6 turns"].difference is None


def test_several_seeds_are_paired_seed_by_seed() -> None:
    def rule(key: str, policy: str, at: int) -> float:
        return better_base(key, policy, at)

    facts = study_facts(StudyName.TURNS, rule, seeds=(1, 2, 3))
    line = by_label(lines_of(facts))["6 turns"]
    assert line.by_seed == {1: 0.5, 2: 0.5, 3: 0.5}
    assert line.families is not None
    assert {name: one.n for name, one in line.families.items()} == {"sums": 20, "words": 20}
    assert line.difference is not None
    assert line.difference.estimate == pytest.approx(-0.4)
    assert line.n == PROBLEMS


def test_tokens_are_means_per_question_and_the_union_is_the_best_single_model() -> None:
    lines = by_label(lines_of(study_facts(StudyName.TABLE_9, better_base)))
    assert lines["TRINITY (base)"].ours is not None
    assert lines["TRINITY (base)"].ours.estimate == pytest.approx(100 + (PROBLEMS - 1) / 2)

    def apart(key: str, policy: str, at: int) -> float:
        return float(at % 2 == (policy == "ada"))

    lines = by_label(lines_of(study_facts(StudyName.FIGURE_3, apart)))
    assert lines["per-question best"].ours == wilson(PROBLEMS, PROBLEMS)
    assert lines["MoA"].ours is not None
    assert lines["ada"].ours == wilson(20, PROBLEMS)


def test_choices_are_told_by_their_evenness() -> None:
    lines = choices_of(study_facts(StudyName.FIGURE_6, better_base))
    first = lines[0]
    assert first.first == pytest.approx(1.0)
    assert first.last == pytest.approx(-(0.9 * math.log(0.9) + 0.1 * math.log(0.1)) / math.log(2))
    assert first.most == ("ada", 0.75)
    assert first.released == pytest.approx(-(0.75 * math.log(0.75) + 0.25 * math.log(0.25)) / math.log(2))
    assert first.roles == 0.0
    assert lines[-1].remark.startswith("left out")
    assert entropy_share({"ada": 1.0}, 3) == 0.0
    assert entropy_share({"ada": 1.0}, 1) == 0.0


@pytest.mark.parametrize("name", list(StudyName))
def test_every_study_has_a_page_a_plot_and_figures_as_csv(name: StudyName, tmp_path: Path) -> None:
    facts = study_facts(name, better_base)
    page = write(facts, tmp_path / "report").read_text()
    assert facts.study.title in page
    assert "arXiv 2512.04695" in page
    assert "http" not in page.replace("http://www.w3.org", "")
    for conflict in facts.study.paper.conflicts:
        assert conflict.split("'")[0][:40] in page
    assert (tmp_path / "report" / "plot.png").read_bytes().startswith(b"\x89PNG")
    (table,) = (tmp_path / "report").glob("*.csv")
    rows = list(csv.reader(io.StringIO(table.read_text())))
    assert len(rows) > 3
    assert all(len(row) == len(rows[0]) for row in rows)


@pytest.mark.parametrize("name", [StudyName.TABLE_2, StudyName.TURNS])
def test_no_text_of_a_plot_is_cut_off(name: StudyName) -> None:
    facts = study_facts(name, better_base, base="b" * 64)
    figure = two_sides(facts, [replace(line, label="long " * 12) for line in lines_of(facts)])
    figure.draw_without_rendering()
    width, height = figure.bbox.x1, figure.bbox.y1
    for axes in figure.axes:
        box = axes.get_tightbbox()
        assert box is not None
        assert box.x0 >= 0
        assert box.y0 >= 0
        assert box.x1 <= width
        assert box.y1 <= height


def test_the_csv_has_the_papers_figures_and_ours() -> None:
    facts = study_facts(StudyName.TABLE_2, better_base)
    rows = list(csv.DictReader(io.StringIO(comparison_csv(facts, lines_of(facts)))))
    found = {(row["line"], row["whose"], row["column"], row["measure"]): row for row in rows}
    assert float(found["last token", "paper", "MMLU", "mean reward"]["value"]) == 0.8219
    ours = found["last token", "ours", "all", "mean reward - reference"]
    assert float(ours["value"]) == pytest.approx(-0.4)
    assert float(ours["low"]) < float(ours["value"]) < float(ours["high"])
    assert (ours["n"], ours["seeds"]) == ("40", "5")
    words = found["last token", "ours", "words", "mean reward"]
    assert (float(words["value"]), float(words["low"]), words["n"]) == (1.0, wilson(20, 20).low, "20")


def test_the_csv_of_choices_has_every_share() -> None:
    rows = list(csv.DictReader(io.StringIO(choices_csv(choices_of(study_facts(StudyName.FIGURE_6, better_base))))))
    assert {row["learner"] for row in rows} == {"sep-CMA-ES", "random search", "REINFORCE"}
    assert len(rows) == 3 * 3 * 2


def test_names_from_files_are_escaped(tmp_path: Path) -> None:
    facts = replace(study_facts(StudyName.TURNS, better_base, base=HOSTILE), file=HOSTILE)
    page = write(facts, tmp_path).read_text()
    assert "<script" not in page
    assert "&lt;script" in page


def test_a_page_without_any_result_can_be_written(tmp_path: Path) -> None:
    stopped = dict.fromkeys(("", "turns-4", "turns-6"), "paused")
    page = write(study_facts(StudyName.TURNS, better_base, stopped=stopped), tmp_path).read_text()
    assert "3 of 3 campaigns have no result yet" in page
    moved = dict.fromkeys(("", "table4-random-search", "table4-reinforce"), "failed")
    page = write(study_facts(StudyName.FIGURE_6, better_base, stopped=moved), tmp_path / "choices").read_text()
    assert "campaign failed" in page


def test_a_difference_without_interval_or_paper_has_no_direction() -> None:
    line = Line("x", None, {}, None, None, ours=Interval(0.5, 0.4, 0.6), difference=Interval(0.1, 0.05, 0.2))
    assert line.direction is None
