"""Pool files of the local pools."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from services.config import campaign as campaigns
from services.config.pool_file import load, load_pools, require_local_models
from services.core.errors import SpecError
from services.core.local_pool import ReplayPool, SimulatedPool
from services.core.problem import ScorerKind
from services.encoder.catalogue import BUNDLED, KNOWN

INFRA = Path(__file__).parents[2] / "infra"
DATA = {"TRINITY_DATA_DIR": "/data", "TRINITY_BENCHMARK_DIR": "/sets"}

SIMULATED = """\
kind: simulated
name: demo
latency: {mean_ms: 20, jitter_ms: 5}
faults: {rate_limited: 0.5, hang: 0.25}
models:
  - name: a
    skills:
      chain_sum: {worker: 0.9, thinker: 0.5, verifier: 1}
    otherwise: {worker: 0, thinker: 0, verifier: 0.5}
"""

REPLAY = """\
kind: replay
name: demo
models: [a, b]
recordings:
  - files: ["${TRINITY_DATA_DIR}/x.jsonl"]
    answer: responses.*.answer
    scorer: numeric
"""


def written(folder: Path, text: str, name: str = "demo.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_simulated_pool(tmp_path: Path) -> None:
    pool = load(written(tmp_path, SIMULATED), {})
    assert isinstance(pool, SimulatedPool)
    assert pool.models[0].skill("chain_sum").worker == 0.9
    assert pool.models[0].skill("gcd").verifier == 0.5
    assert (pool.latency.mean_ms, pool.faults.hang, pool.plan_gain, pool.seed) == (20, 0.25, 0.5, 0)


def test_a_replay_pool(tmp_path: Path) -> None:
    pool = load(written(tmp_path, REPLAY), DATA)
    assert isinstance(pool, ReplayPool)
    assert pool.models == ("a", "b")
    assert pool.recordings[0].files == (Path("/data/x.jsonl"),)
    assert pool.recordings[0].scorer is ScorerKind.NUMERIC


@pytest.mark.parametrize(
    ("text", "old", "new", "place", "words"),
    [
        (SIMULATED, "kind: simulated", "kind: real", "kind (demo.yaml:1)", "simulated, replay"),
        (SIMULATED, "kind: simulated\n", "", "kind (demo.yaml:1)", "nothing"),
        (SIMULATED, "name: demo", "name: other", "name (demo.yaml:2)", "demo, the file's own name"),
        (SIMULATED, "name: demo", "name: A/B", "name (demo.yaml:2)", "a part of an address"),
        (SIMULATED, "worker: 0.9", "worker: 1.1", "skills.chain_sum.worker (demo.yaml:8)", "at most 1"),
        (SIMULATED, "chain_sum", "chess", "models.0.skills (demo.yaml:7)", "chess is not one"),
        (SIMULATED, "hang: 0.25", "hang: 0.6", "faults (demo.yaml:4)", "at most 1"),
        (SIMULATED, "jitter_ms: 5", "jitter_ms: 25", "latency (demo.yaml:3)", "at most mean_ms"),
        (SIMULATED, "    otherwise: {worker: 0, thinker: 0, verifier: 0.5}\n", "", "models.0.otherwise", "nothing"),
        (REPLAY, "[a, b]", "[a, a]", "demo.yaml", "different names"),
        (REPLAY, "    scorer: numeric\n", "", "recordings.0 (demo.yaml:5)", "a `scorer`"),
        (REPLAY, "scorer: numeric", "score: s.*", "recordings.0 (demo.yaml:5)", "exactly one of"),
        (REPLAY, "TRINITY_DATA_DIR", "NOWHERE", "recordings.0.files.0 (demo.yaml:5)", "set NOWHERE"),
    ],
)
def test_each_mistake_names_its_field(tmp_path: Path, text: str, old: str, new: str, place: str, words: str) -> None:
    assert old in text
    with pytest.raises(SpecError) as caught:
        load(written(tmp_path, text.replace(old, new, 1)), DATA)
    assert place in str(caught.value)
    assert words in str(caught.value)


def test_variables_default_to_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRINITY_DATA_DIR", "/elsewhere")
    pool = load(written(tmp_path, REPLAY))
    assert isinstance(pool, ReplayPool)
    assert pool.recordings[0].files == (Path("/elsewhere/x.jsonl"),)


def test_an_absent_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="no such folder"):
        load_pools(tmp_path / "absent", {})


def test_shipped_pools_offer_what_the_shipped_campaigns_ask_for() -> None:
    pools = load_pools(INFRA / "pools", DATA)
    for path in (INFRA / "campaigns").glob("*.yaml"):
        require_local_models(campaigns.resolve(campaigns.load(path, DATA), KNOWN[BUNDLED]), pools)


def test_an_unknown_pool_or_model_is_named() -> None:
    pools = load_pools(INFRA / "pools", DATA)
    campaign = campaigns.resolve(campaigns.load(INFRA / "campaigns" / "quickstart.yaml", DATA), KNOWN[BUNDLED])
    first, *others = campaign.pool
    with pytest.raises(SpecError, match=r"pool\.0\.base_url: got 'local:nowhere', wanted a pool among"):
        require_local_models(replace(campaign, pool=(replace(first, base_url="local:nowhere"), *others)), pools)
    with pytest.raises(SpecError, match=r"pool\.0\.model: got 'openai/nobody', wanted a model of the pool specialists"):
        require_local_models(replace(campaign, pool=(replace(first, litellm_model="openai/nobody"), *others)), pools)
