"""What is declared is what is installed and shipped."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS: dict[str, list[str]] = PROJECT["project"]["optional-dependencies"]
REQUIREMENTS = [*PROJECT["project"]["dependencies"], *(item for extra in EXTRAS.values() for item in extra)]


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def constraints() -> dict[str, str]:
    lines = (line.strip() for line in (ROOT / "constraints.txt").read_text().splitlines())
    pairs = (line.split("==") for line in lines if line and not line.startswith("#"))
    return {normal(name): version for name, version in pairs}


def test_every_requirement_is_pinned_and_agrees_with_the_constraints() -> None:
    pinned = constraints()
    for requirement in REQUIREMENTS:
        match = re.fullmatch(r"([A-Za-z0-9_.-]+)(\[[a-z,]+\])?==([^;\s]+)", requirement)
        assert match, f"{requirement} is not pinned"
        assert pinned[normal(match[1])] == match[3], requirement


def test_no_compromised_or_unsuitable_release_is_pinned() -> None:
    pinned = constraints()
    assert pinned["litellm"] not in {"1.82.7", "1.82.8"}
    assert not pinned["litellm"].startswith("1.107.")
    assert pinned["celery"] == "5.6.3"


def test_the_base_install_needs_no_model_and_no_model_client() -> None:
    base = {normal(re.split(r"[\[=]", item)[0]) for item in PROJECT["project"]["dependencies"]}
    assert base.isdisjoint({"torch", "transformers", "litellm", "flower", "matplotlib"})


def test_the_wheel_lists_every_package() -> None:
    patterns = PROJECT["tool"]["setuptools"]["packages"]["find"]["include"]
    assert {pattern.rstrip("*") for pattern in patterns} == {"services", "scheduler", "worker", "migrations"}
    folders = {path.parent for pattern in patterns for path in (ROOT / pattern.rstrip("*")).rglob("*.py")}
    assert [folder for folder in folders if not (folder / "__init__.py").exists()] == []


def test_the_makefile_installs_every_extra() -> None:
    line = re.search(r"^EXTRAS := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert line is not None
    assert set(line[1].split(",")) == set(EXTRAS)
