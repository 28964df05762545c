"""``doctor``: what is there, what is missing, and the command or setting that provides it."""

from __future__ import annotations

import typer

from services.cli.options import AsJson


def doctor(as_json: AsJson = False) -> None:
    """Check this machine and its services. The exit status is 1 when something that is needed is missing."""
    from services.cli import checks, connections, render

    found = checks.run_all(connections.load_settings())
    if as_json:
        render.show_json(found)
    else:
        rows = [(check.name, check.state, check.detail) for check in found]
        render.show_table(("check", "state", "detail"), rows)
        for check in found:
            if check.cure:
                render.show(f"{check.name}: {check.cure}")
    raise typer.Exit(1 if any(check.state is checks.State.MISSING for check in found) else 0)
