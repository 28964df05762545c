"""The private Postgres: data that survives every kind of crash, under every kind of account."""

import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
import sqlalchemy

from services.core.errors import PrerequisiteMissing
from services.local import binaries, processes
from services.local.identity import Identity, Way, choose, ordinary_account
from services.local.postgres import EmbeddedPostgres
from services.local.processes import naming, wait_until
from tests.support.signals import send

ROOT = os.geteuid() == 0
only_root = pytest.mark.skipif(not ROOT, reason="needs root to make files of other users")
OWNER = """
import sys
from pathlib import Path
from services.local.postgres import EmbeddedPostgres
postgres = EmbeddedPostgres(Path(sys.argv[1]))
print(postgres.start(), flush=True)
sys.stdin.read()
"""


@contextmanager
def owner(home: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Another process that runs the server; the second value is its URL."""
    command = [sys.executable, "-c", OWNER, str(home)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def ask(url: str, statement: str) -> object:
    with psycopg.connect(url) as connection:
        row = connection.execute(statement.encode()).fetchone()
        return row[0] if row else None


def ask_through_sqlalchemy(url: str, statement: str) -> object:
    engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool)
    with engine.connect() as connection:
        return connection.exec_driver_sql(statement).scalar()


def remember(url: str, number: int) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS kept (number int)")
        connection.execute("INSERT INTO kept VALUES (%s)", [number])


def token_of(postgres: EmbeddedPostgres) -> str:
    return postgres._server.token


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that a server has made and left cleanly: making one costs a disk more than copying it."""
    folder = tmp_path_factory.mktemp("template") / "postgres"
    with EmbeddedPostgres(folder):
        pass
    return folder


@pytest.fixture
def home(tmp_path: Path, template: Path) -> Path:
    return Path(shutil.copytree(template, tmp_path / "postgres"))


@pytest.fixture
def wait() -> Callable[[Callable[[], bool]], None]:
    def waiting(condition: Callable[[], bool]) -> None:
        assert wait_until(condition, 30.0)

    return waiting


def test_keeps_its_data_and_its_url(tmp_path: Path) -> None:
    postgres = EmbeddedPostgres(tmp_path / "postgres")
    with postgres as url:
        remember(url, 7)
        assert postgres.start() == url
        assert ask(url, "SHOW fsync") == "on"
        assert ask(url, "SHOW synchronous_commit") == "on"
        assert ask(url, "SHOW full_page_writes") == "on"
        assert ask(url, "SHOW listen_addresses") == ""
        assert ask(url, "SHOW server_encoding") == "UTF8"
        assert ask_through_sqlalchemy(url, "SELECT current_database()") == "trinity"
    assert postgres.pid() is None
    assert naming(token_of(postgres)) == []
    with EmbeddedPostgres(tmp_path / "postgres") as again:
        assert again == url
        assert ask(again, "SELECT number FROM kept") == 7


def test_wants_the_password_and_hides_it(home: Path) -> None:
    postgres = EmbeddedPostgres(home)
    with postgres as url:
        password = url.split(":")[2].split("@")[0]
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(url.replace(password, "guess"))
        process = postgres.pid()
        assert process is not None
        assert password not in Path(f"/proc/{process}/cmdline").read_text()
    kept = home / "password"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700


def test_second_owner_is_refused_with_the_first_one_named(home: Path) -> None:
    with owner(home) as (process, url):
        with pytest.raises(PrerequisiteMissing, match=f"in use by process {process.pid}"):
            EmbeddedPostgres(home).start()
        assert ask(url, "SELECT 1") == 1


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's parent-death signal is Linux's")
def test_killed_owner_leaves_no_orphan(home: Path, wait: Callable[[Callable[[], bool]], None]) -> None:
    postgres = EmbeddedPostgres(home)
    with owner(home) as (process, _):
        assert naming(token_of(postgres))
        process.kill()
        wait(lambda: naming(token_of(postgres)) == [])


def test_starts_at_once_after_its_owner_was_killed(home: Path) -> None:
    with owner(home) as (process, url):
        remember(url, 11)
        process.kill()
        process.wait()
        with EmbeddedPostgres(home) as again:
            assert again == url
            assert ask(again, "SELECT number FROM kept") == 11


def test_starts_after_server_and_owner_were_killed_together(home: Path) -> None:
    with owner(home) as (process, url):
        remember(url, 13)
        send([*naming(token_of(EmbeddedPostgres(home))), process.pid])
        process.wait()
    with EmbeddedPostgres(home) as again:
        assert ask(again, "SELECT number FROM kept") == 13


def test_starts_again_after_its_postmaster_alone_was_killed(
    home: Path, wait: Callable[[Callable[[], bool]], None]
) -> None:
    postgres = EmbeddedPostgres(home)
    with postgres as url:
        remember(url, 17)
        process = postgres.pid()
        assert process is not None
        os.kill(process, signal.SIGKILL)
        wait(lambda: postgres.pid() is None)
        assert postgres.start() == url
        assert ask(url, "SELECT number FROM kept") == 17


def test_ends_an_orphan_that_nothing_has_stopped(home: Path, tmp_path: Path) -> None:
    """What the death signal normally prevents, and other systems than Linux do not have."""
    launcher = tmp_path / "launcher.py"
    launcher.write_text(processes.LAUNCHER.read_text().replace('if order["parent"]:', "if False:"))
    orphaned = OWNER.replace(
        "postgres =",
        f"from services.local import processes\nprocesses.LAUNCHER = Path({str(launcher)!r})\npostgres =",
    )
    command = [sys.executable, "-c", orphaned, str(home)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        process.kill()
    remember(url, 19)
    postgres = EmbeddedPostgres(home)
    before = naming(token_of(postgres))
    assert before
    with postgres as again:
        assert not set(before) & set(naming(token_of(postgres)))
        assert ask(again, "SELECT number FROM kept") == 19


def test_pid_file_with_a_number_that_is_somebody_elses_by_now(home: Path) -> None:
    with EmbeddedPostgres(home) as url:
        remember(url, 23)
        left = (home / "data" / "postmaster.pid").read_text()
    stale = "\n".join([str(os.getpid()), *left.splitlines()[1:]]) + "\n"
    (home / "data" / "postmaster.pid").write_text(stale)
    with EmbeddedPostgres(home) as again:
        assert ask(again, "SELECT number FROM kept") == 23


def test_interrupted_creation_is_done_again(tmp_path: Path) -> None:
    half = tmp_path / "postgres" / "data.new"
    half.mkdir(parents=True)
    (half / "PG_VERSION").write_text("18\n")
    with EmbeddedPostgres(tmp_path / "postgres") as url:
        assert ask(url, "SELECT 1") == 1


def test_path_too_long_for_a_socket_and_full_of_odd_characters(tmp_path: Path) -> None:
    home = tmp_path / "a folder, with 100% \"odd\" 'letters' é&?#" / ("x" * 90)
    home.parent.mkdir()
    with EmbeddedPostgres(home.parent / "short") as url:
        assert ask(url, "SELECT 1") == 1
    with EmbeddedPostgres(home) as url:
        assert ask(url, "SELECT 1") == 1
        assert ask_through_sqlalchemy(url, "SELECT 1") == 1


def test_lost_password_and_foreign_version_are_said_in_words(home: Path) -> None:
    with EmbeddedPostgres(home):
        pass
    (home / "data" / "PG_VERSION").write_text("15\n")
    with pytest.raises(PrerequisiteMissing, match="made by Postgres 15"):
        EmbeddedPostgres(home).start()
    (home / "data" / "PG_VERSION").write_text("18\n")
    (home / "password").unlink()
    with pytest.raises(PrerequisiteMissing, match="password"):
        EmbeddedPostgres(home).start()


def test_environment_of_the_caller_does_not_reach_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGDATA", "/nowhere")
    monkeypatch.setenv("PGPORT", "1")
    monkeypatch.setenv("LC_ALL", "xx_XX.broken")
    postgres = EmbeddedPostgres(tmp_path / "postgres")
    try:
        url = postgres.start()
        monkeypatch.undo()
        assert ask(url, "SELECT 1") == 1
    finally:
        postgres.stop()


def test_two_folders_do_not_meet(template: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        shutil.copytree(template, tmp_path / name)
    with EmbeddedPostgres(tmp_path / "one") as one, EmbeddedPostgres(tmp_path / "two") as two:
        remember(one, 1)
        remember(two, 2)
        assert ask(one, "SELECT number FROM kept") == 1
        assert ask(two, "SELECT number FROM kept") == 2


@only_root
def test_root_below_a_folder_that_only_root_may_enter(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    with EmbeddedPostgres(closed / "deeper" / "postgres") as url:
        assert ask(url, "SELECT 1") == 1
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700


@only_root
def test_root_below_a_folder_of_somebody_else(tmp_path: Path) -> None:
    """Out of reach for the namespace way, in which root's powers do not count: the ambient way takes over."""
    foreign = tmp_path / "foreign"
    foreign.mkdir(mode=0o700)
    os.chown(foreign, 12345, 12345)
    with owner(foreign / "postgres") as (process, url):
        remember(url, 29)
        process.kill()
        process.wait()
        with EmbeddedPostgres(foreign / "postgres") as again:
            assert ask(again, "SELECT number FROM kept") == 29
    assert (foreign / "postgres" / "data").stat().st_uid == ordinary_account().pw_uid
    assert choose(binaries.postgres(), foreign / "postgres").way is Way.AMBIENT


@only_root
def test_data_made_one_way_is_taken_over_by_the_other(tmp_path: Path) -> None:
    foreign = tmp_path / "foreign"
    foreign.mkdir(mode=0o700)
    os.chown(foreign, 12345, 12345)
    with EmbeddedPostgres(foreign / "postgres") as url:
        remember(url, 31)
    for user in (0, 12345):
        os.chown(foreign, user, user)
        with EmbeddedPostgres(foreign / "postgres") as url:
            assert ask(url, "SELECT number FROM kept") == 31


@only_root
def test_data_of_another_person_is_left_alone(home: Path) -> None:
    with EmbeddedPostgres(home):
        pass
    os.chown(home / "data", 12345, 12345)
    with pytest.raises(PrerequisiteMissing, match="belongs to user 12345"):
        EmbeddedPostgres(home).start()
    assert (home / "data").stat().st_uid == 12345


def test_nothing_works_is_said_with_a_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(PrerequisiteMissing, match="TRINITY_DATABASE_URL"):
        choose(tmp_path / "absent", tmp_path)


def test_ordinary_account_needs_no_trick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    account = ordinary_account()
    monkeypatch.setattr(os, "geteuid", lambda: account.pw_uid)
    assert choose(binaries.postgres(), tmp_path) == Identity(Way.DIRECT, account.pw_uid, os.getegid())
