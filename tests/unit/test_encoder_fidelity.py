"""The fast reading against the slow reference: same logits, same decisions, whatever is cached or read side by side."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from services.core.campaign import EncoderSpec
from services.core.policy.layout import Layout
from services.core.policy.selection import select, softmax
from services.core.protocol.roles import ROLE_ORDER
from services.encoder import coordinator
from services.encoder.coordinator import EncoderService
from services.encoder.passes import Together
from tests.support.conversations import conversations
from tests.support.slow_reference import SlowReference
from tests.support.tiny_qwen3 import build_tiny_qwen3

AGENTS, TURNS, CANDIDATES, QUESTIONS = 4, 5, 4, 2
DRAWS = 10_000 // (TURNS * CANDIDATES * QUESTIONS)
LAYOUT = Layout.of(AGENTS, ROLE_ORDER, 32)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_qwen3(tmp_path_factory.mktemp("tied"))


@pytest.fixture(scope="module")
def untied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_qwen3(tmp_path_factory.mktemp("untied"), tied=False)


@pytest.fixture(scope="module", params=["alone", "together"])
def make_service(request: pytest.FixtureRequest) -> Callable[[Path], EncoderService]:
    """Make services that read each conversation alone, as on a CPU, or side by side, as on a GPU."""

    def make(model_dir: Path) -> EncoderService:
        with pytest.MonkeyPatch.context() as patch:
            if request.param == "together":
                patch.setattr(
                    coordinator, "Alone", lambda *_: Together(threads=1, most=CANDIDATES * QUESTIONS, wait_seconds=0.05)
                )
            return EncoderService(model_dir)

    return make


def logits(head: NDArray[np.float64], state: NDArray[np.float32]) -> NDArray[np.float64]:
    return head @ state.astype(np.float64)


def decisions(values: NDArray[np.float64], seed: int) -> NDArray[np.int64]:
    """Return agent and role of ``DRAWS`` decisions, as ``select`` draws them one by one from the same generator."""
    uniform = np.random.default_rng(seed).random((DRAWS, 2))
    parts = softmax(values[:AGENTS]), softmax(values[AGENTS:])
    drawn = [
        np.searchsorted(sums, column * sums[-1], side="right")
        for sums, column in zip(map(np.cumsum, parts), uniform.T, strict=True)
    ]
    rng = np.random.default_rng(seed)
    assert select(values, LAYOUT, rng) == (drawn[0][0], ROLE_ORDER[drawn[1][0]])
    return np.stack(drawn, axis=1)


@pytest.mark.parametrize("choice", ["none", "seven", "nine"])
def test_decisions_are_those_of_the_slow_reference(
    folder: Path, tmp_path: Path, make_service: Callable[[Path], EncoderService], choice: str
) -> None:
    compare(folder, tmp_path, make_service, choice)


def test_untied_output_weights_have_no_effect_and_untied_embeddings_have(
    untied: Path, tmp_path: Path, make_service: Callable[[Path], EncoderService]
) -> None:
    compare(untied, tmp_path, make_service, "nine")


def compare(folder: Path, model_dir: Path, make_service: Callable[[Path], EncoderService], choice: str) -> None:
    reference = SlowReference(folder)
    matrices = reference.matrices(choice)
    rng = np.random.default_rng(7)
    size = sum(matrix.size for matrix in matrices)
    candidates = [
        (rng.normal(0, 0.2, size).astype(np.float32), rng.normal(0, 0.5, (LAYOUT.rows, 32))) for _ in range(CANDIDATES)
    ]
    talks = [conversations(seed, TURNS, words=10 + 20 * seed) for seed in range(QUESTIONS)]
    turns = [[(talk[turn], *candidate) for talk in talks for candidate in candidates] for turn in range(TURNS)]
    with make_service(model_dir) as service, ThreadPoolExecutor(len(turns[0])) as threads:
        encoder = service.encoder(EncoderSpec(str(folder), singular_values=matrices), AGENTS)
        states = [state for turn in turns for state in threads.map(lambda one: encoder.encode(one[0], one[1]), turn)]
    asked = [one for turn in turns for one in turn]
    same = 0
    for number, ((talk, offsets, head), state) in enumerate(zip(asked, states, strict=True)):
        slow = logits(head, reference.state(encoder.token_ids(talk), matrices, offsets))
        fast = logits(head, state)
        assert np.abs(fast - slow).max() < 1e-4 * np.abs(slow).max()
        same += int(np.sum(np.all(decisions(fast, number) == decisions(slow, number), axis=1)))
    assert same == 10_000


def test_candidates_differ(folder: Path, tmp_path: Path) -> None:
    matrices = SlowReference(folder).matrices("seven")
    size = sum(matrix.size for matrix in matrices)
    with EncoderService(tmp_path) as service:
        encoder = service.encoder(EncoderSpec(str(folder), singular_values=matrices), AGENTS)
        plain = service.encoder(EncoderSpec(str(folder)), AGENTS)
        talk = conversations(1, 3)[-1]
        changed = encoder.encode(talk, np.linspace(0, 0.3, size, dtype=np.float32))
        np.testing.assert_allclose(encoder.encode(talk), plain.encode(talk), rtol=1e-5, atol=1e-6)
        assert np.abs(changed - plain.encode(talk)).max() > 1e-3
