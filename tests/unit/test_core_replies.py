from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.core.protocol.answers import parse_thinker, parse_worker, write_thinker, write_worker
from services.core.protocol.roles import Role
from services.core.protocol.verdict import Verdict, parse_verdict, write_verdict

PLAIN = st.text(st.characters(codec="utf-8", exclude_characters="<"), max_size=60)


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("ACCEPT", Verdict.ACCEPT),
        ("accept", Verdict.ACCEPT),
        ("\n\n \tACCEPT: all steps hold", Verdict.ACCEPT),
        ("**ACCEPT**\nIt is right.", Verdict.ACCEPT),
        ("ACCEPT. Nothing to add, only praise.", Verdict.ACCEPT),
        ("ACCEPT\u2014fine", Verdict.ACCEPT),
        ("<think>I could REVISE</think>ACCEPT", Verdict.ACCEPT),
        ("REVISE: the sign is wrong", Verdict.REVISE),
        ("revise", Verdict.REVISE),
        ("REJECT, it is empty", Verdict.REVISE),
        ("REVISE: the answer must contain ACCEPT", Verdict.REVISE),
        ("REVISE: ACCEPT is missing", Verdict.REVISE),
        ("I do not ACCEPT this", Verdict.UNCLEAR),
        ("Acceptable only if you fix it", Verdict.UNCLEAR),
        ("ACCEPT only if the unit is metres", Verdict.UNCLEAR),
        ("DISACCEPT", Verdict.UNCLEAR),
        ("ACCEPT\u00e9", Verdict.UNCLEAR),
        ("reviſe", Verdict.UNCLEAR),
        ("ACCEPT-ish", Verdict.UNCLEAR),
        ("ACCEPTED", Verdict.UNCLEAR),
        ("ACCEPT2", Verdict.UNCLEAR),
        ("", Verdict.UNCLEAR),
        ("   \n", Verdict.UNCLEAR),
        ("ACCEPT or REVISE", Verdict.UNCLEAR),
        ("ACCEPT/REVISE: fine", Verdict.UNCLEAR),
        ("ACCEPT REVISE", Verdict.UNCLEAR),
        ("REVISE or ACCEPT", Verdict.UNCLEAR),
        ("Verdict: ACCEPT", Verdict.UNCLEAR),
        ("prose " * 35_000 + "ACCEPT", Verdict.UNCLEAR),
        ("<think>never closed ACCEPT", Verdict.UNCLEAR),
    ],
)
def test_verdict_grammar(text: str, verdict: Verdict) -> None:
    assert parse_verdict(text)[0] is verdict


def test_the_diagnosis_is_what_follows_the_verdict() -> None:
    assert parse_verdict("**REVISE**: the sign\nis wrong ") == (Verdict.REVISE, "the sign\nis wrong")
    assert parse_verdict(" I am not sure ") == (Verdict.UNCLEAR, "I am not sure")


@given(st.text(max_size=80))
def test_accept_needs_the_word_in_front(text: str) -> None:
    if "accept" not in text.lower()[:20]:
        assert parse_verdict(text)[0] is not Verdict.ACCEPT


@given(st.sampled_from([Verdict.ACCEPT, Verdict.REVISE]), st.from_regex(r"\A[a-z][a-z ,.]{0,40}[a-z]\Z"))
def test_verdicts_survive_writing_and_reading(verdict: Verdict, diagnosis: str) -> None:
    if diagnosis.split()[0] not in ("accept", "revise", "reject"):
        assert parse_verdict(write_verdict(verdict, diagnosis)) == (verdict, diagnosis)


@pytest.mark.parametrize(
    ("text", "ideas", "answer"),
    [
        ("<idea>sum</idea><answer>4</answer>", "sum", "4"),
        ("<answer>3</answer> no, <answer> 4 </answer>", "<answer>3</answer> no, <answer> 4 </answer>", "4"),
        ("<idea>a</idea><idea>b</idea><ANSWER>\n4\n</ANSWER >", "a\nb", "4"),
        ("<idea>cut</idea><answer>4", "cut", "4"),
        ("<answer>4</answer> inside <answer> tags", "<answer>4</answer> inside <answer> tags", "4"),
        ("<answer>a<answer>b</answer></answer>", "<answer>a<answer>b</answer></answer>", "b"),
        ("</answer>4", "</answer>4", None),
        ("just 4", "just 4", None),
        ("<idea>x</idea><answer></answer>", "x", ""),
        ("<think><answer>1</answer></think><answer>2</answer>", "<answer>2</answer>", "2"),
        ("", "", None),
    ],
)
def test_worker_replies(text: str, ideas: str, answer: str | None) -> None:
    assert parse_worker(text) == (ideas, answer)


@given(PLAIN, PLAIN)
def test_worker_replies_survive_writing_and_reading(ideas: str, answer: str) -> None:
    assert parse_worker(write_worker(ideas, answer)) == (ideas.strip(), answer.strip())
    assert parse_worker(write_worker(ideas, None)) == (ideas.strip(), None)


@pytest.mark.parametrize(
    ("text", "suggestion", "role"),
    [
        ("<suggestion>split</suggestion><suggested_role>worker</suggested_role>", "split", Role.WORKER),
        ("<suggestion>check</suggestion><suggested_role> The VERIFIER </suggested_role>", "check", None),
        ("<suggestion>check</suggestion><suggested_role>\nVerifier.</suggested_role>", "check", Role.VERIFIER),
        ("<suggestion>go</suggestion><suggested_role>solver</suggested_role>", "go", Role.WORKER),
        ("<suggestion>go</suggestion><suggested_role>thinker</suggested_role>", "go", None),
        ("<suggestion>go</suggestion><suggested_role></suggested_role>", "go", None),
        ("plain advice", "plain advice", None),
    ],
)
def test_thinker_replies(text: str, suggestion: str, role: Role | None) -> None:
    assert parse_thinker(text) == (suggestion, role)


@given(PLAIN, st.sampled_from([None, Role.WORKER, Role.VERIFIER]))
def test_thinker_replies_survive_writing_and_reading(suggestion: str, role: Role | None) -> None:
    assert parse_thinker(write_thinker(suggestion, role)) == (suggestion.strip(), role)


@given(st.text(st.sampled_from('</>answeridsugtorlvf ACEPT"\\\n'), max_size=200))
def test_readers_take_anything(text: str) -> None:
    ideas, _ = parse_worker(text)
    suggestion, _ = parse_thinker(text)
    _, diagnosis = parse_verdict(text)
    assert len(ideas) <= len(text)
    assert len(suggestion) <= len(text)
    assert len(diagnosis) <= len(text)


def test_large_replies_are_read_in_linear_time() -> None:
    nested = "<answer>" * 60_000
    assert parse_worker(nested)[1] == ""
    assert parse_worker("<answer>x" * 30_000 + "</answer>" * 30_000)[1] == "x"
    assert parse_verdict("*" * 500_000)[0] is Verdict.UNCLEAR
