"""The replay pools over real HTTP, on small recordings and on those of real models."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from services.core.local_pool import Recordings, ReplayPool
from services.core.problem import ScorerKind
from services.core.protocol.answers import parse_thinker, parse_worker
from services.core.protocol.roles import Role
from services.core.protocol.transcript import Transcript
from services.core.protocol.verdict import Verdict, parse_verdict
from services.core.scoring.scorer import agree
from tests.support.local_pools import serving, worked

ROOT = Path(__file__).resolve().parents[2]

ROWS = [
    {
        "id": "q1",
        "question": "What is 6 × 7?",
        "responses": {"a-1.5": {"answer": "42"}, "b": {"answer": "$42.0"}, "c": {"answer": None}, "d": {"answer": 41}},
    },
    {"id": "q2", "question": "Forged </question> tags?", "responses": {"a-1.5": {"answer": "7"}}},
]
TEXTS = [
    {"id": "q1", "model": "a-1.5", "output": '```json\n{"reasoning": "Six sevens.", "answer": "42"}\n```'},
    {"id": "q1", "model": "b", "output": "Plain words, then <answer>13</answer>."},
]


def write_lines(path: Path, rows: Sequence[object]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def recorded(tmp_path: Path) -> ReplayPool:
    recordings = Recordings(
        (write_lines(tmp_path / "answers.jsonl", ROWS),),
        answer="responses.*.answer",
        scorer=ScorerKind.NUMERIC,
        texts=(write_lines(tmp_path / "texts.jsonl", TEXTS),),
    )
    return ReplayPool("rec", ("a-1.5", "b", "c", "d"), (recordings,))


class TestReplay:
    def test_a_worker_repeats_its_record(self, recorded: ReplayPool) -> None:
        with serving(recorded) as client:
            said = {m: parse_worker(client.text(m, Role.WORKER, Transcript("What is 6 × 7?"))) for m in recorded.models}

        assert {model: answer for model, (_, answer) in said.items()} == {
            "a-1.5": "42",
            "b": "$42.0",
            "c": None,
            "d": "41",
        }
        assert said["a-1.5"][0] == "Six sevens."
        assert said["d"][0] == "No reasoning was recorded."

    def test_a_verifier_accepts_exactly_its_own_answer(self, recorded: ReplayPool) -> None:
        with serving(recorded) as client:
            accepting = {
                (model, answer)
                for model in recorded.models
                for answer in ("42", "41", None)
                if parse_verdict(client.text(model, Role.VERIFIER, worked("What is 6 × 7?", answer)))[0]
                is Verdict.ACCEPT
            }

        assert accepting == {("a-1.5", "42"), ("b", "42"), ("d", "41")}

    def test_a_thinker_gives_its_recorded_reasoning_or_nothing(self, recorded: ReplayPool) -> None:
        with serving(recorded) as client:
            said = {
                m: parse_thinker(client.text(m, Role.THINKER, Transcript("What is 6 × 7?"))) for m in ("a-1.5", "c")
            }

        assert said == {"a-1.5": ("Six sevens.", Role.WORKER), "c": ("", Role.WORKER)}

    def test_questions_with_forged_tags_are_found(self, recorded: ReplayPool) -> None:
        with serving(recorded) as client:
            assert "<answer>7</answer>" in client.text("a-1.5", Role.WORKER, Transcript("Forged </question> tags?"))

    def test_what_was_not_recorded_is_refused(self, recorded: ReplayPool) -> None:
        with serving(recorded) as client:
            for model, question in (("a-1.5", "What is 6 x 7?"), ("b", "Forged </question> tags?")):
                status, answer = client.ask(model, Role.WORKER, Transcript(question))
                assert status == 400
                assert model in answer["error"]["message"]

    def test_missing_files_are_named_and_looked_for_again(self, recorded: ReplayPool) -> None:
        path = recorded.recordings[0].files[0]
        content = path.read_text()
        path.unlink()
        with serving(recorded) as client:
            status, answer = client.ask("a-1.5", Role.WORKER, Transcript("What is 6 × 7?"))
            assert status == 503
            assert str(path) in answer["error"]["message"]

            path.write_text(content + "{nonsense\n")
            status, answer = client.ask("a-1.5", Role.WORKER, Transcript("What is 6 × 7?"))
            assert status == 503
            assert f"{path}:3" in answer["error"]["message"]

            path.write_text(content)
            assert client.text("a-1.5", Role.WORKER, Transcript("What is 6 × 7?"))

    def test_score_only_recordings_work_and_do_not_verify(self, tmp_path: Path) -> None:
        rows = [{"query": "Hard?", "scores": {"a": 0.5, "b": None}}]
        recordings = Recordings((write_lines(tmp_path / "s.jsonl", rows),), question="query", score="scores.*")
        with serving(ReplayPool("rec", ("a", "b"), (recordings,))) as client:
            assert parse_worker(client.text("a", Role.WORKER, Transcript("Hard?")))[1] == ""
            assert client.ask("b", Role.WORKER, Transcript("Hard?"))[0] == 400
            status, answer = client.ask("a", Role.VERIFIER, worked("Hard?", ""))
            assert status == 400
            assert "[worker]" in answer["error"]["message"]


def data_folder() -> Path:
    folder = Path(os.environ.get("TRINITY_DATA_DIR") or ROOT.parent / "shared" / "data") / "replay"
    if not folder.is_dir():
        pytest.skip(f"no recorded answers at {folder}; set TRINITY_DATA_DIR")
    return folder


SMALL = ("Qwen2-7B-Instruct", "gemma-2-9b-it", "claude-3-haiku-20240307")


def test_recorded_answers_of_real_models_score_as_they_were_graded() -> None:
    folder = data_folder()
    files = (folder / "zeroeval_gsm_a.jsonl", folder / "zeroeval_gsm_b.jsonl")
    pool = ReplayPool("z", SMALL, (Recordings(files, answer="responses.*.answer", scorer=ScorerKind.NUMERIC),))
    rows = [json.loads(line) for file in files for line in file.read_text().splitlines()][::7]

    with serving(pool) as client:
        same = [
            agree(
                ScorerKind.NUMERIC,
                parse_worker(client.text(model, Role.WORKER, Transcript(row["question"])))[1],
                row["gold"].removeprefix("# "),
            )
            == bool(row["responses"][model]["correct"])
            for row in rows
            for model in SMALL
        ]

    assert sum(same) / len(same) > 0.97
