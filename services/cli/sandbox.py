"""Commands of the sandbox: what this machine can do, and running one program in it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from services.cli.options import AsJson

app = typer.Typer(help="The sandbox that programs written by models run in.", no_args_is_help=True)
Environment = Annotated[
    Path | None,
    typer.Option("--python", dir_okay=False, help="Interpreter whose packages programs may import; default none."),
]


@app.callback()
def sandbox() -> None:
    """The sandbox that programs written by models run in."""


@app.command()
def check(python: Environment = None, as_json: AsJson = False) -> None:
    """Choose a sandbox for this machine and attack it. Exit status 1 and the cure when none holds."""
    from services.cli import render
    from services.sandbox.opening import open_runner

    with open_runner(python=python) as runner:
        if as_json:
            render.show_json({"name": runner.name, "checks": runner.checks})
            return
        render.show(runner.name)
        rows = [(one.name, "held" if one.held else "BROKEN", one.detail) for one in runner.checks]
        render.show_table(("attack", "result", "detail"), rows)


@app.command()
def run(
    file: Annotated[Path, typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="A Python program.")],
    cpu: Annotated[float, typer.Option("--cpu", min=0.1, help="Seconds of processor time.")] = 6.0,
    wall: Annotated[float, typer.Option("--wall", min=0.1, help="Seconds of real time.")] = 12.0,
    memory: Annotated[int, typer.Option("--memory", min=32, help="Resident memory in MiB.")] = 1024,
    given: Annotated[
        typer.FileBinaryRead | None, typer.Option("--input", help="What the program reads; - for standard input.")
    ] = None,
    python: Environment = None,
    as_json: AsJson = False,
) -> None:
    """Run a Python program in the sandbox, and tell how it ended and what it cost."""
    from services.cli import render
    from services.core.scoring.ports import Job, Limits
    from services.sandbox.opening import open_runner

    job = Job(text_of(file), b"" if given is None else given.read(), Limits(cpu, wall, memory << 20))
    with open_runner(places=1, python=python) as runner:
        done, name = runner.run(job), runner.name
    out, trouble = (content.decode(errors="replace") for content in (done.stdout, done.stderr))
    if as_json:
        cost = {"wall_seconds": done.wall_seconds, "cpu_seconds": done.cpu_seconds}
        render.show_json(
            {"ending": done.ending, "status": done.status, "stdout": out, "stderr": trouble, **cost, "sandbox": name}
        )
        return
    for line in out.splitlines():
        render.show(render.printable(line))
    for line in trouble.splitlines():
        render.say(render.printable(line))
    status = "" if done.status is None else f" {done.status}"
    render.say(f"{done.ending}{status}, {done.wall_seconds:.3f} s, {done.cpu_seconds:.3f} s of processor, {name}")


def text_of(file: Path) -> str:
    """Return a program's text.

    Raises:
        SpecError: it is none.
    """
    from services.core.errors import SpecError

    try:
        return file.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise SpecError(str(file), error.reason, "a Python program in UTF-8") from error
