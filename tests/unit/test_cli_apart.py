"""What becomes of work in a process of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from services.cli import apart
from services.core.errors import TrinityError


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "some_work.py").write_text("import os, sys\nprint('talk')\nexec(sys.argv[1])\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return "some_work"


def test_the_last_line_is_the_answer(module: str) -> None:
    assert apart.answer(module, ["print('{\"a\": 1}')"]) == {"a": 1}


def test_whoever_failed_has_said_why(module: str) -> None:
    with pytest.raises(typer.Exit):
        apart.answer(module, ["sys.exit(1)"])


def test_whoever_was_killed_could_not_say_so(module: str) -> None:
    with pytest.raises(TrinityError, match="SIGKILL"):
        apart.answer(module, ["os.kill(os.getpid(), 9)"])


def test_what_is_not_installed_is_named(module: str) -> None:
    with pytest.raises(ModuleNotFoundError):
        apart.answer(module, [], ["no_such_package_here"])
