"""What a campaign file may say of rivals, and what every mistake says."""

from __future__ import annotations

from pathlib import Path

import pytest

from services.config import campaign as campaigns
from services.config.document import from_json, to_json
from services.core.campaign import Campaign
from services.core.errors import SpecError
from services.core.rivals import RivalKind, RivalSpec
from services.encoder.catalogue import BUNDLED, KNOWN

POOL = "".join(f"  - {{name: {name}, model: openai/{name}, price: {{input: 1, output: 1}}}}\n" for name in "abc")
SMALL = f"""\
name: small
problems: {{source: generated, families: [chain_sum], training: 20, validation: 8, heldout: 10}}
search: {{replicates: 4}}
pool:
{POOL}"""
RECORDED = f"""\
name: files
problems:
  source: jsonl
  sets: [{{files: [x.jsonl], question: q, scorer: recorded, scores: s.*}}]
  split: {{training: 0.5, heldout: 0.5}}
protocol: {{roles: [worker], max_turns: 1}}
labels: {{problems: 4}}
pool:
{POOL}"""


def resolved(text: str) -> Campaign:
    return campaigns.resolve(campaigns.parse(text, "f.yaml", Path("/home"), {}), KNOWN[BUNDLED])


def with_rivals(*rivals: str, text: str = SMALL) -> str:
    return text + "evaluation:\n  problems: 5\n  rivals:\n" + "".join(f"    - {rival}\n" for rival in rivals)


def test_every_rival_can_be_named_and_is_recorded() -> None:
    rivals = [f"{{kind: {kind}}}" for kind in ("random_worker", "mixture", "smoothie")]
    rivals += [f"{{kind: {kind}, model: b}}" for kind in ("long", "majority", "self_reflection", "llm_coordinator")]
    rivals += [f"{{kind: {kind}}}" for kind in ("lookup", "logistic", "router_dc", "smoothie_independent")]
    campaign = resolved(with_rivals(*rivals) + "labels: {problems: 8}\n")
    assert [rival.kind.value for rival in campaign.evaluation.rivals] == [
        rival.split("kind: ")[1].split(",")[0].rstrip("}") for rival in rivals
    ]
    assert campaign.evaluation.rivals[4] == RivalSpec(RivalKind.MAJORITY, "b", 5)
    assert from_json(to_json(campaign)) == campaign


@pytest.mark.parametrize(
    ("rivals", "place", "wanted"),
    [
        (["{kind: majority}"], "0.model", "a name of the pool: a, b, c"),
        (["{kind: long, model: d}"], "0.model", "a name of the pool: a, b, c"),
        (["{kind: mixture, model: a}"], "0.model", "nothing: mixture uses all models"),
        (["{kind: random_worker}", "{kind: smoothie, model: a}"], "1.model", "nothing: smoothie"),
        (["{kind: mixture}", "{kind: mixture, samples: 3}"], "1", "that rivals.0 does not have"),
        (["{kind: majority, model: a, samples: 1}"], "0.samples", "2"),
        (["{kind: oracle}"], "0.kind", "'majority'"),
    ],
)
def test_each_mistake_names_its_field(rivals: list[str], place: str, wanted: str) -> None:
    with pytest.raises(SpecError) as caught:
        resolved(with_rivals(*rivals))
    assert caught.value.path.startswith(f"evaluation.rivals.{place}")
    assert wanted in str(caught.value)


@pytest.mark.parametrize("kind", ["lookup", "router_dc"])
def test_what_is_fitted_needs_labels(kind: str) -> None:
    with pytest.raises(SpecError) as caught:
        resolved(with_rivals(f"{{kind: {kind}}}"))
    assert caught.value.path.startswith("labels.problems")
    assert resolved(with_rivals(f"{{kind: {kind}}}") + "labels: {problems: 8}\n")


def test_the_same_method_may_be_tried_with_several_models() -> None:
    campaign = resolved(with_rivals("{kind: majority, model: a}", "{kind: majority, model: b}"))
    assert [rival.label for rival in campaign.evaluation.rivals] == ["majority a", "majority b"]


def test_smoothie_needs_two_others_to_compare_with() -> None:
    text = with_rivals("{kind: smoothie}") + "protocol: {agents: [a, b]}\n"
    with pytest.raises(SpecError, match="at least 3 models to choose from"):
        resolved(text)


def test_a_long_answer_has_to_fit_the_window() -> None:
    windowed = SMALL.replace("{name: b,", "{name: b, context_window: 20000,") + "protocol: {max_output_tokens: 4096}\n"
    assert resolved(with_rivals("{kind: long, model: b, samples: 4}", text=windowed))
    with pytest.raises(SpecError) as caught:
        resolved(with_rivals("{kind: long, model: b, samples: 5}", text=windowed))
    assert caught.value.path.startswith("evaluation.rivals.0.samples")
    assert "20480" in str(caught.value)


@pytest.mark.parametrize("kind", RivalKind)
def test_recorded_scores_are_of_single_answers(kind: RivalKind) -> None:
    model = ", model: b" if kind in ("long", "majority", "self_reflection", "llm_coordinator") else ""
    text = with_rivals(f"{{kind: {kind}{model}}}", text=RECORDED)
    if kind in ("random_worker", "lookup", "logistic", "router_dc", "mas_router"):
        assert resolved(text).evaluation.rivals[0].kind is kind
        return
    with pytest.raises(SpecError, match="recorded scores are of single answers"):
        resolved(text)


def test_a_changed_record_is_held_to_the_same_rules() -> None:
    document = to_json(resolved(with_rivals("{kind: majority, model: a}")))
    document["campaign"]["evaluation"]["rivals"][0]["model"] = "d"
    with pytest.raises(SpecError) as caught:
        from_json(document)
    assert caught.value.path == "evaluation.rivals.0.model"


def test_a_description_is_kept_and_holds_no_key() -> None:
    described = SMALL.replace("{name: b,", "{name: b, description: good at sums,")
    assert resolved(described).pool[1].description == "good at sums"
    with pytest.raises(SpecError) as caught:
        resolved(SMALL.replace("{name: b,", "{name: b, description: uses sk-SECRET-123,"))
    assert "SECRET" not in str(caught.value)
    assert caught.value.path.startswith("pool.1.description")
