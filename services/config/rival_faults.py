"""What is wrong with the list of rivals in view of the rest of a campaign."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from services.config.yaml_reader import Key
from services.core.baselines.scaffolds import NAMES_MODEL
from services.core.rivals import FITTED, RivalKind, RivalSpec

# Their episodes are one Worker turn of one model, as those that recorded scores were given for; the others' are not, or
# they are fitted to answers, of which score-only recordings have none.
ONE_OWN_ANSWER = frozenset({RivalKind.RANDOM_WORKER, *FITTED}) - {RivalKind.SMOOTHIE_INDEPENDENT}

# An aggregator of one answer aggregates nothing; who is closest to two others needs two others.
FEWEST_AGENTS = {RivalKind.MIXTURE: 2, RivalKind.SMOOTHIE: 3, RivalKind.SMOOTHIE_INDEPENDENT: 3}

RivalFault = tuple[tuple[Key, ...], object, str]


def rival_faults(
    rivals: Sequence[RivalSpec], names: Sequence[str], agents: int, *, recorded: bool
) -> Iterator[RivalFault]:
    """Yield where below ``evaluation.rivals``, what stands there, and what is wanted.

    Args:
        rivals: the list.
        names: of the pool models.
        agents: how many of them may be chosen.
        recorded: whether a problem set is scored by recorded scores.
    """
    seen: dict[str, int] = {}
    for index, rival in enumerate(rivals):
        if rival.label in seen:
            yield (index,), rival.label, f"a kind and model that rivals.{seen[rival.label]} does not have"
        seen.setdefault(rival.label, index)
        if rival.kind in NAMES_MODEL and rival.model not in names:
            yield (index, "model"), rival.model, f"a name of the pool: {', '.join(names)}"
        if rival.kind not in NAMES_MODEL and rival.model is not None:
            yield (index, "model"), rival.model, f"nothing: {rival.kind} uses all models or chooses one itself"
        if agents < FEWEST_AGENTS.get(rival.kind, 1):
            yield (index, "kind"), rival.kind.value, f"at least {FEWEST_AGENTS[rival.kind]} models to choose from"
        if recorded and rival.kind not in ONE_OWN_ANSWER:
            allowed = ", ".join(sorted(kind.value for kind in ONE_OWN_ANSWER))
            yield (index, "kind"), rival.kind.value, f"one of {allowed}, because recorded scores are of single answers"
