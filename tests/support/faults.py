"""A campaign driven step by step in one thread by the real scheduler and the real worker, so that faults can be counted.

The scheduler's waiting for notifications is where the worker gets its turn. What depends on time alone (leases, retries,
messages that count as lost) is made due when nobody has anything to do, so that no test waits for it.
"""

from __future__ import annotations

import hashlib
import os
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from typing import Any, cast

import numpy as np
import pytest

import scheduler.loop
import scheduler.office
import scheduler.sweep
import worker.outages
from scheduler.loop import Pace, Scheduler
from services.config.document import sha256, to_json
from services.core.campaign import Campaign, EvaluationSpec, ProtocolSpec, SearchSpec, ValidationSpec
from services.core.ids import CampaignId, EpisodeId
from services.core.ledger.budget import bound_usage
from services.core.ledger.usage import Usage
from services.core.optimiser.sep_cma_es import library_version
from services.core.policy.layout import Layout
from services.core.protocol.ports import Message, Reply
from services.core.protocol.request import read_request
from services.core.protocol.roles import Role
from services.core.protocol.transcript import Transcript
from services.core.states import CampaignState
from services.pool.retry import RetryPolicy
from services.queue.app import make_app
from services.queue.messages import EpisodeMessage
from services.queue.publish import Delivery, Publisher
from services.storage import campaign_states, campaigns
from services.storage.engine import Database
from services.storage.listening import CHANNEL, Listener
from services.storage.records import NewCampaign
from tests.support.campaigns import small_campaign, small_problems
from worker.episode import run
from worker.leases import HeldLeases
from worker.runtime import Runtime
from worker.tasks import register
from worker.writer import Writer

FULL = bool(os.environ.get("TRINITY_TEST_FULL"))
PACE = Pace(poll_seconds=0.01, republish_seconds=60.0, window=64, grace_seconds=0.0)
LEASE_SECONDS = 60.0
FINAL = {CampaignState.COMPLETED, CampaignState.FAILED, CampaignState.CANCELLED}

# Whatever waits for nothing but the clock. Nobody runs anything when this is done.
PASS_TIME = (
    "update episode set available_at = least(available_at, now()), published_at = published_at - interval '1 day', "
    "lease_expires_at = lease_expires_at - interval '1 day' where state in ('pending', 'queued', 'running')",
    "update event set next_attempt_at = least(next_attempt_at, now()) where processed_at is null",
)


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
    layout = Layout.of(len(campaign.pool), campaign.protocol.roles, campaign.hidden_size)
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


def fate(*words: object) -> float:
    """Return a number in [0, 1) that depends on the words alone."""
    digest = hashlib.sha256("\n".join(str(word) for word in words).encode()).digest()
    return int.from_bytes(digest[:7], "big") / 2**56


class StubEncoder:
    """Reads a conversation into a few numbers, without a language model."""

    def __init__(self, hidden_size: int) -> None:
        self.hidden_size = hidden_size

    def encode(self, transcript: Transcript) -> np.ndarray[Any, np.dtype[np.float32]]:
        words = [transcript.query, *(item.output for item in transcript.items)]
        return np.array([2 * fate(place, *words) - 1 for place in range(self.hidden_size)], dtype=np.float32)


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


def stub_runtime(
    database: Database, writing: Database, pool: StubPool, log: Any, encoders: Any = None, name: str = "worker"
) -> Runtime:
    """Return a worker's runtime; its writer has to be started, its heartbeat need not be."""
    return Runtime(
        database=database,
        writer=Writer(writing, LEASE_SECONDS, log),
        held=HeldLeases(database, LEASE_SECONDS, 15.0, log),
        encoders=encoders or StubEncoders(),
        make_pool=lambda campaign: pool,
        owner=name,
        lease_seconds=LEASE_SECONDS,
        log=log,
        retries=RetryPolicy(tries=2, base_seconds=0.0, cap_seconds=0.0),
    )


@dataclass
class Driven(Listener):
    """A listener whose waiting is the worker's turn."""

    real: Listener
    turn: Callable[[], bool]

    def wait(self, timeout_seconds: float) -> bool:
        busy = self.turn()
        return self.real.wait(0.0 if busy else timeout_seconds)

    def close(self) -> None:
        self.real.close()


class DrivenDatabase(Database):
    """The scheduler's database, whose listener drives the worker."""

    turn: Callable[[], bool]

    def listen(self, channel: str = CHANNEL) -> Listener:
        return Driven(super().listen(channel), lambda: self.turn())


@dataclass
class Stage:
    """Scheduler, worker and belt in one thread; ``url`` may lead through a relay, ``look`` never does.

    Attributes:
        escaped: exceptions that left the task; Celery would log them and go on.
        fallen: exceptions that ended the scheduler; the supervisor would start it again.
        hurried: how often time had to pass because nobody had anything to do.
        stops: why the campaign stopped, each time; it is resumed at most ``resumes`` times.
        before_resume: called before that, with the campaign.
        between: called after each of the worker's turns.
    """

    url: str
    look: Database
    pool: StubPool = field(default_factory=StubPool)
    belt: Any = field(default_factory=Belt)
    encoders: Any = None
    resumes: int = 0
    seconds: float = 30.0
    escaped: list[str] = field(default_factory=list)
    fallen: list[str] = field(default_factory=list)
    notes: Notes = field(default_factory=Notes)
    hurried: int = 0
    stops: list[str] = field(default_factory=list)
    before_resume: Callable[[CampaignId], None] = lambda campaign: None
    between: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        self.leading = DrivenDatabase(self.url, application_name="trinity scheduler")
        self.plain = Database(self.url, application_name="trinity scheduler")
        self.working = Database(self.url, application_name="trinity worker")
        self.writing = Database(self.url, application_name="trinity worker writer", pool_size=1)
        self.runtime = stub_runtime(self.working, self.writing, self.pool, self.notes, self.encoders)
        self.runtime.writer.start()
        register(cast(Any, self), partial(run, self.runtime), self.runtime.log)

    def play(self, campaign: CampaignId) -> CampaignState:
        """Let the campaign run until it has ended or is paused for good; return its state."""
        self.escaped.clear()
        self.fallen.clear()
        self.notes.lines.clear()
        self.notes.errors.clear()
        self.stops.clear()
        self.hurried = 0
        deadline = time.monotonic() + self.seconds
        scheduler_ = Scheduler(self.leading, self.belt, PACE, cast(Any, self.notes))
        self.leading.turn = partial(self._turn, scheduler_, campaign, deadline)
        while not scheduler_.stop.is_set():
            try:
                scheduler_.run()
            except Exception as error:
                self.fallen.append(f"{type(error).__name__}: {error}")
            if time.monotonic() > deadline:
                break
        state = self._state(campaign)
        if state in (CampaignState.RUNNING, CampaignState.SUBMITTED):
            raise AssertionError(f"not done after {self.seconds:g} s; the last it said: {self.notes.lines[-6:]}")
        return state

    def close(self) -> None:
        self.runtime.writer.stop()
        for each in (self.leading, self.plain, self.working, self.writing):
            each.close()

    def task(self, function: Callable[..., None], **_: object) -> None:
        """Take the task that the worker would give to Celery."""
        self._task = function

    def _turn(self, scheduler_: Scheduler, campaign: CampaignId, deadline: float) -> bool:
        ran = 0
        while (episode := self.belt.take()) is not None:
            ran += 1
            self.run(episode)
        self.between()
        state = self._state(campaign)
        if state in FINAL or time.monotonic() > deadline or not self._going_on(state, campaign):
            scheduler_.stop.set()
        elif not ran:
            self.hurried += 1
            pass_time(self.look)
        return True

    def run(self, episode: int) -> None:
        try:
            self._task(**EpisodeMessage(EpisodeId(episode)).to_kwargs())
        except Exception as error:
            self.escaped.append(f"{type(error).__name__}: {error}")

    def _going_on(self, state: CampaignState, campaign: CampaignId) -> bool:
        if state in (CampaignState.RUNNING, CampaignState.SUBMITTED):
            return True
        with self.look.transaction() as conn:
            self.stops.append(campaigns.by_id(conn, campaign).stop_reason or "")
        if len(self.stops) > self.resumes:
            return False
        self.before_resume(campaign)
        with self.look.transaction() as conn:
            campaign_states.resume(conn, campaign)
        return True

    def _state(self, campaign: CampaignId) -> CampaignState:
        with self.look.transaction() as conn:
            return campaigns.by_id(conn, campaign).state


def pass_time(database: Database) -> None:
    """Make everything due that waits for the clock alone."""
    with database.transaction() as conn:
        for statement in PASS_TIME:
            conn.exec_driver_sql(statement)


@pytest.fixture
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pauses: every round of the scheduler sweeps, and what failed is repeated at once."""
    monkeypatch.setattr(scheduler.sweep, "SWEEP_SECONDS", 0.0)
    monkeypatch.setattr(scheduler.loop, "STANDBY_SECONDS", 0.01)
    monkeypatch.setattr(scheduler.office, "BROKER_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(worker.outages, "FIRST_PAUSE_SECONDS", 0.01)


def spread(count: int, wanted: int) -> list[int]:
    """Return 1 .. count, or ``wanted`` of them evenly spread when the tests run in their short form."""
    if FULL or wanted >= count:
        return list(range(1, count + 1))
    return sorted({1 + place * (count - 1) // (wanted - 1) for place in range(wanted)})
