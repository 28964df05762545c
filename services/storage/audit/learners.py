"""A campaign's learner as the audit rebuilds it: told again where that is possible, by its checkpoints elsewhere."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from sqlalchemy import Connection, Row, text

from services.core.campaign import Algorithm, Campaign
from services.core.errors import ReplayMismatch, SpecError
from services.core.ids import CampaignId
from services.core.optimiser.given import Given
from services.core.optimiser.ports import Learner
from services.core.optimiser.reinforce import Reinforce
from services.core.optimiser.replay import Replay
from services.core.optimiser.searches import search_of
from services.core.policy.layout import Layout
from services.core.states import GenerationKind, GenerationState
from services.storage.audit.findings import Scope
from services.storage.binary import pack64, unpack64
from services.storage.records import CampaignRecord, Float64

Told = tuple[str, str, str]

STARTS = text("select mean from generation where campaign_id = :campaign and number = :number")
# The mean of an evaluation is the released one; where nothing was validated that is the learner's own, too.
CHECKPOINTS = text("""
select number, kind, mean, memory from generation
where campaign_id = :campaign and kind <> 'labelling' and (kind <> 'evaluation' or not :validated)
    and state <> 'cancelled'
order by number
""")


@dataclass(frozen=True)
class Checkpoints:
    """What the stored means and memories of a campaign's generations amount to.

    Attributes:
        checksums: of the learner that each generation's mean and memory make, by number.
        newest: the newest of these learners; None without any.
    """

    checksums: Mapping[int, str] = field(default_factory=dict)
    newest: Reinforce | None = None


@dataclass(frozen=True)
class History:
    """A campaign's learner as stored.

    Attributes:
        origin: mean and step size where a fork starts; None also when that is not there.
        fitted: the mean with which training starts where that is fitted to labels.
        checkpoints: of a learner that cannot be told again.
    """

    record: CampaignRecord
    campaign: Campaign
    generations: Sequence[Row[Any]]
    origin: tuple[Float64, float] | None
    fitted: Float64 | None = None
    checkpoints: Checkpoints = field(default_factory=Checkpoints)

    @property
    def training(self) -> list[Row[Any]]:
        return [row for row in self.standing if row.kind == GenerationKind.TRAINING]

    @property
    def standing(self) -> list[Row[Any]]:
        """The generations that were not cancelled."""
        return [row for row in self.generations if row.state != GenerationState.CANCELLED]

    @property
    def beginning(self) -> Given:
        """Where everything starts, before any label; ValueError or SpecError when there is none that fits."""
        sigma0 = self.campaign.search.sigma0
        return Given(*(self.origin or (Layout.of_campaign(self.campaign).start(self.record.seed), sigma0)))

    @property
    def version(self) -> str:
        return self.record.versions.get("search", "an unknown version")

    def trained(self) -> tuple[list[Told], Learner | None]:
        """Go through the training generations; the learner is None when the stored ones do not lead to its end."""
        place = "history"
        try:
            start, sigma0 = self.origin or (self.fitted, None)
            learner = search_of(self.campaign, self.record.seed, self.record.dimension, start, sigma0)
            if isinstance(learner, Reinforce):
                return self._restored(learner)
            if isinstance(learner, Given):
                return [], learner
            told = [unpack64(row.fitness) for row in self.training if row.fitness is not None]
            found: list[Told] = []
            again = Replay(learner, told, [row.checksum for row in self.training], self.version)
            for row in self.training:
                place = f"generation {row.number}"
                found += [(place, *difference) for difference in _differences(row, again.search)]
                again.step()
        except (ReplayMismatch, SpecError, ValueError) as error:
            return [(place, "a search that replays", str(error))], None
        return found, again.search

    def _restored(self, first: Reinforce) -> tuple[list[Told], Learner | None]:
        """Compare every checkpoint with its checksum, and the first one with the learner that the seed leads to."""
        wanted = [(row, self.checkpoints.checksums.get(row.number, "none")) for row in self.training]
        wanted += [(row, first.checksum()) for row in self.training[:1]]
        found = [
            (f"generation {row.number}", f"checksum {checksum[:12]}, of its mean and memory", row.checksum[:12])
            for row, checksum in wanted
            if row.checksum != checksum
        ]
        found += [
            (f"generation {row.number}", f"sigma {first.sigma!r}", f"sigma {row.sigma!r}")
            for row in self.training
            if row.sigma != first.sigma
        ]
        return found, self.checkpoints.newest or first


def fitted_of(conn: Connection, campaign_id: CampaignId, campaign: Campaign) -> Float64 | None:
    """Return the mean that was fitted to labels and with which the generation after the labelling one was opened."""
    if not campaign.fits_labels:
        return None
    values = {"campaign": campaign_id, "number": campaign.first_training}
    mean = conn.execute(STARTS, values).scalar_one_or_none()
    return None if mean is None else unpack64(mean)


def checkpoints_of(conn: Connection, scope: Scope, campaign_id: CampaignId, campaign: Campaign) -> Checkpoints:
    """Return the checkpoints of a campaign whose learner cannot be told again; none of others."""
    if campaign.search.algorithm is not Algorithm.REINFORCE:
        return Checkpoints()
    seed = scope.campaigns[campaign_id].seed
    checksums: dict[int, str] = {}
    newest: Reinforce | None = None
    values = {"campaign": campaign_id, "validated": campaign.validation.problems > 0}
    for row in conn.execute(CHECKPOINTS, values):
        learner = Reinforce(seed, Layout.of_campaign(campaign), campaign.reinforce)
        trains = row.kind == GenerationKind.TRAINING
        place = row.number - campaign.first_training if trains else campaign.search.rounds
        try:
            learner.restore(place, unpack64(row.mean), unpack64(row.memory or b""))
        except ValueError as error:
            checksums[row.number] = str(error)
            continue
        checksums[row.number] = learner.checksum()
        newest = learner
    return Checkpoints(checksums, newest)


def _differences(row: Row[Any], search: Learner) -> list[tuple[str, str]]:
    found = []
    if row.mean != digest64(search.mean):
        found.append(("the mean of the replayed search, to the bit", "another mean"))
    if row.sigma != search.sigma:
        found.append((f"sigma {search.sigma!r}, by replay", f"sigma {row.sigma!r}"))
    return found


def digest64(vector: npt.NDArray[np.float64]) -> bytes:
    return hashlib.sha256(pack64(vector)).digest()
