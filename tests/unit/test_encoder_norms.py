"""Measuring how long an encoder's states are, in the encoder's process and from the command line's."""

from __future__ import annotations

import json
import statistics
import subprocess
from pathlib import Path

import numpy as np
import pytest

from services.cli.state_norms import median_state_norm
from services.config.settings import Settings
from services.core.campaign import EncoderSpec, Norm
from services.core.errors import PrerequisiteMissing
from services.core.protocol.transcript import Transcript
from services.encoder.__main__ import main
from services.encoder.coordinator import EncoderService
from services.encoder.reference import QUESTIONS
from tests.support.tiny_qwen3 import build_tiny_qwen3


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_qwen3(tmp_path_factory.mktemp("tiny"))


def expected(spec: EncoderSpec, agents: int, folder: Path) -> float:
    with EncoderService(folder) as service:
        encoder = service.encoder(spec, agents)
        states = [encoder.encode(Transcript(question), np.zeros(0, np.float32)) for question in QUESTIONS]
    return statistics.median(float(np.linalg.norm(state)) for state in states)


def test_the_median_norm_is_that_of_the_states_the_head_acts_on(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    medians = []
    for spec, more in (
        (EncoderSpec(str(folder)), []),
        (EncoderSpec(str(folder), center=True, position="last", max_tokens=512), ["--center", "--position", "last"]),
    ):
        words = [
            "norms",
            str(folder),
            "--model-dir",
            str(folder),
            "--agents",
            "7",
            "--max-tokens",
            str(spec.max_tokens),
        ]
        assert main([*words, *more]) == 0
        printed = json.loads(capsys.readouterr().out)
        assert printed == {"median_norm": pytest.approx(expected(spec, 7, folder), rel=1e-6), "states": len(QUESTIONS)}
        medians.append(printed["median_norm"])
    assert medians[1] < medians[0], "centring takes the common part away"


def test_a_model_that_cannot_be_measured_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["norms", "./absent", "--model-dir", str(tmp_path)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("encoder.model: got './absent'")


def test_the_command_line_asks_another_process(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def run(argv: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        asked.append(argv)
        return subprocess.CompletedProcess(argv, 0, stdout='{"median_norm": 51.5, "states": 16}\n')

    monkeypatch.setattr("services.cli.state_norms.subprocess.run", run)
    spec = EncoderSpec("Qwen/Qwen3-0.6B", revision="abc", center=True, norm=Norm.RMS)
    assert median_state_norm(spec, 7, Settings(model_dir=folder)) == 51.5
    (argv,) = asked
    assert argv[1:5] == ["-m", "services.encoder", "norms", "Qwen/Qwen3-0.6B"]
    text = " ".join(argv)
    for part in (f"--model-dir {folder}", "--agents 7", "--position penultimate", "--norm rms", "--center", "abc"):
        assert part in text


@pytest.mark.parametrize(("code", "out"), [(1, ""), (0, '{"median_norm": NaN}'), (0, '{"median_norm": 0.0}')])
def test_no_norm_is_no_step_size(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: int, out: str) -> None:
    monkeypatch.setattr(
        "services.cli.state_norms.subprocess.run", lambda argv, **_: subprocess.CompletedProcess(argv, code, stdout=out)
    )
    with pytest.raises(PrerequisiteMissing, match=r"give `search\.sigma0`"):
        median_state_norm(EncoderSpec("tiny"), 2, Settings(model_dir=tmp_path))
