"""Kill the scheduler, the worker, then everything in mid-generation: the campaign ends as if nothing had happened."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from services.core.states import AttemptOutcome
from services.storage import campaigns, ledger
from services.storage.records import CallTotals
from tests.support.product import Product, alive
from tests.support.tiny_qwen3 import build_tiny_qwen3
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]

CAMPAIGN = """
name: {name}
seed: 3
problems: {{source: generated, families: [chain_sum, spell_backward], training: 12, validation: 6, heldout: 6}}
pool:
  - {{name: adder, model: openai/adder, base_url: local:pair, price: {{input: 0.2, output: 0.8}}}}
  - {{name: speller, model: openai/speller, base_url: local:pair, price: {{input: 0.1, output: 0.5}}}}
encoder: {{model: {encoder}, singular_values: none}}
protocol: {{max_turns: 3, max_output_tokens: 128}}
search: {{population: 6, replicates: 4, generations: 3, sigma0: 0.3{learner}}}
labels: {{problems: {labelled}}}
validation: {{every: 2, problems: 6}}
evaluation: {{problems: 6}}
"""

POOL = """
kind: simulated
name: pair
seed: 1
latency: {mean_ms: 200, jitter_ms: 50}
models:
  - name: adder
    skills: {chain_sum: {worker: 0.9, thinker: 0.5, verifier: 0.9}}
    otherwise: {worker: 0.1, thinker: 0.5, verifier: 0.6}
  - name: speller
    skills: {spell_backward: {worker: 0.9, thinker: 0.5, verifier: 0.9}}
    otherwise: {worker: 0.1, thinker: 0.5, verifier: 0.6}
"""


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    folder = tmp_path_factory.mktemp("product")
    (folder / "pools").mkdir()
    (folder / "pools" / "pair.yaml").write_text(POOL)
    settings = {
        "TRINITY_WORKER_SLOTS": "4",
        "TRINITY_LEASE_SECONDS": "4",
        "TRINITY_HEARTBEAT_SECONDS": "1",
        "TRINITY_REPUBLISH_SECONDS": "5",
    }
    product = Product(folder, settings)
    product.up()
    yield product
    product.stop()


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_qwen3(tmp_path_factory.mktemp("encoder") / "tiny")


REINFORCE = ", algorithm: reinforce, start: sft"


@pytest.fixture(scope="module")
def calm(product: Product, encoder: Path) -> str:
    """A campaign that nobody disturbs."""
    submit(product, encoder, "calm")
    wait_until_completed(product, "calm")
    return "calm"


def submit(product: Product, encoder: Path, name: str, learner: str = "", labelled: int = 0) -> None:
    path = product.folder / f"{name}.yaml"
    path.write_text(CAMPAIGN.format(name=name, encoder=encoder, learner=learner, labelled=labelled))
    product.run("campaign", "submit", str(path))


def wait_until_completed(product: Product, name: str) -> None:
    def completed() -> bool:
        now = state(product, name)
        assert now in ("submitted", "running", "completed"), now
        return now == "completed"

    wait_for(completed, seconds=180, what=f"{name} to complete", pause=0.3)


def state(product: Product, name: str) -> str:
    database = product.database()
    try:
        with database.transaction() as conn:
            return campaigns.by_name(conn, name).state
    finally:
        database.close()


def scored(product: Product, name: str, generation: int) -> int:
    """Return how many episodes of a generation are scored while others still run; 0 when it is not the open one."""
    database = product.database()
    try:
        with database.transaction() as conn:
            rows = conn.exec_driver_sql(
                "SELECT count(*) FILTER (WHERE e.state = 'scored'), count(*) FILTER (WHERE e.state = 'running')"
                " FROM episode e JOIN generation g ON g.id = e.generation_id JOIN campaign c ON c.id = g.campaign_id"
                " WHERE c.name = %s AND g.number = %s AND g.state = 'open'",
                (name, generation),
            ).one()
            return int(rows[0]) if rows[1] else 0
    finally:
        database.close()


def totals(product: Product, name: str) -> list[CallTotals]:
    database = product.database()
    try:
        with database.transaction() as conn:
            return ledger.totals(conn, campaigns.by_name(conn, name).id)
    finally:
        database.close()


def counted(product: Product, name: str) -> dict[tuple[str, str], tuple[int, int, Decimal]]:
    """Return calls, tokens and USD by model and role of the attempts that led to a reward."""
    rows = [row for row in totals(product, name) if row.outcome is AttemptOutcome.DONE]
    return {(row.model, row.role): (row.calls, row.tokens, row.usd) for row in rows}


def exported(product: Product, name: str) -> tuple[list[Any], list[Any], Any]:
    """Return generations, episodes and coordinator without what may differ: times and row numbers."""
    folder = product.folder / f"export-{name}"
    product.run("campaign", "export", name, "--out", str(folder))
    generations = [json.loads(line) for line in (folder / "generations.jsonl").read_text().splitlines()]
    episodes = [json.loads(line) for line in (folder / "episodes.jsonl").read_text().splitlines()]
    coordinator = json.loads((folder / "coordinator.json").read_text())
    for row in generations:
        del row["opened_at"], row["closed_at"]
    first = min(row["problem_id"] for row in episodes)
    for row in episodes:
        row["problem_id"] -= first
    return generations, episodes, {key: coordinator[key] for key in ("theta_float32", "generation", "validation")}


def test_a_disturbed_campaign_ends_like_an_undisturbed_one(product: Product, encoder: Path, calm: str) -> None:
    # Looked for while the command still runs: on a fast machine the generation is over when it has ended.
    with ThreadPoolExecutor(1) as aside:
        submitting = aside.submit(submit, product, encoder, "stormy")
        wait_for(lambda: scored(product, "stormy", 0) >= 6, seconds=90, what="a third of generation 0", pause=0.02)
        product.kill("scheduler")
        product.kill("worker-1")
        submitting.result()
    wait_for(lambda: scored(product, "stormy", 1) >= 6, seconds=120, what="a third of generation 1", pause=0.02)
    product.kill_everything()
    product.up()
    wait_until_completed(product, "stormy")

    assert exported(product, "stormy") == exported(product, calm)
    assert counted(product, "stormy") == counted(product, calm)
    repeated = [row for row in totals(product, "stormy") if row.outcome is not AttemptOutcome.DONE]
    assert repeated, "the kills were to hit attempts in flight"
    assert {row.outcome for row in repeated} <= {AttemptOutcome.LOST, AttemptOutcome.RETURNED}
    assert all(row.outcome is AttemptOutcome.DONE for row in totals(product, calm))
    product.run("db", "audit")


def test_a_learner_with_a_memory_that_started_from_labels_does_so_too(product: Product, encoder: Path) -> None:
    submit(product, encoder, "reinforce", REINFORCE, 12)
    wait_until_completed(product, "reinforce")
    with ThreadPoolExecutor(1) as aside:
        submitting = aside.submit(submit, product, encoder, "reinforce-stormy", REINFORCE, 12)
        for generation in (0, 1, 2):  # labelling, the first batch, the second
            some = partial(scored, product, "reinforce-stormy", generation)
            wait_for(some, seconds=120, what=f"scores in generation {generation}", pause=0.02)
            product.kill("scheduler")
            product.kill("worker-1")
        submitting.result()
    wait_until_completed(product, "reinforce-stormy")

    assert exported(product, "reinforce-stormy") == exported(product, "reinforce")
    assert counted(product, "reinforce-stormy") == counted(product, "reinforce")
    product.run("db", "audit")


def test_flower_shows_workers_queues_and_labelled_tasks(product: Product, calm: str) -> None:
    workers = product.flower("/api/workers?refresh=1")
    assert any(name.startswith("worker-") for name in workers)
    queues = {queue["name"] for queue in product.flower("/api/queues/length")["active_queues"]}
    assert queues == {"episodes", "validation"}
    labels = [str(task["kwargs"]) for task in product.flower("/api/tasks?limit=200").values()]
    assert any(re.match(r"(reinforce-)?(calm|stormy) g\d+ \w+ r\d+", label) for label in labels), labels[:3]


@pytest.mark.parametrize("path", ["/", "/api/workers", "/metrics", "/tasks"])
def test_flower_refuses_without_the_password(product: Product, path: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"http://127.0.0.1:{product.flower_port}{path}", timeout=10)
    with refused.value as response:
        assert response.code == 401


def test_a_second_up_says_who_runs(product: Product) -> None:
    product.run("up", expect=1)


def test_down_leaves_nothing_behind(product: Product) -> None:
    pids = [pid for pid in product.pids().values() if pid]
    assert len(pids) >= 6
    product.stop()
    assert not any(alive(pid) for pid in pids)
