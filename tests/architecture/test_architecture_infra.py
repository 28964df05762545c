"""The files operators copy from agree with the code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from services.config.settings import Settings
from tests.architecture.test_architecture_packaging import EXTRAS

ROOT = Path(__file__).resolve().parents[2]
ENV_EXAMPLE = (ROOT / "infra" / "env.example").read_text()
DOCKERFILE = (ROOT / "infra" / "Dockerfile").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "infra" / "compose.yaml").read_text())
SETTINGS = {f"TRINITY_{name.upper()}" for name in Settings.model_fields}


def documented() -> dict[str, str | None]:
    """Return variable -> value, None for the ones shown commented out."""
    found = re.findall(r"^(#?)([A-Z_]+)=(.*)$", ENV_EXAMPLE, re.MULTILINE)
    return {name: None if hidden else value for hidden, name, value in found}


def test_env_example_lists_every_setting_and_nothing_else() -> None:
    assert {name for name in documented() if name.startswith("TRINITY_")} == SETTINGS


def test_env_example_shows_the_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SETTINGS:
        monkeypatch.delenv(name, raising=False)
    defaults = Settings()
    for name, value in documented().items():
        if name in SETTINGS and value is not None:
            monkeypatch.setenv(name, value)
        elif name in SETTINGS:
            assert getattr(defaults, name.removeprefix("TRINITY_").lower()) is None, name
    assert Settings() == defaults


def test_compose_uses_known_variables_only() -> None:
    text = (ROOT / "infra" / "compose.yaml").read_text()
    used = set(re.findall(r"\$\{([A-Z_]+)", text)) | set(re.findall(r"(TRINITY_[A-Z_]+):", text))
    assert used <= set(documented())


def commands() -> list[list[str]]:
    lines = [service.get("command") for service in COMPOSE["services"].values() if "build" in service]
    lines += [re.findall(r'"([^"]+)"', line) for line in re.findall(r"^CMD \[(.*)\]$", DOCKERFILE, re.MULTILINE)]
    return [[word for word in line if word not in ("python", "manage.py")] for line in lines if line]


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_commands_in_infra_exist(command: list[str]) -> None:
    listed = (ROOT / "docs" / "commands.md").read_text()
    words = " ".join(word for word in command if not word.startswith("-") and not re.match(r"[\d.]+$", word))
    assert f"manage.py {words}" in listed


def test_dockerfile_builds_the_targets_of_compose_from_what_exists() -> None:
    targets = set(re.findall(r"^FROM \S+ AS (\w+)$", DOCKERFILE, re.MULTILINE))
    assert {service["build"]["target"] for service in COMPOSE["services"].values() if "build" in service} <= targets
    copied = [path for line in re.findall(r"^COPY (.*)$", DOCKERFILE, re.MULTILINE) for path in line.split()[:-1]]
    assert [path for path in copied if not (ROOT / path).exists()] == []
    used = {extra for group in re.findall(r"'\.\[([a-z,]+)\]'", DOCKERFILE) for extra in group.split(",")}
    assert used <= set(EXTRAS)


def test_the_image_that_loads_encoders_can_diagnose_with_problems_and_plots() -> None:
    stage = DOCKERFILE.split(" AS worker")[1].split("FROM ")[0]
    installed = re.findall(r"'\.\[([a-z,]+)\]'", stage)[0].split(",")
    assert {"worker", "problems", "reports", "diagnose"} <= set(installed)


def test_every_service_waits_for_what_it_needs() -> None:
    services = COMPOSE["services"]
    for name in ("scheduler", "worker", "flower", "cli"):
        assert set(services[name]["depends_on"]) == {"postgres", "redis", "migrate"}
