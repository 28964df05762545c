from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Mapping

import prometheus_client
import pytest
from prometheus_client.parser import text_string_to_metric_families

from services.core.errors import SpecError
from services.telemetry import metrics


def scrape(port: int) -> dict[str, tuple[str, float]]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        families = text_string_to_metric_families(answer.read().decode())
        return {sample.name: (family.type, sample.value) for family in families for sample in family.samples}


def test_numbers_are_read_at_each_scrape_and_nothing_else_is_told() -> None:
    numbers = {"encoder_decisions_total": 3.0, "encoder_memory_bytes": 7.5}
    with metrics.serve("127.0.0.1", [0], lambda: numbers) as port:
        assert scrape(port) == {
            "trinity_encoder_decisions_total": ("counter", 3.0),
            "trinity_encoder_memory_bytes": ("gauge", 7.5),
        }
        numbers["encoder_decisions_total"] = 4.0
        assert scrape(port)["trinity_encoder_decisions_total"] == ("counter", 4.0)
    assert b"trinity" not in prometheus_client.generate_latest(), "the registry of the library stays as it was"


def test_the_port_is_free_again_afterwards() -> None:
    with metrics.serve("127.0.0.1", [0], dict) as port:
        assert scrape(port) == {}
    with pytest.raises(urllib.error.URLError):
        scrape(port)
    with metrics.serve("127.0.0.1", [port], dict) as again:
        assert again == port


def test_the_next_free_port_is_taken() -> None:
    def other() -> Mapping[str, float]:
        return {"other": 1}

    with metrics.serve("127.0.0.1", [0], dict) as first, metrics.serve("127.0.0.1", [first, 0], other) as second:
        assert scrape(first) == {}
        assert scrape(second) == {"trinity_other": ("gauge", 1.0)}


def test_no_free_port_is_said_in_a_sentence() -> None:
    with (
        metrics.serve("127.0.0.1", [0], dict) as taken,
        pytest.raises(SpecError, match=f"TRINITY_METRICS_PORT.*{taken}.*free port of 127.0.0.1.*in use"),
        metrics.serve("127.0.0.1", [taken], dict),
    ):
        pass


def test_a_failing_reader_fails_the_scrape_only() -> None:
    answers = iter([1.0, 2.0])
    with metrics.serve("127.0.0.1", [0], lambda: {"number": next(answers)}) as port:
        assert scrape(port)["trinity_number"][1] == 1.0
        assert scrape(port)["trinity_number"][1] == 2.0
        with pytest.raises(urllib.error.HTTPError):
            scrape(port)
