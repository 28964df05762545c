"""The help answers at once and is what the documentation says."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from services.cli import documentation, main
from services.config.settings import Settings
from services.core.errors import TrinityError

ROOT = Path(__file__).resolve().parents[2]
CPU_SECONDS = 0.5


def cpu_of(*arguments: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], cwd=ROOT, check=True, capture_output=True, timeout=60)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


@pytest.mark.parametrize("arguments", [("--help",), ("campaign", "--help"), ("campaign", "fork", "--help")])
def test_help_takes_less_than_half_a_second_of_cpu(arguments: tuple[str, ...]) -> None:
    spent = min(cpu_of("manage.py", *arguments) for _ in range(2))
    assert spent < CPU_SECONDS


def test_defining_the_commands_loads_nothing_heavy() -> None:
    code = (
        "import services.cli.main, sys; print(sorted({'numpy', 'pydantic', 'sqlalchemy', 'celery'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


def test_the_documented_commands_are_those_of_the_program() -> None:
    written = (ROOT / "docs" / "commands.md").read_text()
    assert written == documentation.markdown(), "run `python -m services.cli.documentation > docs/commands.md`"


def test_the_documented_times_are_the_settings() -> None:
    rows = [line for line in (ROOT / "docs" / "operations.md").read_text().splitlines() if "`TRINITY_" in line]
    times = [row.strip("| ").split(" | ") for row in rows if row.startswith("|")]
    documented = {name.strip("`"): float(seconds.split()[0].rstrip(";")) for _, seconds, name in times}
    settings = Settings()
    wanted = {name for name in Settings.model_fields if name.endswith("_seconds")}
    assert documented == {f"TRINITY_{name.upper()}": getattr(settings, name) for name in wanted}


def test_every_command_is_documented_with_a_sentence() -> None:
    page = documentation.markdown()
    for name in ("quickstart", "up", "down", "doctor", "worker", "scheduler", "flower", "db check", "pool serve"):
        assert f"## manage.py {name}\n" in page
    for verb in ("validate", "plan", "submit", "list", "show", "watch", "pause", "resume", "cancel", "budget", "weight",
                 "fork", "export", "report"):  # fmt: skip
        assert f"## manage.py campaign {verb}\n" in page


def raise_this(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (TrinityError("it is so"), 1, "error: it is so\n"),
        (KeyboardInterrupt(), 130, ""),
        (ModuleNotFoundError("x", name="matplotlib.figure"), 1, "'.[reports]'"),
    ],
)
def test_errors_become_sentences(
    error: BaseException, code: int, line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(main, "make_app", lambda: lambda **_: raise_this(error))
    assert main.run([]) == code
    assert line in capsys.readouterr().err


def test_other_errors_keep_their_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    for error in (ZeroDivisionError(), ModuleNotFoundError("x", name="services.nothing")):
        monkeypatch.setattr(main, "make_app", lambda error=error: lambda **_: raise_this(error))
        with pytest.raises(type(error)):
            main.run([])
