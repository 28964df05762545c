"""The learners of running campaigns, kept between generations and rebuilt from the database when not at hand."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import numpy as np

from scheduler.fits import Fits, StillComputing
from services.core.campaign import Campaign
from services.core.errors import TrinityError
from services.core.ids import CampaignId
from services.core.optimiser.given import Given
from services.core.optimiser.reinforce import Reinforce
from services.core.optimiser.replay import Replay, require_met
from services.core.optimiser.searches import AnyLearner, search_of
from services.core.optimiser.supervised import fit_head
from services.core.policy.layout import Layout
from services.core.states import GenerationKind
from services.storage import coordinators, decisions, labels, turns
from services.storage.engine import Connection
from services.storage.records import Float64, Fork
from services.storage.turns import Brief, Newest

START = "start"


class Searches:
    """A cache, never the truth: an entry is used only while it stands where the database expects it.

    Args:
        patience_seconds: longest time that ``at`` spends on a replay or waits for a fit. A long history takes longer;
            the rest is done bit by bit by ``work`` and ``warm``, so that other campaigns do not wait for it.
    """

    def __init__(self, patience_seconds: float = math.inf) -> None:
        self._patience_seconds = patience_seconds
        self._learners: dict[CampaignId, AnyLearner] = {}
        self._replays: dict[CampaignId, Replay] = {}
        self.fits = Fits(patience_seconds)

    def at(self, conn: Connection, brief: Brief, campaign: Campaign, newest: Newest | None) -> AnyLearner:
        """Return the campaign's learner as it stands after its closed training generations, ``newest`` the last closed.

        Raises:
            ReplayMismatch: the stored history does not lead to the stored checksums.
            StillComputing: it takes longer; the caller undoes its transaction.
        """
        if brief.id in self._replays:
            self._require(brief.id)
        learner = self._learners.get(brief.id)
        if learner is None or not told(conn, brief, campaign, learner, newest):
            self._drop(brief.id)
            self.begin(conn, brief, campaign)
            self._require(brief.id)
            learner = self._learners[brief.id]
        return learner

    def begin(self, conn: Connection, brief: Brief, campaign: Campaign) -> None:
        """Read what it takes to rebuild a learner, unless it is at hand already; labels have to be there by now.

        Raises:
            ReplayMismatch: the stored checkpoint is not that of such a learner.
            StillComputing: the start is being fitted.
        """
        if brief.id in self._learners or brief.id in self._replays:
            return
        start, sigma0 = self._start(conn, brief, campaign)
        learner = search_of(campaign, brief.seed, brief.dimension, start, sigma0)
        if isinstance(learner, Reinforce):
            resume(conn, brief, campaign, learner)
        if isinstance(learner, Reinforce | Given):
            self._learners[brief.id] = learner
            return
        log = turns.log(conn, brief.id)
        fitness, checksums = [entry.fitness for entry in log], [entry.checksum for entry in log]
        self._replays[brief.id] = Replay(learner, fitness, checksums, version(brief))

    def work(self, campaign_id: CampaignId, seconds: float) -> bool:
        """Go on with a campaign's replay for some time; return whether none is under way any more.

        Raises:
            ReplayMismatch: as for ``at``; the next ``at`` begins again.
        """
        replay = self._replays.get(campaign_id)
        deadline = time.monotonic() + seconds
        while replay is not None:
            try:
                done = replay.step()
            except BaseException:
                self._drop(campaign_id)
                raise
            if done:
                self._learners[campaign_id] = self._replays.pop(campaign_id).search
                return True
            if time.monotonic() >= deadline:
                return False
        return True

    def warm(self, seconds: float) -> bool:
        """Spend some time on what nobody waits for yet; return whether any is left to do."""
        for campaign_id in list(self._replays)[:1]:
            with suppress(Exception):  # whoever needs the search meets it again, and has somebody to tell
                self.work(campaign_id, seconds)
        return bool(self._replays) or self.fits.warm(seconds)

    def forget(self, campaign_id: CampaignId) -> None:
        self._drop(campaign_id)
        self.fits.forget(campaign_id)

    def _drop(self, campaign_id: CampaignId) -> None:
        self._learners.pop(campaign_id, None)
        self._replays.pop(campaign_id, None)

    def _require(self, campaign_id: CampaignId) -> None:
        if not self.work(campaign_id, self._patience_seconds):
            raise StillComputing

    def _start(self, conn: Connection, brief: Brief, campaign: Campaign) -> tuple[Float64 | None, float | None]:
        """Return first mean and step size where they are not the specification's own.

        A fit is made once: whoever comes later starts from the mean with which the next generation was opened.
        """
        if brief.forked_from is not None:
            return origin(conn, brief.forked_from)
        if campaign.search.coordinator is not None:
            return released(conn, campaign.search.coordinator), None
        if not campaign.fits_labels:
            return None, None
        stored = turns.opening_mean(conn, brief.id, campaign.first_training)
        if stored is not None:
            return stored, None

        def prepared() -> Callable[[], Float64]:
            known = labels.read(conn, brief.id, campaign, reviews=campaign.fits_team)
            return partial(fit_head, known, Layout.of_campaign(campaign), campaign.supervised, brief.seed)

        return self.fits.of(brief.id, START, prepared), None


def beginning(conn: Connection, brief: Brief, campaign: Campaign) -> Given:
    """Return the point from which nothing has been learnt yet, neither from labels nor by searching."""
    if brief.forked_from is not None:
        return Given(*origin(conn, brief.forked_from))
    if campaign.search.coordinator is not None:
        return Given(released(conn, campaign.search.coordinator), campaign.search.sigma0)
    return Given(Layout.of_campaign(campaign).start(brief.seed), campaign.search.sigma0)


def told(conn: Connection, brief: Brief, campaign: Campaign, learner: AnyLearner, newest: Newest | None) -> bool:
    """Tell the last closed generation if it alone is missing; False when the learner cannot be used."""
    if newest is None or newest.kind is GenerationKind.LABELLING:
        return learner.generation == 0
    if newest.kind is not GenerationKind.TRAINING:
        return learner.generation == campaign.search.rounds
    place = newest.number - campaign.first_training
    if learner.generation == place and learner.checksum() == newest.checksum:
        if isinstance(learner, Reinforce):
            learner.tell_batch(decisions.batch_of(conn, brief.id, newest.number, Layout.of_campaign(campaign)))
        elif not isinstance(learner, Given) and newest.fitness is not None:
            learner.tell(newest.fitness)
    return learner.generation == place + 1


def resume(conn: Connection, brief: Brief, campaign: Campaign, learner: Reinforce) -> None:
    """Put a learner where it stands after the closed training generations, from its newest checkpoint.

    Raises:
        ReplayMismatch: mean and memory are not those that the checksum was taken of.
        TrinityError: the checkpoint has no memory, or the states of the generation it opened are gone.
    """
    stored = turns.checkpoint(conn, brief.id, validated=campaign.validation.problems > 0)
    if stored is None or stored.kind is GenerationKind.LABELLING:
        return
    if stored.memory is None:
        raise TrinityError(f"generation {stored.number} of {brief.name} was stored without its learner's memory")
    trains = stored.kind is GenerationKind.TRAINING
    place = stored.number - campaign.first_training if trains else campaign.search.rounds
    learner.restore(place, stored.mean, stored.memory)
    require_met(learner, stored.number, stored.checksum, version(brief))
    if trains and stored.closed:
        learner.tell_batch(decisions.batch_of(conn, brief.id, stored.number, Layout.of_campaign(campaign)))


def version(brief: Brief) -> str:
    return brief.versions.get("search", "an unknown version")


def released(conn: Connection, name: str) -> Float64:
    """Return the vector of a released coordinator, which never changes; SpecError when there is none of that name."""
    return coordinators.by_name(conn, name).theta.astype(np.float64)


def origin(conn: Connection, fork: Fork) -> tuple[Float64, float]:
    """Return mean and step size of the generation that a fork starts from."""
    found = turns.mean(conn, fork.campaign_id, fork.generation)
    if found is None:
        name = turns.name(conn, fork.campaign_id)
        raise TrinityError(f"the fork's origin, generation {fork.generation} of {name}, is not stored or not closed")
    return found.vector, found.sigma
