"""What ``up`` would start, and the password it makes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from pydantic import SecretStr

from services.cli import children, passwords
from services.config.settings import Settings
from services.core.errors import PrerequisiteMissing
from services.local.endpoints import Endpoints
from services.local.supervisor import Child
from services.storage import schema

DATABASE, BROKER = "postgresql://u:secret@127.0.0.1:9/x", "redis://:secret@127.0.0.1:9/0"


def settings(tmp_path: Path, **changes: object) -> Settings:
    values = {"var_dir": tmp_path / "var", "database_url": DATABASE, "broker_url": BROKER, **changes}
    return Settings.model_validate(values)


def prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plan: children.Plan, **changes: object) -> list[Child]:
    monkeypatch.setattr(schema, "upgrade", lambda url: None)
    return children.prepare(settings(tmp_path, **changes), plan, Endpoints())


def test_the_scheduler_and_the_pools_come_before_the_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = prepared(tmp_path, monkeypatch, children.Plan(workers=2, flower=True, pool=True))
    stages = {child.name: child.stage for child in found}
    assert stages == {"scheduler": 0, "pool": 0, "worker-1": 1, "worker-2": 1, "flower": 1}


def test_only_what_is_wanted_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = prepared(tmp_path, monkeypatch, children.Plan(workers=0, flower=False, pool=False))
    assert [child.name for child in found] == ["scheduler"]


def test_addresses_travel_in_the_environment_and_never_in_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for child in prepared(tmp_path, monkeypatch, children.Plan(workers=1, flower=True, pool=True)):
        assert "secret" not in " ".join(child.argv)
        assert child.env["TRINITY_DATABASE_URL"] == DATABASE
        assert child.env["TRINITY_BROKER_URL"] == BROKER
        assert Path(child.env["TRINITY_VAR_DIR"]).is_absolute()
        assert child.argv[0] == sys.executable


def test_workers_use_one_thread_per_matrix_product(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = prepared(tmp_path, monkeypatch, children.Plan(workers=1, flower=False, pool=False))
    assert found[1].env["OMP_NUM_THREADS"] == "1"


def test_nothing_is_embedded_beside_external_services(tmp_path: Path) -> None:
    assert children.embedded_services(settings(tmp_path)) == []
    both = settings(tmp_path, database_url=None, broker_url=None)
    assert len(children.embedded_services(both)) == 2


def test_the_password_is_made_once_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    chosen = settings(tmp_path)
    first = passwords.flower_password(chosen)
    assert len(first) >= 20
    assert passwords.flower_password(chosen) == first
    assert passwords.password_file(chosen).stat().st_mode & 0o777 == 0o600


def test_a_given_password_is_not_written_down(tmp_path: Path) -> None:
    chosen = settings(tmp_path, flower_password=SecretStr("given"))
    assert passwords.flower_password(chosen) == "given"
    assert not passwords.password_file(chosen).exists()


def test_an_empty_password_file_is_refused(tmp_path: Path) -> None:
    chosen = settings(tmp_path)
    path = passwords.password_file(chosen)
    path.parent.mkdir(parents=True)
    path.write_text("\n")
    with pytest.raises(PrerequisiteMissing, match="TRINITY_FLOWER_PASSWORD"):
        passwords.flower_password(chosen)
    assert path.read_text() == "\n"


def test_the_summary_never_shows_a_secret(tmp_path: Path) -> None:
    chosen = settings(tmp_path, flower_password=SecretStr("given"))
    text = str(children.summary(chosen, children.Plan(workers=1, flower=True, pool=True)))
    assert "secret" not in text
    assert "given" not in text
