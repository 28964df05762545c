"""What else can be done with the same pool: the paper's Tables 7 to 9 and Figure 3.

None of it learns from the search, so its campaigns train for three episodes only and ignore what comes of it; the
trained coordinator is the base's, on the same problems with the same seeds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from services.core.campaign import Algorithm, Start
from services.core.rivals import FITTED, RivalKind, RivalSpec
from services.core.studies.paper import PAPER_MODELS
from services.core.studies.study import BASE, Ground, LeftOut, Policy, Row, Variant, Who

MOST_LABELLED = 500  # problems, as for RouterDC in the paper (section 4.1)
TRAINED = Row("TRINITY (base)", BASE, paper="TRINITY")


def vote_rows(ground: Ground) -> list[Row | LeftOut]:
    """Return the lines of Table 7: five votes of each model, and its single answer."""
    rows: list[Row | LeftOut] = [TRAINED]
    for name in ground.models:
        paper = f"Majority@5 {PAPER_MODELS[name]}" if name in PAPER_MODELS else None
        rows.append(_rival(ground, "votes", f"majority@5 {name}", RivalSpec(RivalKind.MAJORITY, name), paper))
    alone = _rivals_alone(ground, "votes")
    return [*rows, *(Row(f"{name}, one answer", alone, _single(name)) for name in ground.models)]


def prompted_rows(ground: Ground) -> list[Row | LeftOut]:
    """Return the lines of Table 8: each model as a prompted coordinator of the pool."""
    rows: list[Row | LeftOut] = [TRAINED]
    for name in ground.models:
        paper = "LLM as coordinator (Gemini-2.5-pro)" if name == "gemini-2.5-pro" else None
        spec = RivalSpec(RivalKind.LLM_COORDINATOR, name)
        rows.append(_rival(ground, "prompted", f"{name} as coordinator", spec, paper))
    return rows


def all_rows(ground: Ground) -> list[Row | LeftOut]:
    """Return the lines of Figure 3: single models, their longer forms, what combines them, what routes, the union."""
    key = "rivals"
    plain = _rivals_alone(ground, key)
    rows: list[Row | LeftOut] = [TRAINED]
    rows += [Row(name, plain, _single(name), PAPER_MODELS.get(name)) for name in ground.models]
    rows += _per_model(ground, key, RivalKind.LONG, "5xCTX")
    rows += _per_model(ground, key, RivalKind.SELF_REFLECTION, "5xSR")
    rows += [
        _rival(ground, key, "MoA", RivalSpec(RivalKind.MIXTURE), "MoA"),
        _rival(ground, key, "Smoothie", RivalSpec(RivalKind.SMOOTHIE), "Smoothie"),
        _rival(ground, key, "Smoothie, independent", RivalSpec(RivalKind.SMOOTHIE_INDEPENDENT)),
        _rival(ground, key, "RouterDC", RivalSpec(RivalKind.ROUTER_DC), "RouterDC"),
        _rival(ground, key, "MasRouter, its choice of one model", RivalSpec(RivalKind.MAS_ROUTER), "MasRouter"),
        _rival(ground, key, "family, then its best model", RivalSpec(RivalKind.LOOKUP)),
        _rival(ground, key, "regression on the state", RivalSpec(RivalKind.LOGISTIC)),
        Row("random", plain, Policy(Who.RANDOM), "random"),
        _rival(ground, key, "random model, one answer", RivalSpec(RivalKind.RANDOM_WORKER)),
    ]
    return rows


def compared_rows(ground: Ground) -> list[Row | LeftOut]:
    """Return ``all_rows`` with the union of the single models' correct answers."""
    union = Policy(Who.BEST_PER_PROBLEM)
    return [*all_rows(ground), Row("per-question best", _rivals_alone(ground, "rivals"), union, "per-question best")]


def _per_model(ground: Ground, key: str, kind: RivalKind, short: str) -> Iterator[Row]:
    for name in ground.models:
        paper = f"{short} {PAPER_MODELS[name]}" if name in PAPER_MODELS else None
        yield _rival(ground, key, f"{short} {name}", RivalSpec(kind, name), paper)


def _rival(ground: Ground, key: str, label: str, spec: RivalSpec, paper: str | None = None) -> Row:
    entry = {"kind": spec.kind.value} | ({} if spec.model is None else {"model": spec.model})
    variant = _rivals_alone(ground, key, labelled=spec.kind in FITTED)
    variant = Variant(variant.key, variant.changes, (entry,))
    return Row(label, variant, Policy(Who.RIVAL, spec.label), paper)


def _rivals_alone(ground: Ground, key: str, labelled: bool = False) -> Variant:
    """Return a campaign that evaluates and hardly trains; ``labelled`` where a rival has to be fitted."""
    search = {"algorithm": Algorithm.SEP_CMA_ES.value, "start": Start.ZERO.value}
    changes: dict[str, Any] = {
        "search": {**search, "generations": 1, "population": 3, "replicates": 1},
        "validation": {"problems": 0},
        "evaluation": {"baselines": ["single", "random"], "rivals": []},
        "encoder": {"singular_values": "none"},
    }
    own = ground.campaign.labels
    if labelled and not own.problems:
        changes["labels"] = {"problems": min(MOST_LABELLED, ground.training_problems), "repeats": 1}
    return Variant(key, changes)


def _single(name: str) -> Policy:
    return Policy(Who.SINGLE, name)
