"""The process that owns sandboxed programs: what it leaves behind, how it is lost, and what depends on it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from services.core.errors import GradingUnavailable, PrerequisiteMissing
from services.core.scoring.ports import Ending, Job, Limits
from services.sandbox.client import SandboxRunner
from services.sandbox.opening import available, open_runner
from tests.attacks.battery import below
from tests.support.sandboxes import FULL, ROOT, any_sandbox, as_user, public_copy, sandbox, why_not
from tests.support.waiting import wait_for

__all__ = ["any_sandbox", "public_copy", "sandbox"]

SLEEPING = Job("import time; print('up', flush=True); time.sleep(600)", limits=Limits(wall_seconds=600))
BUSY_PARENT = """
import json, mmap, sys, threading
from concurrent.futures import ThreadPoolExecutor
from services.core.scoring.ports import Job
from services.sandbox.opening import open_runner
threads, gigabytes, programs = json.loads(sys.argv[1])
mapped = mmap.mmap(-1, gigabytes << 30)
stop = threading.Event()
for _ in range(threads):
    threading.Thread(target=stop.wait, daemon=True).start()
with open_runner(backends=["bubblewrap"]) as runner, ThreadPoolExecutor(threads) as pool:
    done = list(pool.map(runner.run, [Job(f"print({n} ** 2)") for n in range(programs)]))
right = sum(each.stdout == b"%d\\n" % (n * n) for n, each in enumerate(done))
stop.set()
print(right)
"""
KILLED_PARENT = """
import sys, threading, time
from services.core.scoring.ports import Job, Limits
from services.sandbox.opening import open_runner
runner = open_runner(places=2, backends=sys.argv[1:])
job = Job("import time; time.sleep(600)", limits=Limits(wall_seconds=600))
for _ in range(2):
    threading.Thread(target=runner.run, args=(job,), daemon=True).start()
print(runner.pid, flush=True)
time.sleep(600)
"""
DENIED = """
import sys
from services.core.errors import PrerequisiteMissing
from services.core.scoring.ports import Job
from services.sandbox import confine, seccomp
from services.sandbox.opening import open_runner
from services.sandbox.syscalls import ARCHITECTURES
import os, struct
here = ARCHITECTURES[os.uname().machine]
refuse = lambda number: [(seccomp.IF_EQUAL, 0, 1, number), seccomp.give(seccomp.REFUSE)]
code = [(seccomp.LOAD, 0, 0, seccomp.NUMBER)]
for number in [272 if here.column == 0 else 97, *([confine.CREATE_RULESET] if "landlock" in sys.argv else [])]:
    code += refuse(number)
code += seccomp.when(here.clone, [(seccomp.LOAD, 0, 0, seccomp.argument(0)),
    (seccomp.IF_ANY_BIT, 0, 1, seccomp.CLONE_NEW_ANYTHING), seccomp.give(seccomp.REFUSE)])
confine.checked("prctl", confine.LIBRARY.prctl(confine.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
confine.restrict_calls(b"".join(struct.pack("=HBBI", *one) for one in [*code, seccomp.give(seccomp.ALLOW)]))
try:
    with open_runner() as runner:
        print(runner.name, runner.run(Job("print(1)")).stdout)
except PrerequisiteMissing as error:
    print("refused:", error)
"""


def python(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", *arguments], cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    except OSError:
        return False


def gone(pid: int) -> bool:
    return not alive(pid)


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def test_many_runs_leave_nothing(any_sandbox: SandboxRunner) -> None:
    any_sandbox.run(Job("pass"))
    before = descriptors_of(any_sandbox), mounts(), folders()
    with ThreadPoolExecutor(8) as threads:
        done = list(threads.map(any_sandbox.run, [Job(f"print({n})") for n in range(1000 if FULL else 40)]))
    assert [int(each.stdout) for each in done] == list(range(len(done)))
    assert below(any_sandbox.pid) == []
    assert (descriptors_of(any_sandbox), mounts(), folders()) == before


def descriptors_of(runner: SandboxRunner) -> int:
    try:
        return descriptors(runner.pid)
    except PermissionError:  # a process that gave up root's rights shows them to root alone
        return 0


def mounts() -> int:
    return len(Path("/proc/self/mountinfo").read_text().splitlines())


def folders() -> set[str]:
    return {name for name in os.listdir("/tmp") if name.startswith("trinity-sandbox")}


def test_a_lost_runner_is_no_verdict_and_is_started_again(any_sandbox: SandboxRunner) -> None:
    lost = any_sandbox.pid
    with ThreadPoolExecutor(2) as threads:
        waiting = threads.submit(any_sandbox.run, SLEEPING)
        started = wait_for(lambda: below(lost), seconds=30, what="the program")
        os.kill(lost, signal.SIGKILL)
        with pytest.raises(GradingUnavailable):
            waiting.result(30)
    wait_for(lambda: not any(alive(int(pid)) for pid in started), seconds=10, what="the program's end")
    assert any_sandbox.run(Job("print(2)")).stdout == b"2\n"
    assert any_sandbox.pid != lost


def test_a_closed_sandbox_ends_its_programs_and_runs_no_more() -> None:
    if reason := why_not("bubblewrap"):
        pytest.skip(reason)
    runner = open_runner(places=1, backends=["bubblewrap"])
    with ThreadPoolExecutor(1) as threads:
        threads.submit(runner.run, SLEEPING)
        started = wait_for(lambda: below(runner.pid), seconds=30, what="the program")
        runner.close()
    assert not any(alive(int(pid)) for pid in started)
    with pytest.raises(GradingUnavailable, match="closed"):
        runner.run(Job("pass"))


@pytest.mark.parametrize("backend", ["bubblewrap", "landlock"])
def test_a_killed_worker_takes_everything_with_it(backend: str) -> None:
    if reason := why_not(backend):
        pytest.skip(reason)
    parent = python(KILLED_PARENT, backend)
    assert parent.stdout is not None
    runner = int(parent.stdout.readline())
    programs = wait_for(lambda: found if len(found := below(runner)) == 2 else None, seconds=30, what="two programs")
    parent.kill()
    parent.communicate()
    for pid in [runner, *map(int, programs)]:
        wait_for(partial(gone, pid), seconds=15, what=f"the end of process {pid}")
    assert folders() == set()


def test_a_parent_with_many_threads_and_much_memory_loses_no_program() -> None:
    """A limit of memory that counted what the parent has mapped would fail every program."""
    if reason := why_not("bubblewrap"):
        pytest.skip(reason)
    threads, gigabytes, programs = (300, 20, 300) if FULL else (60, 20, 20)
    done = python(BUSY_PARENT, f"[{threads}, {gigabytes}, {programs}]")
    out, trouble = done.communicate(timeout=250)
    assert out.strip() == str(programs), trouble


@pytest.fixture
def load() -> Iterator[None]:
    """Ten busy processes."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(10)]
    yield
    for process in busy:
        process.kill()
        process.wait()


@pytest.mark.usefixtures("load")
def test_a_loaded_machine_fails_no_right_program(sandbox: SandboxRunner) -> None:
    """Each works for a fifth of its wall limit, which at this load takes longer than the limit."""
    source = "import time\nend = time.process_time() + 0.2\nwhile time.process_time() < end: pass\nprint('right')"
    jobs = [Job(source, limits=Limits(cpu_seconds=1.0, wall_seconds=1.0))] * (200 if FULL else 4)
    with ThreadPoolExecutor(4) as threads:
        done = list(threads.map(sandbox.run, jobs))
    assert sum(each.stdout == b"right\n" for each in done) >= 0.995 * len(jobs), {each.ending for each in done}


def test_requests_beyond_the_places_wait_and_that_counts_for_no_limit(sandbox: SandboxRunner) -> None:
    job = Job("import time; time.sleep(0.3); print('slept')", limits=Limits(wall_seconds=0.9))
    with ThreadPoolExecutor(12) as threads:
        done = list(threads.map(sandbox.run, [job] * 12))
    assert {each.ending for each in done} == {Ending.EXITED}


def test_without_user_namespaces_it_falls_back_and_says_so() -> None:
    if reason := why_not("landlock"):
        pytest.skip(reason)
    out, trouble = python(DENIED).communicate(timeout=120)
    assert out.startswith("landlock"), out + trouble
    assert "b'1\\n'" in out


def test_with_neither_it_refuses_and_tells_what_was_tried_and_the_cure() -> None:
    out, trouble = python(DENIED, "landlock").communicate(timeout=120)
    assert out.startswith("refused:"), out + trouble
    for wanted in ("bubblewrap", "the kernel has no Landlock", "install bubblewrap and allow user namespaces"):
        assert wanted in out


def test_a_machine_without_any_tool_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("services.sandbox.opening.bubblewraps", lambda: iter([(tmp_path / "bwrap", "")]))
    monkeypatch.setattr("services.sandbox.opening.BACKENDS", ("bubblewrap",))
    with pytest.raises(PrerequisiteMissing, match="does not run"):
        open_runner(backends=["bubblewrap"])


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo bubblewrap 0.7.0", "is bubblewrap 0.7.0"),
        ("echo nothing", "is nothing"),
        ("exit 1", "does not run"),
        ("echo bubblewrap 0.9.0; test $# -eq 1 || exit 1", "did not make a sandbox"),
    ],
)
def test_a_tool_that_does_not_serve_is_named(
    script: str, reason: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tool = tmp_path / "bwrap"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    monkeypatch.setattr("services.sandbox.opening.bubblewraps", lambda: iter([(tool, "")]))
    with pytest.raises(PrerequisiteMissing, match=reason):
        open_runner(backends=["bubblewrap"])


def test_a_python_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PrerequisiteMissing, match="cannot be used"):
        available(python=tmp_path / "python")


def test_code_that_only_its_owner_can_read_works(public_copy: Path) -> None:
    """As root, the runner gives up the right to read its own code before it runs anything."""
    if reason := why_not("bubblewrap"):
        pytest.skip(reason)
    private = public_copy / "private"
    private.mkdir(mode=0o700)
    (public_copy / "services").rename(private / "services")
    script = "from services.sandbox.opening import available\nprint(available())"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=private, capture_output=True, text=True, check=False, timeout=120
    )
    assert "self-test" in done.stdout, done.stderr


def test_an_ordinary_user_has_a_sandbox(public_copy: Path) -> None:
    if reason := why_not("bubblewrap"):
        pytest.skip(reason)
    done = as_user(public_copy, "-c", "from services.sandbox.opening import available; print(available())")
    assert done.stdout.startswith("bubblewrap"), done.stderr


def test_it_may_be_opened_by_a_thread_that_ends(any_sandbox: SandboxRunner) -> None:
    """The runner ends with its parent, not with the thread that happened to start it."""
    opened: list[SandboxRunner] = []
    kind = "landlock" if "landlock" in any_sandbox.name else "bubblewrap"
    thread = threading.Thread(target=lambda: opened.append(open_runner(places=1, backends=[kind])))
    thread.start()
    thread.join()
    with opened[0] as runner:
        assert runner.run(Job("print(3)")).stdout == b"3\n"
