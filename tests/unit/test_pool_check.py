"""``manage.py pool check``: what is missing, what a call shows, and the cap on money."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from services.config.settings import Settings
from services.core.campaign import ModelSpec, ProtocolSpec
from services.core.ledger.price import Price
from services.core.protocol.roles import Role
from services.pool.litellm_client import LitellmPool
from services.pool.probe import probe
from services.pool.readiness import readiness
from tests.support.model_pool import PRICE, model
from tests.support.provider import Logged, ScriptedProvider, Step, error, reply
from worker import pool_check

KEY = "sk-canary-0123456789"
FREE = Price(Decimal(0), Decimal(0))
GOOD = {
    "You are the Worker.": "<idea>added</idea><answer>42</answer>",
    "You are the Thinker.": "<suggestion>add</suggestion><suggested_role>worker</suggested_role>",
    "You are the Verifier.": "ACCEPT right",
}
FILE = """
name: checked
problems: {{source: generated, families: [chain_sum], training: 60, validation: 0, heldout: 6}}
pool:
  - {{name: able, model: openai/able, base_url: "{url}", api_key_env: ABLE_KEY, price: {{input: 1, output: 2}}}}
  - {{name: bare, model: openai/bare, base_url: "{url}", api_key_env: NO_SUCH_KEY, price: {{input: 1, output: 2}}}}
protocol: {{max_output_tokens: 64}}
validation: {{problems: 0}}
evaluation: {{problems: 6}}
budget: {{usd: 10}}
"""


def in_role(request: Logged) -> Step:
    system = request.body["messages"][0]["content"]
    return reply(next(text for opening, text in GOOD.items() if system.startswith(opening)))


@pytest.fixture
def provider() -> Iterator[ScriptedProvider]:
    with ScriptedProvider(in_role) as running:
        yield running


@pytest.fixture
def file(tmp_path: Path, provider: ScriptedProvider) -> Path:
    path = tmp_path / "checked.yaml"
    path.write_text(FILE.format(url=provider.url))
    return path


def check(file: Path, limit: str | None, **environment: str) -> dict[str, Any]:
    return pool_check.check(file, Settings(), environment, None if limit is None else Decimal(limit))


def test_each_model_is_called_once_in_each_role(file: Path, provider: ScriptedProvider) -> None:
    found = check(file, "1", ABLE_KEY=KEY, NO_SUCH_KEY=KEY)

    assert found["ok"]
    assert len(provider.requests) == 6
    assert found["spent_usd"] == f"{6 * (11 * 1 + 3 * 2) / Decimal(10**6):f}"
    for each in found["models"]:
        assert [role["role"] for role in each["roles"]] == ["worker", "thinker", "verifier"]
        assert all(role["compliant"] and not role["remark"] for role in each["roles"])
        assert all((role["prompt_tokens"], role["completion_tokens"]) == (11, 3) for role in each["roles"])
    assert KEY not in json.dumps(found)


def test_a_missing_key_is_named_and_its_model_not_called(file: Path, provider: ScriptedProvider) -> None:
    found = check(file, "1", ABLE_KEY=KEY)

    assert not found["ok"]
    assert found["models"][1]["missing"] == ["the environment variable NO_SUCH_KEY is not set"]
    assert len(provider.requests) == 3


def test_a_dry_check_sends_nothing(file: Path, provider: ScriptedProvider) -> None:
    assert check(file, None, ABLE_KEY=KEY, NO_SUCH_KEY=KEY)["ok"]
    assert not check(file, None)["ok"]
    assert not provider.requests


def test_no_call_starts_that_the_cap_does_not_cover(file: Path, provider: ScriptedProvider) -> None:
    found = check(file, "0.000001", ABLE_KEY=KEY, NO_SUCH_KEY=KEY)

    assert not provider.requests
    assert {role["outcome"] for each in found["models"] for role in each["roles"]} == {"not asked"}
    assert "the cap of 0.000001 USD" in found["models"][0]["roles"][0]["remark"]


def test_a_keys_echo_is_masked(file: Path) -> None:
    with ScriptedProvider(error(401, f"bad key {KEY}")) as refusing:
        file.write_text(FILE.format(url=refusing.url))
        found = check(file, "1", ABLE_KEY=KEY, NO_SUCH_KEY=KEY)

    assert found["models"][0]["outcomes"] == {"AuthenticationFailed": 3}
    assert "bad key [key]" in found["models"][0]["roles"][0]["remark"]
    assert KEY not in json.dumps(found)


@pytest.mark.parametrize(
    ("role", "step", "remark"),
    [
        (Role.WORKER, reply("42"), "no <answer>"),
        (Role.WORKER, reply("<answer>42"), ""),
        (Role.WORKER, reply("<answer>43</answer>"), "its answer is not 42"),
        (Role.WORKER, reply("<answer>42</answer>", "length"), "cut off at protocol.max_output_tokens, 64"),
        (Role.WORKER, reply(None), "no text (empty_reply)"),
        (Role.THINKER, reply("add them"), "no <suggestion>"),
        (Role.THINKER, reply("<suggestion>add</suggestion>"), "no role in <suggested_role>"),
        (Role.VERIFIER, reply("Acceptable only if"), "its first word is neither ACCEPT nor REVISE"),
        (Role.VERIFIER, reply("REVISE no"), "it does not accept a right answer"),
    ],
)
def test_a_reply_is_held_against_its_roles_form(role: Role, step: Step, remark: str) -> None:
    protocol = ProtocolSpec(roles=(role,), max_output_tokens=64)
    with ScriptedProvider(step) as provider:
        models = [model(provider.url)]
        (found,) = probe(LitellmPool(models), models, protocol, Decimal(1))

    assert found.remark == remark
    assert found.compliant is (remark in ("", "its answer is not 42", "it does not accept a right answer"))


@pytest.mark.parametrize(
    ("spec", "missing"),
    [
        (ModelSpec("m", "nosuch/m", PRICE), "litellm knows no provider for nosuch/m"),
        (ModelSpec("m", "openai/gpt-5", PRICE, options={"temperature": 1}), "no key: set OPENAI_API_KEY"),
        (ModelSpec("m", "openai/gpt-5", PRICE, api_key_env="KEY"), "does not take these options"),
    ],
)
def test_what_keeps_every_call_from_succeeding_is_said(spec: ModelSpec, missing: str) -> None:
    (said,) = readiness(spec, {"KEY": KEY}, 64, 0.1).missing
    assert missing in said


def test_prices_are_compared_with_the_list() -> None:
    spec = ModelSpec("m", "openai/gpt-5", FREE, api_key_env="KEY", options={"temperature": 1})
    found = readiness(spec, {"KEY": KEY}, 64, 0.1)
    assert found.missing == ()
    assert "budget in USD" in found.notes[0]
    assert "litellm's list has 1.25 and 10" in found.notes[1]
