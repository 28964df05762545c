"""Measures and prints what bench/coordinator.py is about."""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from bench.coordinator_talks import talk
from bench.qwen3 import random_qwen3
from services.config.settings import load_settings
from services.core.campaign import EncoderSpec, Matrix
from services.core.policy.layout import Layout
from services.core.policy.policies import HeadPolicy
from services.core.protocol.roles import ROLE_ORDER
from services.core.protocol.transcript import Transcript
from services.encoder.catalogue import BUNDLED, architecture
from services.encoder.coordinator import Encoder, EncoderService
from services.encoder.slm import SmallLanguageModel
from services.encoder.weights import obtain

AGENTS = 3
TOKENS = 128
TURNS = 5


@dataclass(frozen=True)
class Cost:
    """CPU seconds, of all threads."""

    cpu: float
    decisions: int


@dataclass(frozen=True)
class Scene:
    """A model and how much of it is measured."""

    model: str
    folder: Path
    questions: int
    candidates: int
    episodes: int
    naive: int


def measure(scene: Scene, models: Path, choices: Sequence[str]) -> dict[str, Any]:
    """Return the ratios of one model; each choice of matrices starts with nothing remembered."""
    rival = SmallLanguageModel.load(scene.folder, scene.model)
    first: dict[str, Cost] = {}
    naive: dict[str, float] = {}
    for choice in choices:
        matrices = architecture(scene.model).matrices(choice)
        with tempfile.TemporaryDirectory() as empty, EncoderService(models, cache_file=Path(empty) / "s") as service:
            encoder = service.encoder(EncoderSpec(scene.model, singular_values=matrices), AGENTS)
            encoder.encode(Transcript("warm up"))
            asked = [talk(encoder, seed, 1, TOKENS)[0] for seed in range(scene.questions)]
            first[choice] = decided(encoder, matrices, [[one] for one in asked], scene.candidates)
            naive[choice] = sum(whole(rival, encoder, asked[: scene.naive])) / len(asked[: scene.naive])
            if choice == "second_to_last_layer":
                talks = [talk(encoder, 100 + seed, TURNS, TOKENS) for seed in range(scene.episodes)]
                later, passes = different(rival, encoder, matrices, talks)
    return {
        **{
            f"turn1_ratio_{NAMES[choice]}": round(naive[choice] * one.decisions / one.cpu, 1)
            for choice, one in first.items()
        },
        "five_turns_ratio": round(sum(passes) / later.cpu, 2),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        **{f"turn1_cpu_s_{NAMES[choice]}": round(one.cpu, 2) for choice, one in first.items()},
        "five_turns_cpu_s": round(later.cpu / scene.episodes, 2),
        "naive_cpu_s_a_decision": [round(one / scene.episodes, 3) for one in passes],
        "decisions": scene.questions * scene.candidates,
    }


NAMES = {"second_to_last_layer": "seven", "none": "head", "authors_nine": "nine"}


def decided(encoder: Encoder, matrices: Sequence[Matrix], talks: list[list[Transcript]], candidates: int) -> Cost:
    """Every candidate decides on every conversation."""
    layout = Layout(tuple(range(AGENTS)), ROLE_ORDER, encoder.hidden_size, tuple(matrices))
    thetas = np.random.default_rng(2).normal(0, 0.03, (candidates, layout.size)).astype(np.float32)
    begun = time.process_time()
    for theta in thetas:
        policy = HeadPolicy(theta, layout, encoder.encode)
        for number, steps in enumerate(talks):
            for step in steps:
                policy.decide(step, np.random.default_rng(number))
    return Cost(time.process_time() - begun, candidates * sum(len(steps) for steps in talks))


def different(
    rival: SmallLanguageModel, encoder: Encoder, matrices: Sequence[Matrix], talks: list[list[Transcript]]
) -> tuple[Cost, list[float]]:
    """Decide on conversations that have nothing in common but the instruction in front.

    Returns:
        Our cost, and the rival's CPU seconds for each turn. Each conversation is read by both, one right after the
        other, so that both meet the same machine.
    """
    ours, passes = Cost(0.0, 0), [0.0] * TURNS
    for one in talks:
        cost = decided(encoder, matrices, [one], 1)
        ours = Cost(ours.cpu + cost.cpu, ours.decisions + cost.decisions)
        passes = [before + seconds for before, seconds in zip(passes, whole(rival, encoder, one), strict=True)]
    return ours, passes


def whole(rival: SmallLanguageModel, encoder: Encoder, asked: Sequence[Transcript]) -> list[float]:
    """Return the CPU seconds of each decision by a whole forward pass."""
    found = []
    for one in asked:
        ids = encoder.token_ids(one)
        begun = time.process_time()
        rival.state(ids)
        found.append(time.process_time() - begun)
    return found


def main(description: str | None) -> int:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=16)
    parser.add_argument("--candidates", type=int, default=32)
    parser.add_argument("--episodes", type=int, default=8, help="episodes of five turns")
    parser.add_argument("--naive", type=int, default=8, help="whole passes at the first turn that are really run")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(1)
    models = load_settings().models_folder()
    folder = obtain(BUNDLED, None, models)
    scene = Scene(BUNDLED, folder, given.questions, given.candidates, given.episodes, given.naive)
    choices = ["none", "second_to_last_layer"]
    result = measure(scene, models, [*choices, "authors_nine"] if given.full else choices)
    if given.full:
        with tempfile.TemporaryDirectory() as place:
            qwen = random_qwen3(Path(place))
            small = Scene(str(qwen), qwen, questions=4, candidates=4, episodes=2, naive=2)
            result["qwen3_0.6b"] = measure(small, Path(place), choices)
    result |= {
        "tokens_a_turn": TOKENS,
        "load_1m": round(os.getloadavg()[0], 2),
        "cores": os.cpu_count(),
        "versions": f"{platform.machine()}, torch {torch.__version__}, transformers {transformers.__version__}",
    }
    lines = [json.dumps(result)] if given.json else [f"{name:22} {value}" for name, value in result.items()]
    print("\n".join(lines))
    return 0
