"""Three sets of defaults for a campaign file: the paper, the authors' shipped run, and ours.

A preset fills in what the file does not say. Where the paper says nothing its preset has our value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from services.core.campaign import Algorithm, Campaign
from services.core.optimiser.ports import population_size
from services.core.policy.layout import Layout

Values = Mapping[str, Mapping[str, Any]]

DEFAULT_ENCODER = "smollm2-135m-instruct"
RECOMMENDED_NAME: Final = "recommended"

# What has no bearing on the paper's own search.
PAPERS_LEARNERS: Values = {
    "reinforce": {  # the authors' code; the paper gives the size of a batch alone
        "rate": 2e-3,
        "clip": 1e-3,
        "entropy": 0.35,
        "weight_decay": 1e-4,
        "baseline": "batch",
        "plays": 1,
        "spread": 1e-3,
    },
    "supervised": {  # appendix A.2.2; at this rate a head that starts at zero hardly moves
        "targets": "hard",
        "temperature": 0.2,  # not read beside hard targets
        "rate": 1e-6,
        "batch": 64,
        "epochs": 100,  # not given
        "folds": 1,
        "weight_decay": 0.0,
    },
}

PAPER: Values = {
    "encoder": {
        "model": "Qwen/Qwen3-0.6B",
        "position": "penultimate",
        "center": False,
        "norm": "none",
        "singular_values": "authors_nine",  # the 9,216 parameters of its Table 6
    },
    "head": {"kind": "linear", "output": "softmax"},
    "protocol": {
        "max_turns": 5,
        "max_output_tokens": 4096,
        "temperature": 0.1,  # not given; the authors' code
        "notes": "all",
        "thinker_sets_role": True,
        "verifier_without_answer": "count_as_revise",  # not given
    },
    "search": {
        "population": 32,
        "replicates": 16,
        "generations": 60,
        "sigma0": 0.03,  # not given; the authors' code
        "step_size": "csa",  # not given; that of the sep-CMA-ES it cites (Ros and Hansen, 2008)
        "mean_rate": 1.0,
        "antithetic": False,
        "minibatch": "common",  # not given
        "entropy_bonus": 0.0,
        "turn_bonus": 0.0,
    },
    "validation": {"every": 5},  # not given; the authors' code
    **PAPERS_LEARNERS,
}

AUTHORS_CODE: Values = {
    "encoder": {
        "model": "Qwen/Qwen3-0.6B",
        "position": "penultimate",
        "center": False,
        "norm": "none",
        "singular_values": "authors_nine",
    },
    "head": {"kind": "linear", "output": "softmax"},
    "protocol": {
        "max_turns": 5,
        "max_output_tokens": 4096,
        "temperature": 0.1,
        "notes": "worker",
        "thinker_sets_role": True,
        "verifier_without_answer": "end_zero",
    },
    "search": {
        "population": "auto",
        "replicates": 16,
        "generations": 60,  # their setting; their loop counts from 0 to 60
        "sigma0": 0.03,
        "step_size": "tpa",
        "mean_rate": 1.0,
        "antithetic": False,
        "minibatch": "fresh",
        "entropy_bonus": 0.15,
        "turn_bonus": 0.1,
    },
    "validation": {"every": 5},
    **PAPERS_LEARNERS,
}

RECOMMENDED: Values = {
    "encoder": {
        "model": DEFAULT_ENCODER,
        "position": "penultimate",
        "center": False,
        "norm": "none",
        # All layers below the matrices are then the same for every candidate and are read once.
        "singular_values": "second_to_last_layer",
    },
    "head": {"kind": "linear", "output": "softmax"},
    "protocol": {
        "max_turns": 5,
        "max_output_tokens": 4096,
        "temperature": 0.1,
        "notes": "all",
        "thinker_sets_role": True,
        "verifier_without_answer": "count_as_revise",
    },
    "search": {
        "population": "auto",
        "replicates": 16,
        "generations": 60,
        # Chosen at equal budget on objectives with a known truth: docs/search.md. With the states of the encoder above,
        # of length 51, a logit's standard deviation is 5 at first; the singular values then move its state by 7 %.
        "sigma0": 0.1,
        "step_size": "tpa",
        "mean_rate": 0.5,
        "antithetic": True,
        "minibatch": "common",  # removes the variance between questions from the comparison of candidates
        "entropy_bonus": 0.0,
        "turn_bonus": 0.0,
    },
    "validation": {"every": 5},
    "reinforce": {
        "rate": 1e-3,
        "clip": None,
        "entropy": 0.03,
        "weight_decay": 0.0,
        "baseline": "problem",
        "plays": 4,
        "spread": 0.0,
    },
    "supervised": {
        "targets": "reward",
        "temperature": 0.2,
        "rate": 1e-3,
        "batch": 64,
        "epochs": 100,
        "folds": 5,  # how many epochs are taken is told by problems that were held back
        "weight_decay": 0.0,
    },
}

PRESETS: Mapping[str, Values] = {"paper": PAPER, "authors_code": AUTHORS_CODE, RECOMMENDED_NAME: RECOMMENDED}


def filled(written: Mapping[str, Any]) -> dict[str, Any]:
    """Return the file's mapping with its preset's values wherever it says nothing; what is written stays as it is."""
    name = written.get("preset", RECOMMENDED_NAME)
    preset = PRESETS.get(name, RECOMMENDED) if isinstance(name, str) else RECOMMENDED
    return {**written, **{section: _section(values, written.get(section, {})) for section, values in preset.items()}}


def nearest(campaign: Campaign, singular_values: str | None) -> tuple[str, dict[str, object]]:
    """Return the preset from which a resolved campaign differs least, and the fields that differ with their values.

    Args:
        campaign: of which only the values are known, not the preset that filled them in.
        singular_values: which choice its matrices are; None for others.
    """
    found = {name: _differences(campaign, preset, singular_values) for name, preset in PRESETS.items()}
    name = min((RECOMMENDED_NAME, *PRESETS), key=lambda each: len(found[each]))
    return name, found[name]


def _differences(campaign: Campaign, preset: Values, singular_values: str | None) -> dict[str, object]:
    own = {
        ("encoder", "singular_values"): singular_values,
        ("search", "population"): _population(campaign, preset["search"]["population"]),
    }
    idle = {"reinforce"} if campaign.search.algorithm is not Algorithm.REINFORCE else set()
    idle |= {"supervised"} if not campaign.fits_labels else set()
    pairs = [
        (section, field, value)
        for section, values in preset.items()
        if section not in idle
        for field, value in values.items()
    ]
    found = {
        f"{section}.{field}": (own.get((section, field), getattr(getattr(campaign, section), field)), value)
        for section, field, value in pairs
    }
    return {path: value for path, (value, usual) in found.items() if value != usual}


def _population(campaign: Campaign, usual: object) -> object:
    size = campaign.search.population
    return usual if usual == "auto" and size == population_size(Layout.of_campaign(campaign).size) else size


def _section(values: Mapping[str, Any], written: Any) -> Any:
    if not isinstance(written, Mapping):
        return written
    # The two say the same thing in different units.
    replaced = {"sigma0"} if "logit_sigma0" in written else set()
    return {**{name: value for name, value in values.items() if name not in replaced}, **written}
