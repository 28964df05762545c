"""From a folder to a decision of the tiny model: the same as an episode's, or refused, with all differences named."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from services.checkpoint import folder as checkpoints
from services.checkpoint.description import Description
from services.coordinator import Coordinator, load
from services.core.campaign import EncoderSpec, HeadKind, HeadSpec, Matrix, Output
from services.core.errors import AttemptInterrupted, SpecError
from services.core.policy.layout import Layout
from services.core.policy.policies import HeadPolicy
from services.core.protocol.roles import ROLE_ORDER, Role, RoleSource
from services.core.protocol.transcript import Item, Transcript
from services.encoder.coordinator import EncoderService
from tests.support.checkpoints import checkpoint, describe
from tests.support.tiny_qwen3 import TEMPLATE, build_tiny_qwen3

HIDDEN = 32
LINEAR = HeadSpec()
MATRICES = (Matrix("layers.2.self_attn.q_proj", 32), Matrix("layers.2.mlp.up_proj", 32))
CHAT = [{"role": "user", "content": "What is 6 * 7?"}]
TALK = Transcript("What is 6 * 7?", (Item(1, 1, Role.THINKER, RoleSource.POLICY, "multiply", "multiply"),))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_qwen3(tmp_path_factory.mktemp("model"), hidden_size=HIDDEN)


def described(model: Path, head: HeadSpec = LINEAR, matrices: tuple[Matrix, ...] = (), **reading: Any) -> Description:
    spec = EncoderSpec(model=str(model), singular_values=matrices)
    with EncoderService(model.with_name("cache")) as service:
        fingerprint = service.encoder(spec, 2).fingerprint()
    layout = Layout((0, 1), ROLE_ORDER, HIDDEN, matrices, head)
    return describe(encoder=spec, reading=replace(fingerprint, **reading), layout=layout)


@pytest.fixture(scope="module")
def folder(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkpoints.write(tmp_path_factory.mktemp("made") / "kept", checkpoint(described(model)))


@pytest.mark.parametrize(
    ("head", "matrices"), [(LINEAR, ()), (HeadSpec(HeadKind.SPARSE, Output.ARGMAX), MATRICES)], ids=["linear", "sparse"]
)
def test_a_loaded_coordinator_decides_as_the_policy_of_an_episode(
    model: Path, tmp_path: Path, head: HeadSpec, matrices: tuple[Matrix, ...]
) -> None:
    kept = checkpoint(described(model, head, matrices), seed=3)
    folder = checkpoints.write(tmp_path / "kept", kept)
    with EncoderService(model.with_name("cache")) as service, load(folder, model_dir=tmp_path) as coordinator:
        policy = HeadPolicy(kept.theta, kept.description.layout, service.encoder(kept.description.encoder, 2).encode)
        for seed in range(20):
            wanted = policy.decide(TALK, np.random.Generator(np.random.PCG64(seed)))
            found = coordinator.pick(TALK, np.random.Generator(np.random.PCG64(seed)))
            assert (found.agent, found.role, found.logits) == (wanted.agent, wanted.role, wanted.logits)
            assert coordinator.pick(TALK, seed) == found
            assert found.model == ("ada", "bob")[wanted.agent]


def test_probabilities_are_those_by_which_it_draws(folder: Path, tmp_path: Path) -> None:
    with load(str(folder), model_dir=tmp_path) as coordinator:
        choices = [coordinator.pick(CHAT, seed) for seed in range(400)]
    chances = choices[0].probabilities
    assert sum(chances.models.values()) == pytest.approx(1)
    assert sum(chances.roles.values()) == pytest.approx(1)
    for name, chance in chances.models.items():
        share = sum(choice.model == name for choice in choices) / len(choices)
        assert share == pytest.approx(chance, abs=5 * (chance * (1 - chance) / len(choices)) ** 0.5 + 1e-9)


def other_weights(copy: Path) -> None:
    build_tiny_qwen3(copy, hidden_size=HIDDEN, seed=1)


def other_template(copy: Path) -> None:
    found = [path for path in copy.iterdir() if TEMPLATE in path.read_text("utf-8", "ignore")]
    (template,) = found
    template.write_text(TEMPLATE.replace("<|im_end|>\\n", "<|im_end|>"))


def both(copy: Path) -> None:
    other_weights(copy)
    other_template(copy)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (other_weights, "encoder.weights"),
        (other_template, "encoder.template"),
        (both, "encoder.weights, encoder.template"),
    ],
)
def test_another_model_is_refused_by_the_names_of_all_that_differs(
    folder: Path, model: Path, tmp_path: Path, change: Callable[[Path], None], named: str
) -> None:
    copy = tmp_path / "model"
    shutil.copytree(model, copy)
    with load(folder, model=str(copy), model_dir=tmp_path) as moved:
        assert moved.pick(CHAT, 1).model in ("ada", "bob")
    change(copy)
    with pytest.raises(SpecError, match="what small-g1 was read with") as caught:
        load(folder, model=str(copy), model_dir=tmp_path)
    assert caught.value.path == named


def test_another_reading_is_refused_by_name(model: Path, tmp_path: Path) -> None:
    description = described(model, position="last", item_tokens=64)
    folder = checkpoints.write(tmp_path / "kept", checkpoint(description))
    with pytest.raises(SpecError, match=r"got 'position penultimate, item_tokens 512', wanted position last") as caught:
        load(folder, model_dir=tmp_path)
    assert caught.value.path == "encoder.position, encoder.item_tokens"


def test_an_unknown_reading_has_to_be_trusted_in_so_many_words(model: Path, tmp_path: Path) -> None:
    folder = checkpoints.write(tmp_path / "kept", checkpoint(replace(described(model), reading=None)))
    with pytest.raises(SpecError, match="unverified=True"):
        load(folder, model_dir=tmp_path)
    with load(folder, model_dir=tmp_path, unverified=True) as coordinator:
        assert coordinator.pick(CHAT, 1).role in ROLE_ORDER


def test_a_state_of_another_length_is_refused(model: Path, tmp_path: Path) -> None:
    narrow = Layout((0, 1), ROLE_ORDER, 8, (), HeadSpec())
    description = replace(described(model), reading=None, layout=narrow)
    folder = checkpoints.write(tmp_path / "kept", checkpoint(description))
    with pytest.raises(SpecError, match="32, the model's"):
        load(folder, model_dir=tmp_path, unverified=True)


def test_a_closed_coordinator_says_so(folder: Path, tmp_path: Path) -> None:
    coordinator: Coordinator = load(folder, model_dir=tmp_path)
    coordinator.close()
    with pytest.raises(AttemptInterrupted):
        coordinator.pick(CHAT)


@pytest.mark.parametrize("device", ["tpu", "cuda:77"])
def test_a_device_that_is_not_there_is_named(folder: Path, tmp_path: Path, device: str) -> None:
    with pytest.raises(SpecError) as caught:
        load(folder, model_dir=tmp_path, device=device)
    assert caught.value.path == "device"
