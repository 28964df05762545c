"""The simulated pools over real HTTP: rates, faults, the protocol's edges."""

from __future__ import annotations

import http.client
import json
import math
import time
from collections.abc import Sequence
from dataclasses import replace

import pytest
import reasoning_gym

from services.core.campaign import ProtocolSpec
from services.core.families import FAMILIES
from services.core.local_pool import Faults, Latency, LocalPool, SimulatedModel, SimulatedPool, Skill
from services.core.problem import ScorerKind
from services.core.protocol.answers import parse_thinker, parse_worker
from services.core.protocol.prompts import messages_for
from services.core.protocol.roles import Role, RoleSource
from services.core.protocol.transcript import Item, Transcript
from services.core.protocol.verdict import Verdict, parse_verdict
from services.core.scoring.scorer import agree
from services.pool.local.server import LocalPoolServer, UnavailablePool
from services.pool.local.wire import CALL_HEADER
from tests.support.local_pools import SUM, Client, serving, simulated, worked

SPEC = ProtocolSpec()


def planned(query: str, plan: str) -> Transcript:
    return Transcript(query, (Item(1, 0, Role.THINKER, RoleSource.POLICY, "", plan),))


def problems(family: str, size: int) -> list[tuple[str, str]]:
    dataset = reasoning_gym.create_dataset(family, size=size, seed=5, **FAMILIES[family].config)
    return [(problem["question"], problem["answer"]) for problem in dataset]


def assert_rate(hits: Sequence[bool], rate: float) -> None:
    """Fail when the observed rate is more than four standard errors off: once in 16,000 honest draws."""
    tolerance = 4 * math.sqrt(max(rate * (1 - rate), 1e-9) / len(hits))
    assert abs(sum(hits) / len(hits) - rate) <= tolerance, (sum(hits), len(hits), rate)


def _labelled(client: Client, question: str, sample: str) -> str:
    messages = [{"role": m.role, "content": m.content} for m in messages_for(Role.WORKER, Transcript(question), SPEC)]
    body = json.dumps({"model": "able", "messages": messages})
    headers = {CALL_HEADER: f"g0/rival2/evaluation0/t2{sample}"}
    client.connection.request("POST", "/sim/v1/chat/completions", body, headers)
    return str(json.loads(client.connection.getresponse().read())["choices"][0]["message"]["content"])


class TestSimulated:
    @pytest.mark.parametrize("family", ["chain_sum", "letter_counting", "spell_backward", "number_sorting"])
    def test_a_worker_is_right_as_often_as_its_skill_says(self, family: str) -> None:
        scorer = FAMILIES[family].scorer
        with serving(simulated(Skill(0.7, 0.5, 0.5))) as client:
            hits = []
            for question, answer in problems(family, 300):
                _, given = parse_worker(client.text("able", Role.WORKER, Transcript(question)))
                assert given is not None
                hits.append(agree(scorer, given, answer))

        assert_rate(hits, 0.7)

    def test_a_label_may_ask_for_another_sample(self) -> None:
        with serving(simulated(Skill(0.5, 0.5, 0.5))) as client:
            questions = [question for question, _ in problems("chain_sum", 40)]
            said = [[_labelled(client, question, sample) for sample in ("", "#1", "#1")] for question in questions]

        assert all(second == again for _, second, again in said)
        assert 10 < sum(first != second for first, second, _ in said) < 40

    def test_skills_are_per_family(self) -> None:
        model = SimulatedModel("able", {"chain_sum": Skill(1.0, 0.0, 0.0)}, Skill(0.0, 0.0, 0.0))
        with serving(SimulatedPool("sim", 1, (model,))) as client:
            for family, right in (("chain_sum", True), ("products", False)):
                for question, answer in problems(family, 20):
                    _, given = parse_worker(client.text("able", Role.WORKER, Transcript(question)))
                    assert agree(ScorerKind.NUMERIC, given, answer) is right

    @pytest.mark.parametrize(("gain", "rate"), [(0.0, 0.4), (0.5, 0.7), (1.0, 1.0)])
    def test_a_helpful_plan_raises_a_worker(self, gain: float, rate: float) -> None:
        plan = FAMILIES["chain_sum"].method
        with serving(simulated(Skill(0.4, 0.5, 0.5), plan_gain=gain)) as client:
            hits = [
                agree(
                    ScorerKind.NUMERIC,
                    parse_worker(client.text("able", Role.WORKER, planned(question, plan)))[1],
                    answer,
                )
                for question, answer in problems("chain_sum", 300)
            ]

        assert_rate(hits, rate)

    def test_an_empty_or_foreign_plan_changes_nothing(self) -> None:
        with serving(simulated(Skill(0.4, 0.5, 0.5), plan_gain=1.0)) as client:
            for question, _ in problems("chain_sum", 40):
                plain = client.text("able", Role.WORKER, Transcript(question))
                assert client.text("able", Role.WORKER, planned(question, "Guess.")) == plain
                assert client.text("able", Role.WORKER, planned(question, FAMILIES["gcd"].method)) == plain

    def test_a_thinker_helps_as_often_as_its_skill_says(self) -> None:
        with serving(simulated(Skill(0.5, 0.6, 0.5))) as client:
            hits = []
            for question, answer in problems("products", 300):
                plan, role = parse_thinker(client.text("able", Role.THINKER, Transcript(question)))
                assert role is Role.WORKER
                assert answer not in plan
                hits.append(plan == FAMILIES["products"].method)

        assert_rate(hits, 0.6)

    @pytest.mark.parametrize("right", [True, False])
    def test_a_verifier_judges_as_its_skill_says(self, right: bool) -> None:
        with serving(simulated(Skill(0.5, 0.5, 0.8))) as client:
            hits = []
            for question, answer in problems("gcd", 300):
                given = answer if right else str(int(answer) + 1)
                verdict, diagnosis = parse_verdict(client.text("able", Role.VERIFIER, worked(question, given)))
                assert answer not in diagnosis
                hits.append((verdict is Verdict.ACCEPT) is right)

        assert_rate(hits, 0.8)

    def test_no_answer_is_never_accepted(self) -> None:
        with serving(simulated(Skill(0.5, 0.5, 0.0))) as client:
            for question, _ in problems("gcd", 20):
                verdict, _ = parse_verdict(client.text("able", Role.VERIFIER, worked(question, None)))
                assert verdict is Verdict.REVISE

    def test_a_further_worker_turn_draws_anew(self) -> None:
        with serving(simulated(Skill(0.5, 0.5, 0.5))) as client:
            changed = [
                client.text("able", Role.WORKER, Transcript(question))
                != client.text("able", Role.WORKER, worked(question, "0"))
                for question, _ in problems("chain_sum", 200)
            ]

        # right then wrong, wrong then right, or another near miss: 1/4 + 1/4 + 1/4 * 2/3
        assert_rate(changed, 2 / 3)

    def test_replies_depend_on_the_seed_and_nothing_else(self) -> None:
        questions = [question for question, _ in problems("chain_sum", 60)]

        def replies(pool: SimulatedPool) -> list[str]:
            with serving(pool) as client:
                return [client.text("able", Role.WORKER, Transcript(question)) for question in questions]

        pool = simulated(Skill(0.5, 0.5, 0.5))
        first = replies(pool)
        assert replies(pool) == first
        assert replies(replace(pool, latency=Latency(1.0, 1.0))) == first
        assert replies(replace(pool, seed=2)) != first

    def test_right_replies_of_all_models_read_alike(self) -> None:
        models = tuple(SimulatedModel(name, {}, Skill(1.0, 1.0, 1.0)) for name in ("a", "b"))
        with serving(SimulatedPool("sim", 1, models)) as client:
            for role, transcript in ((Role.WORKER, Transcript(SUM)), (Role.VERIFIER, worked(SUM, "-4"))):
                assert client.text("a", role, transcript) == client.text("b", role, transcript)


class TestFaults:
    def test_come_at_their_rates_and_change_no_reply(self) -> None:
        faults = Faults(rate_limited=0.2, server_error=0.2, malformed=0.2, retry_after_seconds=1.5)
        with serving(simulated(Skill(1, 1, 1), faults=faults)) as client:
            kinds = []
            for _ in range(400):
                status, body = client.ask("able", Role.WORKER, Transcript(SUM))
                kinds.append("malformed" if isinstance(body, bytes) else str(status))
                if status == 429:
                    assert client.headers["retry-after"] == "1.5"
                if kinds[-1] == "200":
                    assert "<answer>-4</answer>" in body["choices"][0]["message"]["content"]

        for kind, rate in {"429": 0.2, "500": 0.2, "malformed": 0.2, "200": 0.4}.items():
            assert_rate([kind == seen for seen in kinds], rate)

    def test_a_hanging_request_gets_no_reply(self) -> None:
        with serving(simulated(Skill(1, 1, 1), faults=Faults(hang=1.0, hang_seconds=0.2))) as client:
            started = time.monotonic()
            with pytest.raises(http.client.RemoteDisconnected):
                client.ask("able", Role.WORKER, Transcript(SUM))

        assert time.monotonic() - started >= 0.2

    def test_stopping_ends_hanging_requests(self) -> None:
        server = LocalPoolServer([simulated(Skill(1, 1, 1), faults=Faults(hang=1.0, hang_seconds=600.0))], port=0)
        client = Client(server.start(), "sim")
        messages = [{"role": "user", "content": "x"}]
        client.connection.request(
            "POST", "/sim/v1/chat/completions", json.dumps({"model": "able", "messages": messages})
        )

        server.stop()

        with pytest.raises((http.client.RemoteDisconnected, ConnectionError)):
            client.connection.getresponse()
        client.connection.close()

    def test_latency_is_waited_for(self) -> None:
        with serving(simulated(Skill(1, 1, 1), latency=Latency(mean_ms=150.0, jitter_ms=50.0))) as client:
            started = time.monotonic()
            client.text("able", Role.WORKER, Transcript(SUM))

        assert time.monotonic() - started >= 0.1

    def test_a_reply_leaves_in_one_packet(self) -> None:
        with serving(simulated(Skill(1, 1, 1))) as client:
            client.text("able", Role.WORKER, Transcript(SUM))
            started = time.monotonic()
            for _ in range(50):
                client.text("able", Role.WORKER, Transcript(SUM))

        assert time.monotonic() - started < 50 * 0.040  # what delayed acknowledgements alone would take


class TestProtocol:
    @pytest.mark.parametrize(
        ("body", "status", "said"),
        [
            (b"{", 400, "no JSON"),
            (b"[]", 400, "'model'"),
            (b'{"model": "able"}', 400, "messages"),
            (b'{"model": "able", "messages": [{"role": "user"}]}', 400, "messages[0]"),
            (b'{"model": "able", "messages": [{"role": "user", "content": "hi"}]}', 400, "no role prompt"),
            (b'{"model": "other", "messages": [{"role": "user", "content": "hi"}]}', 404, "it has able"),
            (b'{"model": "able", "stream": true, "messages": [{"role": "user", "content": "hi"}]}', 400, "stream"),
            (b'{"model": "able", "max_tokens": 0, "messages": [{"role": "user", "content": "hi"}]}', 400, "max_tokens"),
        ],
    )
    def test_wrong_requests_get_a_sentence(self, body: bytes, status: int, said: str) -> None:
        with serving(simulated(Skill(1, 1, 1))) as client:
            got, answer = client.send("POST", "/sim/v1/chat/completions", body)

            assert got == status
            assert said in answer["error"]["message"]
            assert client.text("able", Role.WORKER, Transcript(SUM))  # the connection still serves

    def test_questions_of_no_family_are_refused(self) -> None:
        with serving(simulated(Skill(1, 1, 1))) as client:
            status, answer = client.ask("able", Role.WORKER, Transcript("Who wrote Faust?"))

        assert status == 400
        assert "Who wrote Faust?" in answer["error"]["message"]

    def test_models_health_and_unknown_addresses(self) -> None:
        with serving(simulated(Skill(1, 1, 1))) as client:
            assert client.send("GET", "/healthz") == (200, {"pools": {"sim": "ready"}})
            status, models = client.send("GET", "/sim/v1/models")
            assert (status, [model["id"] for model in models["data"]]) == (200, ["able"])
            for path in ("/", "/sim", "/other/v1/models", "/sim/v1/chat/completions"):
                assert client.send("GET", path)[0] == 404

    def test_usage_and_cut(self) -> None:
        with serving(simulated(Skill(1, 1, 1))) as client:
            _, whole = client.ask("able", Role.WORKER, Transcript(SUM))
            _, cut = client.ask("able", Role.WORKER, Transcript(SUM), max_tokens=3)

        text = whole["choices"][0]["message"]["content"]
        assert whole["usage"]["completion_tokens"] == math.ceil(len(text) / 4)
        assert cut["choices"][0] == {
            "index": 0,
            "message": {"role": "assistant", "content": text[:12]},
            "finish_reason": "length",
        }
        assert cut["usage"]["completion_tokens"] == 3

    def test_a_new_or_mended_pool_needs_no_restart(self) -> None:
        files: dict[str, LocalPool | UnavailablePool] = {}
        with LocalPoolServer([UnavailablePool("sim", "line 3 is wrong")], port=0, find=files.get) as url:
            client = Client(url, "sim")
            try:
                statuses = [client.ask("able", Role.WORKER, Transcript(SUM))[0]]
                files["sim"] = UnavailablePool("sim", "line 4 is wrong")
                statuses.append(client.ask("able", Role.WORKER, Transcript(SUM))[0])
                files["sim"] = simulated(Skill(1, 1, 1))
                statuses.append(client.ask("able", Role.WORKER, Transcript(SUM))[0])
                assert statuses == [503, 503, 200]
                assert client.send("GET", "/late/v1/models")[0] == 404
                files["late"] = replace(simulated(Skill(1, 1, 1)), name="late")
                assert client.send("GET", "/late/v1/models")[0] == 200
                assert client.send("GET", "/healthz")[1] == {"pools": {"sim": "ready", "late": "ready"}}
            finally:
                client.connection.close()

    def test_an_unavailable_pool_says_why(self) -> None:
        with serving(UnavailablePool("broken", "line 3 is wrong")) as client:
            status, answer = client.ask("able", Role.WORKER, Transcript(SUM))

            assert status == 503
            assert "line 3 is wrong" in answer["error"]["message"]
            assert client.send("GET", "/healthz")[1] == {"pools": {"broken": "line 3 is wrong"}}
