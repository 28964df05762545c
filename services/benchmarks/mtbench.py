"""MT-Bench: 80 open questions of two turns, rated by a judge.

An episode has one query and one final answer, so both turns stand in one question and the answer has two parts.
FastChat asks the second turn after the model's own first reply: ratings are not the same as published ones.
"""

from __future__ import annotations

from collections.abc import Iterable

from services.benchmarks import dealing, fields
from services.benchmarks.jsonl import Line, shown
from services.benchmarks.record import Benchmark, Choices, HubFile, Item, Part, Read, Rows
from services.core.errors import SpecError
from services.core.problem import Problem, ScorerKind, Split

NAME = "mtbench"
TURNS = 2
_QUESTION = """A user sends two messages. Answer the first, then the second as the next step of the same conversation.

<first_message>
{}
</first_message>

<second_message>
{}
</second_message>

Final answer: both replies in full, the first under the line "Turn 1", the second under the line "Turn 2"."""
_REFERENCE = "Turn 1\n{}\n\nTurn 2\n{}"


def _read(rows: Rows, choices: Choices) -> Read:
    references = dict(_reference(line) for line in rows.get("references", ()))
    return {"questions": list(_items(rows.get("questions", ()), references))}


def _items(lines: Iterable[Line], references: dict[int, str]) -> Iterable[Item]:
    for line in lines:
        known = fields.whole(line, "question_id" if "question_id" in line.value else "prompt_id")
        turns = fields.texts(line, "turns" if "turns" in line.value else "prompt")
        if len(turns) != TURNS or not all(turn.strip() for turn in turns):
            raise SpecError(line.place, f"{len(turns)} turns", f"{TURNS} turns that are not empty")
        answer = references.get(known) or _own_reference(line)
        question = _QUESTION.format(*(turn.strip() for turn in turns))
        problem = Problem(f"{NAME}/{known}", NAME, question, ScorerKind.JUDGE, answer)
        yield Item(line.place, fields.checked(line, problem), None)


def _own_reference(line: Line) -> str | None:
    """Return the reference in the question's own row; most rows have none, some have one for one turn only."""
    if not line.value.get("reference"):
        return None
    given = [one.strip() for one in fields.texts(line, "reference")]
    if not any(given):
        return None
    return _REFERENCE.format(*(given + [""] * TURNS)[:TURNS]).rstrip()


def _reference(line: Line) -> tuple[int, str]:
    answers = line.field("choices")
    turns = answers[0].get("turns") if isinstance(answers, list) and answers and isinstance(answers[0], dict) else None
    if not isinstance(turns, list) or len(turns) != TURNS or not all(isinstance(one, str) for one in turns):
        raise SpecError(line.place, shown(answers), f"an answer with {TURNS} turns in the field choices")
    return fields.whole(line, "question_id"), _REFERENCE.format(*(turn.strip() for turn in turns))


MTBENCH = Benchmark(
    name=NAME,
    title="MT-Bench",
    hub="HuggingFaceH4/mt_bench_prompts",
    revision="e3a795c5e9a82ee40611c416b8a7786c73198991",
    licence="Apache-2.0",
    scorer=ScorerKind.JUDGE,
    fields=("question_id or prompt_id", "turns or prompt"),
    splits="all held out",
    prompt="both turns in one question; both replies are wanted in one answer under Turn 1 and Turn 2",
    parts=(
        Part("questions", 80, (Split.HELDOUT,), (HubFile("raw/question.jsonl"),), ("question*.jsonl", "*.parquet")),
        Part("references", 30, (), (), ("reference_answer*.jsonl",)),
    ),
    read=_read,
    deal=dealing.held_out,
)
