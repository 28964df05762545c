"""Options and tests of a row by a mapping of fields that somebody wrote."""

from __future__ import annotations

import json
import string
from collections.abc import Mapping, Sequence
from typing import Any

from services.benchmarks import fields, wording
from services.benchmarks.jsonl import Line, shown
from services.core.errors import SpecError
from services.core.problem import Case, ProgramForm, ProgramTests
from services.core.problem_source import AnswerForm, JsonlSet, ProgramFields


def question(one: JsonlSet, text: str, choices: Sequence[str], tests: ProgramTests | None) -> str:
    """Return the whole question: the text, the options, the form in which the answer is wanted."""
    form = one.ask or _form(choices, tests)
    return wording.asked(text, wording.options(choices), form) if choices or form else text


def _form(choices: Sequence[str], tests: ProgramTests | None) -> str:
    if choices:
        return wording.LETTER
    if tests is None:
        return ""
    return wording.PROGRAM if tests.entry_point is None else wording.function(tests.entry_point)


def letter(one: JsonlSet, line: Line, choices: Sequence[str]) -> str:
    """Return the letter of the right option.

    Raises:
        SpecError: the answer names no option, or its text is the letter of one option and the text of another.
    """
    assert one.answer is not None
    value = line.field(one.answer)
    found = {form: index for form in _forms(one, value) if (index := _index(form, value, choices)) is not None}
    if len(set(found.values())) == 1:
        return fields.letter_of(line, next(iter(found.values())), choices)
    if found:
        raise SpecError(
            line.place, shown(value), "an `answer_form`: this is the letter of one option and the text of another"
        )
    wanted = one.answer_form or "letter, index (from 0) or text"
    raise SpecError(line.place, shown(value), f"the {wanted} of one of the options in the field {one.answer}")


def _forms(one: JsonlSet, value: Any) -> tuple[AnswerForm, ...]:
    if one.answer_form is not None:
        return (one.answer_form,)
    return (AnswerForm.LETTER, AnswerForm.TEXT) if isinstance(value, str) else (AnswerForm.INDEX,)


def _index(form: AnswerForm, value: Any, choices: Sequence[str]) -> int | None:
    if form is AnswerForm.INDEX:
        number = int(value) if isinstance(value, str) and value.strip().isdecimal() else value
        return (
            number if isinstance(number, int) and not isinstance(number, bool) and 0 <= number < len(choices) else None
        )
    if not isinstance(value, str):
        return None
    text = value.strip()
    if form is AnswerForm.TEXT:
        return choices.index(text) if choices.count(text) == 1 else None
    place = string.ascii_uppercase.find(text.upper()) if len(text) == 1 else -1
    return place if 0 <= place < len(choices) else None


def options(one: JsonlSet, line: Line) -> tuple[str, ...]:
    """Return the options; numbers among them are written out."""
    assert one.choices is not None
    value = line.field(one.choices)
    listed = fields.parsed(line, one.choices, value) if isinstance(value, str) else value
    if not isinstance(listed, list) or not 2 <= len(listed) <= len(string.ascii_uppercase):
        raise SpecError(line.place, shown(value), f"a list of 2 to 26 options in the field {one.choices}")
    written = tuple(str(option).strip() for option in listed if isinstance(option, str | int | float))
    if len(written) < len(listed) or not all(written):
        raise SpecError(line.place, shown(value), f"options that are not empty in the field {one.choices}")
    return written


def tests(mapping: ProgramFields, line: Line) -> ProgramTests:
    """Return the tests of a program."""
    stdin = mapping.form is ProgramForm.STDIN
    return ProgramTests(
        mapping.form,
        None if mapping.entry_point is None else fields.text(line, mapping.entry_point),
        _cases(line, mapping.public, stdin),
        _cases(line, mapping.cases, stdin),
        _source(line, mapping.source),
        _source(line, mapping.prelude),
        mapping.seconds,
    )


def _source(line: Line, name: str | None) -> str:
    if name is None:
        return ""
    value = line.field(name)
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return "".join(f"{one}\n" for one in value)
    return fields.source(line, name)


def _cases(line: Line, name: str | None, stdin: bool) -> tuple[Case, ...]:
    if name is None:
        return ()
    value = line.field(name)
    listed = fields.parsed(line, name, value) if isinstance(value, str) else value
    if not isinstance(listed, list):
        raise SpecError(line.place, shown(value), f"a list of tests in the field {name}")
    return tuple(_case(line, name, one, stdin) for one in listed)


def _case(line: Line, name: str, test: Any, stdin: bool) -> Case:
    if not isinstance(test, Mapping) or not {"input", "output"} <= set(test):
        raise SpecError(line.place, shown(test), f"tests with input and output in the field {name}")
    given, wanted = test["input"], test["output"]
    if stdin:
        if isinstance(given, str) and isinstance(wanted, str):
            return Case(given, wanted)
        raise SpecError(line.place, shown(test), f"texts as input and output in the field {name}")
    arguments = fields.parsed(line, name, given) if isinstance(given, str) else given
    if not isinstance(arguments, list):
        raise SpecError(line.place, shown(given), f"a JSON list of arguments as input in the field {name}")
    if isinstance(wanted, str):
        fields.parsed(line, name, wanted)
    return Case(json.dumps(arguments), wanted if isinstance(wanted, str) else json.dumps(wanted))
