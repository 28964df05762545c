from __future__ import annotations

import hashlib
import json
import os
import stat
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load, save

from services.checkpoint import folder as checkpoints
from services.checkpoint.description import ADDED
from services.checkpoint.tensors import FILE, shapes_of
from services.core.campaign import EncoderSpec, HeadKind, HeadSpec, Matrix, Output, ProtocolSpec
from services.core.errors import LayoutMismatch, SpecError
from services.core.policy.layout import Layout
from services.core.protocol.roles import ROLE_ORDER
from tests.support.checkpoints import checkpoint, describe

Change = Callable[[dict[str, Any]], None]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return checkpoints.write(tmp_path / "kept", checkpoint())


def tensors(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = load((folder / FILE).read_bytes())
    return found


def forge(folder: Path, data: bytes) -> None:
    """Replace the parameters and their hash, as somebody with bad intentions would."""
    (folder / FILE).write_bytes(data)
    rewrite(folder, lambda config: config.update(sha256=hashlib.sha256(data).hexdigest()))


def rewrite(folder: Path, change: Change) -> None:
    path = folder / checkpoints.CONFIG
    config = json.loads(path.read_text())
    change(config)
    path.write_text(json.dumps(config))


@settings(max_examples=15)
@given(
    st.lists(st.integers(1, 9), max_size=3),
    st.sets(st.sampled_from(ROLE_ORDER), min_size=1),
    st.sets(st.integers(0, 4), min_size=1),
    st.integers(8, 12),
    st.sampled_from(HeadKind),
    st.sampled_from(Output),
    st.integers(0, 2**32 - 1),
)
def test_what_is_written_is_read_back_to_the_bit(
    tmp_path_factory: pytest.TempPathFactory,
    sizes: list[int],
    roles: Any,
    agents: Any,
    hidden: int,
    kind: HeadKind,
    output: Output,
    seed: int,
) -> None:
    matrices = tuple(Matrix(f"layers.{place}.mlp.up_proj", size) for place, size in enumerate(sizes))
    allowed = tuple(role for role in ROLE_ORDER if role in roles)
    pool = tuple(replace(describe().pool[0], name=f"m{place}") for place in range(5))
    written = describe(
        encoder=EncoderSpec("m", singular_values=matrices),
        layout=Layout(tuple(sorted(agents)), allowed, hidden, matrices, HeadSpec(kind, output)),
        protocol=ProtocolSpec(roles=allowed, agents=tuple(f"m{place}" for place in agents)),
        pool=pool,
        reading=None if seed % 2 else describe().reading,
    )
    kept = checkpoint(written, seed)
    folder = checkpoints.write(tmp_path_factory.mktemp("round") / "trip", kept)
    again = checkpoints.read(folder)
    assert again.description == written
    assert again.theta.dtype == np.float32
    assert again.theta.tobytes() == kept.theta.tobytes()
    assert {name: part.shape for name, part in tensors(folder).items()} == shapes_of(written.layout)


def test_blocks_have_names_and_hold_their_part_of_theta(folder: Path) -> None:
    kept, found = checkpoint(), tensors(folder)
    assert list(shapes_of(kept.description.layout).items()) == [
        ("svf.layers.2.self_attn.q_proj", (3,)),
        ("svf.layers.2.mlp.up_proj", (5,)),
        ("head.weights", (5, 4)),
    ]
    assert found["svf.layers.2.mlp.up_proj"].tolist() == kept.theta[3:8].tolist()
    assert found["head.weights"].tolist() == kept.theta[8:].reshape(5, 4).tolist()
    assert {str(part.dtype) for part in found.values()} == {"float32"}


def test_the_folder_has_three_readable_files_and_a_card(folder: Path) -> None:
    assert sorted(path.name for path in folder.iterdir()) == ["README.md", "config.json", FILE]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755
    page = (folder / "README.md").read_text()
    assert 'load("FOLDER").pick(' in page
    assert "| held-out | `ada` alone | 3 | 1.000 | 0.400 to 1.000 |" in page
    assert "| validation | `trained coordinator` | 2 | 0.500 | 0.100 to 0.900 |" in page
    assert "An episode has at most 3 turns; later ones read the notes of all roles." in page
    assert "Head: linear, softmax. Matrices of the encoder that it changes: `layers.2.self_attn.q_proj`" in page
    assert "Settings: `nearest to paper, but search.generations 2`" in page


def test_names_cannot_become_markup(tmp_path: Path) -> None:
    evil = "x`|\n<script>"
    pool = tuple(replace(model, model=evil) for model in describe().pool)
    page = checkpoints.write(tmp_path / "kept", checkpoint(describe(pool=pool))) / "README.md"
    assert "| 0 | `ada` | `x   <script>` |" in page.read_text()


def test_a_reading_that_nobody_recorded_is_said_to_be_unknown(tmp_path: Path) -> None:
    folder = checkpoints.write(tmp_path / "kept", checkpoint(describe(reading=None)))
    assert "Unknown: with which weights" in (folder / "README.md").read_text()
    assert checkpoints.read(folder).description.reading is None


@pytest.mark.parametrize("what", ["file", "folder", "link"])
def test_nothing_is_overwritten_and_nothing_half_is_left(tmp_path: Path, what: str) -> None:
    place = tmp_path / "kept"
    if what == "file":
        place.write_text("mine")
    elif what == "folder":
        place.mkdir()
        (place / "mine").write_text("mine")
    else:
        place.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SpecError, match="does not exist yet or is empty"):
        checkpoints.write(place, checkpoint())
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SpecError, match="No space left"):
        checkpoints.write(tmp_path / "kept", checkpoint())
    assert list(tmp_path.iterdir()) == []


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    checkpoints.read(checkpoints.write(tmp_path / "kept", checkpoint()))


def test_parameters_that_are_no_numbers_are_not_written(tmp_path: Path) -> None:
    kept = checkpoint()
    kept.theta[2] = np.nan
    with pytest.raises(SpecError, match="finite numbers"):
        checkpoints.write(tmp_path / "kept", kept)
    with pytest.raises(LayoutMismatch):
        checkpoints.write(tmp_path / "kept", replace(kept, theta=kept.theta[:-1]))
    assert list(tmp_path.iterdir()) == []


def every_field(value: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Return the path of every field of objects in a JSON document; maps of free keys are left out."""
    found: list[tuple[str, ...]] = []
    if isinstance(value, dict) and path != ("origin", "versions"):
        for key, item in value.items():
            found += [(*path, key), *every_field(item, (*path, key))]
    return found


def at(config: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    for key in path:
        config = config[key]
    return config


def test_every_missing_unknown_and_wrong_field_is_named(folder: Path) -> None:
    original = (folder / checkpoints.CONFIG).read_text()
    paths = every_field(json.loads(original))
    assert len(paths) > 60
    for path in paths:
        for value in ("absent", "added", ["wrong"], True, 0.5, float("inf")):
            config = json.loads(original)
            place = at(config, path[:-1])
            if value == "absent":
                if path[-1] in ADDED.get(path[0], {}):
                    continue
                del place[path[-1]]
            elif value == "added":
                place["surplus"] = 1
            elif type(value) is type(place[path[-1]]):
                continue
            else:
                place[path[-1]] = value
            (folder / checkpoints.CONFIG).write_text(json.dumps(config))
            with pytest.raises(SpecError) as caught:
                checkpoints.read(folder)
            named = "surplus" if value == "added" else path[-1]
            told = named in caught.value.path or value == float("inf")
            assert told, (path, value, caught.value)


def test_a_folder_from_before_fields_were_added_has_their_defaults(folder: Path) -> None:
    def remove(config: dict[str, Any]) -> None:
        del config["reading"]["cutting_rule"], config["training"]["preset"], config["protocol"]["evidence"]

    whole = checkpoints.read(folder).description
    rewrite(folder, remove)
    assert checkpoints.read(folder).description == replace(whole, training=replace(whole.training, preset=""))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda config: config["encoder"]["singular_values"].pop(), "layout.matrices"),
        (lambda config: config["pool"].pop(), "layout.agents"),
        (lambda config: config["protocol"].update(roles=["worker"]), "layout.roles"),
        (lambda config: config["pool"][1].update(name="ada"), "pool"),
        (lambda config: config["encoder"].update(norm="l2"), "encoder.norm"),
        (lambda config: config["protocol"].update(notes="some"), "protocol.notes"),
        (lambda config: config["training"].update(usd="NaN"), "training.usd"),
        (lambda config: config["layout"].update(agents=10**12), "layout.agents"),
        (lambda config: config["layout"].update(agents=[0.0, 1.0]), "layout.agents"),
        (lambda config: config.update(format=2), "format"),
    ],
)
def test_parts_that_do_not_belong_together_are_refused(folder: Path, change: Change, named: str) -> None:
    rewrite(folder, change)
    with pytest.raises(SpecError) as caught:
        checkpoints.read(folder)
    assert caught.value.path == named


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"format": 1, "format": 1}', "[" * 100_000, '{"format": NaN}', "\udce4"]
)
def test_a_configuration_that_is_none_is_refused(folder: Path, text: str) -> None:
    (folder / checkpoints.CONFIG).write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(SpecError):
        checkpoints.read(folder)


@settings(max_examples=12)
@given(st.data())
def test_any_altered_or_cut_file_of_parameters_is_refused(tmp_path_factory: pytest.TempPathFactory, data: Any) -> None:
    folder = checkpoints.write(tmp_path_factory.mktemp("altered") / "kept", checkpoint())
    original = (folder / FILE).read_bytes()
    place = data.draw(st.integers(0, len(original) - 1))
    altered = bytearray(original)
    altered[place] ^= data.draw(st.integers(1, 255))
    for wrong in (bytes(altered), original[:place], original + b"\0"):
        (folder / FILE).write_bytes(wrong)
        with pytest.raises(SpecError, match="altered"):
            checkpoints.read(folder)


def test_forged_parameters_are_refused_whatever_their_hash(folder: Path) -> None:
    good, original = tensors(folder), (folder / FILE).read_bytes()
    head = good["head.weights"].reshape(-1)
    other = {
        "longer": good | {"head.weights": np.append(head, np.float32(1))},
        "moved": good | {"head.weights": head[:-1], "svf.layers.2.mlp.up_proj": np.ones(6, np.float32)},
        "unknown": good | {"more": np.ones(1, np.float32)},
        "missing": {"head.weights": good["head.weights"]},
    }
    for parts in other.values():
        forge(folder, save(parts))
        with pytest.raises(LayoutMismatch, match=r"its layout wants 28 .*; '"):
            checkpoints.read(folder)
    for parts, message in (
        (good | {"head.weights": head.astype(np.float64)}, "float64"),
        (good | {"head.weights": head.astype(np.float16)}, "float16"),
        (good | {"head.weights": head.reshape(4, 5)}, r"shape \(4, 5\)"),
        (good | {"head.weights": np.full((5, 4), np.float32(np.inf))}, "NaN or infinity"),
    ):
        forge(folder, save(parts))
        with pytest.raises(SpecError, match=message):
            checkpoints.read(folder)
    header = json.dumps({"head": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}}).encode()
    for data in (original[:-4], b"", b"\x80\x04.", struct.pack("<Q", len(header)) + header + bytes(4), bytes(4096)):
        forge(folder, data)
        with pytest.raises((SpecError, LayoutMismatch)):
            checkpoints.read(folder)


@pytest.mark.parametrize("name", [FILE, checkpoints.CONFIG])
def test_links_pipes_folders_and_endless_files_are_not_read(folder: Path, tmp_path: Path, name: str) -> None:
    outside = tmp_path / "outside"
    (folder / name).rename(outside)
    (folder / name).symlink_to(outside)
    assert_refused(folder, "no link")
    (folder / name).unlink()
    assert_refused(folder, "No such file")
    os.mkfifo(folder / name)
    assert_refused(folder, "no regular file")
    (folder / name).unlink()
    (folder / name).mkdir()
    assert_refused(folder, "no regular file")
    (folder / name).rmdir()
    with (folder / name).open("wb") as file:
        file.truncate(1 << 40)
    assert_refused(folder, "at most")


def assert_refused(folder: Path, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        checkpoints.read(folder)
