"""Stand-ins around a campaign whose faults are counted: pool, encoder, broker, log, and the smallest campaign."""

from __future__ import annotations

import hashlib
import random
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import numpy as np

from services.config.document import sha256, to_json
from services.core.campaign import Campaign, EvaluationSpec, ProtocolSpec, SearchSpec, ValidationSpec
from services.core.fingerprint import Fingerprint
from services.core.ids import CampaignId
from services.core.ledger.budget import bound_usage
from services.core.ledger.usage import Usage
from services.core.optimiser.sep_cma_es import library_version
from services.core.policy.layout import Layout
from services.core.protocol.ports import Message, Reply
from services.core.protocol.request import read_request
from services.core.protocol.roles import Role
from services.core.protocol.transcript import Transcript
from services.queue.app import make_app
from services.queue.messages import EpisodeMessage
from services.queue.publish import Delivery, Publisher
from services.storage import campaigns
from services.storage.engine import Database
from services.storage.records import NewCampaign
from tests.support.campaigns import small_campaign, small_problems
from tests.support.stub_models import fingerprint


def tiny_campaign(**changes: Any) -> Campaign:
    """Population 3, replicates 2, one generation, validated and compared: every kind of step, as few as possible."""
    campaign = small_campaign(
        protocol=ProtocolSpec(max_turns=2, max_output_tokens=64),
        search=SearchSpec(population=3, replicates=2, generations=1, sigma0=0.5),
        validation=ValidationSpec(every=1, problems=1),
        evaluation=EvaluationSpec(problems=1, baselines=("single",)),
    )
    return replace(campaign, **changes)


def submit(database: Database, campaign: Campaign, max_attempts: int = 5) -> CampaignId:
    document = to_json(campaign)
    layout = Layout.of_campaign(campaign)
    versions = {"search": library_version()}
    new = NewCampaign(
        campaign.name,
        document,
        sha256(document),
        campaign.seed,
        layout.size,
        versions,
        campaign.budget,
        max_attempts,
    )
    with database.transaction() as conn:
        return campaigns.insert(conn, new, small_problems())


def tell(figures: str) -> None:
    """Show what a sweep did, with ``pytest -s``."""
    sys.stdout.write(f"{figures}\n")


def fate(*words: object) -> float:
    """Return a number in [0, 1) that depends on the words alone."""
    digest = hashlib.sha256("\n".join(str(word) for word in words).encode()).digest()
    return int.from_bytes(digest[:7], "big") / 2**56


class StubEncoder:
    """Reads a conversation into a few numbers, without a language model."""

    def __init__(self, hidden_size: int) -> None:
        self.hidden_size = hidden_size

    def encode(self, transcript: Transcript, offsets: object) -> np.ndarray[Any, np.dtype[np.float32]]:
        words = [transcript.query, *(item.output for item in transcript.items)]
        return np.array([2 * fate(place, *words) - 1 for place in range(self.hidden_size)], dtype=np.float32)

    def fingerprint(self) -> Fingerprint:
        return fingerprint()


@dataclass
class StubEncoders:
    hidden_size: int = 4

    def encoder(self, spec: object, pool_size: int) -> StubEncoder:
        return StubEncoder(self.hidden_size)

    def close(self) -> None:
        return


@dataclass
class StubPool:
    """Answers by rule, at once; what it billed is the witness for the ledger.

    Attributes:
        trouble: called before each answer with the number of the call, from 1; may raise.
        always_right: every Worker's answer is right and every Verifier accepts it.
        dear: bill the most that the call may cost, instead of a small share.
    """

    trouble: Callable[[int], None] | None = None
    always_right: bool = False
    dear: bool = False
    seconds: float = 0.0
    billed: list[tuple[int, Usage]] = field(default_factory=list)
    asked: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def complete(
        self,
        agent: int,
        messages: Sequence[Message],
        *,
        max_output_tokens: int,
        temperature: float,
        timeout_seconds: float,
    ) -> Reply:
        with self._lock:
            self.asked += 1
            number = self.asked
        if self.seconds:
            time.sleep(self.seconds * random.uniform(0.5, 1.5))
        if self.trouble is not None:
            self.trouble(number)
        most = bound_usage(messages, max_output_tokens)
        usage = Usage(most.prompt_tokens, most.completion_tokens) if self.dear else Usage(11 + agent, 3)
        with self._lock:
            self.billed.append((agent, usage))
        return Reply(self._text(agent, messages), "stop", usage, 0.0)

    def cost(self, campaign: Campaign) -> Decimal:
        """Return what the provider would write on its bill."""
        with self._lock:
            return sum((campaign.pool[agent].price.cost(usage) for agent, usage in self.billed), Decimal(0))

    def _text(self, agent: int, messages: Sequence[Message]) -> str:
        request = read_request(messages)
        luck = fate(agent, request.query, request.role, *(note.text for note in request.notes))
        if request.role is Role.THINKER:
            return "<suggestion>count</suggestion><suggested_role>worker</suggested_role>"
        if request.role is Role.VERIFIER:
            return "ACCEPT it is right" if self.always_right or luck < 0.5 else "REVISE it is wrong"
        right = int(request.query.split()[2]) + 1
        able = self.always_right or luck < (0.8, 0.3)[agent]
        return f"<idea>counted</idea><answer>{right if able else right + 1}</answer>"


@dataclass
class Belt:
    """A broker of one process: what is sent lies here until it is taken.

    Attributes:
        trouble: called with the number of each sending, from 1; returns the share that arrives before the error is
            raised, and the error, or None.
    """

    trouble: Callable[[int], tuple[float, Exception] | None] = lambda number: None
    lying: deque[Delivery] = field(default_factory=deque)
    sendings: int = 0

    def send(self, deliveries: Sequence[Delivery]) -> None:
        if not deliveries:
            return
        self.sendings += 1
        trouble = self.trouble(self.sendings)
        share = 1.0 if trouble is None else trouble[0]
        self.lying.extend(deliveries[: round(share * len(deliveries))])
        if trouble is not None:
            raise trouble[1]

    def waiting(self) -> int:
        return len(self.lying)

    def take(self) -> int | None:
        return int(self.lying.popleft().episode_id) if self.lying else None

    def close(self) -> None:
        pass


@dataclass
class RealBelt:
    """The real publisher on a real broker, perhaps through a relay; taken from without one."""

    led: str
    straight: str

    def __post_init__(self) -> None:
        self.publisher = Publisher(make_app(self.led))
        self.app = make_app(self.straight)
        self.connection = self.app.connection_for_read()
        self.channel = self.connection.channel()
        self.queues = [queue(self.channel) for queue in self.app.conf.task_queues]

    def send(self, deliveries: Sequence[Delivery]) -> None:
        self.publisher.send(deliveries)

    def waiting(self) -> int:
        return self.publisher.waiting()

    def take(self) -> int | None:
        for queue in self.queues:
            message = queue.get(no_ack=True)
            if message is not None:
                _, kwargs, _ = message.payload
                return int(EpisodeMessage.from_kwargs(kwargs).episode_id)
        return None

    def close(self) -> None:
        self.publisher.close()
        self.connection.release()
        self.app.close()


@dataclass
class Notes:
    """A log that is kept instead of shown."""

    lines: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def info(self, event: str, **about: object) -> None:
        self.lines.append(f"{event} {about}")

    debug = warning = info

    def error(self, event: str, **about: object) -> None:
        self.info(event, **about)
        self.errors.append(f"{event} {about}")
