"""A diagnosis of stored campaigns, read by the tiny encoder; no model is called and nothing is written."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from services.checkpoint import folder as checkpoints
from services.checkpoint.description import PoolModel
from services.checkpoint.folder import Checkpoint
from services.core.campaign import Campaign
from services.core.fingerprint import Fingerprint
from services.core.policy.layout import Layout
from services.core.states import Purpose
from services.core.statistics.attenuation import recombination_weights
from services.diagnosis import reading
from services.diagnosis.__main__ import main
from services.encoder.coordinator import EncoderService
from services.reports.diagnosis import Diagnosis, Figure
from services.storage.engine import Database
from tests.support.checkpoints import describe
from tests.support.command_line import CAMPAIGN, CommandLine, bare_cli, cli
from tests.support.diagnosed import recorded_campaign, submit_recorded, train_recorded
from tests.support.stub_models import fingerprint
from tests.support.tiny_qwen3 import build_tiny_qwen3

__all__ = ["bare_cli", "cli"]

ROUNDS = 4


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_qwen3(tmp_path_factory.mktemp("encoder") / "tiny")


@pytest.fixture
def campaign(encoder: Path) -> Campaign:
    return recorded_campaign(encoder)


def figures_of(found: Diagnosis) -> dict[str, Figure]:
    return {figure.name: figure for section in found.sections for figure in section.figures}


def test_the_search_is_told_again_as_it_was(database: Database, campaign: Campaign) -> None:
    search = train_recorded(database, submit_recorded(database, campaign), campaign, ROUNDS)
    found = reading.of_campaign(database, "recorded")
    assert found.generations == ROUNDS
    np.testing.assert_array_equal(found.theta, search.mean)
    np.testing.assert_array_equal(found.trace.means[0], 0)
    for fitness, rewards in zip(found.trace.fitness, found.trace.rewards, strict=True):
        np.testing.assert_allclose(rewards.mean(axis=1), fitness)
    # The step to the next mean is made of the best half of the samples, with the search's weights.
    shift = (found.trace.means[1] - found.trace.means[0]) / campaign.search.sigma0
    weights, *_ = np.linalg.lstsq(found.trace.samples[0].T.astype(np.float64), shift, rcond=None)
    chosen = np.argsort(-weights)
    np.testing.assert_allclose(weights[chosen], [*recombination_weights(6), 0, 0, 0], atol=1e-5)
    assert found.trace.fitness[0][chosen[:3]].min() >= found.trace.fitness[0][chosen[3:]].max()
    # Samples in their own units: a standard normal cloud.
    assert np.std(found.trace.samples[0]) == pytest.approx(1, abs=0.1)
    assert sum(row.turns for row in found.choices if row.purpose is Purpose.TRAINING) == ROUNDS * 24
    assert len(found.played) == ROUNDS * 24
    assert all(episode.items[0].logits is not None for episode in found.played)


def test_a_diagnosis_has_every_section_with_sample_sizes(
    cli: CommandLine, database: Database, campaign: Campaign
) -> None:
    train_recorded(database, submit_recorded(database, campaign), campaign, ROUNDS)
    folder = cli.folder / "out"
    cli.capfd.readouterr()
    assert main(["recorded", "--problems", "40", "--output", str(folder)]) == 0
    document = json.loads(cli.capfd.readouterr().out)
    found = Diagnosis.from_json(document)
    assert document == json.loads((folder / "diagnosis.json").read_text())
    assert found.vector == f"the search's mean after {ROUNDS} generations"
    figures = figures_of(found)
    assert figures["accuracy from the states"].n == 40
    assert figures["variance between candidates"].n == ROUNDS
    assert figures["SNR of the policy gradient"].n == ROUNDS * 24
    assert figures["J of the diagnosed vector, held-out questions"].n == 18
    assert figures["use of ada"].size == "24 turns"
    assert figures["T / n"].value == ROUNDS / 96
    assert "transient not finished" in figures["T / n"].remark
    assert "linear minus block-diagonal, J" in figures
    for name in ("states.png", "choices.png", "objective.png"):
        assert (folder / name).read_bytes().startswith(b"\x89PNG")
    page = (folder / "index.html").read_text()
    assert "Diagnosis of campaign recorded" in page
    assert page.count("<img") == 3


def test_what_cannot_be_estimated_says_why(cli: CommandLine, database: Database, campaign: Campaign) -> None:
    """Nothing has been trained, and there may be several turns."""
    open_ended = replace(campaign, protocol=replace(campaign.protocol, max_turns=2))
    submit_recorded(database, open_ended)
    cli.capfd.readouterr()
    assert main(["recorded", "--problems", "12"]) == 0
    found = figures_of(Diagnosis.from_json(json.loads(cli.capfd.readouterr().out)))
    reasons = {name: figure.remark for name, figure in found.items() if figure.value is None}
    assert reasons["use of agents"] == "no generation has been closed"
    assert "two replicates" in reasons["variance between candidates"]
    assert "needs two" in reasons["gamma sigma"]
    assert "at most 2 turns" in reasons["exact J, gradient, epsilon_H, head-level test"]
    assert "four are needed" in reasons["SNR of the policy gradient"]
    assert found["accuracy from the states"].n == 12


def taken_home(folder: Path, campaign: Campaign, theta: NDArray[Any], reading: Fingerprint | None) -> str:
    """Write the checkpoint of a campaign's vector and return its folder."""
    pool = tuple(PoolModel(model.name, model.litellm_model) for model in campaign.pool)
    described = describe(
        name="home", encoder=campaign.encoder, reading=reading, layout=Layout.of_campaign(campaign), pool=pool,
        protocol=campaign.protocol,
    )  # fmt: skip
    return str(checkpoints.write(folder, Checkpoint(described, theta.astype(np.float32))))


def diagnosed(cli: CommandLine, *words: str) -> Diagnosis:
    cli.capfd.readouterr()
    assert main([*words, "--problems", "40"]) == 0
    return Diagnosis.from_json(json.loads(cli.capfd.readouterr().out))


def test_a_checkpoint_has_the_figures_of_its_campaign_but_for_the_log(
    cli: CommandLine, database: Database, campaign: Campaign
) -> None:
    search = train_recorded(database, submit_recorded(database, campaign), campaign, ROUNDS)
    with EncoderService(cli.folder) as service:
        read = service.encoder(campaign.encoder, 3).fingerprint()
    folder = taken_home(cli.folder / "home", campaign, search.mean, read)
    home, whole = diagnosed(cli, folder, "--campaign", "recorded"), figures_of(diagnosed(cli, "recorded"))
    assert (home.subject, home.vector) == (
        "coordinator home", "generation 1 of campaign small, on the problems of campaign recorded"
    )  # fmt: skip
    found = figures_of(home)
    for name in (
        "first turn: ada", "entropy of the agent softmax", "J of the diagnosed vector, held-out questions",
        "length of the gradient at the diagnosed vector",
    ):  # fmt: skip
        # theta was rounded to single precision, and seeds of intervals differ.
        assert found[name].value == pytest.approx(whole[name].value, rel=1e-4)
        assert found[name].n == whole[name].n
    assert "does not hold the log" in found["fitness noise"].remark
    assert "SNR of the policy gradient" not in found


def test_a_checkpoint_reads_the_problems_of_a_campaign_file(bare_cli: CommandLine, campaign: Campaign) -> None:
    """Nobody recorded the encoder, there are no recorded scores, and no database is asked."""
    lines = [{"q": f"What is {n} + {n}?", "a": str(2 * n), "kind": "sums" if n % 2 else "more sums"} for n in range(12)]
    (bare_cli.folder / "sums.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    sets = "{files: [sums.jsonl], question: q, answer: a, family: kind, scorer: numeric}"
    source = f"problems: {{source: jsonl, sets: [{sets}], split: {{training: 4, validation: 2, heldout: 6}}}}\n"
    start, end = CAMPAIGN.index("problems:"), CAMPAIGN.index("pool:")
    file = bare_cli.campaign(CAMPAIGN[:start] + source + CAMPAIGN[end:])
    folder = taken_home(bare_cli.folder / "home", campaign, np.zeros(Layout.of_campaign(campaign).size), None)
    home = diagnosed(bare_cli, folder, "--problems-from", file)
    found = figures_of(home)
    assert home.vector.endswith("small.yaml; nobody recorded which encoder it was trained with")
    assert found["accuracy from the states"].n == 12
    assert found["first turn: ada"].value == pytest.approx(1 / 3)
    assert "no recorded score" in found["exact J, gradient, epsilon_H, head-level test"].remark


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("home",), "problems: got 'nothing', wanted one of --problems-from"),
        (("home", "--problems-from", "x.yaml", "--campaign", "x"), "got 'x.yaml and campaign x'"),
        (("home/../gone", "--campaign", "x"), "gone/config.json"),
        (("somewhere", "--problems-from", "x.yaml"), "a checkpoint folder beside it"),
    ],
)
def test_what_a_checkpoint_needs_is_told(
    bare_cli: CommandLine, campaign: Campaign, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], told: str
) -> None:
    monkeypatch.chdir(bare_cli.folder)
    taken_home(bare_cli.folder / "home", campaign, np.zeros(Layout.of_campaign(campaign).size), None)
    assert main([*words, "--problems", "4"]) == 1
    assert told in bare_cli.capfd.readouterr().err


def test_another_encoder_than_that_of_the_training_is_refused(
    cli: CommandLine, database: Database, campaign: Campaign
) -> None:
    submit_recorded(database, campaign)
    folder = taken_home(cli.folder / "home", campaign, np.zeros(Layout.of_campaign(campaign).size), fingerprint())
    cli.capfd.readouterr()
    assert main([folder, "--campaign", "recorded", "--problems", "4"]) == 1
    assert "encoder.weights, encoder.tokenizer" in cli.capfd.readouterr().err


def test_an_unknown_campaign_is_told_in_one_sentence(cli: CommandLine) -> None:
    done = cli("diagnose", "nobody")
    assert done.code == 1
    assert done.out == ""
    assert done.err.startswith("error: campaign: got 'nobody'")
