"""The searches of running campaigns, kept between generations and rebuilt by replay whenever they are not at hand."""

from __future__ import annotations

import math
import time
from contextlib import suppress

from services.core.campaign import Campaign
from services.core.errors import TrinityError
from services.core.ids import CampaignId
from services.core.optimiser.ports import Search
from services.core.optimiser.replay import Replay
from services.core.policy.layout import Layout
from services.core.states import GenerationKind
from services.storage import turns
from services.storage.engine import Connection
from services.storage.records import Float64, Fork
from services.storage.turns import Brief, Newest


class StillReplaying(Exception):
    """The search is not rebuilt yet: go on with something else and ask again."""


class Searches:
    """A cache, never the truth: an entry is used only while it stands where the database expects it.

    Args:
        patience_seconds: longest time that ``at`` spends on a replay. A long history takes longer; the rest is done
            bit by bit by ``work`` and ``warm``, so that other campaigns do not wait for it.
    """

    def __init__(self, patience_seconds: float = math.inf) -> None:
        self._patience_seconds = patience_seconds
        self._searches: dict[CampaignId, Search] = {}
        self._replays: dict[CampaignId, Replay] = {}

    def at(self, conn: Connection, brief: Brief, campaign: Campaign, newest: Newest | None) -> Search:
        """Return the campaign's search as it stands after its closed training generations, ``newest`` the last closed.

        Raises:
            ReplayMismatch: the stored history does not lead to the stored checksums.
            StillReplaying: it takes longer; the caller undoes its transaction.
        """
        if brief.id in self._replays:
            self._require(brief.id)
        search = self._searches.get(brief.id)
        if search is None or not told(search, campaign, newest):
            self.forget(brief.id)
            self.begin(conn, brief, campaign)
            self._require(brief.id)
            search = self._searches[brief.id]
        return search

    def begin(self, conn: Connection, brief: Brief, campaign: Campaign) -> None:
        """Read what a replay needs, unless the search is at hand already."""
        if brief.id in self._searches or brief.id in self._replays:
            return
        log = turns.log(conn, brief.id)
        if brief.forked_from is None:
            start, sigma0 = Layout.of_campaign(campaign).start(brief.seed), campaign.search.sigma0
        else:
            start, sigma0 = origin(conn, brief.forked_from)
        self._replays[brief.id] = Replay(
            brief.seed,
            brief.dimension,
            campaign.search.population,
            sigma0,
            [entry.fitness for entry in log],
            [entry.checksum for entry in log],
            brief.versions.get("search", "an unknown version"),
            start,
            campaign.search.step_size,
        )

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
                self.forget(campaign_id)
                raise
            if done:
                self._searches[campaign_id] = self._replays.pop(campaign_id).search
                return True
            if time.monotonic() >= deadline:
                return False
        return True

    def warm(self, seconds: float) -> bool:
        """Spend some time on a replay that nobody waits for yet; return whether any is left to do."""
        for campaign_id in list(self._replays)[:1]:
            with suppress(Exception):  # whoever needs the search meets it again, and has somebody to tell
                self.work(campaign_id, seconds)
        return bool(self._replays)

    def forget(self, campaign_id: CampaignId) -> None:
        self._searches.pop(campaign_id, None)
        self._replays.pop(campaign_id, None)

    def _require(self, campaign_id: CampaignId) -> None:
        if not self.work(campaign_id, self._patience_seconds):
            raise StillReplaying


def told(search: Search, campaign: Campaign, newest: Newest | None) -> bool:
    """Tell the last closed generation if it alone is missing; False when the search cannot be used."""
    if newest is None:
        return search.generation == 0
    if newest.kind is not GenerationKind.TRAINING:
        return search.generation == campaign.search.generations
    if search.generation == newest.number and search.checksum() == newest.checksum and newest.fitness is not None:
        search.tell(newest.fitness)
    return search.generation == newest.number + 1


def origin(conn: Connection, fork: Fork) -> tuple[Float64, float]:
    """Return mean and step size of the generation that a fork starts from."""
    found = turns.mean(conn, fork.campaign_id, fork.generation)
    if found is None:
        name = turns.name(conn, fork.campaign_id)
        raise TrinityError(f"the fork's origin, generation {fork.generation} of {name}, is not stored or not closed")
    return found.vector, found.sigma
