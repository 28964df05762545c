"""Numbers of a running process for Prometheus, read at the moment somebody asks for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from services.core.errors import SpecError

PREFIX = "trinity_"

Read = Callable[[], Mapping[str, float]]


class _Numbers(Collector):
    def __init__(self, read: Read) -> None:
        self._read = read

    def collect(self) -> Iterable[Metric]:
        for name, value in self._read().items():
            counts = name.endswith("_total")
            family = CounterMetricFamily if counts else GaugeMetricFamily
            yield family(PREFIX + name, "See docs/operations.md.", value=value)


@contextmanager
def serve(host: str, ports: Iterable[int], read: Read) -> Iterator[int]:
    """Serve ``/metrics`` until the context ends and give the port in use.

    Args:
        host: address to listen on.
        ports: tried in order; the first free one is taken.
        read: the numbers by name, read at each request on a thread of its own; names that end in ``_total`` only grow.

    Raises:
        SpecError: none of the ports can be had.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Numbers(read))
    tried: dict[int, OSError] = {}
    for port in ports:
        try:
            server, thread = start_http_server(port, host, registry)
        except OSError as error:
            tried[port] = error
            continue
        try:
            yield int(server.server_port)
        finally:
            server.shutdown()
            server.server_close()
            thread.join()
        return
    reasons = "; ".join(f"{port}: {error.strerror or error}" for port, error in tried.items())
    raise SpecError("TRINITY_METRICS_PORT", next(iter(tried), None), f"a free port of {host} ({reasons})")
