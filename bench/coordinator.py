"""Cost of the first-turn decisions of one generation: our encoder service against one full forward pass per decision.

    python bench/coordinator.py [--json] [--questions 16] [--candidates 32] [--naive 16]

Both sides use the bundled SmolLM2 in float32, one thread a pass, on the same questions. The naive side runs the inner
model once per (candidate, replicate), as a loop over candidates does; it is timed on ``--naive`` passes and scaled.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import transformers

from services.config.settings import load_settings
from services.core.campaign import EncoderSpec
from services.core.policy.layout import Layout
from services.core.policy.policies import HeadPolicy
from services.core.protocol.roles import ROLE_ORDER
from services.core.protocol.transcript import Transcript
from services.encoder.catalogue import BUNDLED
from services.encoder.coordinator import Encoder, EncoderService
from services.encoder.slm import SmallLanguageModel
from services.encoder.weights import obtain

AGENTS = 3


@dataclass(frozen=True)
class Cost:
    """CPU and wall seconds of something."""

    cpu: float
    wall: float


def questions(count: int) -> list[Transcript]:
    generator = np.random.default_rng(1)
    return [
        Transcript("State the result of " + " + ".join(str(number) for number in generator.integers(10, 99, 20)) + ".")
        for _ in range(count)
    ]


def timed_ours(encoder: Encoder, asked: list[Transcript], candidates: int) -> Cost:
    """Every candidate decides on every question, through the shared states."""
    layout = Layout.of(AGENTS, ROLE_ORDER, encoder.hidden_size)
    thetas = np.random.default_rng(2).normal(0, 0.1, (candidates, layout.size)).astype(np.float32)
    cpu, wall = time.process_time(), time.perf_counter()
    for theta in thetas:
        policy = HeadPolicy(theta, layout, encoder.encode)
        for number, transcript in enumerate(asked):
            policy.decide(transcript, np.random.default_rng(number))
    return Cost(time.process_time() - cpu, time.perf_counter() - wall)


def timed_naive(folder: Path, encoder: Encoder, asked: list[Transcript], passes: int, decisions: int) -> Cost:
    """One forward pass per decision, scaled from ``passes`` to ``decisions``."""
    model = SmallLanguageModel.load(folder, BUNDLED)
    tokens = [encoder.token_ids(transcript) for transcript in asked]
    model.state(tokens[0], "penultimate")
    cpu, wall = time.process_time(), time.perf_counter()
    for number in range(passes):
        model.state(tokens[number % len(tokens)], "penultimate")
    scale = decisions / passes
    return Cost((time.process_time() - cpu) * scale, (time.perf_counter() - wall) * scale)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=16)
    parser.add_argument("--candidates", type=int, default=32)
    parser.add_argument("--naive", type=int, default=16, help="forward passes of the naive side that are really run")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(1)
    models = load_settings().models_folder()
    folder = obtain(BUNDLED, None, models)
    asked = questions(given.questions)
    with tempfile.TemporaryDirectory() as empty, EncoderService(models, cache_file=Path(empty) / "states") as service:
        encoder = service.encoder(EncoderSpec(BUNDLED), AGENTS)
        ours = timed_ours(encoder, asked, given.candidates)
        naive = timed_naive(folder, encoder, asked, given.naive, given.questions * given.candidates)
        length = len(encoder.token_ids(asked[0]))
    result = {
        "turn1_ratio_head": round(naive.cpu / ours.cpu, 2),
        "wall_ratio": round(naive.wall / ours.wall, 2),
        "ours_cpu_s": round(ours.cpu, 2),
        "naive_cpu_s_scaled": round(naive.cpu, 2),
        "decisions": given.questions * given.candidates,
        "tokens": length,
        "load_1m": round(os.getloadavg()[0], 2),
        "cores": os.cpu_count(),
        "versions": f"{platform.machine()}, torch {torch.__version__}, transformers {transformers.__version__}",
    }
    lines = [json.dumps(result)] if given.json else [f"{name:22} {value}" for name, value in result.items()]
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
