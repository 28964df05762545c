"""Measures and prints what bench/pool.py is about."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from decimal import Decimal
from importlib.metadata import version
from typing import Any

import httpx
import litellm
import numpy as np

from services.core.campaign import ModelSpec, ProtocolSpec
from services.core.ledger.price import Price
from services.core.protocol.prompts import messages_for
from services.core.protocol.roles import Role
from services.core.protocol.transcript import Transcript
from services.pool.litellm_client import LitellmPool

LATENCY_SECONDS = 1.0
MEMORY_THREADS = 16
MEMORY_SAMPLES = 100
MESSAGES = messages_for(Role.WORKER, Transcript("What is 17 + 25? Answer with a number."), ProtocolSpec())
SENT = [{"role": message.role, "content": message.content} for message in MESSAGES]
PRICE = Price(Decimal("0.5"), Decimal("1.5"))
PAGE_MB = os.sysconf("SC_PAGE_SIZE") / 2**20

Call = Callable[[], object]


@contextmanager
def provider(latency: float) -> Iterator[str]:
    """Run the provider and yield its address."""
    words = [sys.executable, "-m", "bench.pool_provider", "--latency", str(latency)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}/v1"
        finally:
            process.terminate()  # else an error would wait for it for ever


def callers(url: str) -> Mapping[str, Call]:
    """Return one call of each kind; ours first."""
    models = [ModelSpec("bench", "openai/bench", PRICE, url, context_window=8192)]
    pool, through = LitellmPool(models), LitellmPool(models, direct=False)
    # One client without a bound on connections, as ours is.
    client = httpx.Client(timeout=60.0, limits=httpx.Limits(max_connections=None, max_keepalive_connections=64))
    body = {"model": "bench", "messages": SENT, "max_tokens": 512, "temperature": 0.1}

    def ours() -> object:
        return pool.complete(0, MESSAGES, max_output_tokens=512, temperature=0.1, timeout_seconds=60.0)

    def through_litellm() -> object:
        return through.complete(0, MESSAGES, max_output_tokens=512, temperature=0.1, timeout_seconds=60.0)

    def bare_litellm() -> object:
        return litellm.completion(
            model="openai/bench",
            messages=SENT,
            max_tokens=512,
            temperature=0.1,
            api_base=url,
            api_key="none",
            timeout=60.0,
            num_retries=0,
            max_retries=0,
        )

    def bare_httpx() -> object:
        return client.post(f"{url}/chat/completions", json=body).raise_for_status().json()

    return {"ours": ours, "ours_through_litellm": through_litellm, "litellm": bare_litellm, "httpx": bare_httpx}


def cpu_ms(calls: int) -> dict[str, float]:
    """Return the median CPU milliseconds of a call; the kinds take turns, so that all meet the same machine."""
    with provider(0.0) as url:
        kinds = callers(url)
        found: dict[str, list[float]] = {name: [] for name in kinds}
        for call in kinds.values():
            for _ in range(20):
                call()
        for _ in range(10):
            for name, call in kinds.items():
                begun = time.process_time()
                for _ in range(calls // 10):
                    call()
                found[name].append((time.process_time() - begun) / (calls // 10) * 1000)
    return {name: round(statistics.median(blocks), 2) for name, blocks in found.items()}


def concurrent(slots: int, rounds: int) -> tuple[dict[str, float], dict[str, float]]:
    """Return the wall time over the ideal, of ``rounds`` calls in each slot and of one."""
    many, burst = {}, {}
    with provider(LATENCY_SECONDS) as url:
        for name, call in callers(url).items():
            with ThreadPoolExecutor(slots) as threads:
                list(threads.map(lambda _, call=call: call(), range(slots)))  # connections and threads are there
                burst[name] = _wall(threads, call, slots, 1) / LATENCY_SECONDS
                many[name] = _wall(threads, call, slots, rounds) / (rounds * LATENCY_SECONDS)
    return _rounded(many), _rounded(burst)


def _wall(threads: ThreadPoolExecutor, call: Call, slots: int, rounds: int) -> float:
    begun = time.monotonic()
    list(threads.map(lambda _: [call() for _ in range(rounds)], range(slots)))
    return time.monotonic() - begun


def _rounded(values: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, 3) for name, value in values.items()}


def rss_slope(calls: int) -> float:
    """Return the growth of memory in MB per 10,000 calls."""
    with provider(0.0) as url:
        call = callers(url)["ours"]
        sizes = []
        with ThreadPoolExecutor(MEMORY_THREADS) as threads:
            for _ in range(MEMORY_SAMPLES):
                list(threads.map(lambda _: call(), range(calls // MEMORY_SAMPLES)))
                sizes.append(_resident_mb())
    kept = sizes[MEMORY_SAMPLES // 4 :]
    slope = float(np.polyfit(np.arange(len(kept)), kept, 1)[0])
    return round(slope * MEMORY_SAMPLES / calls * 10_000, 2)


def _resident_mb() -> float:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * PAGE_MB


def main(description: str | None) -> int:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--slots", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memory-calls", type=int, default=2000)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--only", default=",".join(PARTS), help=f"parts, of {', '.join(PARTS)}")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    result: dict[str, Any] = {}
    for part in given.only.split(","):
        result |= PARTS[part](given)
    result |= {
        "load_1m": round(os.getloadavg()[0], 2),
        "cores": os.cpu_count(),
        "versions": f"{platform.machine()}, Python {platform.python_version()}, "
        f"litellm {version('litellm')}, httpx {version('httpx')}",
    }
    lines = [json.dumps(result)] if given.json else [f"{name:26} {value}" for name, value in result.items()]
    print("\n".join(lines))
    return 0


def cpu_part(given: argparse.Namespace) -> dict[str, Any]:
    calls = 2000 if given.full else given.calls
    cost = cpu_ms(calls)
    return {"cpu_ms_per_call": cost["ours"], "cpu_ms_all": cost, "calls": calls}


def concurrency_part(given: argparse.Namespace) -> dict[str, Any]:
    rounds = 10 if given.full else given.rounds
    many, burst = concurrent(given.slots, rounds)
    return {
        "concurrent_ratio_vs_ideal": many["ours"],
        "concurrent_ratio_all": many,
        "burst_ratio_all": burst,
        "slots": given.slots,
        "rounds": rounds,
    }


def memory_part(given: argparse.Namespace) -> dict[str, Any]:
    calls = 20_000 if given.full else given.memory_calls
    return {"rss_slope_mb_per_10k": rss_slope(calls), "memory_calls": calls}


PARTS: Mapping[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
    "cpu": cpu_part,
    "concurrency": concurrency_part,
    "memory": memory_part,
}
