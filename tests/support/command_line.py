"""Running manage.py's commands inside the test process, on real services."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from services.cli import main

CAMPAIGN = """
name: small
seed: 3
problems:
  source: generated
  families: [chain_sum, letter_counting]
  training: 8
  validation: 2
  heldout: 6
pool:
  - {name: ada, model: openai/ada, base_url: "http://127.0.0.1:9/v1", price: {input: 0.2, output: 0.8}}
  - {name: bob, model: openai/bob, base_url: "http://127.0.0.1:9/v1", price: {input: 0.1, output: 0.4}}
protocol: {max_turns: 2, max_output_tokens: 64}
search: {population: 4, replicates: 3, generations: 2, sigma0: 0.1}
validation: {every: 1, problems: 2}
evaluation: {problems: 6}
budget: {usd: 10}
"""


@dataclass(frozen=True)
class Outcome:
    """What a command left behind: exit status, stdout, stderr."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class CommandLine:
    """Runs commands with the settings of the test's environment."""

    folder: Path
    monkeypatch: pytest.MonkeyPatch
    capfd: pytest.CaptureFixture[str]

    def __call__(self, *arguments: str) -> Outcome:
        self.capfd.readouterr()
        code = main.run(arguments)
        captured = self.capfd.readouterr()
        return Outcome(code, captured.out, captured.err)

    def set(self, name: str, value: str) -> None:
        self.monkeypatch.setenv(name, value)

    def campaign(self, text: str = CAMPAIGN, name: str = "small.yaml") -> str:
        path = self.folder / name
        path.write_text(text)
        return str(path)


@pytest.fixture
def bare_cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> CommandLine:
    """The command line with an empty var folder and no services."""
    monkeypatch.setenv("TRINITY_VAR_DIR", str(tmp_path / "var"))
    return CommandLine(tmp_path, monkeypatch, capfd)


@pytest.fixture
def cli(bare_cli: CommandLine, database_url: str, broker_url: str) -> CommandLine:
    """The command line on a database of its own and the session's broker."""
    bare_cli.set("TRINITY_DATABASE_URL", database_url)
    bare_cli.set("TRINITY_BROKER_URL", broker_url)
    return bare_cli
