"""GPQA-Diamond: graduate science, four options in an order of our own. Its text is never kept with this project."""

from __future__ import annotations

from services.benchmarks import dealing, fields, wording
from services.benchmarks.jsonl import Line
from services.benchmarks.record import Benchmark, Choices, HubFile, Item, Part, each
from services.core import seeds
from services.core.errors import SpecError
from services.core.problem import Problem, ScorerKind, Split

NAME = "gpqa_diamond"
RIGHT = "Correct Answer"
WRONG = ("Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3")


def _item(line: Line, part: str, choices: Choices) -> Item:
    known = fields.text(line, "Record ID") if "Record ID" in line.value else str(line.number)
    listed = [fields.text(line, name).strip() for name in (RIGHT, *WRONG)]
    if listed[0] in listed[1:]:
        raise SpecError(line.place, "the right answer among the wrong ones", "an answer that no wrong option repeats")
    # By the row's own id: the order stays the same when rows are added or left out.
    order = seeds.generator(choices.seed, NAME, known).permutation(len(listed))
    shown = tuple(listed[place] for place in order)
    answer = fields.letter_of(line, list(order).index(0), shown)
    question = wording.asked(fields.text(line, "Question").strip(), wording.options(shown), wording.LETTER)
    problem = Problem(f"{NAME}/{known}", NAME, question, ScorerKind.CHOICE, answer, choices=shown)
    return Item(line.place, fields.checked(line, problem), answer)


GPQA_DIAMOND = Benchmark(
    name=NAME,
    title="GPQA-Diamond",
    hub="Idavidrein/gpqa",
    revision="633f5ee89ab8ad4522a9f850766b73f62147ffdd",
    licence="CC BY 4.0; its authors ask not to publish the text where crawlers find it",
    scorer=ScorerKind.CHOICE,
    fields=("Question", RIGHT, *WRONG),
    splits="all held out",
    prompt="the question with options A to D in an order drawn by the campaign's seed; a letter is wanted",
    parts=(
        Part(
            "train",
            198,
            (Split.HELDOUT,),
            (HubFile("gpqa_diamond.csv"),),
            ("gpqa_diamond*.csv", "gpqa_diamond*.jsonl", "gpqa_diamond*.parquet"),
        ),
    ),
    read=each(_item),
    deal=dealing.held_out,
    gated=True,
)
