"""One scripted model behind the litellm pool, and how it is asked."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from services.core.campaign import ModelSpec, ProtocolSpec
from services.core.ledger.price import Price
from services.core.protocol.ports import Reply
from services.core.protocol.prompts import messages_for
from services.core.protocol.roles import Role
from services.core.protocol.transcript import Transcript
from services.pool.litellm_client import LitellmPool
from tests.support.local_pools import SUM
from tests.support.provider import ScriptedProvider

MESSAGES = messages_for(Role.WORKER, Transcript(SUM), ProtocolSpec())
PRICE = Price(Decimal(1), Decimal(2))
ProviderOf = Callable[..., ScriptedProvider]


def model(base_url: str | None, name: str = "able", **changes: Any) -> ModelSpec:
    return ModelSpec(name, f"openai/{name}", PRICE, base_url, **changes)


def ask(pool: LitellmPool, agent: int = 0, **changes: Any) -> Reply:
    settings: dict[str, Any] = {"max_output_tokens": 500, "temperature": 0.1, "timeout_seconds": 20.0} | changes
    return pool.complete(agent, settings.pop("messages", MESSAGES), **settings)
