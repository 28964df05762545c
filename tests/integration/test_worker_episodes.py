"""One episode through the real worker code: real Postgres, a tiny language model, a scripted provider over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from services.core.campaign import BudgetLimits, Campaign, EncoderSpec, ModelSpec, ProtocolSpec
from services.core.ids import EpisodeId
from services.core.protocol.roles import Role
from services.core.states import CampaignState
from services.encoder.coordinator import EncoderService
from services.pool.litellm_client import LitellmPool
from services.queue.app import make_app
from services.queue.names import EPISODE_TASK
from services.storage import campaign_states
from services.storage.engine import Database
from services.telemetry import logs
from tests.support.campaigns import PRICE, small_campaign
from tests.support.provider import ScriptedProvider, error, reply
from tests.support.tiny_qwen3 import build_tiny_qwen3
from tests.support.worker import Bench, bench_of
from worker.tasks import register

pytestmark = pytest.mark.usefixtures("ends_clean")

ANSWER = "<idea>counted</idea><answer>1</answer>"


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_qwen3(tmp_path_factory.mktemp("encoder") / "tiny")


Opener = Callable[..., Any]


@pytest.fixture
def bench(database: Database, encoder: Path, tmp_path: Path) -> Opener:
    @contextmanager
    def opened(
        provider: ScriptedProvider, before_call: Callable[[], object] = lambda: None, **changes: Any
    ) -> Iterator[Bench]:
        models = tuple(ModelSpec(name, f"openai/{name}", PRICE, base_url=provider.url) for name in ("ada", "bob"))
        protocol = ProtocolSpec(roles=(Role.WORKER,), max_turns=1, max_output_tokens=64)
        campaign = small_campaign(pool=models, encoder=EncoderSpec(str(encoder)), hidden_size=32, protocol=protocol)

        def make_pool(campaign: Campaign) -> LitellmPool:
            before_call()
            return LitellmPool(campaign.pool)

        changed = replace(campaign, **changes)
        with EncoderService(tmp_path) as encoders, bench_of(database, changed, encoders, make_pool) as rows:
            yield rows

    return opened


def test_a_played_episode_is_scored_with_its_turns_and_its_cost(bench: Opener) -> None:
    with ScriptedProvider(reply(ANSWER)) as provider, bench(provider) as at:
        at.run()
        state, reward, attempt, _ = at.episode()
        assert (state, attempt) == ("scored", 1)
        assert reward in (0.0, 1.0)
        turns = at.query("SELECT count(*) FROM turn")[0][0]
        calls = at.query("SELECT state, prompt_tokens, completion_tokens, cost_usd FROM llm_call")
        assert turns == 1
        assert len(calls) == len(provider.requests)
        cost = (11 * PRICE.input_per_million + 3 * PRICE.output_per_million) / 1_000_000
        assert all(call == ("settled", 11, 3, cost) for call in calls)
        spend = at.campaign().spend
        assert (spend.usd_charged, spend.usd_reserved) == (cost * len(calls), Decimal(0))


def test_running_an_episode_again_does_nothing(bench: Opener) -> None:
    with ScriptedProvider(reply(ANSWER)) as provider, bench(provider) as at:
        at.run()
        asked, before = len(provider.requests), at.episode()
        at.run()
        assert at.episode() == before
        assert len(provider.requests) == asked


def test_the_same_episode_plays_the_same_in_another_attempt(bench: Opener) -> None:
    with ScriptedProvider(error(500), error(500), reply(ANSWER)) as provider, bench(provider) as at:
        at.run()
        assert at.episode()[:3] == ("pending", None, 1)
        first = [call["model"] for call in (request.body for request in provider.requests)]
        with at.database.transaction() as conn:
            conn.exec_driver_sql("UPDATE episode SET available_at = now()")
        at.run()
        assert at.episode()[0] == "scored"
        assert provider.requests[2].body["messages"] == provider.requests[0].body["messages"]
        assert first == [provider.requests[2].body["model"]] * 2


def test_an_outage_is_a_failed_attempt_and_never_a_reward(bench: Opener) -> None:
    with ScriptedProvider(error(503)) as provider, bench(provider) as at:
        at.run()
        assert at.episode()[:3] == ("pending", None, 1)
        with at.database.transaction() as conn:
            conn.exec_driver_sql("UPDATE episode SET available_at = now()")
        at.run()
        assert at.episode() == ("failed", None, 2, "ProviderUnavailable")
        assert len(provider.requests) == 4, "two tries in each of two attempts"
        assert at.campaign().spend.usd_reserved == 0


def test_a_refused_key_is_not_tried_again(bench: Opener) -> None:
    with ScriptedProvider(error(401)) as provider, bench(provider) as at:
        at.run()
        assert at.episode() == ("failed", None, 1, "AuthenticationFailed")
        assert len(provider.requests) == 1


def test_a_call_that_does_not_fit_the_budget_is_not_made(bench: Opener) -> None:
    limits = BudgetLimits(episodes=1000, usd=Decimal("0.000001"))
    with ScriptedProvider(reply(ANSWER)) as provider, bench(provider, budget=limits) as at:
        at.run()
        assert provider.requests == []
        assert at.episode()[:2] == ("pending", None)
        campaign = at.campaign()
        assert campaign.state is CampaignState.BUDGET_EXHAUSTED
        assert campaign.stop_reason is not None
        assert campaign.stop_reason.startswith("budget of USD exhausted")
        assert at.query("SELECT count(*) FROM event WHERE type = 'budget.exhausted'") == [(1,)]


def test_a_paused_campaign_gets_its_episode_back(bench: Opener, database: Database) -> None:
    def pause() -> None:
        with database.transaction() as conn:
            (campaign_id,) = conn.exec_driver_sql("SELECT id FROM campaign").scalars()
            campaign_states.pause(conn, campaign_id, "by hand")

    with ScriptedProvider(reply(ANSWER)) as provider, bench(provider, pause) as at:
        at.run()
        assert provider.requests == []
        assert at.episode()[:2] == ("pending", None)
        assert at.query("SELECT outcome FROM attempt") == [("returned",)]


def test_a_stopping_worker_takes_nothing_and_hands_back_what_it_has(bench: Opener) -> None:
    with ScriptedProvider(reply(ANSWER)) as provider, bench(provider) as at:
        at.runtime.stopping.set()
        at.run()
        assert at.episode()[:3] == ("pending", None, 0)


def test_a_lost_lease_is_not_counted(bench: Opener, database: Database) -> None:
    def lose() -> None:
        with database.transaction() as conn:
            conn.exec_driver_sql("UPDATE episode SET lease_owner = 'another' WHERE state = 'running'")

    with ScriptedProvider(reply(ANSWER)) as provider, bench(provider, lose) as at:
        at.run()
        assert provider.requests == [], "no call starts for an attempt that is lost"
        assert at.episode()[:2] == ("running", None)


def test_a_model_of_another_size_is_an_error_that_names_the_field(bench: Opener) -> None:
    with ScriptedProvider(reply(ANSWER)) as provider, bench(provider, hidden_size=16) as at:
        at.run()
        assert at.episode() == ("failed", None, 1, "SpecError")
        detail = at.query("SELECT failure_detail FROM episode WHERE state = 'failed'")[0][0]
        assert "encoder.hidden_size" in detail


@pytest.mark.parametrize("kwargs", [{"version": 9, "episode_id": 1}, {"version": 1}, {}])
def test_a_message_it_cannot_read_is_dropped(kwargs: dict[str, int]) -> None:
    ran: list[EpisodeId] = []
    app = make_app("redis://127.0.0.1:1/0")
    register(app, ran.append, logs.logger("test"))
    app.tasks[EPISODE_TASK](**kwargs)
    assert ran == []
    app.close()
