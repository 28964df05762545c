"""The checks of ``manage.py doctor``. None of them changes anything, and none shows a secret."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from importlib.util import find_spec

from services.cli import children, connections
from services.cli.extras import EXTRAS
from services.config.pool_file import load as load_pool
from services.config.settings import Settings, unknown_variables
from services.core.errors import PrerequisiteMissing, TrinityError
from services.local import supervisor

GIB = 1024**3
WANTED_FREE_BYTES = 2 * GIB
BUNDLED_ENCODER = "smollm2-135m-instruct"


class State(StrEnum):
    OK = "ok"
    ABSENT = "absent"  # not needed for everything
    MISSING = "missing"  # nothing can run without it


@dataclass(frozen=True)
class Check:
    name: str
    state: State
    detail: str
    cure: str | None = None


def run_all(settings: Settings) -> list[Check]:
    """Return all checks, in the order in which they would be cured."""
    return [
        python(),
        *(packages(extra) for extra in EXTRAS),
        variables(),
        cores(),
        disk(settings),
        services(settings),
        attempt("database", lambda: database(settings), needed=True),
        attempt("broker", lambda: broker(settings), needed=True),
        *broker_advice(settings),
        attempt("sandbox", sandbox, needed=False),
        encoder(settings),
        pool_files(settings),
        address(
            "local pools", f"{settings.local_pool_url}/healthz", "`manage.py up` or `manage.py pool serve` starts them"
        ),
        address(
            "Flower", f"{children.flower_url(settings)}/healthcheck", "`manage.py up` or `manage.py flower` starts it"
        ),
    ]


def attempt(name: str, check: Callable[[], str], *, needed: bool) -> Check:
    """Run a check that raises a TrinityError when it fails."""
    try:
        return Check(name, State.OK, check())
    except TrinityError as error:
        state = State.MISSING if needed else State.ABSENT
        if isinstance(error, PrerequisiteMissing):
            return Check(name, state, error.what, error.cure)
        return Check(name, state, str(error), "correct what the line above names")


def python() -> Check:
    version = ".".join(str(part) for part in sys.version_info[:3])
    return Check("python", State.OK, version)


def packages(extra: str) -> Check:
    """Tell whether the packages of an installation extra are there, without importing them."""
    absent = [name for name in EXTRAS[extra] if find_spec(name) is None]
    if not absent:
        return Check(f"packages: {extra}", State.OK, ", ".join(EXTRAS[extra]))
    cure = f"`pip install -c constraints.txt -e '.[{extra}]'`, if this machine shall do that part"
    return Check(f"packages: {extra}", State.ABSENT, f"without {', '.join(absent)}", cure)


def variables() -> Check:
    strange = unknown_variables(os.environ)
    if not strange:
        return Check("settings", State.OK, "no unknown TRINITY_ variable")
    meant = "; ".join(name if close is None else f"{name} (meant {close}?)" for name, close in strange.items())
    return Check("settings", State.ABSENT, f"unknown: {meant}", "correct or unset them; infra/env.example lists all")


def cores() -> Check:
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Check("cores", State.OK, f"{count} usable")


def disk(settings: Settings) -> Check:
    """Look at the nearest existing folder above TRINITY_VAR_DIR."""
    folder = settings.var_dir.absolute()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    detail = f"{free / GIB:.1f} GiB free under {folder}"
    if not os.access(folder, os.W_OK):
        return Check("disk", State.MISSING, f"{folder} cannot be written", "set TRINITY_VAR_DIR to a folder of yours")
    if free < WANTED_FREE_BYTES:
        return Check("disk", State.MISSING, detail, "free 2 GiB, or set TRINITY_VAR_DIR to a larger disk")
    return Check("disk", State.OK, detail)


def services(settings: Settings) -> Check:
    running = supervisor.status(settings.var_dir)
    if running is None:
        return Check(
            "manage.py up", State.ABSENT, f"not running on {settings.var_dir}", "`manage.py up` starts everything"
        )
    return Check("manage.py up", State.OK, f"process {running.pid}: {', '.join(running.processes)}")


def database(settings: Settings) -> str:
    """Return the schema's revision; raises PrerequisiteMissing for no database or another schema."""
    from services.storage import schema

    with connections.open_database(settings):
        return f"answers, schema at revision {schema.head_revision()}"


def broker(settings: Settings) -> str:
    with connections.open_queues(settings) as queues:
        return "answers, " + ", ".join(f"{length} in {name}" for name, length in queues().items())


def broker_advice(settings: Settings) -> list[Check]:
    """Tell what about the broker's own settings costs time or messages; nothing while it does not answer."""
    try:
        found = connections.broker_advice(settings)
    except TrinityError:
        return []
    if not found:
        return [Check("broker settings", State.OK, "keep every message")]
    return [Check("broker settings", State.ABSENT, each.what, each.cure) for each in found]


def sandbox() -> str:
    """Return what confines programs written by models here; raises PrerequisiteMissing when nothing holds."""
    from services.sandbox.opening import available

    return available()


def encoder(settings: Settings) -> Check:
    """Look for converted weights; whole files are checked when they are loaded."""
    folder = settings.models_folder()
    ready = sorted(path.parent.name[:12] for path in folder.glob("*/manifest.json"))
    if ready:
        return Check("encoder weights", State.OK, f"{', '.join(ready)} in {folder}")
    cure = f"the first worker fetches them, or now: `python -m services.encoder {BUNDLED_ENCODER} --model-dir {folder}`"
    return Check("encoder weights", State.ABSENT, f"{BUNDLED_ENCODER} is not in {folder}", cure)


def pool_files(settings: Settings) -> Check:
    """Tell which local pools can be served; one that is wrong does not hinder the others."""
    given, usable, wrong = connections.variables(settings), [], {}
    for path in sorted(settings.local_pool_dir.glob("*.yaml")):
        try:
            usable.append(load_pool(path, given).name)
        except TrinityError as error:
            wrong[path.stem] = str(error).partition("; ")[0]
    detail = f"{', '.join(usable) or 'none'} in {settings.local_pool_dir}"
    if wrong:
        cure = "; ".join(f"{name}: {fault}" for name, fault in wrong.items())
        return Check("local pool files", State.ABSENT, f"{detail}; not {', '.join(wrong)}", cure)
    return Check("local pool files", State.OK if usable else State.ABSENT, detail)


def address(name: str, url: str, cure: str) -> Check:
    if children.answers(url)():
        return Check(name, State.OK, url.rsplit("/", 1)[0])
    return Check(name, State.ABSENT, f"nothing answers at {url.rsplit('/', 1)[0]}", cure)
