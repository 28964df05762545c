"""What a campaign searches, in words."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from services.core.campaign import Campaign, EvidenceUse, Matrix, Norm, Notes, SearchSpec
from services.core.policy.layout import Layout


def lines(campaign: Campaign) -> list[tuple[str, str]]:
    """Return a heading and a text for encoder, matrices, head, theta, protocol and search."""
    layout = Layout.of_campaign(campaign)
    return [
        ("encoder", encoder_text(campaign)),
        ("matrices", matrices_text(layout.matrices)),
        ("head", head_text(campaign)),
        ("theta", theta_text(layout)),
        ("protocol", protocol_text(campaign, layout)),
        ("search", search_text(campaign.search)),
    ]


def encoder_text(campaign: Campaign) -> str:
    encoder = campaign.encoder
    centred = ", centred" if encoder.center else ""
    normed = "" if encoder.norm is Norm.NONE else f", {encoder.norm} norm"
    return f"{encoder.model}, {encoder.position} position{centred}{normed}"


def matrices_text(matrices: Sequence[Matrix]) -> str:
    """Return the matrices whose singular values are searched, those of one layer together."""
    if not matrices:
        return "none"
    groups = groupby((matrix.name for matrix in matrices), key=_layer)
    parts = [_group(layer, list(names)) for layer, names in groups]
    return f"{len(matrices)}: {', '.join(parts)}"


def _layer(name: str) -> str:
    return ".".join(name.split(".")[:2]) if name.startswith("layers.") else ""


def _group(layer: str, names: Sequence[str]) -> str:
    short = [name.rpartition(".")[2] for name in names]
    return f"{layer} ({', '.join(short)})" if layer else ", ".join(names)


def head_text(campaign: Campaign) -> str:
    head = campaign.head
    rank = "" if head.rank is None else f" of rank {head.rank}"
    return f"{head.kind}{rank}, {head.output} output"


def theta_text(layout: Layout) -> str:
    """Return the sizes of theta's blocks, their sum and what the head's rows are."""
    blocks = [f"{name} {size:,}" for name, size in layout.blocks.items() if size]
    agents = f"{len(layout.agents)} agent{'s' * (len(layout.agents) > 1)}"
    roles = f" + {layout.role_rows} roles" if layout.role_rows else ""
    return f"dimension {layout.size:,} = {' + '.join(blocks)}; {agents}{roles}"


def protocol_text(campaign: Campaign, layout: Layout) -> str:
    protocol = campaign.protocol
    agents = ", ".join(campaign.pool[agent].name for agent in layout.agents)
    masked = f"; only {agents}" if protocol.agents else ""
    notes = "; notes of Workers alone" if protocol.notes is Notes.WORKER else ""
    return f"{', '.join(protocol.roles)}; at most {protocol.max_turns} turns{masked}{notes}{checks_text(campaign)}"


def checks_text(campaign: Campaign) -> str:
    """Return what checks answers beside the Verifier and the references; nothing in most campaigns."""
    protocol = campaign.protocol
    evidence = "" if protocol.evidence is EvidenceUse.NONE else f"; evidence: {protocol.evidence}"
    return evidence + ("" if campaign.scoring.judge is None else f"; judge: {campaign.scoring.judge}")


def search_text(search: SearchSpec) -> str:
    sizes = f"population {search.population}, {search.replicates} replicates"
    steps = f"{search.generations} generations, sigma {search.sigma0:g} by {search.step_size}"
    bonuses = (("entropy", search.entropy_bonus), ("turn", search.turn_bonus))
    shaping = "".join(f", {name} bonus {weight:g}" for name, weight in bonuses if weight)
    return f"{sizes}, {steps}, {search.minibatch} minibatch{shaping}"
