"""What the campaign's encoder reads for an episode, kept where something learns from it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from services.core.campaign import Algorithm, Campaign
from services.core.errors import SpecError
from services.core.policy.layout import Layout
from services.core.policy.policies import Encode
from services.core.protocol.review import rejected
from services.core.protocol.transcript import Transcript
from services.core.states import CandidateKind, Purpose
from services.storage.records import ClaimedEpisode, Float32
from worker.runtime import Runtime


class Recorder:
    """Encodes as the campaign's encoder does, and remembers.

    Attributes:
        states: in the order in which they were read, one for each turn.
    """

    def __init__(self, encode: Encode) -> None:
        self._encode = encode
        self.states: list[Float32] = []

    def __call__(self, transcript: Transcript, offsets: npt.NDArray[np.float32]) -> Float32:
        state = self._encode(transcript, offsets)
        self.states.append(state)
        return state


def encode_of(runtime: Runtime, claim: ClaimedEpisode, campaign: Campaign) -> Encode:
    """Return what reads the campaign's conversations.

    Raises:
        SpecError: the model's states have another width than the campaign's.
    """
    encoder = runtime.encoder(claim)
    if encoder.hidden_size != campaign.hidden_size:
        raise SpecError("encoder.hidden_size", campaign.hidden_size, f"the model's {encoder.hidden_size}")
    return encoder.encode


def is_learnt_from(claim: ClaimedEpisode, campaign: Campaign) -> bool:
    """Tell whether the states of an episode's turns are kept: those of REINFORCE's decisions."""
    explores = claim.candidate_kind is CandidateKind.SAMPLE and claim.purpose is Purpose.TRAINING
    return explores and campaign.search.algorithm is Algorithm.REINFORCE


def labelling(
    runtime: Runtime, claim: ClaimedEpisode, campaign: Campaign
) -> Callable[[Transcript], list[Float32]] | None:
    """Return what reads a labelling episode's states that are kept, None where there are none to keep.

    They are of each labelled question, once, and where a team is fitted of what every model's answer makes of it.

    Raises:
        SpecError: see ``encode_of``; before anything is paid.
    """
    labels = claim.candidate_kind is CandidateKind.SINGLE and claim.purpose is Purpose.TRAINING
    first = labels and claim.replicate < campaign.labels.problems
    if not first or (claim.candidate_index > 0 and not campaign.fits_team):
        return None
    read = plainly(encode_of(runtime, claim, campaign), campaign)
    if not campaign.fits_team:
        return lambda transcript: [read(Transcript(transcript.query))]
    return lambda transcript: [read(one) for one in (Transcript(transcript.query), transcript, rejected(transcript))]


def plainly(encode: Encode, campaign: Campaign) -> Callable[[Transcript], Float32]:
    """Return what reads conversations by the model with its own singular values."""
    offsets = np.zeros(Layout.of_campaign(campaign).svf, dtype=np.float32)
    return lambda transcript: encode(transcript, offsets)
