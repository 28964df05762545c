"""What a model call sends, and that keys go nowhere else."""

from __future__ import annotations

import pytest

from services.core.errors import AuthenticationFailed, PoolError, SpecError
from services.pool.litellm_client import LitellmPool
from tests.support.model_pool import MESSAGES, ProviderOf, ask, model
from tests.support.provider import error, reply

KEY = "sk-canary-0123456789"


@pytest.mark.usefixtures("either_way")
class TestRequest:
    def test_carries_what_was_asked_and_nothing_else(self, provider_of: ProviderOf) -> None:
        provider = provider_of(reply())
        pool = LitellmPool([model(provider.url, options={"top_p": 0.5})])

        ask(pool, max_output_tokens=9, temperature=0.3)

        assert provider.requests[0].path == "/v1/chat/completions"
        assert provider.requests[0].body == {
            "model": "able",
            "messages": [{"role": m.role, "content": m.content} for m in MESSAGES],
            "max_tokens": 9,
            "temperature": 0.3,
            "top_p": 0.5,
        }

    def test_options_may_set_the_temperature(self, provider_of: ProviderOf) -> None:
        provider = provider_of(reply())

        ask(LitellmPool([model(provider.url, options={"temperature": 1.0})]))

        assert provider.requests[0].body["temperature"] == 1.0

    @pytest.mark.parametrize("option", ["num_retries", "stream", "api_key", "max_tokens", "fallbacks", "mock_response"])
    def test_options_may_not_undo_the_ledger(self, option: str) -> None:
        with pytest.raises(SpecError, match=rf"pool\.able\.options\.{option}"):
            LitellmPool([model(None, options={option: 3})])

    def test_connections_are_reused(self, provider_of: ProviderOf) -> None:
        provider = provider_of(reply())
        pool = LitellmPool([model(provider.url)])
        for seconds in (5.0, 6.0, 7.5):
            ask(pool, timeout_seconds=seconds)

        assert provider.connections == 1


class TestKeys:
    def test_are_read_by_name_at_every_call(self, provider_of: ProviderOf) -> None:
        provider = provider_of(reply())
        environment = {"ABLE_KEY": KEY}
        pool = LitellmPool([model(provider.url, api_key_env="ABLE_KEY")], environment=environment)
        ask(pool)
        environment["ABLE_KEY"] = "sk-other-987654321"
        ask(pool)

        keys = [request.headers["authorization"] for request in provider.requests]
        assert keys == [f"Bearer {KEY}", "Bearer sk-other-987654321"]

    @pytest.mark.parametrize("environment", [{}, {"ABLE_KEY": " "}], ids=["unset", "blank"])
    def test_a_missing_one_names_its_variable(self, provider_of: ProviderOf, environment: dict[str, str]) -> None:
        provider = provider_of(reply())

        with pytest.raises(AuthenticationFailed, match="ABLE_KEY"):
            ask(LitellmPool([model(provider.url, api_key_env="ABLE_KEY")], environment=environment))

        assert not provider.requests

    def test_the_environments_own_key_goes_to_no_other_address(
        self, provider_of: ProviderOf, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        provider = provider_of(reply())

        ask(LitellmPool([model(provider.url)]))

        assert KEY not in str(provider.requests[0].headers)

    @pytest.mark.usefixtures("either_way")
    @pytest.mark.parametrize("status", [400, 401, 404, 429, 500])
    def test_are_in_no_error(
        self,
        provider_of: ProviderOf,
        status: int,
        caplog: pytest.LogCaptureFixture,
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        provider = provider_of(error(status, f"Incorrect API key provided: {KEY}, 'Bearer {KEY}'"))
        pool = LitellmPool([model(provider.url, api_key_env="ABLE_KEY")], environment={"ABLE_KEY": KEY})

        with pytest.raises(PoolError) as caught:
            ask(pool)

        shown = str(caught.getrepr(style="long")) + caplog.text + "".join(capfd.readouterr())
        assert "[key]" in str(caught.value)
        assert f"provided: {KEY}" not in shown
        assert f"Bearer {KEY}'" not in str(caught.value)
