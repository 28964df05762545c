"""A private Postgres for one folder: no port, a password, whatever account runs it.

Layout of the folder: ``data`` (the cluster), ``password``, ``socket``, ``lock``.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from urllib.parse import quote

from services.core.errors import PrerequisiteMissing
from services.local import binaries
from services.local.identity import Identity, choose
from services.local.processes import last_line, spawn, wait_until
from services.local.service import ENVIRONMENT, ServerProcess, make_secret

ROLE = DATABASE = "trinity"
# Crash recovery replays at most a few checkpoints' worth of log; on a slow disk that takes a while.
READY_SECONDS = 120.0
CREATE_SECONDS = 120.0
# sun_path holds 108 bytes, the closing zero included (unix(7)); 104 on BSD and macOS.
LONGEST_SOCKET = 103
SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "200",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] %a ",
}
if sys.platform == "linux":
    # After a crash one call for the whole file system instead of one for each of a thousand files.
    SETTINGS["recovery_init_sync_method"] = "syncfs"


class EmbeddedPostgres:
    """Postgres from the wheel, serving ``home``.

    Start it from a thread that outlives it, for the kernel stops the server when that thread ends, and keep the object,
    for it holds the folder's lock. A second process that
    starts it on the same folder is refused. After a crash of any kind the next start ends what is left, recovers the
    data and goes on.

    Args:
        home: its folder, made at the first start.
        log_path: its log; ``home/postgres.log`` by default.
    """

    name = "Postgres"
    endpoint = "database_url"

    def __init__(self, home: Path, *, log_path: Path | None = None) -> None:
        self._home = home.resolve()
        self._data = self._home / "data"
        self._log_path = log_path.resolve() if log_path else self._home / "postgres.log"
        stops = ((signal.SIGINT, 30.0), (signal.SIGQUIT, 10.0))
        self._server = ServerProcess(self._home, self.name, self._log_path, stops)

    def __enter__(self) -> str:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def pid(self) -> int | None:
        """The postmaster, None when it does not run."""
        return self._server.pid

    def start(self) -> str:
        """Starts it unless it runs; ``postgresql://trinity:PASSWORD@/trinity?host=FOLDER``, the role being superuser.

        Raises:
            PrerequisiteMissing: the wheel is not installed, the account cannot run Postgres, the folder is in use or
                belongs to somebody else, or the server ended at once.
        """
        if self._server.pid is None:
            self._server.claim()
            try:
                self._start()
            except BaseException:
                self.stop()
                raise
        return f"postgresql://{ROLE}:{self._password()}@/{DATABASE}?host={quote(str(self._socket_dir()))}"

    def stop(self) -> None:
        """Fast shutdown: sessions are ended, everything committed is on disk."""
        self._server.stop()
        if self._socket_dir().parent != self._home:
            with suppress(OSError):
                self._socket_dir().rmdir()

    def _start(self) -> None:
        program = binaries.postgres()
        identity = choose(program, self._home)
        if not self._data.exists():
            self._create(identity)
        self._password()
        identity.take(self._data)
        self._refuse_other_version(program)
        # No process of this folder lives any more. The number in the file may by now be somebody else's, though, and
        # Postgres would then take it for a running server.
        (self._data / "postmaster.pid").unlink(missing_ok=True)
        sockets = str(self._emptied_socket_dir()).replace('"', '""')
        settings = SETTINGS | {"unix_socket_directories": f'"{sockets}"', "cluster_name": self._server.token}
        flags = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
        self._server.launch([str(program), "-D", str(self._data), *flags], identity)
        wait_until(lambda: self._is_ready() or self._server.pid is None, READY_SECONDS)
        if not self._is_ready():
            raise self._server.failure(READY_SECONDS)

    def _password(self) -> str:
        path = self._home / "password"
        if not path.exists():
            raise PrerequisiteMissing(
                f"{path}, the password of the data in {self._data}, is gone",
                "put it back, or remove the whole folder to start anew",
            )
        return path.read_text().strip()

    def _is_ready(self) -> bool:
        try:
            lines = (self._data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return len(lines) >= 8 and lines[0].strip() == str(self._server.pid) and lines[7].strip() == "ready"

    def _create(self, identity: Identity) -> None:
        """Makes the cluster aside and moves it into place last: a killed attempt leaves nothing to trip over."""
        draft = self._home / "data.new"
        shutil.rmtree(draft, ignore_errors=True)
        make_secret(self._home / "password")
        options = ["--auth=scram-sha-256", f"--username={ROLE}", f"--pwfile={self._home / 'password'}"]
        options += ["--encoding=UTF8", "--no-locale", "--no-instructions"]
        if sys.platform == "linux":
            # One call for the whole file system instead of a thousand for its files: half the time on a busy disk.
            options.append("--sync-method=syncfs")
        self._run([str(binaries.postgres("initdb")), "-D", str(draft), *options], identity)
        statement = self._home / "create.sql"
        statement.write_text(f"CREATE DATABASE {DATABASE}\n")
        self._run([str(binaries.postgres()), "--single", "-D", str(draft), "postgres"], identity, statement)
        statement.unlink()
        draft.rename(self._data)

    def _run(self, argv: list[str], identity: Identity, source: Path | None = None) -> None:
        self._log_path.parent.mkdir(parents=True, exist_ok=True)
        with self._log_path.open("ab") as log, open(source or os.devnull, "rb") as given:
            process = spawn(argv, env=ENVIRONMENT, output=log, given=given, cwd=self._home, identity=identity)
            try:
                code = process.wait(CREATE_SECONDS)
            except subprocess.TimeoutExpired as error:
                process.kill()
                process.wait()
                took = f"{argv[0]} took over {CREATE_SECONDS:.0f} s"
                raise PrerequisiteMissing(took, f"see {self._log_path}") from error
        if code != 0:
            raise PrerequisiteMissing(
                f"the private Postgres could not be made in {self._home}: {last_line(self._log_path)}",
                f"see {self._log_path}",
            )

    def _refuse_other_version(self, program: Path) -> None:
        made = (self._data / "PG_VERSION").read_text().strip()
        runs = "18"
        if made != runs:
            raise PrerequisiteMissing(
                f"{self._data} was made by Postgres {made}, {program} is Postgres {runs}",
                "install the version that made it, or set TRINITY_VAR_DIR to a new folder",
            )

    def _socket_dir(self) -> Path:
        usual = self._home / "socket"
        if len(os.fsencode(usual / ".s.PGSQL.5432.lock")) <= LONGEST_SOCKET:
            return usual
        return Path(tempfile.gettempdir(), f"{self._server.token}-{os.geteuid()}")

    def _emptied_socket_dir(self) -> Path:
        folder = self._socket_dir()
        folder.mkdir(exist_ok=True, mode=0o700)
        # Anybody may have made it first where temporary files live.
        if folder.lstat().st_uid != os.geteuid():
            cure = "remove it, or use a shorter TRINITY_VAR_DIR"
            raise PrerequisiteMissing(f"{folder} belongs to another user", cure)
        for left in folder.iterdir():
            left.unlink()
        return folder
