"""Fetching: the hub's addresses, hashes, redirects and refusals, on a hub of our own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from services.benchmarks import hub, manifest
from services.benchmarks.catalogue import BENCHMARKS
from services.benchmarks.folders import open_folder
from services.benchmarks.loading import splits_of
from services.benchmarks.manifest import Manifest
from services.benchmarks.record import Choices, HubFile
from services.core.errors import PrerequisiteMissing, SpecError
from services.core.problem import content_hash
from tests.support.benchmark_files import write_benchmark
from tests.support.hub import COMMIT, FakeHub, fake_hub


@pytest.fixture
def served(tmp_path: Path) -> Iterator[FakeHub]:
    with fake_hub(tmp_path / "hub") as made:
        yield made


def place(served: FakeHub, name: str) -> hub.Wanted:
    """Put a benchmark's small files on the hub and return what is wanted of it, without the real files' hashes."""
    entry = BENCHMARKS[name]
    owner, data_set = entry.hub.split("/")
    write_benchmark(name, served.folder / owner).rename(served.folder / owner / data_set)
    wanted = hub.wanted(entry)
    return replace(wanted, files=[HubFile(file.path) for file in wanted.files])


def client(served: FakeHub, token: str | None = None) -> hub.Hub:
    return hub.Hub(served.url, token, lambda *_: None)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_benchmark_is_fetched_from_its_addresses_and_loads(name: str, served: FakeHub, tmp_path: Path) -> None:
    wanted, folder = place(served, name), tmp_path / "here" / name
    found = hub.fetch(wanted, folder, client(served))
    commit = COMMIT if wanted.revision == "main" else wanted.revision
    files = [f"/datasets/{wanted.data_set}/resolve/{commit}/{file.path}" for file in wanted.files]
    lookup = [f"/api/datasets/{wanted.data_set}/revision/main"] if wanted.revision == "main" else []
    assert [path for path, _ in served.asked] == lookup + files
    opened = open_folder(BENCHMARKS[name], folder, Choices())
    original = open_folder(BENCHMARKS[name], served.folder / wanted.data_set, Choices())
    assert content_hash(splits_of(opened)) == content_hash(splits_of(original))
    assert (found.revision, found.rows, found.licence) == (commit, sum(opened.rows.values()), wanted.licence)
    assert manifest.read(folder) == found
    assert not list(manifest.changed(folder, found))
    assert not list(folder.rglob("*.part"))


def test_what_is_there_is_not_fetched_again_unless_it_changed(served: FakeHub, tmp_path: Path) -> None:
    wanted, folder = place(served, "aime2025"), tmp_path / "here"
    first = hub.fetch(wanted, folder, client(served))
    served.asked.clear()
    assert hub.fetch(wanted, folder, client(served)) == first
    assert served.asked == []
    (folder / "test.jsonl").write_text("{}\n")
    assert list(manifest.changed(folder, first)) == ["test.jsonl"]
    assert hub.fetch(wanted, folder, client(served)) == first
    assert len(served.asked) == 1


def test_a_file_with_another_hash_than_the_known_one_is_not_kept(served: FakeHub, tmp_path: Path) -> None:
    place(served, "aime2025")
    with pytest.raises(SpecError, match="the one that is known: b4e273c02d3e"):
        hub.fetch(hub.wanted(BENCHMARKS["aime2025"]), tmp_path / "here", client(served))
    assert not [path for path in (tmp_path / "here").rglob("*") if path.is_file()]


def test_a_file_that_breaks_off_is_not_kept(served: FakeHub, tmp_path: Path) -> None:
    wanted, served.short = place(served, "aime2025"), 10
    with pytest.raises(PrerequisiteMissing, match=r"test\.jsonl (ended|broke off) after \d+"):
        hub.fetch(wanted, tmp_path / "here", client(served))
    assert not [path for path in (tmp_path / "here").rglob("*") if path.is_file()]


def test_the_token_is_for_the_hub_alone(served: FakeHub, tmp_path: Path) -> None:
    wanted, served.token = place(served, "gpqa_diamond"), "hf_secret"
    with pytest.raises(
        PrerequisiteMissing, match=r"to strangers; accept its terms at .*Idavidrein/gpqa and set HF_TOKEN"
    ):
        hub.fetch(wanted, tmp_path / "here", client(served))
    with pytest.raises(PrerequisiteMissing, match="to this token") as caught:
        hub.fetch(wanted, tmp_path / "here", client(served, "hf_wrong"))
    assert "hf_wrong" not in str(caught.value)
    assert hub.fetch(wanted, tmp_path / "here", client(served, "hf_secret")).rows == 12
    assert served.asked[-1][1] == "Bearer hf_secret"
    assert [authorization for _, authorization in served.stored] == [None]


@pytest.mark.parametrize(
    ("status", "error", "words"),
    [(404, SpecError, "status 404"), (403, PrerequisiteMissing, "HF_TOKEN"), (500, PrerequisiteMissing, "status 500"),
     (429, PrerequisiteMissing, "status 429")],
)  # fmt: skip
def test_refusals_say_what_to_do(
    status: int, error: type[Exception], words: str, served: FakeHub, tmp_path: Path
) -> None:
    wanted, served.status = place(served, "theoremqa"), status
    with pytest.raises(error, match=words):
        hub.fetch(wanted, tmp_path / "here", client(served))


def test_no_hub_is_said_with_its_reason(served: FakeHub, tmp_path: Path) -> None:
    away = hub.Hub("http://127.0.0.1:9", None, lambda *_: None)
    with pytest.raises(PrerequisiteMissing, match=r"gave no file: .*refused.*; try again, set TRINITY_HUB_URL"):
        hub.fetch(place(served, "aime2025"), tmp_path / "here", away)


def test_without_a_reader_of_parquet_nothing_is_downloaded(
    served: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.benchmarks.tables.find_spec", lambda name: None)
    with pytest.raises(PrerequisiteMissing, match=r"pip install 'trinity-coordinator\[hub\]'"):
        hub.fetch(place(served, "theoremqa"), tmp_path / "here", client(served))
    assert served.asked == []
    assert hub.fetch(place(served, "aime2025"), tmp_path / "there", client(served)).rows == 3


def test_any_data_set_is_fetched_by_name_and_file(served: FakeHub, tmp_path: Path) -> None:
    (served.folder / "me" / "set" / "data").mkdir(parents=True)
    (served.folder / "me" / "set" / "data" / "a b.jsonl").write_text('{"q": 1}\n{"q": 2}\n')
    said: list[tuple[str, int, int | None]] = []
    told = hub.Hub(served.url, None, lambda *line: said.append(line))
    found = hub.fetch(hub.any_files("me/set", "main", ["data/a b.jsonl"]), tmp_path / "here", told)
    assert (found.hub, found.revision, found.rows) == ("me/set", COMMIT, 2)
    assert said == [("data/a b.jsonl", 18, 18)]
    assert served.asked[-1][0].endswith("/data/a%20b.jsonl")


@pytest.mark.parametrize(
    ("name", "paths"),
    [("nothing", ["a"]), ("me/../x", ["a"]), ("me/set", []), ("me/set", ["../a"]), ("me/set", ["/a"]), ("a/b/c", ["a"]),
     ("me/set", ["a/../../b"]), ("me/set", ["a\\b"])],
)  # fmt: skip
def test_names_that_lead_elsewhere_are_refused(name: str, paths: list[str]) -> None:
    with pytest.raises(SpecError):
        hub.any_files(name, "main", paths)


@pytest.mark.parametrize("body", [b"{}", b"[]", b"no json", json.dumps({"sha": "../../x"}).encode()])
def test_an_odd_answer_about_a_revision_is_refused(body: bytes, served: FakeHub, tmp_path: Path) -> None:
    wanted, served.about = place(served, "theoremqa"), body
    with pytest.raises(SpecError):
        hub.fetch(wanted, tmp_path / "here", client(served))


def test_a_broken_manifest_is_named(tmp_path: Path) -> None:
    assert manifest.read(tmp_path) is None
    made = Manifest("a/b", COMMIT, "MIT", 3, {"x": "y"})
    manifest.write(tmp_path, made)
    assert manifest.read(tmp_path) == made
    (tmp_path / "manifest.json").write_text('{"hub": 1}')
    with pytest.raises(SpecError, match=r"manifest\.json"):
        manifest.read(tmp_path)
