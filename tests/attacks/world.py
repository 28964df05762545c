"""What attackers are after: listeners on sockets, secrets in files and the environment, a living victim."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SECRET = "the-secret-of-the-worker"
VARIABLE = "TRINITY_TEST_CANARY_KEY"


@dataclass(frozen=True)
class World:
    """The surroundings of an attack.

    Attributes:
        folder: every user may read and write in it; ``answers.txt`` lies there.
        home: the folder of the user that grades, with a secret file.
        ears: listening sockets by kind.
        victim: a process of the user that programs run as.
        runner: the process that owns the sandboxes.
    """

    folder: Path
    home: Path
    ears: dict[str, socket.socket]
    victim: subprocess.Popen[bytes]
    runner: int

    def orders(self) -> bytes:
        """Return what each program is told of it, as one line."""
        return (
            json.dumps(
                {
                    "folder": str(self.folder),
                    "answers": str(self.folder / "answers.txt"),
                    "home": str(self.home),
                    "secret": SECRET,
                    "variable": VARIABLE,
                    "tcp": self.ears["tcp"].getsockname()[1],
                    "udp": self.ears["udp"].getsockname()[1],
                    "unix": str(self.folder / "socket"),
                    "datagram": str(self.folder / "datagram"),
                    "abstract": self.ears["abstract"].getsockname()[1:].decode(),
                    "victim": self.victim.pid,
                    "runner": self.runner,
                    "product": str(Path(__file__).resolve().parents[2]),
                }
            ).encode()
            + b"\n"
        )

    def heard(self) -> list[str]:
        """Return the sockets at which something has arrived."""
        found = []
        for kind, ear in self.ears.items():
            with contextlib.suppress(BlockingIOError):
                if kind in ("udp", "datagram"):
                    ear.recv(100)
                else:
                    ear.accept()[0].close()
                found.append(kind)
        return found


@contextlib.contextmanager
def world(runner: int) -> Iterator[World]:
    """Build the surroundings and take them away again."""
    os.environ[VARIABLE] = SECRET
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="attacked-")))
        home = folder / "home"
        home.mkdir()
        (home / ".key").write_text(SECRET)
        (folder / "answers.txt").write_text(SECRET)
        folder.chmod(0o777)
        ears = {kind: stack.enter_context(ear) for kind, ear in listeners(folder).items()}
        owner = Path(f"/proc/{runner}").stat().st_uid if os.geteuid() else user_of(runner)
        victim = subprocess.Popen(["sleep", "600"], user=owner if os.geteuid() == 0 else None)
        stack.callback(victim.wait)
        stack.callback(victim.kill)
        yield World(folder, home, ears, victim, runner)


def user_of(process: int) -> int:
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("Uid:"):
            return int(line.split()[1])
    raise ProcessLookupError(process)


def listeners(folder: Path) -> dict[str, socket.socket]:
    found = {
        "tcp": socket.create_server(("127.0.0.1", 0)),
        "udp": socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
        "unix": socket.socket(socket.AF_UNIX),
        "datagram": socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM),
        "abstract": socket.socket(socket.AF_UNIX),
    }
    found["udp"].bind(("127.0.0.1", 0))
    found["unix"].bind(str(folder / "socket"))
    found["datagram"].bind(str(folder / "datagram"))
    found["abstract"].bind(f"\0trinity-attack-{os.getpid()}")
    for kind in ("socket", "datagram"):
        (folder / kind).chmod(0o777)
    for kind in ("unix", "abstract"):
        found[kind].listen()
    for ear in found.values():
        ear.setblocking(False)
    return found
