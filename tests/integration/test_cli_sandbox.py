"""``manage.py sandbox`` and what ``doctor`` says of it."""

from __future__ import annotations

import json

import pytest

from tests.support.command_line import CommandLine, bare_cli
from tests.support.sandboxes import why_not

__all__ = ["bare_cli"]


@pytest.fixture(autouse=True)
def _possible() -> None:
    if reason := why_not("bubblewrap"):
        pytest.skip(reason)


def test_check_tells_what_confines_programs_and_how_it_was_attacked(bare_cli: CommandLine) -> None:
    found = json.loads(bare_cli("sandbox", "check", "--json").out)
    assert found["name"].startswith("bubblewrap")
    assert {check["name"] for check in found["checks"]} >= {"network", "environment", "leftover processes"}
    assert all(check["held"] for check in found["checks"])


def test_run_prints_what_the_program_printed_and_how_it_ended(bare_cli: CommandLine) -> None:
    program = bare_cli.folder / "program.py"
    program.write_text("print(6 * 7)\n1 / 0\n")
    done = bare_cli("sandbox", "run", str(program))
    assert done.out == "42\n"
    assert "ZeroDivisionError" in done.err
    assert "exited 1" in done.err
    (bare_cli.folder / "given").write_text("seven")
    program.write_text("print(input())")
    found = json.loads(
        bare_cli("sandbox", "run", "--json", "--input", str(bare_cli.folder / "given"), str(program)).out
    )
    assert (found["ending"], found["status"], found["stdout"]) == ("exited", 0, "seven\n")


def test_a_program_cannot_steer_the_terminal(bare_cli: CommandLine) -> None:
    program = bare_cli.folder / "program.py"
    program.write_text("print('\\x1b[2Jcleared')")
    assert "\x1b" not in bare_cli("sandbox", "run", str(program)).out


def test_a_file_that_is_no_text_is_named(bare_cli: CommandLine) -> None:
    program = bare_cli.folder / "program.py"
    program.write_bytes(b"\xff\xfe")
    done = bare_cli("sandbox", "run", str(program))
    assert done.code == 1
    assert "program.py" in done.err


def test_without_a_sandbox_the_doctor_tells_why_and_the_cure(
    bare_cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.sandbox.opening.bubblewraps", lambda: iter(()))
    monkeypatch.setattr("services.sandbox.confine.landlock_abi", lambda: 0)
    checks = {check["name"]: check for check in json.loads(bare_cli("doctor", "--json").out)}
    assert checks["sandbox"]["state"] in ("absent", "ok")
    assert "bubblewrap" in checks["sandbox"]["detail"] or "landlock" in checks["sandbox"]["detail"]
