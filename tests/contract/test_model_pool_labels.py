"""Local pools are told which call it is; providers are not."""

from __future__ import annotations

from services.pool.litellm_client import LitellmPool
from services.pool.local.wire import CALL_HEADER
from tests.support.model_pool import ProviderOf, ask, model
from tests.support.provider import reply

LABEL = "g3/sample2/training0/t1"


def test_only_local_pools_are_told_the_call(provider_of: ProviderOf) -> None:
    provider = provider_of(reply())
    pool = LitellmPool([model("local:recorded"), model(provider.url, "paid")], lambda url: provider.url)

    ask(pool.labelled(LABEL), 0)
    ask(pool.labelled(LABEL), 1)
    ask(pool, 0)

    told = [{name.lower(): value for name, value in each.headers.items()} for each in provider.requests]
    assert [headers.get(CALL_HEADER.lower()) for headers in told] == [LABEL, None, None]
