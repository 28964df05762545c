"""The root of the command line and the one place where errors become sentences.

Modules that define commands import Typer and nothing heavy; what a command needs is imported when it runs, so that
``manage.py --help`` answers at once.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import typer

from services.cli import (
    answers,
    benchmark,
    campaign,
    coordinator,
    database,
    diagnose,
    doctor,
    pool,
    process,
    quickstart,
    reproduce,
    sandbox,
    verifying,
)
from services.cli.extras import EXTRAS
from services.core.errors import TrinityError

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130


def make_app() -> typer.Typer:
    """Return the whole command line."""
    app = typer.Typer(
        name="manage.py",
        help="Train a small coordinator over a pool of LLMs, and watch it learn.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    app.command("quickstart")(quickstart.quickstart)
    app.command("doctor")(doctor.doctor)
    app.add_typer(campaign.app, name="campaign")
    app.add_typer(coordinator.app, name="coordinator")
    app.command("diagnose")(diagnose.diagnose)
    app.command("reproduce")(reproduce.reproduce)
    app.add_typer(verifying.app, name="audit")
    process.register(app)
    app.add_typer(benchmark.app, name="benchmark")
    app.add_typer(pool.app, name="pool")
    app.add_typer(sandbox.app, name="sandbox")
    app.add_typer(answers.app, name="answers")
    app.add_typer(database.app, name="db")
    return app


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status: 0, 1 for a TrinityError, 2 for a usage error."""
    try:
        make_app()(args=None if arguments is None else list(arguments), prog_name="manage.py")
    except TrinityError as error:
        sys.stdout.flush()
        typer.echo(f"error: {error}", err=True)
        return EXIT_FAILED
    except ModuleNotFoundError as error:
        if (extra := extra_with(error.name)) is None:
            raise
        typer.echo(
            f"error: {error.name} is not installed here; `pip install -c constraints.txt -e '.[{extra}]'`", err=True
        )
        return EXIT_FAILED
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else EXIT_FAILED
    return 0


def extra_with(module: str | None) -> str | None:
    """Return the installation extra that brings a missing module; None when none of ours does."""
    package = (module or "").partition(".")[0]
    return next((extra for extra, packages in EXTRAS.items() if package in packages), None)


def main() -> None:
    """Run the command that the process was started with."""
    sys.exit(run())
