"""A diagnosis as a folder: one HTML page, its plots beside it, and the figures as JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from html import escape
from pathlib import Path

from services.reports.diagnosis import Diagnosis, Figure, Section, shown
from services.reports.markup import PAGE, section, table
from services.reports.style import STYLE

PLACES = {"states.png": 0, "choices.png": 2}  # behind which section a plot stands; others come last


def write(diagnosis: Diagnosis, plots: Mapping[str, bytes], folder: Path) -> Path:
    """Write ``index.html``, ``diagnosis.json`` and the plots into ``folder`` (made if absent); return the page."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in plots.items():
        (folder / name).write_bytes(content)
    figures = json.dumps(diagnosis.to_json(), indent=2, ensure_ascii=False, allow_nan=False)
    (folder / "diagnosis.json").write_text(figures + "\n", encoding="utf-8")
    page = folder / "index.html"
    page.write_text(document(diagnosis, plots), encoding="utf-8")
    return page


def document(diagnosis: Diagnosis, plots: Mapping[str, bytes]) -> str:
    """Return the page; every text that comes from a campaign is escaped."""
    title = escape(f"Diagnosis of {diagnosis.subject}")
    parts = [f"<h1>{title}</h1>", f"<p class=lead>{escape(lead(diagnosis))}</p>"]
    last = len(diagnosis.sections) - 1
    for at, each in enumerate(diagnosis.sections):
        here = [name for name in plots if PLACES.get(name, last) == at]
        parts.append(section(each.title, [*content(each), *(image(plots[name], name) for name in here)]))
    return PAGE.format(title=title, style=STYLE, body="\n".join(parts))


def lead(diagnosis: Diagnosis) -> str:
    return (
        f"Vector: {diagnosis.vector}. Intervals are 95 %. No model was called for these figures; docs/diagnose.md says "
        "what each one means and where it misleads."
    )


def content(each: Section) -> list[str]:
    parts = [table(("figure", "value", "95 % interval", "n", "remark"), [line(figure) for figure in each.figures])]
    for found in each.tables:
        rows = [[shown(cell) for cell in row] for row in found.rows]
        parts.append(f"<h3>{escape(found.title)}</h3>{table(found.columns, rows)}")
        parts.append(f"<p class=note>{escape(found.remark)}</p>" if found.remark else "")
    return parts


def line(figure: Figure) -> tuple[str, str, str, str, str]:
    return figure.name, shown(figure.value), figure.span or "-", figure.size or "-", figure.remark


def image(content: bytes, name: str) -> str:
    data = base64.b64encode(content).decode("ascii")
    return f'<figure><img src="data:image/png;base64,{data}" alt="{escape(name)}"></figure>'
