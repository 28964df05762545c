"""The private Redis: what it keeps, what it refuses, and how it comes back."""

import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from services.core.errors import PrerequisiteMissing
from services.local.processes import naming, wait_until
from services.local.redis import EmbeddedRedis

OWNER = """
import sys
from pathlib import Path
from services.local.redis import EmbeddedRedis
server = EmbeddedRedis(Path(sys.argv[1]))
print(server.start(), flush=True)
sys.stdin.read()
"""


@contextmanager
def client(url: str) -> Iterator[redis.Redis]:
    connection = redis.Redis.from_url(url)
    try:
        yield connection
    finally:
        connection.close()


@contextmanager
def owner(home: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-c", OWNER, str(home)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2].partition("/")[0])


def test_is_private_durable_and_never_evicts(tmp_path: Path) -> None:
    with EmbeddedRedis(tmp_path / "redis") as url, client(url) as connection:
        shown = {
            name: connection.config_get(name)[name]
            for name in ("bind", "appendonly", "appendfsync", "maxmemory-policy", "save", "protected-mode")
        }
        assert shown == {
            "bind": "127.0.0.1",
            "appendonly": "yes",
            "appendfsync": "everysec",
            "maxmemory-policy": "noeviction",
            "save": "",
            "protected-mode": "yes",
        }
        with client(f"redis://127.0.0.1:{port_of(url)}/0") as stranger, pytest.raises(redis.AuthenticationError):
            stranger.ping()
    for name in ("password", *(path.name for path in (tmp_path / "redis").glob("*.conf"))):
        assert stat.S_IMODE((tmp_path / "redis" / name).stat().st_mode) == 0o600


def test_keeps_messages_port_and_password(tmp_path: Path) -> None:
    server = EmbeddedRedis(tmp_path / "redis")
    with server as url, client(url) as connection:
        connection.lpush("episodes", "1", "2")
        assert server.start() == url
    assert server.pid() is None
    with EmbeddedRedis(tmp_path / "redis") as again, client(again) as connection:
        assert again == url
        assert connection.lrange("episodes", 0, -1) == [b"2", b"1"]


def test_killed_server_comes_back_with_what_was_flushed(tmp_path: Path) -> None:
    server = EmbeddedRedis(tmp_path / "redis")
    with server as url, client(url) as connection:
        connection.lpush("episodes", "1")
        assert wait_until(lambda: connection.info("persistence")["aof_pending_bio_fsync"] == 0, 10.0)
        process = server.pid()
        assert process is not None
        os.kill(process, signal.SIGKILL)
        assert wait_until(lambda: server.pid() is None, 10.0)
        assert server.start() == url
        with client(url) as fresh:
            assert fresh.lrange("episodes", 0, -1) == [b"1"]


@pytest.mark.parametrize(
    "rubbish", [b"no redis file at all\n", b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nb\r\n\x00\x01garbage"]
)
def test_unreadable_file_is_set_aside(tmp_path: Path, rubbish: bytes) -> None:
    home = tmp_path / "redis"
    home.mkdir()
    (home / "appendonly.aof").write_bytes(rubbish)
    with EmbeddedRedis(home) as url, client(url) as connection:
        assert connection.dbsize() == 0
    assert (home / "appendonly.unreadable").read_bytes() == rubbish


def test_truncated_file_loses_its_last_command_only(tmp_path: Path) -> None:
    home = tmp_path / "redis"
    with EmbeddedRedis(home) as url, client(url) as connection:
        connection.rpush("episodes", "1")
        connection.rpush("episodes", "2")
    whole = (home / "appendonly.aof").read_bytes()
    (home / "appendonly.aof").write_bytes(whole[:-3])
    with EmbeddedRedis(home) as url, client(url) as connection:
        assert connection.lrange("episodes", 0, -1) == [b"1"]


def test_another_program_took_the_port_meanwhile(tmp_path: Path) -> None:
    with EmbeddedRedis(tmp_path / "redis") as url:
        taken = port_of(url)
    with socket.create_server(("127.0.0.1", taken)), EmbeddedRedis(tmp_path / "redis") as moved, client(moved) as other:
        assert port_of(moved) != taken
        assert other.ping()


def test_published_url_is_never_changed_behind_its_readers(tmp_path: Path) -> None:
    server = EmbeddedRedis(tmp_path / "redis")
    with server as url:
        pass
    with socket.create_server(("127.0.0.1", port_of(url))), pytest.raises(PrerequisiteMissing, match="taken"):
        server.start()
    with server as again:
        assert again == url


def test_second_owner_is_refused(tmp_path: Path) -> None:
    with owner(tmp_path / "redis") as (process, url):
        with pytest.raises(PrerequisiteMissing, match=f"in use by process {process.pid}"):
            EmbeddedRedis(tmp_path / "redis").start()
        with client(url) as connection:
            assert connection.ping()


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's parent-death signal is Linux's")
def test_killed_owner_leaves_no_orphan_and_the_next_takes_over(tmp_path: Path) -> None:
    server = EmbeddedRedis(tmp_path / "redis")
    with owner(tmp_path / "redis") as (process, url):
        with client(url) as connection:
            connection.lpush("episodes", "1")
        assert naming(server._server.token)
        process.kill()
        process.wait()
        with server as again, client(again) as connection:
            assert again == url
            assert connection.llen("episodes") == 1
        assert naming(server._server.token) == []


def test_folder_with_odd_characters(tmp_path: Path) -> None:
    home = tmp_path / "a folder, with 100% \"odd\" 'letters' é&?#{} \\n"
    with EmbeddedRedis(home) as url, client(url) as connection:
        connection.set("a", "b")
    with EmbeddedRedis(home) as url, client(url) as connection:
        assert connection.get("a") == b"b"
