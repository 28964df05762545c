"""RLPR: general reasoning with short answers, judged by rules."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from services.benchmarks import dealing, fields, wording
from services.benchmarks.jsonl import Line, shown
from services.benchmarks.record import Benchmark, Choices, HubFile, Item, LeftOut, Part, each
from services.core.errors import SpecError
from services.core.problem import Problem, ScorerKind, Split

NAME = "rlpr"
LONGEST_ANSWER = 30
TOO_LONG = f"answer of more than {LONGEST_ANSWER} characters"

# Some rows carry the whole conversation in one message.
_WRAPPED = re.compile(r"A conversation between User and Assistant.*?\bUser:\s*(.*?)\s*Assistant:\s*", re.DOTALL)


def _item(line: Line, part: str, choices: Choices) -> Item | LeftOut:
    answer = _truth(line)
    if len(answer) > LONGEST_ANSWER:
        return LeftOut(TOO_LONG)
    question = wording.asked(_question(line), wording.SHORT)
    problem = Problem(f"{NAME}/{line.number}", NAME, question, ScorerKind.RULES, answer)
    return Item(line.place, fields.checked(line, problem), answer)


def _truth(line: Line) -> str:
    value = line.field("reward_model.ground_truth")
    written = str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
    if not isinstance(written, str) or not written.strip():
        raise SpecError(line.place, shown(value), "an answer in the field reward_model.ground_truth")
    return written.strip()


def _question(line: Line) -> str:
    messages = line.field("prompt")
    found = [text for message in messages if (text := _of_user(message))] if isinstance(messages, list) else []
    if not found:
        raise SpecError(line.place, shown(messages), "a message of the user in the field prompt")
    wrapped = _WRAPPED.fullmatch(found[-1])
    return wrapped[1] if wrapped else found[-1]


def _of_user(message: Any) -> str:
    if not isinstance(message, Mapping) or message.get("role") != "user":
        return ""
    content = message.get("content")
    return content.strip() if isinstance(content, str) else ""


RLPR = Benchmark(
    name=NAME,
    title="RLPR",
    hub="openbmb/RLPR-Train-Dataset",
    revision="922eeb37157ebce90c1ee8233cdf04f04fbad728",
    licence="CC BY-NC 4.0",
    scorer=ScorerKind.RULES,
    fields=("prompt", "reward_model"),
    splits="shuffled by random.Random(42): 20 % held out, 20 % validation, 60 % training",
    prompt="the user's message; a short answer is wanted",
    parts=(Part("train", None, tuple(Split), (HubFile("rlpr_train.parquet"),), ("*train*.parquet", "*train*.jsonl")),),
    read=each(_item),
    deal=dealing.one_piece,
    filters=f"answers of more than {LONGEST_ANSWER} characters",
)
