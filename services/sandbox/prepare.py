"""Inside the runner process: give up rights, and find the first way to confine programs that passes its self-test."""

from __future__ import annotations

import ctypes
import inspect
import os
import pwd
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from services.core.errors import GradingUnavailable, PrerequisiteMissing
from services.sandbox import bubblewrap, confine, probe, selftest, staging
from services.sandbox.backend import Backend
from services.sandbox.bubblewrap import Bubblewrap, Tool
from services.sandbox.interpreter import Interpreter, bare, of_environment, of_this_process
from services.sandbox.landlock import Landlock
from services.sandbox.selftest import Check

UNUSED_USERS = range(65521, 65533)  # that no distribution gives to anybody
OTHER_PYTHONS = ("/usr/local/bin/python3", "/usr/bin/python3")
OLDEST_PYTHON = (3, 11)
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 36, 38
CURE = (
    "install bubblewrap and allow user namespaces (docs/sandbox.md tells how), or run in a container or a virtual "
    "machine that allows them; Linux 6.12 or newer with Landlock does without"
)


@dataclass(frozen=True)
class Ready:
    """A way to confine programs that holds.

    Attributes:
        backend: the way.
        name: it, its interpreter and its self-test, for the record.
        checks: the self-test.
    """

    backend: Backend
    name: str
    checks: list[Check]


def prepare(orders: dict[str, Any]) -> Ready:
    """Become a user without rights and return the first backend that holds.

    Raises:
        PrerequisiteMissing: none does; tells what was tried and why each failed.
    """
    failures: list[str] = []
    # Read now: after staging or without rights, the files of our own code may be out of reach.
    attacks, script = inspect.getsource(probe), inspect.getsource(confine)
    found = list(candidates(orders, script, failures))  # while there are rights
    give_up_rights()
    for label, interpreter, backend in found:
        try:
            checks = selftest.run(backend, attacks)
        except GradingUnavailable as error:
            failures.append(f"{label}: {error}")
            continue
        if all(check.held for check in checks):
            proof = selftest.digest(backend, interpreter.version, attacks, checks)
            return Ready(backend, f"{backend.label}, python {interpreter.version}, self-test {proof}", checks)
        broken = "; ".join(f"{check.name}: {check.detail}" for check in checks if not check.held)
        failures.append(f"{label} does not hold ({broken})")
    tried = " | ".join(failures) or "nothing"
    raise PrerequisiteMissing(f"programs of models cannot be confined on this machine; tried {tried}", CURE)


Candidate = tuple[str, Interpreter, Backend]


def candidates(orders: dict[str, Any], script: str, failures: list[str]) -> Iterator[Candidate]:
    """Yield ways to confine programs, the better ones first; adds to ``failures`` what is out of the question."""
    python = orders["python"]
    interpreter = of_environment(Path(python)) if python else of_this_process()
    if "bubblewrap" in orders["backends"]:
        try:
            yield from in_namespaces(interpreter, usable_tools(orders["tools"], failures))
        except PrerequisiteMissing as error:
            failures.append(f"bubblewrap: {error.what}")
    if "landlock" in orders["backends"]:
        try:
            one = reachable_interpreter(interpreter, [] if python else OTHER_PYTHONS)
            yield "landlock", one, Landlock(one, script)
        except PrerequisiteMissing as error:
            failures.append(f"landlock: {error.what}")


def usable_tools(paths: list[tuple[str, str]], failures: list[str]) -> list[Tool]:
    """Return each bubblewrap that runs; one that does and still makes no sandbox shows in the self-test."""
    found = []
    for path, libraries in paths:
        try:
            found.append(bubblewrap.look_at(Path(path), libraries))
        except PrerequisiteMissing as error:
            failures.append(f"bubblewrap: {error.what}")
    if not paths:
        failures.append("bubblewrap: not installed")
    return found


def in_namespaces(interpreter: Interpreter, tools: list[Tool]) -> Iterator[Candidate]:
    """Yield every bubblewrap, and then every one without a /proc of its own.

    Raises:
        PrerequisiteMissing: the interpreter or a tool is out of reach for a user without rights.
    """
    if not tools:
        return
    parts = [part for tool in tools for part in (tool.path, tool.libraries) if part]
    places = staging.stage([*interpreter.shown, *parts])
    moved = [Tool(places[tool.path], tool.version, places.get(tool.libraries, "")) for tool in tools]
    for visible in (True, False):
        for tool in moved:
            backend = Bubblewrap(tool, interpreter, places, processes_visible=visible)
            yield backend.label, interpreter, backend


def reachable_interpreter(preferred: Interpreter, others: Sequence[str]) -> Interpreter:
    """Return an interpreter that a user without rights can read: nothing is mounted for it.

    Raises:
        PrerequisiteMissing: there is none.
    """
    for one in [preferred, *(bare(os.path.realpath(path)) for path in others if os.path.exists(path))]:
        recent = tuple(int(part) for part in one.version.split(".")[:2]) >= OLDEST_PYTHON
        if recent and (os.geteuid() != 0 or all(staging.reachable(path) for path in one.shown)):
            return one
    raise PrerequisiteMissing(f"{preferred.executable} can be read by root alone", staging.CURE)


def give_up_rights() -> None:
    """Become a user that owns nothing, when root; and never gain anything again.

    Raises:
        PrerequisiteMissing: this root may not become another user.
    """
    library = ctypes.CDLL(None, use_errno=True)
    if os.geteuid() == 0:
        try:
            user = unused_user()
            os.setgroups([])
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
        except OSError as error:
            raise PrerequisiteMissing(
                f"root cannot become another user here: {error}", "run as an ordinary user"
            ) from error
    library.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    library.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def unused_user() -> int:
    known = {entry.pw_uid for entry in pwd.getpwall()}
    return next((user for user in UNUSED_USERS if user not in known), UNUSED_USERS[0])
