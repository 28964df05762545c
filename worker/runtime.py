"""What all episode threads of a worker share: connections, the coordinator's model, caches of immutable rows."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from services.config.document import from_json
from services.core.campaign import Campaign
from services.core.errors import AttemptInterrupted, LeaseLost
from services.core.ids import CandidateId
from services.core.problem import Problem
from services.encoder.coordinator import EncoderService
from services.pool.litellm_client import LitellmPool
from services.pool.retry import RetryPolicy
from services.storage import campaigns, episodes, problems
from services.storage.engine import Database
from services.storage.records import ClaimedEpisode
from services.telemetry.logs import Log
from worker.leases import HeldLeases

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Recent(Generic[Key, Value]):
    """A bounded, thread-safe cache of things that never change under their key."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._entries: OrderedDict[Key, Value] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Key, load: Callable[[], Value]) -> Value:
        """Return the cached value or load it; two threads may load the same one, which costs time only."""
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
                return self._entries[key]
        value = load()
        with self._lock:
            self._entries[key] = value
            if len(self._entries) > self._size:
                self._entries.popitem(last=False)
        return value


@dataclass
class Runtime:
    """Built once per worker process, used by all its threads."""

    database: Database
    owner: str
    encoders: EncoderService
    held: HeldLeases
    lease_seconds: float
    resolve_base_url: Callable[[str | None], str | None]
    log: Log
    retries: RetryPolicy = field(default_factory=RetryPolicy)
    stopping: threading.Event = field(default_factory=threading.Event)
    _campaigns: Recent[str, Campaign] = field(default_factory=lambda: Recent(64))
    _pools: Recent[str, LitellmPool] = field(default_factory=lambda: Recent(64))
    _problems: Recent[int, Problem] = field(default_factory=lambda: Recent(4096))
    _thetas: Recent[CandidateId, npt.NDArray[np.float32]] = field(default_factory=lambda: Recent(256))

    def campaign(self, claim: ClaimedEpisode) -> Campaign:
        def load() -> Campaign:
            with self.database.statement() as conn:
                return from_json(campaigns.by_id(conn, claim.campaign_id).spec)

        return self._campaigns.get(claim.spec_sha256, load)

    def pool(self, claim: ClaimedEpisode) -> LitellmPool:
        campaign = self.campaign(claim)
        return self._pools.get(claim.spec_sha256, lambda: LitellmPool(campaign.pool, self.resolve_base_url))

    def problem(self, problem_id: int) -> Problem:
        def load() -> Problem:
            with self.database.statement() as conn:
                return problems.by_id(conn, problem_id)

        return self._problems.get(problem_id, load)

    def theta(self, claim: ClaimedEpisode) -> npt.NDArray[np.float32]:
        """Return the candidate's vector.

        Raises:
            LeaseLost: the vector is gone because its generation was closed by others meanwhile.
        """

        def load() -> npt.NDArray[np.float32]:
            with self.database.statement() as conn:
                theta = episodes.candidate_theta(conn, claim.candidate_id)
            if theta is None:
                raise LeaseLost(claim.episode_id, claim.attempt)
            return theta

        return self._thetas.get(claim.candidate_id, load)

    def check_going_on(self) -> None:
        """Raise AttemptInterrupted when the worker was asked to stop."""
        if self.stopping.is_set():
            raise AttemptInterrupted("the worker is stopping")

    def wait(self, seconds: float) -> None:
        """Pause, but not longer than until the worker is asked to stop."""
        self.stopping.wait(seconds)
        self.check_going_on()
