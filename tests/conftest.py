"""Fixtures for all tests: real services, no TRINITY_ settings leaking in from outside."""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

# Threads of one test's small matrices that wait for each other cost more than they bring, most on a busy machine. Read
# when torch is imported, so it stands here.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Examples are bounded by their number: on a busy machine a deadline in milliseconds fails by chance.
settings.register_profile("trinity", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("trinity")

pytest_plugins = [
    "tests.support.postgres",
    "tests.support.broker",
    "tests.support.rabbitmq",
    "tests.support.auditing",
]

# A run started in the background may ignore Ctrl-C or a closed terminal, and so would every process that the tests
# start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

KEPT = ("TRINITY_TEST_", "TRINITY_DATA_DIR", "TRINITY_MODEL_DIR")


@pytest.fixture(autouse=True)
def _settings_of_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("TRINITY_") and not name.startswith(KEPT):
            monkeypatch.delenv(name)
