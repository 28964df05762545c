"""The pools that ``manage.py pool serve`` offers, as plain records; ``services.config`` reads them from pool files.

Three kinds: a *simulated* pool, whose models know the answers of generated problems and err at stated rates, a *replay*
pool, whose models repeat what real models once answered to a question (docs/recordings.md), and a *recording*, which
plays the calls of a campaign back (docs/answers.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from services.core.problem import ScorerKind


@dataclass(frozen=True)
class Latency:
    """Time until a reply, uniform in ``mean_ms ± jitter_ms`` milliseconds; jitter is at most the mean."""

    mean_ms: float = 0.0
    jitter_ms: float = 0.0


@dataclass(frozen=True)
class Faults:
    """Probabilities, each in [0, 1] and together at most 1, that a request fails instead of being answered.

    Attributes:
        rate_limited: HTTP 429 with ``Retry-After: retry_after_seconds``.
        server_error: HTTP 500.
        hang: no reply for ``hang_seconds``, then a closed connection.
        malformed: HTTP 200 with a body that is no chat completion.
        retry_after_seconds: whole or broken seconds named by the 429.
        hang_seconds: how long a hanging request stays open.
    """

    rate_limited: float = 0.0
    server_error: float = 0.0
    hang: float = 0.0
    malformed: float = 0.0
    retry_after_seconds: float = 1.0
    hang_seconds: float = 60.0


@dataclass(frozen=True)
class Skill:
    """Probabilities in [0, 1] of doing a role well in one problem family.

    Attributes:
        worker: of answering correctly.
        thinker: of giving a plan that helps the next Worker.
        verifier: of judging an answer rightly, be it right or wrong.
    """

    worker: float
    thinker: float
    verifier: float


@dataclass(frozen=True)
class SimulatedModel:
    """One model of a simulated pool.

    Attributes:
        name: what a request's ``model`` says, unique in the pool.
        skills: problem family -> skill; names as in ``services.core.families.FAMILIES``.
        otherwise: skill in the families that ``skills`` does not name.
    """

    name: str
    skills: Mapping[str, Skill]
    otherwise: Skill

    def skill(self, family: str) -> Skill:
        return self.skills.get(family, self.otherwise)


@dataclass(frozen=True)
class SimulatedPool:
    """Models with a stated competence.

    Attributes:
        name: first part of the address, ``/NAME/v1/chat/completions``.
        seed: of every draw; the same pool answers the same request alike.
        models: at least one.
        plan_gain: share of a Worker's error rate that a helpful plan removes, in [0, 1].
        latency: time until a reply.
        faults: how often requests fail.
    """

    name: str
    seed: int
    models: tuple[SimulatedModel, ...]
    plan_gain: float = 0.5
    latency: Latency = field(default_factory=Latency)
    faults: Faults = field(default_factory=Faults)


@dataclass(frozen=True)
class Recordings:
    """JSONL files of one form. Dotted paths enter nested objects; ``*`` in a path stands for the model's name.

    Attributes:
        files: read in order.
        question: path of the exact question text.
        answer: path of the recorded final answer, e.g. ``responses.*.answer``; None for score-only recordings.
        score: path of the recorded score, e.g. ``scores.*``; only needed where ``answer`` is None.
        scorer: how a Verifier compares its own answer with the proposed one; None for score-only recordings.
        id: path of the row's identifier, met again in ``texts``.
        texts: JSONL files of whole replies, one object ``{id, model, output}`` a line; may be empty.
    """

    files: tuple[Path, ...]
    question: str = "question"
    answer: str | None = None
    score: str | None = None
    scorer: ScorerKind | None = None
    id: str = "id"
    texts: tuple[Path, ...] = ()


@dataclass(frozen=True)
class ReplayPool:
    """Models that repeat recorded answers.

    Attributes:
        name: first part of the address.
        models: names as the recordings spell them.
        recordings: one entry per form of file.
        latency: time until a reply.
        faults: how often requests fail.
        seed: of latency and faults; answers draw nothing.
    """

    name: str
    models: tuple[str, ...]
    recordings: tuple[Recordings, ...]
    latency: Latency = field(default_factory=Latency)
    faults: Faults = field(default_factory=Faults)
    seed: int = 0


@dataclass(frozen=True)
class RecordingPool:
    """Models that play a recorded campaign back, call by call.

    Attributes:
        name: first part of the address.
        models: the campaign's names for them.
        calls: the recording.
        latency: time until a reply.
        faults: how often requests fail.
        seed: of latency and faults.
    """

    name: str
    models: tuple[str, ...]
    calls: Path
    latency: Latency = field(default_factory=Latency)
    faults: Faults = field(default_factory=Faults)
    seed: int = 0


LocalPool = SimulatedPool | ReplayPool | RecordingPool
