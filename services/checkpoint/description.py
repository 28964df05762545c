"""What ``config.json`` says about a coordinator, beside the hash of its parameters."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from services.checkpoint.strict import plain, read, require_keys, wrong
from services.core.campaign import EncoderSpec, HeadSpec, ProtocolSpec
from services.core.errors import SpecError
from services.core.fingerprint import Fingerprint
from services.core.policy.layout import Layout
from services.core.protocol.prompts import messages_for
from services.core.protocol.roles import ROLE_ORDER, Role, RoleSource
from services.core.protocol.transcript import Item, Transcript
from services.core.protocol.verdict import Verdict

# Fields that folders did not always have, and what they are where a folder lacks them.
ADDED: Mapping[str, Mapping[str, Any]] = {
    "reading": {"cutting_rule": 1},
    "training": {"preset": ""},
    "protocol": {"evidence": "none"},
}


@dataclass(frozen=True)
class PoolModel:
    """One model of the pool; ``model`` is litellm's name for it. Keys, addresses and options are not kept."""

    name: str
    model: str


@dataclass(frozen=True)
class Origin:
    """The campaign that trained it.

    Attributes:
        name: the campaign's.
        spec_sha256: hash of its resolved specification.
        seed: the campaign's.
        generation: the one that opened with this mean.
        versions: of the product, the search and Python at its submission.
    """

    name: str
    spec_sha256: str
    seed: int
    generation: int
    versions: Mapping[str, str]


@dataclass(frozen=True)
class Training:
    """What the campaign used when this was written, searching, validating and comparing together.

    ``generations`` counts the training ones before this mean. ``preset`` says which preset the campaign's settings are
    nearest to and what differs; folders older than this field have it empty.
    """

    generations: int
    population: int
    replicates: int
    episodes: int
    calls: int
    tokens: int
    usd: Decimal
    preset: str = ""


@dataclass(frozen=True)
class Score:
    """A mean reward on ``n`` problems with its 95 % interval; ``kind`` is ``coordinator``, ``single`` or ``random``."""

    kind: str
    policy: str
    n: int
    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Scores:
    """What was measured: the validation that this mean may have been chosen by, and the held-out comparison."""

    validation: Score | None = None
    evaluation: tuple[Score, ...] = ()


@dataclass(frozen=True)
class Description:
    """Everything about a coordinator but its parameters.

    Attributes:
        name: under which it was released.
        encoder: which model reads, and how.
        reading: fingerprint of the encoder it was trained with; None when nobody recorded it.
        layout: what stands where in theta, the head and its output included.
        pool: the models in the order of the agents' logits.
        protocol: the rules of an episode.
        prompts: ``prompts_digest`` of the release that wrote this.
        origin: where it comes from.
        training: what it cost.
        scores: what it reached.
        product: version of the release that wrote this.
    """

    name: str
    encoder: EncoderSpec
    reading: Fingerprint | None
    layout: Layout
    pool: tuple[PoolModel, ...]
    protocol: ProtocolSpec
    prompts: str
    origin: Origin
    training: Training
    scores: Scores
    product: str

    def to_json(self) -> dict[str, Any]:
        """Return plain data that ``from_json`` reads back."""
        return {name: plain(value) for name, value in vars(self).items()} | {"layout": self.layout.to_json()}

    @classmethod
    def from_json(cls, data: Any) -> Description:
        """Read back, and check the parts against each other.

        Raises:
            SpecError: a missing, unknown or wrong field; names it.
        """
        require_keys(data, set(cls.__dataclass_fields__), "")
        data = {name: _completed(name, value) for name, value in data.items()}
        layout = _layout(data["layout"])
        parts = {
            "encoder": EncoderSpec,
            "pool": tuple[PoolModel, ...],
            "protocol": ProtocolSpec,
            "origin": Origin,
            "training": Training,
            "scores": Scores,
            "reading": Fingerprint | None,
        }
        found = {name: read(parts.get(name, str), data[name], name) for name in data if name != "layout"}
        description = cls(layout=layout, **found)
        _require_one_story(description)
        return description


def _completed(name: str, value: Any) -> Any:
    return {**ADDED[name], **value} if name in ADDED and isinstance(value, Mapping) else value


def prompts_digest() -> str:
    """Return a sha256 of what the pool models read in each role, for a made-up conversation that shows every role."""
    items = tuple(
        Item(
            number,
            0,
            role,
            RoleSource.POLICY,
            "output",
            "text",
            answer="1" if role is Role.WORKER else None,
            verdict=Verdict.REVISE if role is Role.VERIFIER else None,
        )
        for number, role in enumerate(ROLE_ORDER, start=1)
    )
    messages = [
        message for role in ROLE_ORDER for message in messages_for(role, Transcript("question", items), ProtocolSpec())
    ]
    return hashlib.sha256("\n".join(f"{each.role}\n{each.content}" for each in messages).encode()).hexdigest()


def _layout(data: Any) -> Layout:
    sample = Layout.of(1, ROLE_ORDER, 1).to_json()
    require_keys(data, set(sample), "layout")
    read(HeadSpec, data["head"], "layout.head")
    for name, value in data.items():
        if type(value) is not type(sample[name]) or _holds_other(value):
            raise wrong(f"layout.{name}", value, f"something like {sample[name]!r}")
    try:
        layout = Layout.from_json(data)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise SpecError("layout", f"{error!r}"[:200], "a layout as this release writes it") from error
    for name, written in layout.to_json().items():
        if data[name] != written:
            raise wrong(f"layout.{name}", data[name], f"{written!r}"[:200])
    return layout


def _holds_other(value: Any) -> bool:
    """Whether there are fractions or booleans in it, which could pass for whole numbers when they are compared."""
    if isinstance(value, dict | list):
        return any(_holds_other(item) for item in (value.values() if isinstance(value, dict) else value))
    return not (value is None or isinstance(value, str) or type(value) is int)


def _require_one_story(description: Description) -> None:
    """Raise SpecError where the layout says something else than pool, protocol or encoder."""
    layout, names = description.layout, [model.name for model in description.pool]
    if len(set(names)) < len(names):
        raise wrong("pool", names, "a name for each model that no other has")
    agents = tuple(
        index
        for index, name in enumerate(names)
        if not description.protocol.agents or name in description.protocol.agents
    )
    if layout.agents != agents:
        raise wrong("layout.agents", list(layout.agents), f"{list(agents)}, the models that the protocol allows")
    roles = tuple(role for role in ROLE_ORDER if role in description.protocol.roles)
    if layout.allowed != roles:
        raise wrong("layout.roles", [str(role) for role in layout.allowed], f"the protocol's {', '.join(roles)}")
    if layout.matrices != description.encoder.singular_values:
        matrices = [matrix.name for matrix in layout.matrices]
        raise wrong("layout.matrices", matrices, "the encoder's singular_values")
