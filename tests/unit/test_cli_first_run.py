from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from services.cli import first_run


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupt_in_the_middle_of_starting_leaves_nothing_running(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, born = subprocess.Popen, []

    def interrupted(argv: list[str], **options: Any) -> subprocess.Popen[bytes]:
        born.append(real([sys.executable, "-c", "import time; time.sleep(600)"], **options))
        os.kill(os.getpid(), number)
        return born[0]

    monkeypatch.setattr(subprocess, "Popen", interrupted)
    services = first_run.Services(tmp_path / "log" / "up.log")
    with first_run.terminable():
        with pytest.raises(KeyboardInterrupt):
            services.start()
        services.stop()
    assert born[0].wait(timeout=60) == -signal.SIGTERM
