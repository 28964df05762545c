"""Replies that count again: how often, for whom, and at no cost; a recorded campaign plays back to the bit."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from services.cli import recording
from services.config import pool_file
from services.core.campaign import AnswersSpec, Campaign, Reuse, ScoringSpec
from services.core.errors import SpecError
from services.core.ids import CampaignId
from services.core.ledger.usage import Usage
from services.core.local_pool import RecordingPool
from services.core.protocol.asked import messages_digest
from services.core.protocol.ports import Message, Reply
from services.core.protocol.prompts import messages_for
from services.core.protocol.request import read_request
from services.core.protocol.roles import CallRole, Role
from services.core.protocol.transcript import Transcript
from services.core.scoring.grade import graded
from services.core.states import CampaignState
from services.pool.local.recorded import RecordedCalls
from services.pool.local.wire import CALL_HEADER, ChatRequest, RefusalError
from services.pool.retry import RetryPolicy
from services.storage import ledger, replies
from services.storage import recording as storage_recording
from services.storage.engine import Database
from services.storage.operations import Keep, Score
from services.storage.records import Answer
from services.telemetry import logs
from tests.support.auditing import assert_clean
from tests.support.fault_doubles import StubPool, submit, tiny_campaign
from tests.support.faults import Stage, hurry
from tests.support.local_pools import serving
from tests.support.outcomes import irregularities, outcome_of
from tests.support.recorded import recorded
from tests.support.storage import query, scene
from worker.calls import MeteredCalls
from worker.leases import Lease
from worker.writer import Writer

__all__ = ["hurry"]


@dataclass
class Moody(StubPool):
    """A model that never says the same twice, as real ones do."""

    def complete(self, agent: int, messages: Sequence[Message], **settings: Any) -> Reply:
        reply = super().complete(agent, messages, **settings)
        if reply.text.startswith("<idea>"):
            right = self.asked % 3 == 0
            answer = int(read_request(messages).query.split()[2]) + 1 if right else -self.asked
            text = f"<idea>mood {self.asked}\x00\u202e</idea><answer>{answer}</answer>"
            return replace(reply, text=text)
        return replace(reply, text=f"{reply.text} ({self.asked})")


@pytest.fixture
def stage(database_url: str, database: Database, hurry: None) -> Iterator[Stage]:
    made = Stage(database_url, database, pool=Moody())
    yield made
    made.close()


def campaign_of(name: str, reuse: Reuse = Reuse.NEVER, **changes: Any) -> Campaign:
    return tiny_campaign(name=name, answers=AnswersSpec(reuse), **changes)


def play(stage: Stage, campaign: Campaign) -> CampaignId:
    campaign_id = submit(stage.look, campaign)
    assert stage.play(campaign_id) is CampaignState.COMPLETED, (stage.stops, stage.notes.lines[-3:])
    assert stage.escaped == []
    assert irregularities(stage.look, campaign_id) == []
    return campaign_id


def calls(database: Database, campaign: CampaignId) -> list[tuple[Any, ...]]:
    """Return made calls and hits, by llm_call, by the campaign's own count, and by its totals."""
    with database.transaction() as conn:
        rows = query(conn, f"select cache_hit, count(*) from llm_call where campaign_id = {campaign} group by 1")
        ((started,),) = query(conn, f"select calls_started from campaign where id = {campaign}")
        totals = ledger.totals(conn, campaign)
    counted = dict(rows)
    assert started == counted.get(False, 0) == sum(each.calls for each in totals)
    assert counted.get(True, 0) == sum(each.hits for each in totals)
    return [(counted.get(False, 0), counted.get(True, 0))]


def kept(database: Database) -> int:
    with database.transaction() as conn:
        return sum(each.answers for each in replies.tally(conn))


def test_by_default_every_call_is_made_and_nothing_is_kept(stage: Stage) -> None:
    first, second = play(stage, campaign_of("first")), play(stage, campaign_of("second"))
    assert [hits for made in (first, second) for _, hits in calls(stage.look, made)] == [0, 0]
    assert kept(stage.look) == 0
    assert_clean(stage.look)


def test_always_a_second_campaign_comes_to_the_same_for_nothing(stage: Stage) -> None:
    first = play(stage, campaign_of("first", Reuse.ALWAYS))
    made = stage.pool.asked
    second = play(stage, campaign_of("second", Reuse.ALWAYS))
    assert stage.pool.asked == made
    ((before, hits),) = calls(stage.look, first)
    assert before == made
    assert calls(stage.look, second) == [(0, before + hits)]
    with stage.look.transaction() as conn:
        spent = query(conn, f"select tokens_charged, usd_charged from campaign where id = {second}")
        (tally, *_) = replies.tally(conn)
    assert spent == [(0, 0)]
    assert tally.hits > 0
    mine, theirs = (outcome_of(stage.look, campaign) for campaign in (second, first))
    assert (mine.generations, mine.episodes, mine.turns) == (theirs.generations, theirs.episodes, theirs.turns)
    assert_clean(stage.look)


def test_within_a_generation_candidates_share_replies_and_replicates_do_not(stage: Stage) -> None:
    first = play(stage, campaign_of("first", Reuse.WITHIN_GENERATION))
    second = play(stage, campaign_of("second", Reuse.WITHIN_GENERATION))
    ((made, hits),) = calls(stage.look, first)
    assert hits > 0
    assert calls(stage.look, second) != [(0, made + hits)], "another generation"
    with stage.look.transaction() as conn:
        shared = query(
            conn,
            "select l.answer_key, count(distinct e.replicate), count(distinct e.generation_id),"
            " count(distinct t.output)"
            " from llm_call l join episode e on e.id = l.episode_id join turn t on t.episode_id = l.episode_id"
            " and t.attempt = l.attempt and t.number = l.turn group by 1",
        )
    assert {row[1:] for row in shared} == {(1, 1, 1)}
    assert_clean(stage.look)


def test_of_two_replies_to_the_same_the_first_stays(database: Database) -> None:
    campaign = scene(database).campaign
    with database.transaction() as conn:
        given = [Keep(campaign, "key", "gpt", Answer(text, "stop", Usage(3, 2))) for text in ("one\x00\ud800", "two")]
        assert [each.text for each in replies.keep_all(conn, given)] == ["one\x00\ud800", "one\x00\ud800"]
        again = [Keep(campaign, "key", "gpt", Answer("three", "stop", Usage(3, 2)))]
        assert replies.keep_all(conn, again)[0].text == "one\x00\ud800"
        (found,) = replies.export(conn, replies.Choice())
        assert (found.key, found.model, found.answer.usage) == ("key", "gpt", Usage(3, 2))
        assert replies.delete(conn, replies.Choice(older_than_days=1.0)) == 0
        assert replies.delete(conn, replies.Choice(model="gpt", campaign_id=campaign)) == 1


def test_an_empty_reply_is_not_kept(stage: Stage) -> None:
    class Silent(StubPool):
        def complete(self, agent: int, messages: Sequence[Message], **settings: Any) -> Reply:
            return replace(super().complete(agent, messages, **settings), text=" \n")

    stage.runtime.make_pool = lambda campaign: Silent()
    play(stage, campaign_of("silent", Reuse.ALWAYS))
    assert kept(stage.look) == 0


@pytest.mark.parametrize("reuse", list(Reuse))
def test_a_recorded_campaign_plays_back_to_the_bit(stage: Stage, tmp_path: Path, reuse: Reuse) -> None:
    paid = play(stage, campaign_of("paid", reuse))
    playback = recorded(stage, "paid", tmp_path / "pools" / "paid-run.jsonl")
    with stage.look.transaction() as conn:
        replies.delete(conn, replies.Choice())
    stage.runtime.make_pool = lambda campaign: playback
    free = play(stage, campaign_of("free"))
    mine, theirs = (outcome_of(stage.look, campaign) for campaign in (free, paid))
    assert (mine.generations, mine.episodes, mine.turns) == (theirs.generations, theirs.episodes, theirs.turns)
    assert mine.released == theirs.released
    assert len(set(playback.asked)) == len(playback.asked)
    assert_clean(stage.look)


def test_what_was_not_recorded_is_refused_and_the_messages_decide_without_a_label(stage: Stage, tmp_path: Path) -> None:
    play(stage, campaign_of("paid"))
    file = tmp_path / "paid.jsonl"
    playback = recorded(stage, "paid", file)
    with pytest.raises(RefusalError, match="no reply of ada to these messages"):
        playback.complete(0, [Message("user", "never asked")])
    head, first, *_ = file.read_text().splitlines()
    assert json.loads(head)["campaign"] == "paid"
    line = json.loads(first)
    assert line["call"].startswith("g0/")
    again = recorded(stage, "paid", file)
    assert again.models == ("ada", "bob")


@pytest.mark.parametrize("name", ["Paid.jsonl", "paid.json"])
def test_a_recording_needs_the_name_of_a_pool(stage: Stage, tmp_path: Path, name: str) -> None:
    with pytest.raises(SpecError, match="it names the pool"):
        recording.record(stage.look, "any", tmp_path / name)


def test_another_pools_file_is_left_alone(stage: Stage, tmp_path: Path) -> None:
    (tmp_path / "paid.yaml").write_text("kind: simulated\n")
    with pytest.raises(SpecError, match="the file of another pool"):
        recording.record(stage.look, "any", tmp_path / "paid.jsonl")


def test_a_broken_recording_is_named(tmp_path: Path) -> None:
    file = tmp_path / "broken.jsonl"
    pool = RecordedCalls(RecordingPool("broken", ("ada",), file))
    request = ChatRequest("ada", (Message("user", "x"),), None)
    for content, said in (("", "line 1"), ('{"recording": 9}\n', "version 1"), ('{"recording": 1}\n[]\n', "line 2")):
        file.write_text(content)
        with pytest.raises(RefusalError, match=said):
            pool.complete(request)
    file.unlink()
    with pytest.raises(RefusalError, match="cannot be read"):
        pool.complete(request)


def test_a_judges_replies_are_kept_for_the_recording_and_answer_nobody(database: Database) -> None:
    made = scene(database)
    campaign = campaign_of("judged", scoring=ScoringSpec(judge="bob"))
    texts = iter("ab")

    class Judge(StubPool):
        def complete(self, agent: int, messages: Sequence[Message], **settings: Any) -> Reply:
            return Reply(next(texts), "stop", Usage(3, 2), 0.0)

    with Writer(database, 60.0, logs.logger("test")) as writer:
        for place in range(2):
            claim = made.claim(place, owner=f"w{place}")
            lease = Lease(claim, 60.0, time.monotonic())
            calls = MeteredCalls(writer, Judge(), campaign, lease, time.monotonic() + 60.0, RetryPolicy())
            calls(turn=1, agent=1, role=CallRole.JUDGE, messages=[Message("user", "Rate it.")])
            writer.do(Score(claim, graded(1.0), "turn_limit", ()))
    with database.transaction() as conn:
        found = [(each.call, each.output) for each in storage_recording.calls(conn, made.campaign)]
    assert found == [("g0/sample0/training0/t1", "a"), ("g0/sample0/training1/t1", "b")]


def test_a_recording_is_served_over_http(stage: Stage, tmp_path: Path) -> None:
    play(stage, campaign_of("paid"))
    file = tmp_path / "paid.jsonl"
    recorded(stage, "paid", file)
    lines = [json.loads(line) for line in file.read_text().splitlines()[1:]]
    digests = Counter((line["model"], line["asked"]) for line in lines)
    assert max(digests.values()) > 1, "some calls ask the same and were answered otherwise"
    wanted = next(
        line for line in reversed(lines) if digests[line["model"], line["asked"]] > 1 and "t1" in line["call"]
    )
    messages = _messages_of(stage, wanted["asked"])
    with serving(pool_file.load(file.with_suffix(".yaml"))) as client:
        client.connection.request(
            "POST",
            "/paid/v1/chat/completions",
            json.dumps({"model": wanted["model"], "messages": messages}),
            {CALL_HEADER: wanted["call"]},
        )
        told = json.loads(client.connection.getresponse().read())
        _, untold = client.post(model=wanted["model"], messages=messages)
    assert told["choices"][0]["message"]["content"] == wanted["text"]
    first = next(line for line in lines if (line["model"], line["asked"]) == (wanted["model"], wanted["asked"]))
    assert untold["choices"][0]["message"]["content"] == first["text"] != wanted["text"]


def _messages_of(stage: Stage, asked: str) -> list[dict[str, str]]:
    """Find the messages behind a digest among the first turns of every problem."""
    with stage.look.transaction() as conn:
        questions = [question for (question,) in query(conn, "select distinct question from problem")]
    for question in questions:
        for role in (Role.WORKER, Role.THINKER):
            messages = messages_for(role, Transcript(question), tiny_campaign().protocol)
            if messages_digest(messages) == asked:
                return [{"role": each.role, "content": each.content} for each in messages]
    raise AssertionError("no first turn")
