"""What a trained coordinator is compared with, beyond single models and chance (paper, sections 4.1 and A.7)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class RivalKind(StrEnum):
    """The methods of the paper's comparison and the simple ones that any coordinator has to beat."""

    RANDOM_WORKER = "random_worker"  # a random model, one Worker turn
    LONG = "long"  # one model with a multiple of the tokens (5xCTX)
    MAJORITY = "majority"  # one model asked several times, the most frequent answer
    SELF_REFLECTION = "self_reflection"  # one model answers and reconsiders (5xSR)
    MIXTURE = "mixture"  # mixture of agents: every model proposes, a random one aggregates
    SMOOTHIE = "smoothie"  # every model answers; the one closest to the others, per question (dependent)
    SMOOTHIE_INDEPENDENT = "smoothie_independent"  # the same with one model for the whole set
    LLM_COORDINATOR = "llm_coordinator"  # a prompted model picks model and role at every turn
    LOOKUP = "lookup"  # the question's family is told from its state; the best model of that family on the labels
    LOGISTIC = "logistic"  # softmax regression on the question's state
    ROUTER_DC = "router_dc"
    MAS_ROUTER = "mas_router"


# Fitted to labels before the evaluation opens; their parameters are the candidate's vector.
FITTED = frozenset(
    {
        RivalKind.SMOOTHIE_INDEPENDENT,
        RivalKind.LOOKUP,
        RivalKind.LOGISTIC,
        RivalKind.ROUTER_DC,
        RivalKind.MAS_ROUTER,
    }
)


@dataclass(frozen=True)
class RivalSpec:
    """One rival. Its place in the campaign's list is the index of its candidate.

    Attributes:
        kind: which method.
        model: the pool model that acts, aggregates or coordinates; None where the method uses all or draws one.
        samples: answers that vote, or turns of reflection; a multiple of the tokens for ``long``.
    """

    kind: RivalKind
    model: str | None = None
    samples: int = 5

    @property
    def label(self) -> str:
        """Return the name under which it stands in tables."""
        name = self.kind.value.replace("_", " ")
        return name if self.model is None else f"{name} {self.model}"
