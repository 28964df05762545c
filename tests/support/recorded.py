"""A recorded campaign, asked without HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from services.cli import recording
from services.config import pool_file
from services.core.ledger.usage import Usage
from services.core.local_pool import RecordingPool
from services.core.protocol.ports import Message, Reply
from services.pool.local.recorded import RecordedCalls
from services.pool.local.wire import ChatRequest
from tests.support.faults import Stage


@dataclass
class Playback:
    """What asks a recording, as the litellm pool does over HTTP."""

    models: tuple[str, ...]
    calls: RecordedCalls
    label: str = ""
    asked: list[str] = field(default_factory=list)

    def labelled(self, label: str) -> Playback:
        return replace(self, label=label)

    def complete(self, agent: int, messages: Sequence[Message], **_: object) -> Reply:
        self.asked.append(self.label)
        answer = self.calls.complete(ChatRequest(self.models[agent], tuple(messages), None, self.label))
        (choice,), usage = answer["choices"], answer["usage"]
        used = Usage(usage["prompt_tokens"], usage["completion_tokens"])
        return Reply(choice["message"]["content"], choice["finish_reason"], used, 0.0)


def recorded(stage: Stage, name: str, file: Path) -> Playback:
    written = recording.record(stage.look, name, file)
    assert written.missing == 0
    pool = pool_file.load(file.with_suffix(".yaml"))
    assert isinstance(pool, RecordingPool)
    return Playback(pool.models, RecordedCalls(pool))
