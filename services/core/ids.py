"""Types of the identifiers that cross packages."""

from __future__ import annotations

from typing import NewType

CampaignId = NewType("CampaignId", int)
GenerationId = NewType("GenerationId", int)
CandidateId = NewType("CandidateId", int)
EpisodeId = NewType("EpisodeId", int)
CallId = NewType("CallId", int)
EventId = NewType("EventId", int)
