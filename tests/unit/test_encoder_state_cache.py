from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from services.encoder.state_cache import CacheCounts, State, StateCache, StateFile


def state(value: float, size: int = 4) -> State:
    return np.full(size, value, dtype=np.float32)


@pytest.fixture
def file(tmp_path: Path) -> Iterator[StateFile]:
    file = StateFile(tmp_path / "states.sqlite")
    yield file
    file.close()


def test_a_state_comes_back_bit_for_bit_and_read_only() -> None:
    cache = StateCache()
    cache.put(b"a", np.array([0.1, -0.0, np.float32(1e-40)], dtype=np.float32))
    found = cache.get(b"a", 3)
    assert found is not None
    assert found.tobytes() == np.array([0.1, -0.0, np.float32(1e-40)], dtype=np.float32).tobytes()
    with pytest.raises(ValueError, match="read-only"):
        found[0] = 1


def test_memory_keeps_the_latest_used() -> None:
    cache = StateCache(max_states=2)
    cache.put(b"a", state(1))
    cache.put(b"b", state(2))
    cache.get(b"a", 4)
    cache.put(b"c", state(3))
    assert [cache.get(key, 4) is not None for key in (b"a", b"b", b"c")] == [True, False, True]


def test_hits_and_misses_are_counted(file: StateFile) -> None:
    StateCache(file).put(b"a", state(1))
    cache = StateCache(file)
    for key in (b"a", b"a", b"nothing"):
        cache.get(key, 4)
    assert cache.counts == CacheCounts(hits=1, file_hits=1, misses=1)


def test_another_process_reads_what_was_stored(file: StateFile, tmp_path: Path) -> None:
    StateCache(file).put(b"a", state(0.1))
    program = (
        "import sys; from pathlib import Path; from services.encoder.state_cache import StateFile\n"
        "print(StateFile(Path(sys.argv[1])).get(b'a').tobytes().hex())"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "states.sqlite")]
    outcome = subprocess.run(command, capture_output=True, text=True, check=True)
    assert outcome.stdout.strip() == state(0.1).tobytes().hex()


def test_many_threads_share_one_file(file: StateFile) -> None:
    cache = StateCache(file, max_states=1)
    found: list[bool] = []

    def work(thread: int) -> None:
        for number in range(50):
            key = f"{thread}-{number}".encode()
            cache.put(key, state(number))
            again = file.get(key)
            found.append(again is not None and bool((again == number).all()))

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 200


def test_oldest_rows_make_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.encoder.state_cache._TRIM_EVERY", 10)
    file = StateFile(tmp_path / "states.sqlite", max_rows=15)
    for number in range(40):
        file.put(str(number).encode(), state(number))
    assert [file.get(str(number).encode()) is not None for number in (0, 24, 25, 39)] == [False, False, True, True]
    file.close()


@pytest.mark.parametrize(
    "content", [b"not a database at all, but long enough to be looked at" * 30, b"SQLite format 3\x00torn"]
)
def test_a_file_that_is_no_database_is_left_alone(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "states.sqlite"
    path.write_bytes(content)
    cache = StateCache(StateFile(path))
    cache.put(b"a", state(1))
    assert cache.get(b"a", 4) is not None
    assert path.read_bytes() == content
    assert "may be deleted" in caplog.text


def test_a_folder_that_cannot_be_written_costs_only_the_file(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("a file where a folder is wanted")
    cache = StateCache(StateFile(tmp_path / "plain" / "states.sqlite"))
    cache.put(b"a", state(1))
    assert cache.get(b"a", 4) is not None


def test_a_locked_file_is_passed_over_and_used_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.encoder.state_cache._BUSY_SECONDS", 0.01)
    file = StateFile(tmp_path / "states.sqlite")
    blocker = sqlite3.connect(tmp_path / "states.sqlite", isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    file.put(b"a", state(1))
    blocker.execute("ROLLBACK")
    blocker.close()
    assert file.get(b"a") is None
    file.put(b"a", state(1))
    assert file.get(b"a") is not None
    file.close()


def test_an_entry_of_another_size_is_a_miss(file: StateFile) -> None:
    StateCache(file).put(b"a", state(1, size=3))
    assert StateCache(file).get(b"a", 4) is None
