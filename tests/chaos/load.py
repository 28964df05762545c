"""What the storm runs: three campaigns of different size and weight, again and again under other names."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.witness import PRICES, Witness

ROOT = Path(__file__).resolve().parents[2]
SUBMIT_SECONDS = 120.0

FILE = """
name: {name}
seed: {seed}
problems: {{source: generated, families: [chain_sum, spell_backward], training: 16, validation: 6, heldout: 6}}
pool:
{models}
encoder: {{model: {encoder}, singular_values: none}}
protocol: {{max_turns: 4, max_output_tokens: 128}}
search: {{population: {population}, replicates: {replicates}, generations: {generations}, sigma0: 0.3}}
validation: {{every: 2, problems: {measured}}}
evaluation: {{problems: {measured}}}
max_attempts: 100
max_failure_share: 1
weight: {weight}
"""
MODEL = "  - {{name: {name}, model: openai/{name}, base_url: {url}, price: {{input: {input}, output: {output}}}}}"


@dataclass(frozen=True)
class Size:
    """One campaign of every round; the same size and seed give the same result under any name."""

    label: str
    seed: int
    weight: float
    population: int
    replicates: int
    generations: int
    measured: int = 6  # problems of each validation and of the evaluation


FULL = (
    Size("large", 3, 3.0, 8, 8, 5),
    Size("middle", 4, 1.0, 6, 6, 5),
    Size("small", 5, 0.5, 4, 4, 4),
)
SHORT = (Size("large", 3, 2.0, 6, 4, 2, 2), Size("small", 5, 1.0, 4, 3, 2, 2))


@dataclass(frozen=True)
class Submitter:
    """Submits through the command line, as a person would, and again when the storm interferes."""

    folder: Path
    encoder: Path
    witness: Witness
    environment: Mapping[str, str]

    def submit(self, size: Size, name: str) -> None:
        path = self.folder / f"{name}.yaml"
        path.write_text(self._text(size, name))
        deadline = time.monotonic() + SUBMIT_SECONDS
        while True:
            done = subprocess.run(
                [sys.executable, "manage.py", "campaign", "submit", str(path)],
                cwd=ROOT,
                env=dict(self.environment),
                capture_output=True,
                text=True,
                timeout=SUBMIT_SECONDS,
            )
            # A commit whose answer got lost is found by the second try, which says that the name is used.
            if done.returncode == 0 or "a name that no other campaign has" in done.stderr:
                return
            if time.monotonic() > deadline:
                raise RuntimeError(f"{name} could not be submitted: {done.stderr}")
            time.sleep(1.0)

    def _text(self, size: Size, name: str) -> str:
        url = self.witness.base_url(name)
        models = [
            MODEL.format(name=model, url=url, input=price.input_per_million, output=price.output_per_million)
            for model, price in PRICES.items()
        ]
        return FILE.format(name=name, encoder=self.encoder, models="\n".join(models), **vars(size))
