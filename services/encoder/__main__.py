"""``python -m services.encoder MODEL --model-dir DIR``: make the model's files ready and print their folder.

``python -m services.encoder norms MODEL --model-dir DIR ...`` prints how long its states are, as one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from services.core.campaign import EncoderSpec, Norm
from services.core.errors import TrinityError
from services.core.protocol.transcript import Transcript
from services.encoder.catalogue import BUNDLED
from services.encoder.reference import QUESTIONS
from services.encoder.weights import obtain

NORMS = "norms"


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit code: 0 with the folder or the norms on stdout, 1 with one sentence on stderr."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        line = _norms(words[1:]) if words[:1] == [NORMS] else _folder(words)
    except TrinityError as error:
        _progress(str(error))
        return 1
    sys.stdout.write(f"{line}\n")
    return 0


def _folder(words: Sequence[str]) -> str:
    parser = argparse.ArgumentParser(prog="python -m services.encoder", description="Fetch an encoder model.")
    options = _model_arguments(parser).parse_args(words)
    return str(obtain(options.model, options.revision, options.model_dir, announce=_progress))


def _norms(words: Sequence[str]) -> str:
    """Return the median Euclidean norm of the states that the head would act on at the reference questions."""
    parser = argparse.ArgumentParser(prog=f"python -m services.encoder {NORMS}", description="Measure its states.")
    _model_arguments(parser)
    parser.add_argument("--agents", type=int, default=3, help="models in the pool, named in the router's instruction")
    parser.add_argument("--position", default=EncoderSpec.position)
    parser.add_argument("--max-tokens", type=int, default=EncoderSpec.max_tokens)
    parser.add_argument("--item-tokens", type=int, default=EncoderSpec.item_tokens)
    parser.add_argument("--center", action="store_true")
    parser.add_argument("--norm", type=Norm, default=Norm.NONE)
    options = vars(parser.parse_args(words))
    model_dir, agents = options.pop("model_dir"), options.pop("agents")
    norms = _state_norms(EncoderSpec(**options), agents, model_dir)
    return json.dumps({"median_norm": statistics.median(norms), "states": len(norms)})


def _model_arguments(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser.add_argument("model", nargs="?", default=BUNDLED)
    parser.add_argument("--model-dir", type=Path, required=True)
    parser.add_argument("--revision")
    return parser


def _state_norms(spec: EncoderSpec, agents: int, model_dir: Path) -> list[float]:
    import numpy as np

    from services.encoder.coordinator import EncoderService

    with EncoderService(model_dir, announce=_progress) as service:
        encoder = service.encoder(spec, agents)
        unchanged = np.zeros(0, dtype=np.float32)
        return [float(np.linalg.norm(encoder.encode(Transcript(question), unchanged))) for question in QUESTIONS]


def _progress(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
