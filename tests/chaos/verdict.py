"""The comparison of a storm with a calm run, and of the product's books with the provider's."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from services.core.states import AttemptOutcome
from services.storage.engine import Database
from tests.chaos import readings
from tests.chaos.nemesis import Fault
from tests.chaos.readings import Attempt, Ledger, Results
from tests.chaos.system import End, System
from tests.chaos.witness import Bill, Witness

ROOT = Path(__file__).resolve().parents[2]
# Clocks are of one machine, but a claim is dated at its commit and a fault after its signal.
SLACK_SECONDS = 0.5


@dataclass
class Verdict:
    """What the storm did to the results; ``remarks`` say more than the last line can."""

    kills: int
    lost: int = 0
    doubled: int = 0
    different: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        return not (self.lost or self.doubled or self.different or self.faults)

    def lines(self) -> Iterator[str]:
        yield from self.remarks
        yield from (f"WRONG: {fault}" for fault in (*self.different, *self.faults))
        equal = "DIFFERENT" if self.different else "equal"
        yield f"{self.kills} kills, {self.lost} lost, {self.doubled} doubled, mean {equal}"


@dataclass(frozen=True)
class Repeated:
    """Attempts beyond those that led to a reward, by what they had to do with the faults."""

    outcomes: Counter[str]
    own_worker: int
    database: int
    other: list[Attempt]
    in_flight: int

    @property
    def total(self) -> int:
        return sum(self.outcomes.values())


def compare(verdict: Verdict, database: Database, name: str, calm: Results, witness: Witness) -> None:
    """Hold one campaign of the storm against its calm twin and against the provider's log."""
    with database.transaction() as conn:
        verdict.lost += readings.lost(conn, name)
        verdict.doubled += readings.doubled(conn, name)
        verdict.different += [f"{name}: {part} differ" for part in readings.results(conn, name).differences(calm)]
        books = readings.ledger(conn, name)
    bill = witness.bill(name)
    verdict.faults += [f"{name}: {fault}" for fault in inconsistent(books, bill)]
    verdict.remarks.append(
        f"{name}: provider {bill.requests} requests, {bill.tokens} tokens, {bill.usd} USD; ledger {books.settled}.."
        f"{books.calls} calls, {books.settled_tokens}..{books.tokens} tokens, {books.settled_usd}..{books.usd} USD"
    )


def inconsistent(books: Ledger, bill: Bill) -> Iterator[str]:
    """Yield where the provider's account does not lie between the sums without and with the unknown calls."""
    if books.open:
        yield f"{books.open} calls are open although the campaign is complete"
    if books.booked != (books.tokens, books.usd):
        yield f"the campaign's row says {books.booked}, its ledger {(books.tokens, books.usd)}"
    for what, low, seen, high in (
        ("requests", books.settled, bill.requests, books.calls),
        ("tokens", books.settled_tokens, bill.tokens, books.tokens),
        ("USD", books.settled_usd, bill.usd, books.usd),
    ):
        if not low <= seen <= high:
            yield f"the provider counts {seen} {what}, the ledger {low} to {high}"


def repeated(attempts: Sequence[Attempt], faults: Sequence[Fault]) -> Repeated:
    """Sort the attempts that led to nothing by the faults that happened while they were in flight."""
    outcomes: Counter[str] = Counter()
    own = database = 0
    other: list[Attempt] = []
    for attempt in attempts:
        if attempt.outcome == AttemptOutcome.DONE:
            continue
        outcomes[f"{attempt.outcome}{f' {attempt.error}' if attempt.error else ''}"] += 1
        during = [fault for fault in faults if overlaps(attempt, fault)]
        if any(hits(attempt, fault) for fault in during):
            own += 1
        elif any(fault.mere_outage for fault in during):
            database += 1
        else:
            other.append(attempt)
    in_flight = sum(
        any(overlaps(attempt, fault) and (fault.mere_outage or hits(attempt, fault)) for fault in faults)
        for attempt in attempts
    )
    return Repeated(outcomes, own, database, other, in_flight)


def overlaps(attempt: Attempt, fault: Fault) -> bool:
    return attempt.started - SLACK_SECONDS <= fault.until and fault.at <= attempt.ended + SLACK_SECONDS


def hits(attempt: Attempt, fault: Fault) -> bool:
    """Return whether the fault was done to the attempt's own worker."""
    if fault.name == "step clocks":
        return False
    return fault.pid is not None and str(fault.pid) in re.split(r"[:#@-]", attempt.worker)


def longest_stall(scored: Sequence[float]) -> float:
    return max((late - early for early, late in pairwise(scored)), default=0.0)


def audit(system: System) -> list[str]:
    """Return what ``manage.py db audit`` complains about."""
    done = subprocess.run(
        [sys.executable, "manage.py", "db", "audit", "--json"],
        cwd=ROOT,
        env=system.environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    if done.returncode == 0:
        return []
    try:
        return [f"db audit: {json.dumps(json.loads(done.stdout))[:2000]}"]
    except ValueError:
        return [f"db audit: exit {done.returncode}: {(done.stderr or done.stdout).strip()[-500:]}"]


def own_ends(ends: Sequence[End]) -> Counter[str]:
    """Count how processes ended that nobody had signalled."""
    return Counter(f"{end.name.partition('-')[0]} exit {end.code}" for end in ends if end.own)
