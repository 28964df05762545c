"""Commands of the benchmarks: what there is, getting it, looking at it, and grading its own references."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from services.cli.options import AsJson

app = typer.Typer(help="Benchmarks: list, fetch, look at and check them.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of a benchmark of `benchmark list`.")]
Folder = Annotated[
    Path | None,
    typer.Option("--folder", file_okay=False, help="Folder with its files; default NAME under TRINITY_BENCHMARK_DIR."),
]
Packages = Annotated[
    list[str] | None,
    typer.Option("--package", help="Package beyond the standard library that programs find; may be repeated."),
]
OptionSeed = Annotated[int, typer.Option("--seed", min=0, help="Seed of the order of options that come unordered.")]


@app.callback()
def benchmark() -> None:
    """Benchmarks: list, fetch, look at and check them."""


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List the benchmarks. Shows which are on this machine."""
    from services.cli import benchmarks, connections

    benchmarks.show_list(connections.load_settings(), as_json)


@app.command()
def show(
    name: Name, folder: Folder = None, seed: OptionSeed = 0, package: Packages = None, as_json: AsJson = False
) -> None:
    """Show one benchmark. Source, licence, splits, scorer, prompt, and what its folder has."""
    from services.cli import benchmarks

    benchmarks.show_one(benchmarks.chosen(name, folder, seed, package), as_json)


@app.command()
def fetch(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A benchmark, or OWNER/NAME of any hub data set.")],
    folder: Folder = None,
    revision: Annotated[
        str | None, typer.Option(help="Commit, tag or branch of the data set; default the catalogue's, else main.")
    ] = None,
    file: Annotated[
        list[str] | None, typer.Option("--file", help="File of a data set that is no benchmark; may be repeated.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Fetch a benchmark from the hub. Checks the hash of every file that is known, and writes a manifest.

    Every row is read at once, so that a data set that has changed is noticed here. Data sets that ask for consent need
    a token of the hub in HF_TOKEN.
    """
    from services.cli import benchmarks, connections

    benchmarks.fetch(connections.load_settings(), name, folder, revision, file or [], as_json)


@app.command()
def check(
    name: Name,
    folder: Folder = None,
    seed: OptionSeed = 0,
    package: Packages = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Grade at most so many references.")] = None,
    jobs: Annotated[int, typer.Option("--jobs", min=1, max=64, help="References graded at once.")] = 1,
    python: Annotated[
        Path | None,
        typer.Option("--python", dir_okay=False, help="Interpreter whose packages programs may import; default none."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Grade a benchmark's own references. Lists those that fail; the exit status is 1 when one does.

    References of programs are the canonical solutions, run in the sandbox. Time is given per reference.
    """
    from services.cli import benchmarks

    if not benchmarks.show_check(benchmarks.chosen(name, folder, seed, package), limit, jobs, python, as_json):
        raise typer.Exit(1)


@app.command()
def preview(
    name: Name,
    count: Annotated[int, typer.Option("-n", "--count", min=1, help="How many problems.")] = 3,
    folder: Folder = None,
    seed: OptionSeed = 0,
    package: Packages = None,
    split: Annotated[str | None, typer.Option(help="training, validation or heldout; default all.")] = None,
    as_json: AsJson = False,
) -> None:
    """Print problems as the models read them. With reference and tests; nothing is stored."""
    from services.cli import benchmarks

    benchmarks.show_preview(benchmarks.chosen(name, folder, seed, package), count, split, as_json)
