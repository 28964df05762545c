"""A folder with the smallest campaign that the whole product runs: two simulated models, a tiny encoder, free ports."""

from __future__ import annotations

import os
import socket
import tempfile
from pathlib import Path

from tests.support.tiny_qwen3 import build_tiny_qwen3

ROOT = Path(__file__).resolve().parents[2]
CAMPAIGN = """
name: tiny
seed: 3
problems: {{source: generated, families: [chain_sum, letter_counting], training: 8, validation: 2, heldout: 6}}
pool:
  - {{name: adder, model: openai/adder, base_url: local:pair, price: {{input: 0.2, output: 0.8}}}}
  - {{name: speller, model: openai/speller, base_url: local:pair, price: {{input: 0.1, output: 0.4}}}}
encoder: {{model: {encoder}, singular_values: none}}
protocol: {{max_turns: 2, max_output_tokens: 64}}
search: {{population: 4, replicates: 2, generations: 2, sigma0: 0.1}}
validation: {{every: 1, problems: 2}}
evaluation: {{problems: 6}}
budget: {{usd: 10}}
"""
POOL = """
kind: simulated
name: pair
seed: 1
models:
  - {name: adder, skills: {chain_sum: {worker: 0.9, thinker: 0.5, verifier: 0.9}}, otherwise: {worker: 0.1, thinker: 0.1, verifier: 0.5}}
  - {name: speller, skills: {letter_counting: {worker: 0.9, thinker: 0.5, verifier: 0.9}}, otherwise: {worker: 0.1, thinker: 0.1, verifier: 0.5}}
"""  # noqa: E501


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def small_product() -> tuple[Path, dict[str, str]]:
    """Return a new folder with ``tiny.yaml`` and its pool, and the environment of commands that use it."""
    # A short path that other users may enter: sockets lie below it, and as root Postgres runs as somebody else.
    folder = Path(tempfile.mkdtemp(prefix="trinity-qs-", dir="/tmp"))
    folder.chmod(0o755)
    (folder / "pools").mkdir()
    (folder / "pools" / "pair.yaml").write_text(POOL)
    (folder / "tiny.yaml").write_text(CAMPAIGN.format(encoder=build_tiny_qwen3(folder / "encoder")))
    return folder, {
        **os.environ,
        "TRINITY_VAR_DIR": str(folder / "var"),
        "TRINITY_LOCAL_POOL_DIR": str(folder / "pools"),
        "TRINITY_LOCAL_POOL_URL": f"http://127.0.0.1:{free_port()}",
        "TRINITY_FLOWER_PORT": str(free_port()),
    }
