"""Replayed models: they repeat what real models once answered, and never invent text.

* Worker: the recorded final answer, with the recorded reasoning where there is one.
* Verifier: accepts exactly when its own recorded answer is the same as the proposed one.
* Thinker: its recorded reasoning, else an empty suggestion.
* Coordinator: refused; no choices were recorded.

Score-only recordings have no answers: a Worker gives the empty answer, whose reward is the recorded score, and a
Verifier has nothing to go by.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from services.core.baselines.coordinator_prompt import read_choosing
from services.core.errors import SpecError
from services.core.local_pool import ReplayPool
from services.core.protocol.answers import write_thinker, write_worker
from services.core.protocol.ports import Message
from services.core.protocol.quoting import quote
from services.core.protocol.request import Request
from services.core.protocol.review import DISAGREES
from services.core.protocol.roles import Role
from services.core.protocol.verdict import Verdict, write_verdict
from services.core.scoring.scorer import agree
from services.pool.local.recordings import Recorded, read_index
from services.pool.local.simulated import read_role_request
from services.pool.local.wire import ChatRequest, RefusalError, completion

NO_REASONING = "No reasoning was recorded."
SAME = "My own answer is the same."


class Replay:
    """Serves one replay pool. Files are read at the first request, and again after a failure to read them."""

    def __init__(self, pool: ReplayPool) -> None:
        self.name = pool.name
        self.models = pool.models
        self.latency = pool.latency
        self.faults = pool.faults
        self.seed = pool.seed
        self._recordings = pool.recordings
        self._index: dict[str, Recorded] | None = None
        self._loading = threading.Lock()

    def complete(self, request: ChatRequest) -> dict[str, Any]:
        """Return the completion object; raises as ``reply`` does."""
        return completion(request, self.reply(request.model, request.messages))

    def reply(self, model: str, messages: Sequence[Message]) -> str:
        """Return the model's text for one of the product's role prompts.

        Raises:
            RefusalError: 503 when the recordings cannot be read; 400 when the messages are no role prompt, ask for a
                coordinator's choice, or nothing is recorded for the question.
        """
        if read_choosing(messages) is not None:
            raise RefusalError(400, "not_recorded", f"pool {self.name} has answers, and no choice of who acts next")
        request = read_role_request(messages)
        recorded = self._loaded().get(request.query)
        if recorded is None or model not in recorded.answers:
            raise RefusalError(
                400, "not_recorded", f"pool {self.name} has no answer of {model} to {request.query[:80]!r}"
            )
        match request.role:
            case Role.WORKER:
                # Quoted: a recorded text with tags of its own must not be read as another answer.
                ideas = quote(recorded.reasoning.get(model, NO_REASONING))
                return write_worker(ideas, recorded.answers[model])
            case Role.THINKER:
                return write_thinker(quote(recorded.reasoning.get(model, "")), Role.WORKER)
            case Role.VERIFIER:
                return self._verify(model, request, recorded)

    def _verify(self, model: str, request: Request, recorded: Recorded) -> str:
        if recorded.scorer is None:
            raise RefusalError(
                400, "score_only", f"pool {self.name} recorded scores, not answers; set protocol.roles to [worker]"
            )
        if agree(recorded.scorer, recorded.answers[model], request.answer_under_review):
            return write_verdict(Verdict.ACCEPT, SAME)
        return write_verdict(Verdict.REVISE, DISAGREES)

    def _loaded(self) -> dict[str, Recorded]:
        with self._loading:
            if self._index is None:
                try:
                    self._index = read_index(self._recordings, self.models)
                except (OSError, SpecError) as error:
                    raise RefusalError(
                        503, "recordings_unreadable", f"the recordings of pool {self.name} cannot be read: {error}"
                    ) from None
            return self._index
