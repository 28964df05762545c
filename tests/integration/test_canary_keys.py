"""Keys wherever one can be, a provider that echoes them in every way, and nothing that is kept or shown has one."""

from __future__ import annotations

import base64
import re
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import redis

from services.core.campaign import Campaign, ModelSpec, ProtocolSpec
from services.core.errors import PoolError
from services.core.protocol.roles import Role
from services.core.states import Purpose
from services.pool.litellm_client import LitellmPool
from services.queue.app import make_app
from services.queue.publish import Delivery, Publisher
from services.storage.engine import Database
from services.telemetry import metrics
from tests.support.campaigns import PRICE, small_campaign
from tests.support.command_line import CommandLine, bare_cli, cli
from tests.support.fault_doubles import StubEncoders
from tests.support.model_pool import ask
from tests.support.provider import ScriptedProvider, Step, error, raw
from tests.support.worker import Bench, bench_of

__all__ = ["bare_cli", "cli"]

NAMED, FOUND, FILED = "canary-named-0123456789", "sk-canary-found-0123456789", "sk-canary-filed-0123456789"
CANARIES = (NAMED, FOUND, FILED, "canary")
EVERY = f"{NAMED} {FOUND} {FILED}"
ECHOES: dict[str, Step] = {
    "401": error(401, f"Incorrect API key provided: {EVERY}"),
    "400": error(400, f"header Authorization: Bearer {NAMED} and {FOUND}"),
    "404": error(404, f"no model for {EVERY}"),
    "429": error(429, f"key={NAMED} is over its limit; {FOUND}"),
    "500": raw(f"<html>https://host/v1?key={NAMED} {FOUND}</html>".encode(), "text/html", status=500),
    "redirect": Step(302, headers={"Location": f"http://127.0.0.1:9/v1?key={NAMED}"}),
    "html": raw(f"<html>Bearer {NAMED}</html>".encode(), "text/html"),
    "half": raw(f'{{"error": "{EVERY}"'.encode(), cut=True),
    "not text": raw(f'{{"choices": [{{"message": {{"content": ["{NAMED}"]}}, "index": 0}}]}}'.encode()),
}


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ABLE_KEY", NAMED)
    monkeypatch.setenv("OPENAI_API_KEY", FOUND)
    monkeypatch.setenv("ANTHROPIC_API_KEY", FILED)


@pytest.mark.usefixtures("keys")
@pytest.mark.filterwarnings("ignore")  # litellm's own, about replies of the wrong shape
@pytest.mark.parametrize("name", ECHOES)
def test_no_error_shows_a_key(name: str) -> None:
    with ScriptedProvider(ECHOES[name]) as provider:
        for model, url in (("openai/able", provider.url), ("anthropic/able", provider.url.removesuffix("/v1"))):
            pool = LitellmPool([ModelSpec("able", model, PRICE, url, "ABLE_KEY")])
            with pytest.raises(PoolError) as caught:
                ask(pool)
            assert "canary" not in str(caught.value)
            assert caught.value.__cause__ is None
            assert caught.value.__suppress_context__ or caught.value.__context__ is None
    assert NAMED in str(provider.requests[0].headers)


Opener = Callable[[], Any]


@pytest.fixture
def played(database: Database, keys: None) -> Opener:
    @contextmanager
    def opened() -> Iterator[Bench]:
        with ScriptedProvider(*ECHOES.values()) as provider:
            models = tuple(
                ModelSpec(name, f"openai/{name}", PRICE, provider.url, "ABLE_KEY") for name in ("ada", "bob")
            )
            protocol = ProtocolSpec(roles=(Role.WORKER,), max_turns=1, max_output_tokens=64)
            campaign = replace(small_campaign(pool=models, protocol=protocol), max_attempts=1)

            def make_pool(campaign: Campaign) -> LitellmPool:
                return LitellmPool(campaign.pool)

            with bench_of(database, campaign, StubEncoders(), make_pool) as at:
                for place in range(8):
                    at.run(place)
                yield at

    return opened


def test_nothing_kept_or_shown_has_a_key(
    played: Opener,
    cli: CommandLine,
    broker_url: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("DEBUG")
    with played() as at:
        failed = at.query("SELECT count(*) FROM attempt WHERE outcome = 'failed' AND error_detail <> ''")[0][0]
        assert failed >= 5
        kept = dump(at)
        sent = delivered(at, broker_url)
        name = at.campaign().name
        shown = [cli(*words) for words in (("campaign", "show", name), ("campaign", "show", name, "--json"))]
        shown.append(cli("campaign", "export", name, "--out", str(tmp_path / "out")))
        shown.append(cli("campaign", "report", name, "--out", str(tmp_path / "page")))
        shown.append(cli("pool", "status"))
        counted = at.runtime.counts.read
    texts = {"database": kept, "broker": sent, "logs": caplog.text, "output": "".join(capfd.readouterr())}
    texts |= {f"command {place}": one.out + one.err for place, one in enumerate(shown)}
    texts |= {path.name: path.read_text() for path in (tmp_path / "out").glob("*")}
    texts |= {path.name: path.read_text(errors="replace") for path in (tmp_path / "page").rglob("*") if path.is_file()}
    with metrics.serve("127.0.0.1", [0], counted) as port:
        texts["metrics"] = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()
    assert len(texts["database"]) > 1000
    assert {"campaign.json", "index.html"} <= set(texts)
    assert "call_errors_total" in texts["metrics"]
    assert [one.code for one in shown] == [0] * len(shown)
    assert "episode_id" in texts["broker"]
    assert {where for where, text in texts.items() if any(canary in text for canary in CANARIES)} == set()


def dump(at: Bench) -> str:
    """Return every row of every table as text."""
    tables = at.query("SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()")
    return "\n".join(str(row) for (table,) in tables for row in at.query(f'SELECT t::text FROM "{table}" t'))


def delivered(at: Bench, broker_url: str) -> str:
    """Send the campaign's episodes to the broker and return everything that it holds."""
    publisher = Publisher(make_app(broker_url))
    publisher.send([Delivery(episode, Purpose.TRAINING, "free") for episode in at.episodes])
    publisher.close()
    server = redis.Redis.from_url(broker_url)
    held = [
        str(each) for key in server.scan_iter() if server.type(key) == b"list" for each in server.lrange(key, 0, -1)
    ]
    bodies = [base64.b64decode(body).decode() for text in held for body in re.findall(r'"body": "([^"]+)"', text)]
    return "\n".join(held + bodies)


FILE = """
name: checked
problems: {{source: generated, families: [chain_sum], training: 60, validation: 0, heldout: 6}}
pool:
  - {{name: able, model: openai/able, base_url: "{url}", api_key_env: ABLE_KEY, price: {{input: 1, output: 2}}}}
  - {{name: other, model: anthropic/able, base_url: "{bare}", api_key_env: ABLE_KEY, price: {{input: 1, output: 2}}}}
protocol: {{max_output_tokens: 64}}
validation: {{problems: 0}}
evaluation: {{problems: 6}}
budget: {{usd: 10}}
"""


def test_pool_check_with_all_debugging_on_prints_no_key(bare_cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    (bare_cli.folder / ".env").write_text(f"OPENAI_API_KEY={FOUND}\nANTHROPIC_API_KEY={FILED}\n")
    monkeypatch.chdir(bare_cli.folder)
    loud = {"LITELLM_LOG": "DEBUG", "OPENAI_LOG": "debug", "TRINITY_LOG_LEVEL": "debug", "ABLE_KEY": NAMED}
    for name, value in {**loud, "PYTHONPATH": str(Path(__file__).parents[2])}.items():
        bare_cli.set(name, value)
    with ScriptedProvider(*ECHOES.values()) as provider:
        text = FILE.format(url=provider.url, bare=provider.url.removesuffix("/v1"))
        done = bare_cli("pool", "check", bare_cli.campaign(text))
    assert done.code == 1
    assert len(provider.requests) == 6
    assert [line.split()[:2] for line in done.out.splitlines()[2:5]] == [
        ["able", role] for role in ("worker", "thinker", "verifier")
    ]
    assert "canary" not in done.out + done.err
