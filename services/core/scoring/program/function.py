"""Programs with a function to call: its answers come back as plain values and are compared here."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from services.core.problem import Case, ProgramTests
from services.core.scoring.grade import Outcome
from services.core.scoring.ports import CodeRunner, Ending, Execution, Job
from services.core.scoring.program.bundle import began, bundle
from services.core.scoring.program.jobs import limits
from services.core.scoring.program.verdicts import Failure, cut, gone, loading, named, raised

_CLOSE = 1e-9  # of a float: sums in another order, never another method

_LARGEST_BATCH = 2_000_000  # characters; reading them takes a program about 50 ms


def run_cases(tests: ProgramTests, program: str, cases: Sequence[Case], runner: CodeRunner) -> Failure | None:
    """Call the program's function on cases until one fails; return why, or None when all pass.

    As many cases as can be read at once go to one run, which may use what a single case may use. When that ends it
    early, the cases it answered did fit, and the rest goes to a fresh run; a run that answers nothing has failed. So a
    limit for each case is kept by whoever runs programs, not by a timer within reach of the program.
    """
    done = 0
    while done < len(cases):
        batch = _batch(cases[done:])
        execution = began(runner.run(_job(tests, program, batch)))
        replies = _replies(execution)[: len(batch)]
        for reply in replies:
            failure = _judge(reply, cases[done], done + 1)
            if failure is not None:
                return failure
            done += 1
        stopped = execution.ending in (Ending.EXITED, Ending.KILLED) or not replies
        if len(replies) < len(batch) and stopped:
            return gone(execution, done + 1)
    return None


def _batch(cases: Sequence[Case]) -> Sequence[Case]:
    """Return the first cases that a run can read in a small part of its time."""
    size = 0
    for number, case in enumerate(cases):
        size += len(case.given)
        if number and size > _LARGEST_BATCH:
            return cases[:number]
    return cases


def same_value(wanted: Any, got: Any) -> bool:
    """Tell whether a value is the JSON value wanted; floats need agree in 9 digits only."""
    if wanted == got:
        return True
    if isinstance(got, list) and isinstance(wanted, list):
        return len(wanted) == len(got) and all(map(same_value, wanted, got))
    if isinstance(got, dict) and isinstance(wanted, dict):
        return wanted.keys() == got.keys() and all(same_value(wanted[key], got[key]) for key in wanted)
    if isinstance(wanted, float) and isinstance(got, float):
        return math.isclose(wanted, got, rel_tol=_CLOSE, abs_tol=1e-12)
    return False


def _job(tests: ProgramTests, program: str, cases: Sequence[Case]) -> Job:
    order = {
        "prelude": tests.prelude,
        "program": program,
        "entry_point": tests.entry_point,
        "cases": [case.given for case in cases],
    }
    return Job(bundle("plain_values", "loading", "caller"), json.dumps(order).encode(), limits(tests))


def _replies(execution: Execution) -> list[dict[str, Any] | None]:
    """Return the replies in order, up to the first that is none: anything can stand there."""
    found: list[dict[str, Any] | None] = []
    for line in execution.stdout.split(b"\n")[:-1]:
        reply = _reply(line, len(found))
        found.append(reply)
        if reply is None or "load" in reply or "missing" in reply:
            break
    return found


def _reply(line: bytes, number: int) -> dict[str, Any] | None:
    try:
        reply = json.loads(line)
    except (ValueError, RecursionError, MemoryError):
        return None
    if not isinstance(reply, dict):
        return None
    return reply if reply.get("case") == number or "load" in reply or "missing" in reply else None


def _judge(reply: dict[str, Any] | None, case: Case, number: int) -> Failure | None:
    if reply is None:
        return Failure(Outcome.WRONG, "what came back is no answer", number)
    if "missing" in reply:
        return Failure(Outcome.WRONG, "the program does not define the function asked for")
    if "load" in reply:
        return loading(reply["load"])
    if "raised" in reply:
        return raised(*named(reply["raised"]), number)
    return _compare(reply, case, number)


def _compare(reply: dict[str, Any], case: Case, number: int) -> Failure | None:
    if "value" not in reply:
        return Failure(Outcome.WRONG, cut(f"it returned no plain value: {reply.get('unfit')}"), number)
    try:
        got = _json_value(reply["value"])
    except (_NoValue, ValueError, TypeError, RecursionError) as error:
        return Failure(
            Outcome.WRONG, cut(f"it returned {error if isinstance(error, _NoValue) else 'no value'}"), number
        )
    if same_value(json.loads(case.wanted), got):
        return None
    return Failure(Outcome.WRONG, "it returned another value", number, cut(_shown(got)))


class _NoValue(Exception):
    """What came back is no value that JSON has."""


def _json_value(data: Any) -> Any:
    """Return the value written as ``inside.plain_values`` does; only kinds that JSON has, and tuples as lists.

    Nothing that hashes numbers is made of it: a program could choose them so that they collide.
    """
    if isinstance(data, list):
        return [_json_value(part) if type(part) in (list, dict) else part for part in data]
    if not isinstance(data, dict):
        return data
    if len(data) != 1:
        raise _NoValue("no value")
    ((name, inner),) = data.items()
    if name == "tuple":
        return [_json_value(part) for part in inner]
    if name == "dict" and all(isinstance(key, str) for key, _ in inner):
        return {key: _json_value(part) for key, part in inner}
    if name == "int":
        return int(inner, 16)
    raise _NoValue(f"a {cut(name, 20)}, which no test wants")


def _shown(value: object) -> str:
    try:
        return repr(value)
    except ValueError:  # an integer of thousands of digits
        return "a very long integer"
