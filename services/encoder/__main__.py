"""``python -m services.encoder MODEL --model-dir DIR``: make the model's files ready and print their folder."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from services.core.errors import TrinityError
from services.encoder.catalogue import BUNDLED
from services.encoder.weights import obtain


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit code: 0 with the folder on stdout, 1 with one sentence on stderr."""
    parser = argparse.ArgumentParser(prog="python -m services.encoder", description="Fetch an encoder model.")
    parser.add_argument("model", nargs="?", default=BUNDLED)
    parser.add_argument("--model-dir", type=Path, required=True)
    parser.add_argument("--revision")
    options = parser.parse_args(arguments)
    try:
        folder = obtain(options.model, options.revision, options.model_dir, announce=_progress)
    except TrinityError as error:
        _progress(str(error))
        return 1
    sys.stdout.write(f"{folder}\n")
    return 0


def _progress(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
