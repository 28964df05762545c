"""``pool check``: a process that has the model client does the work; this shows what it found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from services.cli import apart, render

COLUMNS = ("model", "role", "reply", "form", "seconds", "prompt", "completion", "USD", "remark")


def run(file: Path, *, dry: bool, max_usd: Decimal, as_json: bool) -> bool:
    """Check the models of a campaign file, print what came out, and return whether all are well."""
    words = [str(file), "--max-usd", f"{max_usd:f}", *(["--dry"] if dry else [])]
    found = apart.answer("worker.pool_check", words, ("litellm",))
    if as_json:
        render.show_json(found)
    else:
        show(found)
    return bool(found["ok"])


def show(found: Mapping[str, Any]) -> None:
    """Print a table of the calls and below it what is missing and what to know."""
    rows = [_row(model["name"], role) for model in found["models"] for role in model["roles"]]
    if rows:
        render.show_table(COLUMNS, rows)
        render.show(f"\nspent {found['spent_usd']} USD of at most {found['max_usd']}")
    for title, key in (("missing", "missing"), ("notes", "notes")):
        said = [(model["name"], sentence) for model in found["models"] for sentence in model[key]]
        if said:
            render.show(f"\n{title}:")
            render.show_table(("model", "what"), said, indent=2)
    if found["dry"] and found["ok"]:
        render.show(f"\n{len(found['models'])} models are ready to be called; nothing was sent")


def _row(model: str, role: Mapping[str, Any]) -> Sequence[object]:
    form = {True: "ok", False: "wrong", None: None}[role["compliant"]]
    seconds = role["latency_seconds"]
    return (
        model,
        role["role"],
        role["outcome"],
        form,
        None if seconds is None else f"{seconds:.2f}",
        role["prompt_tokens"],
        role["completion_tokens"],
        role["cost_usd"],
        role["remark"] or None,
    )
