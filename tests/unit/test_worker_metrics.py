"""What a worker's encoder tells Prometheus, scraped over HTTP."""

from __future__ import annotations

import urllib.request
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from services.core.campaign import EncoderSpec
from services.core.protocol.roles import Role, RoleSource
from services.core.protocol.transcript import Item, Transcript
from services.encoder.coordinator import EncoderService
from services.telemetry import metrics
from tests.support.tiny_qwen3 import build_tiny_qwen3
from worker.counts import Counts

DOCUMENT = Path(__file__).parents[2] / "docs" / "operations.md"


def scrape(port: int) -> dict[str, float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        families = text_string_to_metric_families(answer.read().decode())
        return {sample.name: sample.value for family in families for sample in family.samples}


def test_operators_see_what_was_found_and_what_was_cut(tmp_path: Path) -> None:
    item = Item(1, 0, Role.THINKER, RoleSource.POLICY, "", "w " * 99)
    with EncoderService(tmp_path) as service, metrics.serve("127.0.0.1", [0], service.metrics) as port:
        assert set(scrape(port).values()) == {0.0}
        folder = str(build_tiny_qwen3(tmp_path / "tiny"))
        encoder = service.encoder(EncoderSpec(folder, item_tokens=10), 3)
        for talk in (Transcript("1 + 1"), Transcript("1 + 1"), Transcript("1 + 1", (item,))):
            encoder.encode(talk)
        service.encoder(EncoderSpec(folder, max_tokens=400), 3).encode(Transcript("w " * 999, (item,) * 9))
        seen = scrape(port)
    stores = {name: seen.pop(name) for name in list(seen) if "states" not in name and "weights" in name}
    assert set(stores.values()) == {0.0}, "no candidate changed a weight"
    for kind in ("outputs", "keys_and_values"):
        held, hits, misses = (
            seen.pop(f"trinity_encoder_{kind}_{what}") for what in ("bytes", "hits_total", "misses_total")
        )
        assert (held > 0, hits > 0, misses > 0) == ((kind == "keys_and_values"),) * 3
    questions, dropped = (seen.pop(f"trinity_encoder_{what}_total") for what in ("questions_cut", "items_dropped"))
    assert seen.pop("trinity_encoder_items_cut_total") >= 1
    assert questions == 10, "each turn's conversation is one of its own"
    assert dropped > 9
    assert seen == {
        "trinity_encoder_decisions_total": 4,
        "trinity_encoder_states_memory_hits_total": 1,
        "trinity_encoder_states_file_hits_total": 0,
        "trinity_encoder_states_misses_total": 3,
    }


def test_every_metric_is_in_the_manual(tmp_path: Path) -> None:
    manual = DOCUMENT.read_text()
    with EncoderService(tmp_path) as service:
        names = [*service.metrics(), *Counts().read()]
    for name in names:
        assert f"`{metrics.PREFIX}{name}`" in manual, name
