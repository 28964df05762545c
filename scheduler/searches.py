"""The searches of running campaigns, kept between generations and rebuilt by replay whenever they are not at hand."""

from __future__ import annotations

from collections.abc import Sequence

from services.config.document import from_json
from services.core.campaign import Campaign
from services.core.errors import TrinityError
from services.core.ids import CampaignId
from services.core.optimiser.ports import Search
from services.core.optimiser.replay import replay
from services.core.states import GenerationKind
from services.storage import campaigns, generations
from services.storage.engine import Connection
from services.storage.records import CampaignRecord, Float64, Fork, GenerationRecord


class Searches:
    """A cache, never the truth: an entry is used only while its checksum is the one the database expects."""

    def __init__(self) -> None:
        self._searches: dict[CampaignId, Search] = {}

    def at(self, conn: Connection, record: CampaignRecord, campaign: Campaign) -> Search:
        """Return the campaign's search as it stands after its closed training generations.

        Raises:
            ReplayMismatch: the stored history does not lead to the stored checksums.
        """
        history = generations.history(conn, record.id, GenerationKind.TRAINING)
        search = self._searches.get(record.id)
        if search is None or not self._told(search, history):
            search = self._replayed(conn, record, campaign, history)
            self._searches[record.id] = search
        return search

    def forget(self, campaign_id: CampaignId) -> None:
        self._searches.pop(campaign_id, None)

    def _told(self, search: Search, history: Sequence[GenerationRecord]) -> bool:
        """Tell the last closed generation if it is the only one missing; False when the search cannot be used."""
        if search.generation == len(history) - 1 and search.checksum() == history[-1].checksum:
            fitness = history[-1].fitness
            if fitness is None:
                return False
            search.tell(fitness)
        return search.generation == len(history)

    def _replayed(
        self, conn: Connection, record: CampaignRecord, campaign: Campaign, history: Sequence[GenerationRecord]
    ) -> Search:
        fitness = [generation.fitness for generation in history if generation.fitness is not None]
        start, sigma0 = (
            (None, campaign.search.sigma0) if record.forked_from is None else origin(conn, record.forked_from)
        )
        return replay(
            record.seed,
            record.dimension,
            campaign.search.population,
            sigma0,
            fitness,
            [generation.checksum for generation in history],
            record.versions.get("search", "an unknown version"),
            start=start,
        )


def origin(conn: Connection, fork: Fork) -> tuple[Float64, float]:
    """Return mean and step size of the generation that a fork starts from."""
    for generation in generations.history(conn, fork.campaign_id):
        if generation.number == fork.generation:
            return generation.mean, generation.sigma
    name = campaigns.by_id(conn, fork.campaign_id).name
    raise TrinityError(f"the fork's origin, generation {fork.generation} of {name}, is not stored or not closed")


def specification(record: CampaignRecord) -> Campaign:
    """Read the stored specification back into the rules' record."""
    return from_json(record.spec)
