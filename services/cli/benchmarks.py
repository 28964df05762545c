"""What the benchmark commands do: read a folder, print what it has, fetch, grade the references."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from services.benchmarks import checking, folders, hub, manifest
from services.benchmarks.catalogue import BENCHMARKS, benchmark
from services.benchmarks.folders import Opened
from services.benchmarks.loading import splits_of
from services.benchmarks.record import Benchmark, Choices, Item
from services.cli import connections, render
from services.cli.graders import open_graders
from services.config.settings import Settings
from services.core.errors import SpecError
from services.core.problem import Split, content_hash

TOKEN = "HF_TOKEN"  # noqa: S105 - the name of the variable
MEGABYTE = 1_000_000
SAID_TIMES = 10
SHOWN = 20


@dataclass(frozen=True)
class Chosen:
    """A benchmark, its folder and how it is read."""

    benchmark: Benchmark
    folder: Path
    choices: Choices

    def open(self) -> Opened:
        return folders.open_folder(self.benchmark, self.folder, self.choices)


def chosen(name: str, folder: Path | None, seed: int, packages: Sequence[str] | None) -> Chosen:
    """Return what the options say; raises SpecError for an unknown benchmark."""
    entry = benchmark(name)
    usual = connections.load_settings().benchmarks_folder() / name
    return Chosen(entry, folder or usual, Choices(seed, tuple(packages or ())))


def show_list(settings: Settings, as_json: bool) -> None:
    """Print the catalogue with what is on this machine."""
    found = [_listed(entry, settings.benchmarks_folder() / entry.name) for entry in BENCHMARKS.values()]
    if as_json:
        render.show_json(found)
        return
    columns = ("name", "title", "rows", "scorer", "here", "licence")
    render.show_table(columns, [[one[column] for column in columns] for one in found])
    render.say(f"folder: {settings.benchmarks_folder()}; `manage.py benchmark show NAME` says more")


def _listed(entry: Benchmark, folder: Path) -> dict[str, Any]:
    here = [part.name for part in entry.parts if part.feeds and folders.find(part, folder)]
    wanted = [part.name for part in entry.parts if part.feeds]
    return {
        "name": entry.name,
        "title": entry.title,
        "hub": entry.hub,
        "rows": " + ".join("?" if part.rows is None else f"{part.rows:,}" for part in entry.parts if part.feeds),
        "scorer": str(entry.scorer),
        "here": "yes" if here == wanted else f"only {', '.join(here)}" if here else "no",
        "licence": entry.licence,
    }


def show_one(one: Chosen, as_json: bool) -> None:
    """Print one benchmark and, if its folder has something of it, what that is."""
    entry = one.benchmark
    here = any(folders.find(part, one.folder) for part in entry.parts if part.feeds)
    document = _described(entry) | {"folder": one.folder, "here": _contents(one.open()) if here else None}
    if as_json:
        render.show_json(document)
        return
    for name, value in document.items():
        if isinstance(value, dict):
            render.show(f"{name}:")
            for key, part in value.items():
                render.show(f"  {key}: {_in_words(part)}")
        elif value is not None:
            render.show(f"{name}: {_in_words(value)}")
    if not here:
        render.say(f"nothing of it is there; {folders.absent(entry, one.folder, entry.parts).cure}")


def _in_words(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_in_words(part)}" for key, part in value.items()) or "nothing"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "nothing"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else "unknown" if value is None else str(value)


def _described(entry: Benchmark) -> dict[str, Any]:
    return {
        "name": entry.name,
        "title": entry.title,
        "source": entry.source,
        "revision": entry.revision,
        "licence": entry.licence,
        "gated": entry.gated,
        "scorer": str(entry.scorer),
        "splits": entry.splits,
        "prompt": entry.prompt,
        "left out": entry.filters or "nothing",
        "fields": ", ".join(entry.fields),
        "files": ", ".join(file.path for part in entry.parts for file in part.hub),
        "expected rows": {part.name: part.rows for part in entry.parts},
    }


def _contents(opened: Opened) -> dict[str, Any]:
    """Return what stands in a folder: rows against what the hub has, splits, filters, revision and content hash."""
    splits = splits_of(opened)
    fetched = manifest.read(opened.folder)
    return {
        "rows": {part.name: _against(opened, part.name, part.rows) for part in opened.benchmark.parts},
        "left out": dict(opened.left_out),
        "splits": {str(split): len(splits[split]) for split in Split},
        "revision": "unknown: no manifest" if fetched is None else fetched.revision,
        "changed since fetched": [] if fetched is None else list(manifest.changed(opened.folder, fetched)),
        "sha256 of the problems": content_hash(splits),
    }


def _against(opened: Opened, name: str, expected: int | None) -> str:
    if name not in opened.files:
        return "absent"
    rows = opened.rows[name]
    return f"{rows:,}" if expected in (None, rows) else f"{rows:,} (the hub has {expected:,})"


def fetch(
    settings: Settings, name: str, folder: Path | None, revision: str | None, files: Sequence[str], as_json: bool
) -> None:
    """Bring a benchmark, or files of any hub data set, into its folder and say what came."""
    if name in BENCHMARKS or "/" not in name:
        wanted = hub.wanted(benchmark(name))
        if files or revision is not None:
            got = files[0] if files else revision
            raise SpecError("--file or --revision", got, "neither beside a benchmark: the catalogue has both")
    else:
        wanted = hub.any_files(name, revision or "main", files)
    target = folder or settings.benchmarks_folder() / name.replace("/", "--")
    source = hub.Hub(settings.hub_url, os.environ.get(TOKEN) or None, _progress())
    found = hub.fetch(wanted, target, source)
    contents = _contents(folders.open_folder(BENCHMARKS[name], target, Choices())) if name in BENCHMARKS else None
    if as_json:
        render.show_json({"folder": target, "manifest": found, "contents": contents})
        return
    render.show(f"{found.hub} at {found.revision}: {found.rows:,} rows in {target}")
    for key, value in (contents or {}).items():
        if key in ("rows", "left out", "splits"):
            render.show(f"{key}: {_in_words(value)}")
    if found.licence:
        render.show(f"licence: {found.licence}")


def _progress() -> hub.Progress:
    said: dict[str, int] = {}

    def say(path: str, done: int, size: int | None) -> None:
        tenth = done * 10 // size if size else done // (100 * MEGABYTE)
        if said.get(path) != tenth:
            said[path] = tenth
            whole = "" if size is None else f" of {size / MEGABYTE:.1f}"
            render.say(f"{path}: {done / MEGABYTE:.1f}{whole} MB")

    return say


def show_check(one: Chosen, limit: int | None, jobs: int, python: Path | None, as_json: bool) -> bool:
    """Grade the references, print those that fail, and return whether none does."""
    opened = one.open()
    items = [item for part in opened.items.values() for item in part][:limit]
    contents = _contents(opened)
    with open_graders({item.problem.scorer for item in items}, jobs, python) as graders:
        report = checking.check(items, graders, jobs, _say_graded)
    times = {"p50_ms": _milliseconds(report.seconds(0.5)), "p99_ms": _milliseconds(report.seconds(0.99))}
    passed = len(report.graded) - len(report.failed)
    if as_json:
        render.show_json(
            {"name": one.benchmark.name, "folder": one.folder, "contents": contents, "passed": passed,
             "graded": len(report.graded), "without_reference": report.without, **times, "failed": report.failed}
        )  # fmt: skip
        return not report.failed
    if report.graded:
        render.show(f"{one.benchmark.title}: {passed:,} of {len(report.graded):,} references pass, {_times(times)}")
    if report.without:
        render.show(f"{one.benchmark.title}: {report.without:,} problems have no reference that could be graded")
    for name in ("rows", "left out", "changed since fetched"):
        if contents[name]:
            render.show(f"{name}: {_in_words(contents[name])}")
    if report.failed:
        render.show_table(("problem", "outcome", "detail"), [(c.key, c.outcome, c.detail) for c in report.failed])
    return not report.failed


def _say_graded(done: int, of: int) -> None:
    if done == of or done % max(1, of // SAID_TIMES) == 0:
        render.say(f"graded {done:,} of {of:,}")


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(1000 * seconds, 2)


def _times(times: dict[str, float | None]) -> str:
    return f"p50 {times['p50_ms']} ms, p99 {times['p99_ms']} ms each"


def show_preview(one: Chosen, count: int, split: str | None, as_json: bool) -> None:
    """Print the first problems of a split, or of all in the order of the files."""
    opened = one.open()
    items = _of_split(opened, split)[:count]
    if as_json:
        render.show_json([{"problem": item.problem, "solution": item.solution} for item in items])
        return
    for item in items:
        for line in _preview(item):
            render.show(line)


def _of_split(opened: Opened, split: str | None) -> list[Item]:
    items = [item for part in opened.items.values() for item in part]
    if split is None:
        return items
    if split not in list(Split):
        raise SpecError("--split", split, f"one of {', '.join(Split)}")
    by_key = {item.problem.key: item for item in items}
    return [by_key[problem.key] for problem in splits_of(opened)[Split(split)]]


def _preview(item: Item) -> list[str]:
    problem = item.problem
    lines = [f"=== {problem.key} ({problem.scorer}), {item.place}", *_printable(problem.question)]
    if problem.answer is not None:
        lines += ["--- reference", *_printable(problem.answer)]
    if (tests := problem.program) is not None:
        entry = "" if tests.entry_point is None else f", {tests.entry_point}"
        cases = f"{len(tests.public)} public and {len(tests.hidden)} hidden cases"
        lines += [f"--- tests: {tests.form}{entry}, {cases}, {tests.seconds:g} s"]
        lines += _printable(tests.prelude + tests.source)[:SHOWN]
    return [*lines, ""]


def _printable(text: str) -> list[str]:
    return [render.printable(line) for line in text.split("\n")]
