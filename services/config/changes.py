"""Fields of a campaign file changed from outside, before it is checked, as if the file had said so."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from services.config.yaml_reader import parse
from services.core.errors import SpecError


@dataclass(frozen=True)
class Change:
    """A new value for the field at a dotted path, which the file may not have yet; numbers are places in lists."""

    path: str
    value: Any

    @property
    def field(self) -> str:
        return self.path.rpartition(".")[2]


def changes_of(text: str) -> list[Change]:
    """Return one change for each of the values in ``FIELD=VALUE,VALUE,...``, read as a YAML list.

    Raises:
        SpecError: no such text.
    """
    path, equals, values = text.partition("=")
    if not equals or not path.strip(". ") or not values.strip():
        raise SpecError("--set", text, "FIELD=VALUE,VALUE,..., e.g. search.cost_weight=0,0.05,0.2")
    read = parse(f"values: [{values}]", "--set").value["values"]
    if not isinstance(read, list):
        raise SpecError("--set", text, "values separated by commas")
    return [Change(path.strip(), value) for value in read]


def changed(value: dict[str, Any], change: Change) -> dict[str, Any]:
    """Return the file's mapping with the change; sections that it lacks are made.

    Raises:
        SpecError: the path leads through something that has no fields, or beyond the end of a list.
    """
    found = deepcopy(value)
    *parents, last = change.path.split(".")
    place: Any = found
    for key in parents:
        place = place.setdefault(key, {}) if isinstance(place, dict) else _item(place, key, change)
    if isinstance(place, dict):
        place[last] = change.value
    else:
        _item(place, last, change)
        place[int(last)] = change.value
    return found


def _item(place: Any, key: str, change: Change) -> Any:
    if not isinstance(place, list) or not key.isdecimal() or int(key) >= len(place):
        there = f"0 to {len(place) - 1}" if isinstance(place, list) else "nothing"
        raise SpecError("--set", change.path, f"a field of a campaign file; at {key!r} there is {there}")
    return place[int(key)]
