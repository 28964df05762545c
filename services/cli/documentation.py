"""``python -m services.cli.documentation > docs/commands.md``: the help of every command as one page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from services.cli.main import make_app

WIDTH = 100
HEAD = """# Commands

Data goes to stdout, progress to stderr. The exit status is 0, or 1 after a sentence that begins with `error:`, or 2 for
a command that was written wrongly. Settings are `TRINITY_...` environment variables; `infra/env.example` lists them.

This page is the program's own help: `python -m services.cli.documentation > docs/commands.md`.
"""


def markdown() -> str:
    """Return the page, the same on every terminal."""
    root: Any = typer.main.get_command(make_app())
    return HEAD + "".join(f"\n## {name}\n\n```\n{text}\n```\n" for name, text in pages(root, "manage.py", None))


def pages(command: Any, name: str, parent: Any) -> Iterator[tuple[str, str]]:
    """Yield the help of a command and of everything below it, depth first."""
    settings = {**command.context_settings, "terminal_width": WIDTH, "max_content_width": WIDTH}
    context = command.context_class(command, info_name=name.rpartition(" ")[2], parent=parent, **settings)
    yield name, command.get_help(context).strip()
    for child, below in getattr(command, "commands", {}).items():
        yield from pages(below, f"{name} {child}", context)


if __name__ == "__main__":
    typer.echo(markdown(), nl=False)
