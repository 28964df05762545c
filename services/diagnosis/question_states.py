"""``python -m services.diagnosis.question_states FILE --questions Q.json --output S.npy``: read questions.

The encoder is that of the campaign file; states come from the worker's cache where that holds them.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from services.config import campaign as campaign_file
from services.config.settings import Settings, load_settings
from services.core.errors import TrinityError
from services.core.protocol.transcript import Transcript
from services.diagnosis.__main__ import progress
from services.diagnosis.encoding import states_of
from services.encoder import catalogue


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit status: 0 with the shape as JSON on stdout, 1 with one sentence on stderr."""
    parser = argparse.ArgumentParser(prog="python -m services.diagnosis.question_states", description="Read questions.")
    parser.add_argument("file", type=Path, help="a campaign file")
    parser.add_argument("--questions", type=Path, required=True, help="a JSON list of texts")
    parser.add_argument("--output", type=Path, required=True, help="states, float64, one row a question")
    options = parser.parse_args(arguments)
    try:
        questions = json.loads(options.questions.read_text(encoding="utf-8"))
        states = read(options.file, questions, load_settings())
    except TrinityError as error:
        progress(f"error: {error}")
        return 1
    np.save(options.output, states)
    sys.stdout.write(json.dumps({"shape": list(states.shape)}) + "\n")
    return 0


def read(path: Path, questions: Sequence[str], settings: Settings) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Return the states of questions before any turn, shape (questions, d), read by a campaign file's encoder."""
    file = campaign_file.load(path, settings.path_variables(os.environ))
    spec = campaign_file.encoder_spec(file, catalogue.architecture(file.encoder.model, file.encoder.revision))
    # Torch takes seconds to import: a wrong file is told without it.
    from services.encoder.coordinator import EncoderService
    from services.encoder.slm import chosen

    with EncoderService(
        settings.models_folder(),
        device=chosen(settings.device),
        memory_bytes=settings.encoder_memory_bytes(),
        threads=settings.encoder_threads,
        parallel=settings.encoder_parallel,
        cache_file=settings.var_dir / "cache" / "states.sqlite",
        announce=progress,
    ) as encoders:
        encoder = encoders.encoder(spec, len(file.pool))
        unchanged = np.zeros(sum(matrix.size for matrix in spec.singular_values), dtype=np.float32)
        return states_of(encoder, [Transcript(question) for question in questions], unchanged, progress)


if __name__ == "__main__":
    sys.exit(main())
