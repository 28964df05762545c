"""A cheap stand-in for the coordinator's language model and for the pool, the same in every process and attempt."""

from __future__ import annotations

import hashlib
import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from services.core.campaign import Campaign, EncoderSpec
from services.core.errors import ProviderUnavailable
from services.core.fingerprint import Fingerprint
from services.core.ledger.usage import Usage
from services.core.protocol.answers import write_thinker, write_worker
from services.core.protocol.ports import Message, Reply
from services.core.protocol.request import Request, read_request
from services.core.protocol.roles import Role
from services.core.protocol.transcript import Transcript
from services.core.protocol.verdict import Verdict, write_verdict

USAGE = Usage(100, 20)
SUM = re.compile(r"What is (\d+) \+ 1\?")


def digest(*parts: object) -> bytes:
    return hashlib.sha256("\0".join(str(part) for part in parts).encode()).digest()


def share(*parts: object) -> float:
    """Return a number in [0, 1) that depends on the parts alone."""
    return int.from_bytes(digest(*parts)[:8], "big") / 2**64


def fingerprint(**changes: Any) -> Fingerprint:
    """Return what an encoder without a model reads with; any field can be changed."""
    hashes = dict.fromkeys(("weights", "tokenizer", "template", "prompt"), "0" * 64)
    reads = {"position": "penultimate", "max_tokens": 4096, "item_tokens": 512, "center": "", "norm": "none"}
    return Fingerprint(**{"model": "stub", "singular_values": (), **hashes, **reads, **changes})


@dataclass(frozen=True)
class StubEncoder:
    """States that look random and depend on the conversation alone."""

    hidden_size: int

    def encode(self, transcript: Transcript, offsets: object) -> npt.NDArray[np.float32]:
        text = "\0".join((transcript.query, *(f"{item.role}{item.output}" for item in transcript.items)))
        noise = np.frombuffer(hashlib.shake_128(text.encode()).digest(self.hidden_size), dtype=np.uint8)
        state: npt.NDArray[np.float32] = noise.astype(np.float32) / np.float32(73.9) - np.float32(1.725)
        return state

    def fingerprint(self) -> Fingerprint:
        return fingerprint()


@dataclass(frozen=True)
class StubEncoders:
    """Encoders of whatever size is wanted at the moment, since no model sets it."""

    hidden_size: Callable[[], int]

    def encoder(self, spec: EncoderSpec, pool_size: int) -> StubEncoder:
        return StubEncoder(self.hidden_size())

    def close(self) -> None:
        return


@dataclass(frozen=True)
class StubBehaviour:
    """How a stub pool behaves.

    Attributes:
        latency_seconds: of every call.
        right_share: share of the answers to "What is N + 1?" that are right; other questions are never answered right.
        turns: mean number of turns that is aimed at, for roles drawn uniformly; None: the Verifier accepts half.
        fail_share: share of the calls that fail as an unavailable provider.
    """

    latency_seconds: float = 0.0
    right_share: float = 0.5
    turns: float | None = None
    fail_share: float = 0.0


class Tries(threading.local):
    """Which attempt this thread plays, and how often it has asked the same thing in it."""

    def __init__(self) -> None:
        self.begin(0, 0)

    def begin(self, episode_id: int, attempt: int) -> None:
        self._attempt = (episode_id, attempt)
        self._asked: dict[tuple[str, str], int] = {}

    def next(self, model: str, user: str) -> tuple[object, ...]:
        number = self._asked[model, user] = self._asked.get((model, user), 0) + 1
        return (*self._attempt, model, user, number)


@dataclass
class StubPool:
    """Answers by a hash of model and messages, so that an episode goes the same way in every attempt."""

    campaign: Campaign
    behaviour: StubBehaviour = field(default_factory=StubBehaviour)
    tries: Tries = field(default_factory=Tries)

    def __post_init__(self) -> None:
        self._accepts = accept_share(self.behaviour.turns, self.campaign)

    def complete(
        self,
        agent: int,
        messages: Sequence[Message],
        *,
        max_output_tokens: int,
        temperature: float,
        timeout_seconds: float,
    ) -> Reply:
        model, user = self.campaign.pool[agent].name, messages[-1].content
        if self.behaviour.latency_seconds:
            time.sleep(self.behaviour.latency_seconds)
        if self.behaviour.fail_share and share("fail", *self.tries.next(model, user)) < self.behaviour.fail_share:
            raise ProviderUnavailable(f"{model}: made to fail")
        text = self._text(read_request(messages), share("reply", model, messages[0].content, user))
        return Reply(text, "stop", USAGE, self.behaviour.latency_seconds)

    def _text(self, request: Request, luck: float) -> str:
        if request.role is Role.WORKER:
            return write_worker(f"thought {luck:.9f}", self._answer(request.query, luck))
        if request.role is Role.THINKER:
            return write_thinker(f"plan {luck:.9f}", None)
        return write_verdict(Verdict.ACCEPT if luck < self._accepts else Verdict.REVISE, f"check {luck:.9f}")

    def _answer(self, query: str, luck: float) -> str:
        asked = SUM.search(query)
        if asked is None or luck >= self.behaviour.right_share:
            return "-1"
        return str(int(asked.group(1)) + 1)


def accept_share(turns: float | None, campaign: Campaign) -> float:
    """Return how often the Verifier has to accept for about ``turns`` turns in the mean."""
    if turns is None:
        return 0.5
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if mean_turns(middle, campaign) > turns else (low, middle)
    return (low + high) / 2


def mean_turns(accepts: float, campaign: Campaign) -> float:
    """Return the mean number of turns when roles are uniform and a Verifier accepts so often once there is work."""
    roles = campaign.protocol.roles
    one = 1 / len(roles)
    ends = accepts * one if Role.VERIFIER in roles else 0.0
    mean, idle, working = 0.0, 1.0, 0.0
    for _ in range(campaign.protocol.max_turns):
        mean += idle + working
        idle, working = idle * (1 - one), idle * one + working * (1 - ends)
    return mean
