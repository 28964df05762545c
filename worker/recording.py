"""The states of an episode's turns, kept where something learns from them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from services.core.campaign import Algorithm, Campaign
from services.core.policy.policies import Encode
from services.core.protocol.transcript import Transcript
from services.core.states import CandidateKind, Purpose
from services.storage.records import ClaimedEpisode, Float32


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


def is_learnt_from(claim: ClaimedEpisode, campaign: Campaign) -> bool:
    """Tell whether the states of an episode are kept: REINFORCE's decisions, and each labelled problem once."""
    if claim.purpose is not Purpose.TRAINING:
        return False
    if claim.candidate_kind is CandidateKind.SAMPLE:
        return campaign.search.algorithm is Algorithm.REINFORCE
    first = claim.candidate_kind is CandidateKind.SINGLE and claim.candidate_index == 0
    return first and claim.replicate < campaign.labels.problems
