"""One thing changed at a time: the paper's Table 2, its heads, and the number of turns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from services.core.campaign import HeadKind, Output
from services.core.protocol.roles import ROLE_ORDER, Role
from services.core.studies.names import slug
from services.core.studies.paper import PAPER_MODELS
from services.core.studies.study import BASE, Changes, Ground, LeftOut, Row, Variant

TURNS_SWEPT = (2, 4, 6)

# The outputs are the paper's: only the head with one block per logit takes the largest one.
HEADS: Final[Mapping[str, tuple[HeadKind, Output]]] = {
    "linear": (HeadKind.LINEAR, Output.SOFTMAX),
    "low-rank": (HeadKind.LOW_RANK, Output.SOFTMAX),
    "sparse": (HeadKind.SPARSE, Output.SOFTMAX),
    "block-diagonal-2": (HeadKind.BLOCK_DIAGONAL_2, Output.SOFTMAX),
    "block-diagonal-10 + argmax": (HeadKind.BLOCK_DIAGONAL_10, Output.ARGMAX),
}


def changed(key: str, **changes: Changes) -> Variant:
    """Return a variant of which the coordinator alone is evaluated: the base has the other policies."""
    return Variant(key, {**changes, "evaluation": {"baselines": [], "rivals": []}})


def ablation_rows(ground: Ground) -> list[Row | LeftOut]:
    """Return the lines of Table 2; what the base lacks already cannot be taken away."""
    campaign = ground.campaign
    rows: list[Row | LeftOut] = [Row("TRINITY (base)", BASE, paper="TRINITY"), _singular_values(ground)]
    for label, key, kept in (
        ("w/o Thinker", "without-thinker", (Role.WORKER, Role.VERIFIER)),
        ("w/o tri-role", "without-tri-role", (Role.WORKER,)),
    ):
        roles = [role.value for role in ROLE_ORDER if role in kept and role in campaign.protocol.roles]
        if len(roles) == len(campaign.protocol.roles):
            rows.append(LeftOut(label, f"the base has no other roles than {', '.join(roles)}", paper=label))
        else:
            rows.append(Row(label, changed(f"table2-{key}", protocol={"roles": roles}), paper=label))
    if campaign.encoder.position == "last":
        rows.append(LeftOut("last token", "the base reads the last token already", paper="last token"))
    else:
        rows.append(Row("last token", changed("table2-last-token", encoder={"position": "last"}), paper="last token"))
    return [*rows, *_single_agents(ground)]


def head_rows(ground: Ground) -> list[Row | LeftOut]:
    """Return the lines of Table 3, the base's own head among them."""
    search = ground.campaign.search
    rows: list[Row | LeftOut] = []
    for label, (kind, output) in HEADS.items():
        own = ground.campaign.head.kind is kind and ground.campaign.head.output is output
        # A step size in units of a logit exists for the linear head only; the resolved one stands for it.
        step = {"sigma0": search.sigma0, "logit_sigma0": None}
        head = {"kind": kind.value, "output": output.value, "rank": None}
        variant = BASE if own else changed(f"table3-{kind.value}", head=head, search=step)
        rows.append(Row(label, variant, paper=label))
    return rows


def turn_rows(ground: Ground) -> list[Row | LeftOut]:
    """Return the swept numbers of turns, from the smallest; the base's own among them, which is the reference."""
    own = ground.campaign.protocol.max_turns
    rows: list[Row | LeftOut] = [Row(f"{own} turns (base)", BASE, paper=f"{own} turns")]
    for turns in TURNS_SWEPT:
        if turns != own:
            variant = changed(f"turns-{turns}", protocol={"max_turns": turns})
            rows.append(Row(f"{turns} turns", variant, paper=f"{turns} turns", against=f"{own} turns"))
    return rows


def _singular_values(ground: Ground) -> Row:
    """The base without the search of singular values, or with it if it has none."""
    if ground.campaign.encoder.singular_values:
        return Row("w/o SVF", changed("table2-without-svf", encoder={"singular_values": "none"}), paper="w/o SVF")
    variant = changed("table2-with-svf", encoder={"singular_values": "second_to_last_layer"})
    return Row("with SVF (the base has none)", variant, paper="TRINITY", against="w/o SVF")


def _single_agents(ground: Ground) -> Iterator[Row | LeftOut]:
    names = ground.campaign.protocol.agents or ground.models
    if len(names) == 1:
        yield LeftOut("one model only", f"the base chooses no other model than {names[0]}")
        return
    for name in names:
        paper = f"{PAPER_MODELS[name]} only" if name in PAPER_MODELS else None
        yield Row(f"{name} only", changed(f"table2-only-{slug(name)}", protocol={"agents": [name]}), paper=paper)
