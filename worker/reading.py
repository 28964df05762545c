"""What the campaign's encoder reads for an episode, kept where something learns from it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from services.core.campaign import Algorithm, Campaign
from services.core.errors import SpecError
from services.core.policy.layout import Layout
from services.core.policy.policies import Encode
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
    """Tell whether the states of an episode are kept: REINFORCE's decisions, and each labelled problem once."""
    if claim.purpose is not Purpose.TRAINING:
        return False
    if claim.candidate_kind is CandidateKind.SAMPLE:
        return campaign.search.algorithm is Algorithm.REINFORCE
    first = claim.candidate_kind is CandidateKind.SINGLE and claim.candidate_index == 0
    return first and claim.replicate < campaign.labels.problems


def question_state(encode: Encode, question: str, campaign: Campaign) -> Float32:
    """Return what is read of a question alone, by the model with its own singular values."""
    return encode(Transcript(question), np.zeros(Layout.of_campaign(campaign).svf, dtype=np.float32))
