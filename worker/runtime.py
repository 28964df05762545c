"""What all episode threads of a worker share: the way to the database, models and pools, caches of immutable rows."""

from __future__ import annotations

import itertools
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from services.config.document import from_json
from services.core.campaign import Campaign
from services.core.errors import LeaseLost
from services.core.ids import CampaignId, CandidateId
from services.core.problem import Problem
from services.core.protocol.ports import Encoders, ModelPool, StateEncoder
from services.core.scoring.scorer import Graders
from services.pool.retry import RetryPolicy
from services.storage import campaigns, episodes, problems, readings
from services.storage.engine import Connection, Database
from services.storage.records import ClaimedEpisode
from services.telemetry.logs import Log
from worker.counts import Counts
from worker.leases import HeldLeases
from worker.outages import through_outage
from worker.writer import Writer

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Recent(Generic[Key, Value]):
    """A bounded, thread-safe cache of things that never change under their key."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._entries: OrderedDict[Key, Value] = OrderedDict()
        self._loading: dict[Key, threading.Lock] = {}
        self._lock = threading.Lock()

    def get(self, key: Key, load: Callable[[], Value]) -> Value:
        """Return the cached value or load it; of many threads that want the same one, one loads it."""
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
                return self._entries[key]
            turn = self._loading.setdefault(key, threading.Lock())
        with turn:
            with self._lock:
                if key in self._entries:
                    return self._entries[key]
            try:
                value = load()
                self._keep(key, value)
                return value
            finally:
                self._loading.pop(key, None)

    def _keep(self, key: Key, value: Value) -> None:
        with self._lock:
            self._entries[key] = value
            if len(self._entries) > self._size:
                self._entries.popitem(last=False)


@dataclass
class Runtime:
    """Built once per worker process, used by all its threads.

    Attributes:
        owner: names this process; a claim's token begins with it.
        make_pool: builds the models of a campaign.
        graders: what judges answers beyond plain comparisons.
        stopping: set when the process was asked to stop: nothing more is claimed.
        counts: what is counted for the metrics.
    """

    database: Database
    writer: Writer
    held: HeldLeases
    encoders: Encoders
    make_pool: Callable[[Campaign], ModelPool]
    owner: str
    lease_seconds: float
    log: Log
    graders: Graders = field(default_factory=Graders)
    retries: RetryPolicy = field(default_factory=RetryPolicy)
    stopping: threading.Event = field(default_factory=threading.Event)
    counts: Counts = field(default_factory=Counts)
    _claims: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _campaigns: Recent[str, Campaign] = field(default_factory=lambda: Recent(64))
    _readers: Recent[CampaignId, StateEncoder] = field(default_factory=lambda: Recent(64))
    _pools: Recent[str, ModelPool] = field(default_factory=lambda: Recent(64))
    _problems: Recent[int, Problem] = field(default_factory=lambda: Recent(4096))
    _thetas: Recent[CandidateId, npt.NDArray[np.float32]] = field(default_factory=lambda: Recent(256))

    def token(self) -> str:
        """Return a name for a claim that no other claim has."""
        return f"{self.owner}#{next(self._claims)}"

    def ask(self, step: Callable[[Connection], Value]) -> Value:
        """Run a step in a transaction of its own and return its result; repeat it while the database is away.

        Raises:
            DatabaseUnavailable: it stayed away for as long as a lease lasts.
        """

        def once() -> Value:
            with self.database.transaction() as conn:
                return step(conn)

        return through_outage(once, time.monotonic() + self.lease_seconds)

    def campaign(self, claim: ClaimedEpisode) -> Campaign:
        return self._campaigns.get(
            claim.spec_sha256, lambda: from_json(self.ask(lambda conn: campaigns.by_id(conn, claim.campaign_id)).spec)
        )

    def encoder(self, claim: ClaimedEpisode) -> StateEncoder:
        """Return what reads the campaign's conversations, once it is known to read as all its workers do.

        Raises:
            SpecError: this worker's model, tokenizer or reading differs from what the campaign was read with so far.
        """
        campaign = self.campaign(claim)

        def load() -> StateEncoder:
            encoder = self.encoders.encoder(campaign.encoder, len(campaign.pool))
            own = encoder.fingerprint()
            self.ask(lambda conn: readings.settle(conn, claim.campaign_id, own))
            return encoder

        return self._readers.get(claim.campaign_id, load)

    def pool(self, claim: ClaimedEpisode) -> ModelPool:
        campaign = self.campaign(claim)
        return self._pools.get(claim.spec_sha256, lambda: self.make_pool(campaign))

    def problem(self, problem_id: int) -> Problem:
        return self._problems.get(problem_id, lambda: self.ask(lambda conn: problems.by_id(conn, problem_id)))

    def theta(self, claim: ClaimedEpisode) -> npt.NDArray[np.float32]:
        """Return the candidate's vector.

        Raises:
            LeaseLost: the vector is gone because its generation was closed by others meanwhile.
        """

        def load() -> npt.NDArray[np.float32]:
            theta = self.ask(lambda conn: episodes.candidate_theta(conn, claim.candidate_id))
            if theta is None:
                raise LeaseLost(claim.episode_id, claim.attempt)
            return theta

        return self._thetas.get(claim.candidate_id, load)
