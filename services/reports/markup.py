"""Pieces of HTML pages: one frame, sections, tables and pictures. Every text is escaped."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from html import escape

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title><style>{style}</style></head>
<body><main>
{body}
</main></body></html>
"""


def section(title: str, parts: Iterable[str]) -> str:
    """Return a section, or nothing when it has no content."""
    content = "\n".join(part for part in parts if part)
    return f"<section><h2>{escape(title)}</h2>\n{content}</section>" if content else ""


def picture(plots: Mapping[str, bytes], name: str, caption: str) -> str:
    """Return a plot, inside the page, with its caption; nothing when it was not drawn."""
    if name not in plots:
        return ""
    data = base64.b64encode(plots[name]).decode("ascii")
    text = escape(caption)
    return f'<figure><img src="data:image/png;base64,{data}" alt="{text}"><figcaption>{text}</figcaption></figure>'


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], bold: Sequence[bool] = ()) -> str:
    """Return a table; columns whose cells all begin like a number are aligned to the right."""
    right = [bool(rows) and all(is_figure(row[at]) for row in rows) for at in range(len(columns))]
    head = "".join(cell("th", text, number) for text, number in zip(columns, right, strict=True))
    lines = []
    for index, row in enumerate(rows):
        kind = " class=strong" if index < len(bold) and bold[index] else ""
        cells = "".join(cell("td", text, number) for text, number in zip(row, right, strict=True))
        lines.append(f"<tr{kind}>{cells}</tr>")
    return f"<div class=scroll><table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"


def is_figure(text: str) -> bool:
    return text.lstrip("+-$<")[:1].isdigit() or text in ("", "-")


def cell(tag: str, text: str, number: bool) -> str:
    return f"<{tag}{' class=number' if number else ''}>{escape(text)}</{tag}>"


def note(text: str) -> str:
    return f"<p class=note>{escape(text)}</p>"
