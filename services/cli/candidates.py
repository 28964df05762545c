"""What a campaign searches, in words."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from services.config import presets
from services.core.architecture import choice_of
from services.core.campaign import Algorithm, Campaign, EvidenceUse, HeadSpec, Matrix, Norm, Notes, SearchSpec, Start
from services.core.policy.layout import Layout
from services.encoder.catalogue import KNOWN


def lines(campaign: Campaign) -> list[tuple[str, str]]:
    """Return a heading and a text for preset, encoder, matrices, head, theta, protocol and search."""
    layout = Layout.of_campaign(campaign)
    return [
        ("preset", preset_text(campaign)),
        ("encoder", encoder_text(campaign)),
        ("matrices", matrices_text(layout.matrices)),
        ("head", head_text(campaign.head)),
        ("theta", theta_text(layout)),
        ("protocol", protocol_text(campaign, layout)),
        ("search", search_text(campaign.search)),
    ]


def preset_text(campaign: Campaign) -> str:
    """Return the preset that the resolved values are nearest to, and what differs; the database keeps values alone."""
    known = KNOWN.get(campaign.encoder.model)
    layers = known.decoder.layers if known is not None and known.decoder is not None else None
    name, changed = presets.nearest(campaign, choice_of(campaign.encoder.singular_values, layers))
    if not changed:
        return name
    return f"nearest to {name}, but {', '.join(f'{path} {_shown(value)}' for path, value in changed.items())}"


def _shown(value: object) -> str:
    if value is None:
        return "of its own"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


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


def head_text(head: HeadSpec) -> str:
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
    notes, checks = notes_text(protocol.notes), checks_text(campaign)
    return f"{', '.join(protocol.roles)}; at most {protocol.max_turns} turns{masked}; {notes}{checks}"


def notes_text(notes: Notes) -> str:
    """Return whose turns later turns read about."""
    return "notes of Workers alone" if notes is Notes.WORKER else "notes of all roles"


def checks_text(campaign: Campaign) -> str:
    """Return what checks answers beside the Verifier and the references; nothing in most campaigns."""
    protocol = campaign.protocol
    evidence = "" if protocol.evidence is EvidenceUse.NONE else f"; evidence: {protocol.evidence}"
    return evidence + ("" if campaign.scoring.judge is None else f"; judge: {campaign.scoring.judge}")


def step_text(search: SearchSpec) -> str:
    """Return the algorithm with what it steps by, and where it starts unless that is its own point."""
    start = ", from labels" if search.start is Start.SFT else ""
    if search.algorithm is Algorithm.REINFORCE:
        return f"REINFORCE{start}"
    if search.algorithm is Algorithm.RANDOM_SEARCH:
        return f"random search within {search.half_width:g}{start}"
    rate = "" if search.mean_rate == 1 else f", mean rate {search.mean_rate:g}"
    pairs = ", antithetic pairs" if search.antithetic else ""
    return f"sigma {search.sigma0:g} by {search.step_size}{rate}{pairs}{start}"


def search_text(search: SearchSpec) -> str:
    if search.algorithm is Algorithm.SFT:
        return "fitted to labels"
    if search.algorithm is Algorithm.GIVEN:
        return f"none: coordinator {search.coordinator}, released before, is compared"
    sizes = f"population {search.population}, {search.replicates} replicates"
    steps = f"{search.generations} generations, {step_text(search)}"
    bonuses = (("entropy", search.entropy_bonus), ("turn", search.turn_bonus))
    shaping = "".join(f", {name} bonus {weight:g}" for name, weight in bonuses if weight)
    if search.cost_weight:
        shaping += f", cost weight {search.cost_weight:g} in units of {search.cost_unit_usd:g} USD an episode"
    return f"{sizes}, {steps}, {search.minibatch} minibatch{shaping}"
