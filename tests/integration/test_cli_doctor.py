"""``doctor`` tells what is there, what is missing and the cure, and never a secret."""

from __future__ import annotations

import json

from tests.support.command_line import CommandLine, bare_cli, cli

__all__ = ["bare_cli", "cli"]


def states(out: str) -> dict[str, str]:
    return {check["name"]: check["state"] for check in json.loads(out)}


def test_with_all_that_is_needed(cli: CommandLine, database_url: str) -> None:
    done = cli("doctor", "--json")
    assert done.code == 0, done.out
    found = states(done.out)
    assert {found[name] for name in ("python", "database", "broker", "disk", "cores")} == {"ok"}
    password = database_url.partition("://")[2].partition("@")[0].partition(":")[2]
    assert password
    assert password not in done.out + cli("doctor").out


def test_without_services_it_fails_and_names_the_cure(bare_cli: CommandLine) -> None:
    done = bare_cli("doctor")
    assert done.code == 1
    assert "missing" in done.out
    assert "manage.py up" in done.out
    assert not (bare_cli.folder / "var").exists()


def test_an_old_schema_is_missing(cli: CommandLine, empty_database_url: str) -> None:
    cli.set("TRINITY_DATABASE_URL", empty_database_url)
    done = cli("doctor", "--json")
    assert done.code == 1
    assert states(done.out)["database"] == "missing"
    assert "manage.py db upgrade" in done.out


def test_a_misspelt_setting_is_found(bare_cli: CommandLine) -> None:
    bare_cli.set("TRINITY_WORKER_SLOT", "3")
    assert "TRINITY_WORKER_SLOTS" in bare_cli("doctor").out


def test_a_wrong_pool_file_does_not_hide_the_others(bare_cli: CommandLine) -> None:
    pools = bare_cli.folder / "pools"
    pools.mkdir()
    (pools / "broken.yaml").write_text("kind: simulated\nname: broken\n")
    bare_cli.set("TRINITY_LOCAL_POOL_DIR", str(pools))
    checks = {check["name"]: check for check in json.loads(bare_cli("doctor", "--json").out)}
    assert checks["local pool files"]["state"] == "absent"
    assert "broken" in checks["local pool files"]["cure"]
