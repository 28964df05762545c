"""What every action of the recorded game would cost, at the prices of the campaign file."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bench.comparison_game import Float64, Game
from bench.comparison_set import RecordedSet
from services.core.ledger.assumptions import BYTES_PER_TOKEN, TYPICAL_OUTPUT_TOKENS
from services.core.ledger.usage import Usage


def reply_tokens(recorded: RecordedSet, data: Path) -> dict[tuple[str, str], float]:
    """Return the mean length of recorded replies by family and model, at four bytes a token; empty without texts."""
    families = {problem.key: problem.family for problem in recorded.problems}
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    for path in sorted((data / "replay").glob(f"{recorded.pool.name}_texts_*.jsonl")):
        for line in path.read_text().splitlines():
            row = json.loads(line)
            found[families[row["id"]], row["model"]].append(len(row["output"].encode()))
    return {key: float(np.mean(sizes)) / BYTES_PER_TOKEN for key, sizes in found.items()}


def usd(recorded: RecordedSet, game: Game, families: Sequence[str], data: Path) -> Float64:
    """Return the cost of every action, (n, roles, agents), 0 where nobody is asked.

    A Verifier is taken to write as much as a Worker: it solves the question before it compares.
    """
    tokens = reply_tokens(recorded, data)
    asked = game.prompt_bytes > 0
    found = np.zeros(asked.shape)
    names = np.array(families)[game.question]
    for agent, (model, served) in enumerate(zip(recorded.campaign.pool, recorded.served, strict=True)):
        read = float(model.price.cost(Usage(1_000_000, 0))) / 1e6
        written = float(model.price.cost(Usage(0, 1_000_000))) / 1e6
        lengths = np.array([tokens.get((name, served), TYPICAL_OUTPUT_TOKENS) for name in names])
        found[..., agent] = game.prompt_bytes[..., agent] / BYTES_PER_TOKEN * read + (lengths * written)[:, None]
    return np.where(asked, found, 0.0)
