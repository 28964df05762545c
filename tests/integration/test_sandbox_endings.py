"""What a sandboxed program gets, and how its end is told."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from services.core.scoring.ports import Ending, Job, Limits
from services.sandbox.client import SandboxRunner
from tests.support.sandboxes import any_sandbox, sandbox

__all__ = ["any_sandbox", "sandbox"]

LIMITS = Limits(cpu_seconds=0.3, wall_seconds=0.3, memory_bytes=100 << 20, output_bytes=1000)

ENDINGS: tuple[tuple[str, Ending, int | None], ...] = (
    ("pass", Ending.EXITED, 0),
    ("import sys; sys.exit(7)", Ending.EXITED, 7),
    ("1 / 0", Ending.EXITED, 1),
    ("this is no Python", Ending.EXITED, 1),
    ("import os; os._exit(0)", Ending.EXITED, 0),
    ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", Ending.KILLED, -9),
    ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", Ending.KILLED, -15),
    ("import os; os.abort()", Ending.KILLED, -6),
    ("while True: pass", Ending.CPU_TIME, None),
    ("import time; time.sleep(60)", Ending.WALL_TIME, None),
    ("kept = []\nwhile True: kept.append(b'x' * 5_000_000)", Ending.MEMORY, None),
    ("print('x' * 1001)", Ending.OUTPUT, None),
    ("import sys; sys.stderr.write('x' * 1001)", Ending.OUTPUT, None),
    ("print('x' * 999)", Ending.EXITED, 0),
)


@pytest.mark.parametrize(("source", "ending", "status"), ENDINGS, ids=[source[:40] for source, _, _ in ENDINGS])
def test_the_end_is_told(any_sandbox: SandboxRunner, source: str, ending: Ending, status: int | None) -> None:
    done = any_sandbox.run(Job(source, limits=LIMITS))
    assert (done.ending, done.status) == (ending, status), done.stderr
    assert len(done.stdout) <= 1000
    assert len(done.stderr) <= 1000


def test_a_program_reads_its_input_and_is_heard_on_both_outputs(any_sandbox: SandboxRunner) -> None:
    source = "import sys\ntext = sys.stdin.read()\nprint(len(text), text[-3:])\nprint('aside', file=sys.stderr)"
    done = any_sandbox.run(Job(source, b"x" * 3_000_000 + b"end", replace(LIMITS, cpu_seconds=5, wall_seconds=20)))
    assert (done.stdout, done.stderr) == (b"3000003 end\n", b"aside\n")


def test_a_program_is_main_in_a_file_and_its_errors_name_the_line(any_sandbox: SandboxRunner) -> None:
    done = any_sandbox.run(Job("assert __name__ == '__main__'\nassert open(__file__).read()\nraise ValueError(1)"))
    assert b"line 3" in done.stderr
    assert b"raise ValueError(1)" in done.stderr


def test_what_programs_of_benchmarks_need_is_there(sandbox: SandboxRunner) -> None:
    source = """
import asyncio, collections, decimal, hashlib, multiprocessing, os, random, re, sqlite3
import subprocess, sys, tempfile, threading, zoneinfo
async def answer(): return 1
assert asyncio.run(answer()) == 1
with tempfile.TemporaryDirectory() as folder:
    open(os.path.join(folder, "x"), "w").write("é")
with multiprocessing.Pool(2) as pool:
    assert pool.map(abs, [-1, 2]) == [1, 2]
assert subprocess.run([sys.executable, "-c", "print(5)"], capture_output=True).stdout == b"5\\n"
assert subprocess.run("echo hello", shell=True, capture_output=True).stdout == b"hello\\n"
assert subprocess.run(["python", "-c", "import json; print(6)"], capture_output=True).stdout == b"6\\n"
assert sqlite3.connect(":memory:").execute("select 1").fetchone() == (1,)
assert zoneinfo.ZoneInfo("Europe/Berlin") if os.path.isdir("/usr/share/zoneinfo") else True
assert os.path.expanduser("~") == "/tmp"
print("all")
"""
    done = sandbox.run(Job(source))
    assert done.stdout == b"all\n", done.stderr.decode()


def test_memory_that_children_share_is_counted_once(sandbox: SandboxRunner) -> None:
    source = """
import os, time
kept = b"x" * (60 << 20)
children = [os.fork() for _ in range(1)]
for _ in range(3):
    if os.fork() == 0:
        time.sleep(0.2)
        os._exit(0)
time.sleep(0.2)
"""
    assert sandbox.run(Job(source, limits=replace(LIMITS, wall_seconds=5))).ending is Ending.EXITED


def test_the_same_program_prints_the_same(sandbox: SandboxRunner) -> None:
    job = Job("print({str(n) for n in range(50)}, hash('x'))")
    assert sandbox.run(job).stdout == sandbox.run(job).stdout


def test_half_a_surrogate_and_a_null_are_the_programs_fault(sandbox: SandboxRunner) -> None:
    for source in ("x = '\ud800'\nprint(len(x))", "x = '\0'"):
        assert sandbox.run(Job(source)).ending is Ending.EXITED


@pytest.mark.parametrize("times", [2])
def test_two_programs_talk_and_the_examiner_ends_both(any_sandbox: SandboxRunner, times: int) -> None:
    examiner = Job("import os\nos.write(3, b'2 + 2')\nprint(os.read(4, 100))")
    candidate = Job("import os, time\nos.write(3, str(eval(os.read(4, 100))).encode())\ntime.sleep(600)")
    for _ in range(times):
        first, second = any_sandbox.examine(examiner, candidate)
        assert first.stdout == b"b'4'\n", first.stderr
        assert (second.ending, second.status) == (Ending.EXITED, None)


@pytest.mark.parametrize(
    ("candidate", "ending"),
    [
        ("import os; os._exit(3)", Ending.EXITED),
        ("import os\nos.close(3)\nos.close(4)", Ending.EXITED),
        ("import os\nos.kill(os.getpid(), 9)", Ending.KILLED),
        ("while True: pass", Ending.CPU_TIME),
        ("import os\nos.close(1)\nos.close(2)\nos.write(3, b'wrong')", Ending.EXITED),
    ],
)
def test_an_examiner_outlives_its_candidate(any_sandbox: SandboxRunner, candidate: str, ending: Ending) -> None:
    examiner = Job("import os\nwhile os.read(4, 1000): pass\nprint('over')", limits=replace(LIMITS, wall_seconds=20))
    first, second = any_sandbox.examine(examiner, Job(candidate, limits=LIMITS))
    assert first.stdout == b"over\n"
    assert second.ending is ending


def test_a_candidate_cannot_speak_in_the_examiners_name(sandbox: SandboxRunner) -> None:
    """It may open its own ends of the pipes both ways, but what it reads and writes there is still its own."""
    examiner = Job("import os\nos.write(3, b'question')\nprint(os.read(4, 100))")
    candidate = Job(
        "import os\n"
        "question = os.read(4, 100)\n"
        "back = os.open('/proc/self/fd/4', os.O_WRONLY)\n"
        "os.write(back, b'forged')\n"
        "found = sorted(int(n) for n in os.listdir('/proc/self/fd'))\n"
        "os.write(3, repr((question, found)).encode())\n"
    )
    first, _ = sandbox.examine(examiner, candidate)
    assert b"question" in first.stdout
    assert b"forged" not in first.stdout


def test_another_environments_packages_can_be_shown(tmp_path: Path) -> None:
    from services.sandbox.opening import open_runner

    with open_runner(places=1, python=Path(sys.executable), backends=["bubblewrap"]) as runner:
        done = runner.run(Job("import numpy, sys\nprint(numpy.arange(3).sum(), sys.flags.safe_path)"))
        assert done.stdout == b"3 True\n", done.stderr.decode()
        assert b"ModuleNotFoundError" in runner.run(Job("import services.sandbox")).stderr
