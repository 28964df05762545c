"""The audit as the last line of a test: nothing that a test does may break an invariant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from services.config.document import from_json
from services.storage.audit import Finding, Patience, Verdict, audit
from services.storage.engine import Database


def findings(database: Database, patience: Patience | None = None) -> dict[str, list[Finding]]:
    """Return the broken invariants, each with what breaks it."""
    return broken(audit(database, from_json, patience=patience or Patience()))


def broken(verdicts: Sequence[Verdict]) -> dict[str, list[Finding]]:
    return {verdict.id: list(verdict.findings) for verdict in verdicts if verdict.findings}


def assert_clean(database: Database) -> None:
    """Fail with the findings unless every invariant of every campaign holds."""
    lines = [f"{name}: {finding}" for name, found in findings(database).items() for finding in found]
    assert not lines, "\n".join(lines[:50])


@pytest.fixture
def ends_clean(database: Database) -> Iterator[None]:
    """For ``usefixtures``: audit the database after the test."""
    yield
    assert_clean(database)
