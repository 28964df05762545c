"""Rows of data files: JSON lines, comma-separated text with a heading, or Parquet."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from services.benchmarks.jsonl import Line, read
from services.core.errors import PrerequisiteMissing, SpecError

LONGEST_CELL = 256 << 20  # hidden tests of one LiveCodeBench problem take up to 100 MB
BATCH = 64


def rows(path: Path) -> Iterator[Line]:
    """Yield the rows of a file by its ending: ``.csv``, ``.parquet``, anything else as JSON lines.

    Raises:
        SpecError: the file cannot be read, or is not what its name says.
        PrerequisiteMissing: a Parquet file, and the package that reads them is not installed.
    """
    if path.suffix == ".csv":
        return _csv(path)
    return _parquet(path) if path.suffix == ".parquet" else read(path, LONGEST_CELL)


def require_reader(path: Path) -> None:
    """Raise PrerequisiteMissing for a Parquet file where the optional package that reads them is not installed."""
    if path.suffix == ".parquet" and find_spec("pyarrow") is None:
        cure = "pip install 'trinity-coordinator[hub]', or put the rows there as JSON lines or CSV"
        raise PrerequisiteMissing(f"{path} is a Parquet file, and pyarrow is not installed here", cure)


def _csv(path: Path) -> Iterator[Line]:
    csv.field_size_limit(LONGEST_CELL)
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.DictReader(stream, strict=True)
            for number, row in enumerate(reader, start=2):
                yield Line(path, number, _complete(row, f"{path}:{number}"))
    except OSError as error:
        raise SpecError(str(path), error.strerror or str(error), "a readable CSV file") from error
    except (csv.Error, UnicodeDecodeError) as error:
        raise SpecError(str(path), str(error), "comma-separated text in UTF-8 with a heading") from error


def _complete(row: Mapping[Any, Any], place: str) -> Mapping[str, Any]:
    if None in row or None in row.values():
        raise SpecError(place, f"{len(row)} cells", "as many cells as the heading has")
    return row


def _parquet(path: Path) -> Iterator[Line]:
    require_reader(path)
    import pyarrow.parquet as parquet  # slow to import

    try:
        with path.open("rb") as stream, parquet.ParquetFile(stream) as file:
            number = 0
            for batch in file.iter_batches(BATCH):
                for row in batch.to_pylist():
                    number += 1
                    yield Line(path, number, row)
    except OSError as error:
        raise SpecError(str(path), error.strerror or str(error), "a readable Parquet file") from error
    except ValueError as error:  # what pyarrow raises for broken files derives from it
        raise SpecError(str(path), str(error).split("\n")[0], "a Parquet file") from error
