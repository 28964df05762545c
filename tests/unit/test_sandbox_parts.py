"""The sandbox's smaller parts: its clock, its messages, its places, and what it finds out about a machine."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.core.errors import PrerequisiteMissing
from services.core.scoring.ports import Ending, Execution, Job, Limits
from services.sandbox import usage, wire
from services.sandbox.interpreter import bare, of_this_process, outermost
from services.sandbox.service import Places
from services.sandbox.staging import reachable
from tests.support.waiting import wait_for


def test_the_clock_runs_slower_the_busier_the_machine_is() -> None:
    idle, busy = usage.FairClock(0.0), usage.FairClock(0.0)
    for step in range(1, 101):
        idle.advance(step / 50, 1)
        busy.advance(step / 50, 4 * usage.cores())
    assert idle.seconds == pytest.approx(2.0)
    assert busy.seconds == pytest.approx(0.5)


def test_the_clock_does_not_count_what_the_watch_itself_slept_through_but_always_goes_on() -> None:
    clock = usage.FairClock(0.0)
    clock.advance(1.0, 1)
    assert clock.seconds == pytest.approx(0.25)
    clock.advance(101.0, 100_000)
    assert clock.seconds == pytest.approx(10.25)


def test_a_tree_is_added_up_with_the_children_of_threads() -> None:
    script = """
import subprocess, sys, threading
hold = "kept = b'x' * 50_000_000; import sys; print(1, flush=True); sys.stdin.read()"
def start():
    child = subprocess.Popen([sys.executable, "-c", hold], stdin=sys.stdin)
    child.wait()
threads = [threading.Thread(target=start) for _ in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert sorted(parent.stdout.read(4)) == sorted(b"1\n1\n")  # in whatever order
        found = usage.of_tree(parent.pid)
        assert len(found.pids) == 3
        assert found.resident_bytes > found.shared_bytes() > 100_000_000
        assert found.cpu_seconds >= 0.0
        assert not usage.is_over(os.getpid())
        parent.communicate()
    assert usage.of_tree(parent.pid).pids == ()
    assert usage.is_over(parent.pid)


@given(
    source=st.text(max_size=50),
    stdin=st.binary(max_size=50),
    out=st.binary(max_size=50),
    status=st.none() | st.integers(-64, 255),
)
def test_messages_arrive_as_they_were_sent(source: str, stdin: bytes, out: bytes, status: int | None) -> None:
    jobs = [Job(source.encode(errors="replace").decode(), stdin, Limits(1.5, 2.5, 3, 4)), Job("", b"")]
    done = [Execution(Ending.KILLED, status, out, stdin, 0.25, 0.125)]
    left, right = socket.socketpair()
    with left, right:
        wire.send(left, *wire.packed(jobs))
        wire.send(left, *wire.packed_executions(done))
        assert wire.unpacked(wire.receive(right)) == jobs
        assert wire.unpacked_executions(wire.receive(right)) == done
        left.close()
        with pytest.raises(wire.Closed):
            wire.receive(right)


def test_a_message_without_end_is_not_awaited() -> None:
    left, right = socket.socketpair()
    with left, right:
        left.sendall(wire.FRONT.pack(0xFFFFFFFF, 0))
        with pytest.raises(wire.Closed):
            wire.receive(right)


def test_one_runs_alone_and_holds_back_the_others() -> None:
    places = Places(2)
    together: list[int] = []
    inside, lock = set[str](), threading.Lock()
    leave = threading.Event()

    def take(name: str) -> None:
        with places.alone() if name == "alone" else places.shared():
            with lock:
                inside.add(name)
                together.append(len(inside) + (10 if "alone" in inside else 0))
            leave.wait(30)
            with lock:
                inside.discard(name)

    names = ["a", "b", "alone", "c", "d"]
    threads = [threading.Thread(target=take, args=(name,)) for name in names]
    for thread in threads[:2]:
        thread.start()
    wait_for(lambda: len(inside) == 2, seconds=10, what="two inside")
    for thread in threads[2:]:
        thread.start()
    leave.set()
    for thread in threads:
        thread.join(30)
    assert len(together) == 5
    assert max(together) == 11  # alone, and nobody beside it
    assert all(count in (1, 2, 11) for count in together)


@pytest.mark.parametrize(
    ("paths", "kept"),
    [
        (["/usr/lib", "/usr/lib/x/y", "/usr/library"], ("/usr/lib", "/usr/library")),
        (["/b", "/a", "/a"], ("/a", "/b")),
        ([], ()),
    ],
)
def test_folders_inside_others_are_not_shown_twice(paths: list[str], kept: tuple[str, ...]) -> None:
    assert outermost(paths) == kept


def test_this_interpreter_is_shown_without_its_packages() -> None:
    found = of_this_process()
    assert found.version == ".".join(map(str, sys.version_info[:3]))
    standard = os.path.dirname(os.path.realpath(os.__file__))
    assert standard in found.shown
    assert not any("site-packages" in path for path in found.shown)
    assert all(os.path.isdir(path) for path in found.hidden)
    assert "-S" in found.command


def test_what_is_no_interpreter_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PrerequisiteMissing, match="cannot be used in a sandbox"):
        bare(str(tmp_path / "absent"))
    with pytest.raises(PrerequisiteMissing, match="cannot be used in a sandbox"):
        bare("/bin/true")


def test_reachable_means_by_every_user(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "file").chmod(0o644)
    tmp_path.chmod(0o700)
    assert not reachable(str(tmp_path / "file"))
    assert not reachable(str(tmp_path / "absent"))
    assert reachable("/usr/bin/env")
