"""Plays episodes without a model: claims what is due and scores it by a fixed rule, through the real storage."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from services.core.errors import LeaseLost
from services.core.ids import EpisodeId
from services.core.scoring.grade import graded
from services.core.seeds import derive
from services.core.states import CandidateKind
from services.storage import episodes
from services.storage.engine import Database
from services.storage.records import ClaimedEpisode
from tests.support.storage import query

DUE = """
select e.id from episode e join campaign c on c.id = e.campaign_id
where c.state = 'running' and e.state in ('pending', 'queued') and e.available_at <= now() order by e.id
"""


def reward_of(database: Database, claim: ClaimedEpisode) -> float:
    """Return 0 or 1, a function of vector and seed alone; higher first coordinates win more often."""
    lean = 0.5
    if claim.candidate_kind in (CandidateKind.SAMPLE, CandidateKind.MEAN):
        with database.statement() as conn:
            theta = episodes.candidate_theta(conn, claim.candidate_id)
        if theta is None:
            raise LeaseLost(claim.episode_id, claim.attempt)
        lean = 1 / (1 + float(np.exp(-4.0 * theta[:4].sum())))
    luck = derive(claim.seed, "luck") / 2**63
    return float(luck < lean)


def always_plays(claim: ClaimedEpisode) -> bool:
    return True


@dataclass
class Player:
    """A thread that plays whatever the outbox has or the broker would hand out, until stopped.

    Attributes:
        plays: called with each claim before it is scored; False leaves the claim alone (its worker "died"), an
            exception is recorded as a failed attempt.
    """

    database: Database
    plays: Callable[[ClaimedEpisode], bool] = always_plays
    lease_seconds: float = 60.0
    played: int = 0
    _claims: int = 0
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Player:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(0.01):
            with self.database.transaction() as conn:
                due = query(conn, DUE)
            for (episode_id,) in due:
                if self._stop.is_set():
                    return
                self._claims += 1
                with self.database.statement() as conn:
                    claim = episodes.claim(conn, EpisodeId(episode_id), f"player#{self._claims}", self.lease_seconds)
                if claim is not None:
                    self._play(claim)

    def _play(self, claim: ClaimedEpisode) -> None:
        try:
            if not self.plays(claim):
                return
            reward = reward_of(self.database, claim)
            with self.database.statement() as conn:
                episodes.record_score(conn, claim, graded(reward), "turn_limit", ())
            self.played += 1
        except LeaseLost:
            return
        except RuntimeError as error:
            with self.database.statement() as conn:
                episodes.record_failure(conn, claim, type(error).__name__, str(error), retry=False)
