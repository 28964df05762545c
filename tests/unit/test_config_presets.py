"""What each preset makes of a file that says nothing but its pool and its problems."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from services.cli import candidates
from services.config import campaign as campaigns
from services.config.document import from_json, to_json
from services.config.presets import PRESETS, RECOMMENDED_NAME
from services.core.campaign import Campaign
from services.core.policy.layout import Layout
from services.encoder.catalogue import architecture

SEVEN = ("gpt-5", "claude-sonnet-4", "gemini-2.5-pro", "deepseek-r1-32b", "gemma-3-27b", "qwen3-32b-r", "qwen3-32b-d")
FILE = """
name: seven
problems: {source: generated, families: [chain_sum], training: 100, validation: 20, heldout: 20}
pool:
""" + "".join(f"  - {{name: {name}, model: openai/{name}, price: {{input: 1, output: 2}}}}\n" for name in SEVEN)

LAYER = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")

# Everything that a preset decides, as the record has it.
GOLDEN: dict[str, dict[str, Any]] = {
    "paper": {
        "encoder": ("Qwen/Qwen3-0.6B", "penultimate", False, "none"),
        "matrices": ("embed_tokens", *LAYER, "lm_head"),
        "head": ("linear", "softmax", None),
        "blocks": {"svf": 9216, "head": 10_240},
        "protocol": ("all", 5, 4096, 0.1, True, "count_as_revise"),
        "search": (32, 16, 60, 0.03, "common", "csa", 1.0, False, 0.0, 0.0),
        "every": 5,
    },
    "authors_code": {
        "encoder": ("Qwen/Qwen3-0.6B", "penultimate", False, "none"),
        "matrices": ("embed_tokens", *LAYER, "lm_head"),
        "head": ("linear", "softmax", None),
        "blocks": {"svf": 9216, "head": 10_240},
        "protocol": ("worker", 5, 4096, 0.1, True, "end_zero"),
        "search": (34, 16, 60, 0.03, "fresh", "tpa", 1.0, False, 0.15, 0.1),
        "every": 5,
    },
    "recommended": {
        "encoder": ("smollm2-135m-instruct", "penultimate", False, "none"),
        "matrices": LAYER,
        "head": ("linear", "softmax", None),
        "blocks": {"svf": 3264, "head": 5760},
        "protocol": ("all", 5, 4096, 0.1, True, "count_as_revise"),
        "search": (32, 16, 60, 0.1, "common", "tpa", 0.5, True, 0.0, 0.0),
        "every": 5,
    },
}


def resolved(text: str) -> Campaign:
    file = campaigns.parse(text, "f.yaml", Path("/home"), {})
    return campaigns.resolve(file, architecture(file.encoder.model, file.encoder.revision))


def decided(campaign: Campaign) -> dict[str, Any]:
    encoder, head, protocol, search = campaign.encoder, campaign.head, campaign.protocol, campaign.search
    return {
        "encoder": (encoder.model, encoder.position, encoder.center, encoder.norm),
        "matrices": tuple(matrix.name.rpartition(".")[2] for matrix in encoder.singular_values),
        "head": (head.kind, head.output, head.rank),
        "blocks": dict(Layout.of_campaign(campaign).blocks),
        "protocol": (
            protocol.notes, protocol.max_turns, protocol.max_output_tokens, protocol.temperature,
            protocol.thinker_sets_role, protocol.verifier_without_answer,
        ),
        "search": (
            search.population, search.replicates, search.generations, search.sigma0, search.minibatch,
            search.step_size, search.mean_rate, search.antithetic, search.entropy_bonus, search.turn_bonus,
        ),
        "every": campaign.validation.every,
    }  # fmt: skip


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_resolves_to_these_values(name: str) -> None:
    assert decided(resolved(f"preset: {name}{FILE}")) == GOLDEN[name]


def test_without_a_preset_a_file_has_the_recommended_one() -> None:
    assert resolved(FILE) == resolved(f"preset: {RECOMMENDED_NAME}{FILE}")


def test_every_preset_decides_the_same_fields() -> None:
    fields = [{section: set(values) for section, values in preset.items()} for preset in PRESETS.values()]
    assert fields[0] == fields[1] == fields[2]


def test_what_the_file_says_wins_field_by_field() -> None:
    text = f"preset: authors_code{FILE}search: {{turn_bonus: 0.0, population: 6}}\nprotocol: {{notes: all}}\n"
    search = resolved(text).search
    assert (search.turn_bonus, search.population, search.entropy_bonus, search.step_size) == (0.0, 6, 0.15, "tpa")
    protocol = resolved(text).protocol
    assert (protocol.notes, protocol.verifier_without_answer) == ("all", "end_zero")


@pytest.mark.parametrize("name", PRESETS)
def test_the_record_holds_values_and_can_be_read_back(name: str) -> None:
    campaign = resolved(f"preset: {name}{FILE}")
    document = json.loads(json.dumps(to_json(campaign)))
    assert from_json(document) == campaign
    assert "preset" not in json.dumps(document)


DOCUMENTED = (Path(__file__).parents[2] / "docs" / "campaign-file.md").read_text()


@pytest.mark.parametrize(
    ("ablation", "recipe", "svf", "rows"),
    [
        ("without SVF", "encoder: {singular_values: none}", 0, 10),
        ("without Thinker", "protocol: {roles: [worker, verifier]}", 9216, 9),
        ("without tri-role", "protocol: {roles: [worker]}", 9216, 7),
        ("last token", "encoder: {position: last}", 9216, 10),
        ("single agent", "protocol: {agents: [gpt-5]}", 9216, 4),
    ],
)
def test_the_documented_ablations_change_one_thing_of_the_paper(
    ablation: str, recipe: str, svf: int, rows: int
) -> None:
    (line,) = [line for line in DOCUMENTED.splitlines() if line.startswith(f"| {ablation} |")]
    assert f"`{recipe.replace('gpt-5', 'NAME')}`" in line
    campaign, whole = resolved(f"preset: paper{FILE}{recipe}\n"), resolved(f"preset: paper{FILE}")
    assert Layout.of_campaign(campaign).blocks == {"svf": svf, "head": rows * 1024}
    changed = {name for name, value in vars(whole).items() if getattr(campaign, name) != value}
    assert changed - {"budget"} == {recipe.partition(":")[0]}


@pytest.mark.parametrize("name", PRESETS)
def test_the_documented_table_is_the_mapping(name: str) -> None:
    rows = [
        line.strip("| ").split(" | ")
        for line in DOCUMENTED.splitlines()
        if line.startswith(("| `encoder.", "| `search."))
    ]
    column = 1 + list(PRESETS).index(name)
    for row in rows:
        if row[column] != "the same" and "," not in row[0]:
            section, field = row[0].strip("`").split(".")
            assert row[column].split(" ")[0].lower() == str(PRESETS[name][section][field]).lower()
    assert len(rows) == 11


@pytest.mark.parametrize("name", PRESETS)
def test_a_file_of_a_preset_alone_is_known_as_that(name: str) -> None:
    assert candidates.preset_text(resolved(f"preset: {name}{FILE}")) == name


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("encoder: {singular_values: none, center: true}", "encoder.center yes, encoder.singular_values none"),
        ("encoder: {singular_values: [lm_head]}", "encoder.singular_values of its own"),
        ("encoder: {singular_values: [layers.3.mlp.up_proj]}", "encoder.singular_values of its own"),
        ("search: {population: 7, sigma0: 0.5}", "search.population 7, search.sigma0 0.5"),
    ],
)
def test_what_differs_from_the_nearest_preset_is_told(change: str, told: str) -> None:
    assert candidates.preset_text(resolved(f"{FILE}{change}\n")) == f"nearest to recommended, but {told}"
