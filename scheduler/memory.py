"""What the scheduler remembers between turns. Any of it may be forgotten at any time: the database has it all."""

from __future__ import annotations

from contextlib import suppress

from scheduler.fits import StillComputing
from scheduler.searches import Searches
from services.config.document import from_json
from services.core.campaign import Campaign
from services.core.ids import CampaignId
from services.core.problem import Split
from services.storage import turns
from services.storage.engine import Connection
from services.storage.turns import Brief


class Memory:
    """Specifications, problem numbers and searches of campaigns; the first two never change once stored."""

    def __init__(self, searches: Searches | None = None) -> None:
        self.searches = Searches() if searches is None else searches
        self._campaigns: dict[CampaignId, tuple[str, Campaign]] = {}
        self._problem_ids: dict[CampaignId, dict[Split, tuple[int, ...]]] = {}

    def campaign(self, conn: Connection, campaign_id: CampaignId, spec_sha256: str) -> Campaign:
        """Return the specification, read and parsed at its first use."""
        known = self._campaigns.get(campaign_id)
        if known is None or known[0] != spec_sha256:
            known = self._campaigns[campaign_id] = (spec_sha256, from_json(turns.spec(conn, campaign_id)))
        return known[1]

    def problem_ids(self, conn: Connection, campaign_id: CampaignId, split: Split) -> tuple[int, ...]:
        """Return the numbers of a split's problems in order."""
        known = self._problem_ids.setdefault(campaign_id, {})
        if split not in known:
            known[split] = turns.problem_ids(conn, campaign_id, split)
        return known[split]

    def prepare(self, conn: Connection, brief: Brief) -> None:
        """Begin to rebuild a campaign's learner ahead of its next turn; before its labels are there it has none."""
        campaign = self.campaign(conn, brief.id, brief.spec_sha256)
        if not campaign.first_training or turns.newest(conn, brief.id) is not None:
            with suppress(StillComputing):
                self.searches.begin(conn, brief, campaign)

    def forget(self, campaign_id: CampaignId) -> None:
        self.searches.forget(campaign_id)
        self._campaigns.pop(campaign_id, None)
        self._problem_ids.pop(campaign_id, None)
