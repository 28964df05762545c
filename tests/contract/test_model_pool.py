"""The contract of a model pool: litellm's wall in front of the simulated pool, the replay pool and a scripted provider.

Every test counts requests where it can: one call is one request, whatever happens to it.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from services.core.errors import (
    AuthenticationFailed,
    BadReply,
    CallTimedOut,
    ContentRefused,
    ContextTooLong,
    NetworkFailed,
    PoolError,
    ProviderUnavailable,
    RateLimited,
    RequestRejected,
    UnknownModel,
)
from services.core.local_pool import Recordings, ReplayPool, SimulatedModel, SimulatedPool, Skill
from services.core.problem import ScorerKind
from services.pool.litellm_client import LitellmPool
from services.pool.local.server import LocalPoolServer
from tests.support.local_pools import SUM
from tests.support.model_pool import ProviderOf, ask, model
from tests.support.provider import ScriptedProvider, Step, completion, error, hang, raw, reply


def simulated_url() -> Iterator[str]:
    able = SimulatedModel("able", {}, Skill(1.0, 1.0, 1.0))
    with LocalPoolServer([SimulatedPool("sim", 1, (able,))], port=0) as url:
        yield f"{url}/sim/v1"


def replay_url(folder: Path) -> Iterator[str]:
    file = folder / "recorded.jsonl"
    row = {"id": "1", "question": SUM, "responses": {"able": {"answer": "-4"}}}
    file.write_text(json.dumps(row) + "\n")
    recordings = Recordings((file,), answer="responses.*.answer", scorer=ScorerKind.NUMERIC)
    with LocalPoolServer([ReplayPool("rec", ("able",), (recordings,))], port=0) as url:
        yield f"{url}/rec/v1"


def scripted(request: Any) -> Step:
    if request.body["model"] != "able":
        return error(404, "no such model", "model_not_found")
    if request.body["max_tokens"] < 5:
        return reply("<idea>wor", "length")
    return reply("<idea>worked</idea><answer>-4</answer>")


def scripted_url() -> Iterator[str]:
    with ScriptedProvider(scripted) as provider:
        yield provider.url


@pytest.fixture(params=["simulated", "replay", "scripted"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    match request.param:
        case "simulated":
            yield from simulated_url()
        case "replay":
            yield from replay_url(tmp_path)
        case _:
            yield from scripted_url()


class TestEveryPool:
    def test_a_worker_answers(self, url: str) -> None:
        answer = ask(LitellmPool([model(url)]))

        assert "<answer>-4</answer>" in answer.text
        assert answer.finish_reason == "stop"
        assert answer.usage.prompt_tokens > 0
        assert answer.usage.completion_tokens > 0
        assert not answer.usage.estimated
        assert 0 < answer.latency_seconds < 20

    def test_the_same_request_gets_the_same_text(self, url: str) -> None:
        pool = LitellmPool([model(url)])

        assert ask(pool).text == ask(pool).text

    def test_agents_are_told_apart_by_index(self, url: str) -> None:
        pool = LitellmPool([model(url), model(url, "nobody")])

        assert ask(pool, 0).text
        with pytest.raises(UnknownModel, match="nobody"):
            ask(pool, 1)

    def test_many_threads_share_one_pool(self, url: str) -> None:
        pool = LitellmPool([model(url)])
        with ThreadPoolExecutor(16) as threads:
            texts = set(threads.map(lambda _: ask(pool).text, range(64)))

        assert len(texts) == 1

    def test_a_short_bound_cuts_the_reply_and_says_so(self, url: str) -> None:
        answer = ask(LitellmPool([model(url)]), max_output_tokens=2)

        assert answer.finish_reason == "length"
        assert len(answer.text) < 12

    def test_local_addresses_are_resolved(self, url: str) -> None:
        pool = LitellmPool([model("local:anything")], lambda base_url: url if base_url == "local:anything" else None)

        assert ask(pool).text


FAILURES: list[tuple[str, Step, type[PoolError], bool]] = [
    ("500", error(500), ProviderUnavailable, False),
    ("502 html", raw(b"<html>bad gateway</html>", "text/html", status=502), ProviderUnavailable, False),
    ("503", error(503), ProviderUnavailable, False),
    ("503 with wait", error(503, retry_after="3"), RateLimited, False),
    ("504", error(504), ProviderUnavailable, True),
    ("529", error(529, "overloaded"), ProviderUnavailable, False),
    ("429", error(429), RateLimited, False),
    ("429 no credit", error(429, "quota", "insufficient_quota"), AuthenticationFailed, False),
    ("402", error(402), AuthenticationFailed, False),
    ("401", error(401), AuthenticationFailed, False),
    ("403", error(403), AuthenticationFailed, False),
    ("404", error(404, "no such model"), UnknownModel, False),
    ("413", error(413), ContextTooLong, False),
    (
        "context 1",
        error(400, "maximum context length is 8192 tokens", "context_length_exceeded"),
        ContextTooLong,
        False,
    ),
    ("context 2", error(400, "prompt is too long: 9000 tokens > 8000 maximum"), ContextTooLong, False),
    ("context 3", error(400, "input length and max_tokens exceed context limit"), ContextTooLong, False),
    ("context 4", error(400, "Requested 9,000 input tokens exceeds the limit of this endpoint"), ContextTooLong, False),
    ("filter", error(400, "the prompt was flagged by our content policy"), ContentRefused, False),
    ("filter 2", error(400, "Blocked by Responsible AI practices"), ContentRefused, False),
    ("400", error(400, "nope"), RequestRejected, False),
    ("422", error(422, "nope"), RequestRejected, False),
    ("output limit", error(400, "max_tokens: 9000 exceeds the 4096 output tokens allowed"), RequestRejected, False),
    ("redirect", Step(302, headers={"Location": "http://127.0.0.1:9/elsewhere"}), RequestRejected, False),
    ("html", raw(b"<html>hello</html>", "text/html"), BadReply, True),
    ("empty body", raw(b""), BadReply, True),
    ("half json", raw(b'{"id": "x", "choi'), BadReply, True),
    ("a list", raw(b"[1, 2]"), BadReply, True),
    ("an error with 200", raw(b'{"error": {"message": "backend down"}}'), BadReply, True),
    ("no choices key", raw(json.dumps(completion(choices=...)).encode()), BadReply, True),
    ("null choices", raw(json.dumps(completion(choices=None)).encode()), BadReply, True),
    ("empty choices", raw(json.dumps(completion(choices=[])).encode()), BadReply, True),
    (
        "no message",
        raw(json.dumps(completion(choices=[{"index": 0, "finish_reason": "stop"}])).encode()),
        BadReply,
        True,
    ),
    ("body cut off", raw(json.dumps(completion()).encode(), cut=True), NetworkFailed, True),
    ("closed without a word", hang(0.01), NetworkFailed, True),
]


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
class TestFailures:
    @pytest.mark.usefixtures("either_way")
    @pytest.mark.parametrize(("step", "kind", "billed"), [f[1:] for f in FAILURES], ids=[f[0] for f in FAILURES])
    def test_is_one_request_and_one_typed_error(
        self, provider_of: ProviderOf, step: Step, kind: type[PoolError], billed: bool
    ) -> None:
        provider = provider_of(step)

        with pytest.raises(PoolError) as caught:
            ask(LitellmPool([model(provider.url)]))

        assert type(caught.value) is kind, caught.value
        assert caught.value.billed_unknown is billed
        assert str(caught.value).startswith("able: ")
        assert len(provider.requests) == 1

    @pytest.mark.parametrize(("header", "seconds"), [("7", 7.0), ("0.25", 0.25), ("soon", None), ("nan", None)])
    def test_the_wait_asked_for_is_on_the_error(
        self, provider_of: ProviderOf, header: str, seconds: float | None
    ) -> None:
        provider = provider_of(error(429, retry_after=header))

        with pytest.raises(RateLimited) as caught:
            ask(LitellmPool([model(provider.url)]))

        assert caught.value.retry_after_seconds == seconds

    def test_nobody_there(self) -> None:
        with ScriptedProvider(reply()) as provider:
            url = provider.url

        with pytest.raises(NetworkFailed) as caught:
            ask(LitellmPool([model(url)]))

        assert not caught.value.billed_unknown

    @pytest.mark.parametrize(
        "step",
        [
            hang(),
            Step(200, json.dumps(completion()).encode(), {"Content-Type": "application/json"}, drip_seconds=0.1),
            Step(200, json.dumps(completion()).encode(), delay_seconds=30),
        ],
        ids=["silence", "one byte at a time", "late"],
    )
    def test_the_deadline_holds(self, provider_of: ProviderOf, step: Step) -> None:
        provider = provider_of(step)
        pool = LitellmPool([model(provider.url)])
        started = time.monotonic()

        with pytest.raises(CallTimedOut) as caught:
            ask(pool, timeout_seconds=1.0)

        assert time.monotonic() - started < 1.0 + 1.5  # the machine is shared; the design's bound is half a second
        assert caught.value.billed_unknown
        assert len(provider.requests) == 1

    def test_a_timed_out_call_closes_its_connection(self, provider_of: ProviderOf) -> None:
        provider = provider_of(hang())

        with pytest.raises(CallTimedOut):
            ask(LitellmPool([model(provider.url)]), timeout_seconds=0.5)

        assert provider.hung_up.wait(10)

    def test_a_pool_is_whole_after_a_failure(self, provider_of: ProviderOf) -> None:
        provider = provider_of(hang(), raw(json.dumps(completion()).encode(), cut=True), error(500), reply("fine"))
        pool = LitellmPool([model(provider.url)])
        for _ in range(3):
            with pytest.raises(PoolError):
                ask(pool, timeout_seconds=0.5)

        assert ask(pool).text == "fine"


def test_sixteen_hanging_calls_do_not_hold_up_a_seventeenth(
    provider_of: ProviderOf,
) -> None:
    slow, fast = provider_of(hang()), provider_of(reply("fine"))
    pool = LitellmPool([model(slow.url), model(fast.url)])
    started = threading.Barrier(17)

    def hanging(_: int) -> None:
        started.wait()
        with pytest.raises(CallTimedOut):
            ask(pool, 0, timeout_seconds=3.0)

    with ThreadPoolExecutor(16) as threads:
        calls = [threads.submit(hanging, number) for number in range(16)]
        started.wait()
        assert ask(pool, 1, timeout_seconds=20.0).text == "fine"
        for call in calls:
            call.result()
