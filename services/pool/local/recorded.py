"""A recorded campaign played back: each call gets the reply that the same call got, word by word.

A call is known by the model, the messages and its label, of which local pools are told in a header. Two calls that ask
the same may have got different replies; the label says which of them is meant. A request without a label, or with one
that was not recorded, gets the first reply to the same messages.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from services.core.errors import SpecError
from services.core.local_pool import RecordingPool
from services.core.protocol.asked import messages_digest
from services.pool.local.wire import ChatRequest, RefusalError, completion_of

VERSION = 1

Key = tuple[str, str, str]


class RecordedCalls:
    """Serves one recording. The file is indexed at the first request, and again after a failure to read it."""

    def __init__(self, pool: RecordingPool) -> None:
        self.name = pool.name
        self.models = pool.models
        self.latency = pool.latency
        self.faults = pool.faults
        self.seed = pool.seed
        self._file = pool.calls
        self._places: dict[Key, int] | None = None
        self._loading = threading.Lock()

    def complete(self, request: ChatRequest) -> dict[str, Any]:
        """Return the completion object that was recorded.

        Raises:
            RefusalError: 503 when the recording cannot be read; 400 when it has no such call.
        """
        asked = messages_digest(request.messages)
        try:
            places = self._indexed()
            place = places.get((request.model, asked, request.call), places.get((request.model, asked, "")))
            line = None if place is None else self._line(place)
        except (OSError, SpecError) as error:
            raise RefusalError(
                503, "recording_unreadable", f"the recording of pool {self.name} cannot be read: {error}"
            ) from None
        if line is None:
            call = request.call or "a request without a label"
            message = f"pool {self.name} has no reply of {request.model} to these messages ({call})"
            raise RefusalError(400, "not_recorded", message)
        return completion_of(
            request.model, line["text"], line["finish_reason"], line["prompt_tokens"], line["completion_tokens"]
        )

    def _line(self, place: int) -> Mapping[str, Any]:
        with self._file.open("rb") as file:
            file.seek(place)
            return read_line(file.readline(), f"{self._file.name}, byte {place}")

    def _indexed(self) -> Mapping[Key, int]:
        with self._loading:
            if self._places is None:
                self._places = index(self._file)
            return self._places


def index(path: Path) -> dict[Key, int]:
    """Return where in the file each call's line begins; under an empty label the first one to the same messages.

    Raises:
        OSError: the file cannot be read.
        SpecError: it is no recording, or a line is broken.
    """
    places: dict[Key, int] = {}
    for place, line in lines(path):
        places[line["model"], line["asked"], line["call"]] = place
        places.setdefault((line["model"], line["asked"], ""), place)
    return places


def lines(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield each call with the byte at which its line begins."""
    with path.open("rb") as file:
        head = file.readline()
        if read_line(head, f"{path.name}, line 1", ("recording",))["recording"] != VERSION:
            raise SpecError(f"{path.name}, line 1", head[:60], f"a recording of version {VERSION}")
        place = len(head)
        for number, line in enumerate(file, 2):
            yield place, read_line(line, f"{path.name}, line {number}")
            place += len(line)


FIELDS = ("model", "asked", "call", "text", "finish_reason", "prompt_tokens", "completion_tokens")


def read_line(line: bytes, where: str, fields: tuple[str, ...] = FIELDS) -> Mapping[str, Any]:
    """Return the object of a line; raise SpecError when it is none or lacks a field."""
    try:
        found = json.loads(line)
    except ValueError:
        found = None
    if not isinstance(found, dict) or any(field not in found for field in fields):
        raise SpecError(where, line[:60], f"an object with {', '.join(fields)}")
    return found
