"""How many model calls a question costs under each method at most, and what each of them reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from services.core.campaign import ProtocolSpec
from services.core.rivals import RivalKind, RivalSpec


@dataclass(frozen=True)
class PlannedCall:
    """One call of an episode.

    Attributes:
        notes: earlier replies that it reads.
        multiple: its limit of tokens, in units of the protocol's.
        place: which of the models that may be chosen is asked; None for the named one, or for any.
        coordinates: whether it is a prompted coordinator's choice instead of a turn.
    """

    notes: int = 0
    multiple: int = 1
    place: int | None = None
    coordinates: bool = False


def planned_calls(spec: RivalSpec, pool_size: int, protocol: ProtocolSpec) -> tuple[PlannedCall, ...]:
    """Return the calls of one episode in order, as many as there can be.

    Only the prompted coordinator may make fewer: an accepted answer ends its episode, and a Verifier with nothing to
    check asks nobody.

    Args:
        spec: the rival.
        pool_size: number of pool models.
        protocol: whose ``agents`` say how many of them take part.
    """
    agents = len(protocol.agents) or pool_size
    match spec.kind:
        case RivalKind.LONG:
            return (PlannedCall(multiple=spec.samples),)
        case RivalKind.MAJORITY:
            return (PlannedCall(),) * spec.samples
        case RivalKind.SELF_REFLECTION:
            return (PlannedCall(), *(PlannedCall(notes=1),) * (spec.samples - 1))
        case RivalKind.MIXTURE:
            return (*_of_every(agents), PlannedCall(notes=agents))
        case RivalKind.SMOOTHIE:
            return _of_every(agents)
        case RivalKind.LLM_COORDINATOR:
            turns = range(protocol.max_turns)
            return tuple(PlannedCall(turn, coordinates=chooses) for turn in turns for chooses in (True, False))
        case (
            RivalKind.RANDOM_WORKER
            | RivalKind.SMOOTHIE_INDEPENDENT
            | RivalKind.LOOKUP
            | RivalKind.LOGISTIC
            | RivalKind.ROUTER_DC
            | RivalKind.MAS_ROUTER
        ):
            return (PlannedCall(),)
    assert_never(spec.kind)


def _of_every(agents: int) -> tuple[PlannedCall, ...]:
    return tuple(PlannedCall(place=place) for place in range(agents))
