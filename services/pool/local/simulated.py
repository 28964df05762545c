"""Simulated models: they solve generated problems from the question's text and err at the rates of their skill.

Every draw depends on the pool's seed, the model, the question, the stage of the conversation and the sample asked for
alone, so a request is answered alike in every process and after every restart:

* Worker: right with its skill; a helpful plan removes ``plan_gain`` of its error rate; each further Worker turn of the
  conversation, and each further sample, draws anew. Wrong answers are near misses. One that is asked to reconsider its
  own answer, or to make one of several proposals, judges them in turn as a Verifier, gives the first that it takes for
  right, and works anew if there is none.
* Thinker: gives the family's method with its skill, else an empty phrase; names the Worker as next role.
* Verifier: judges the answer under review rightly with its skill.
* Coordinator: has work done, then checked, then done again; the agent is drawn uniformly. It knows nothing of skills.

The wording never tells right from wrong, nor one model from another: only answers differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from services.core.baselines.coordinator_prompt import Choosing, read_choosing, write_choice
from services.core.baselines.wording import RECONSIDER, SYNTHESISE
from services.core.families import Solution, solve
from services.core.local_pool import SimulatedPool
from services.core.protocol.answers import write_thinker, write_worker
from services.core.protocol.ports import Message
from services.core.protocol.request import Request, read_request
from services.core.protocol.roles import Role
from services.core.protocol.verdict import Verdict, write_verdict
from services.core.scoring.scorer import agree
from services.core.seeds import derive
from services.pool.local.near_misses import near_misses
from services.pool.local.wire import ChatRequest, RefusalError, completion

IDEAS = "Worked through the question step by step."
EMPTY_PLAN = "Think carefully and give the best answer."
ACCEPTED = "The answer checks out."
REVISED = "The answer does not check out; work it out again."


def read_role_request(messages: Sequence[Message]) -> Request:
    """Read the role prompt back; raise RefusalError (400) for messages that are none."""
    try:
        return read_request(messages)
    except ValueError as error:
        raise RefusalError(400, "not_a_role_prompt", f"these messages are no role prompt: {error}") from None


class Simulated:
    """Serves one simulated pool; holds no state."""

    def __init__(self, pool: SimulatedPool) -> None:
        self.name = pool.name
        self.models = tuple(model.name for model in pool.models)
        self.latency = pool.latency
        self.faults = pool.faults
        self.seed = pool.seed
        self._plan_gain = pool.plan_gain
        self._skills = {model.name: model.skill for model in pool.models}

    def complete(self, request: ChatRequest) -> dict[str, Any]:
        """Return the completion object; raises as ``reply`` does."""
        return completion(request, self.reply(request.model, request.messages, request.sample))

    def reply(self, model: str, messages: Sequence[Message], sample: int = 0) -> str:
        """Return the model's text for one of the product's prompts; ``sample`` is which of several, from 0.

        Raises:
            RefusalError: 400 when the messages are no such prompt or the question belongs to no known family.
        """
        choosing = read_choosing(messages)
        if choosing is not None:
            return self._choose(model, choosing)
        request = read_role_request(messages)
        solution = solve(request.query)
        if solution is None:
            raise RefusalError(
                400, "unknown_question", f"no simulated model knows this kind of question: {request.query[:80]!r}"
            )
        match request.role:
            case Role.WORKER:
                return self._work(model, request, solution, sample)
            case Role.THINKER:
                return self._think(model, request, solution)
            case Role.VERIFIER:
                return self._verify(model, request, solution)

    def _chance(self, model: str, role: Role, query: str, *stage: int | str) -> float:
        return derive(self.seed, "simulated", model, role.value, query, *stage) / 2**63

    def _work(self, model: str, request: Request, solution: Solution, sample: int) -> str:
        if request.added in (RECONSIDER, SYNTHESISE):
            proposed = (note.answer for note in request.notes)
            kept = next((answer for answer in proposed if self._takes(model, request, answer, solution)), None)
            if kept is not None:
                return write_worker(IDEAS, kept)
        skill = self._skills[model](solution.family.name).worker
        if solution.family.method in (request.plan or ""):
            skill += (1.0 - skill) * self._plan_gain
        turn = request.worker_turns
        stage: tuple[int | str, ...] = (turn, sample) if sample else (turn,)
        if self._chance(model, Role.WORKER, request.query, *stage) < skill:
            return write_worker(IDEAS, solution.answer)
        wrong = near_misses(solution.family.scorer, solution.answer)
        return write_worker(IDEAS, wrong[derive(self.seed, "miss", model, request.query, *stage) % len(wrong)])

    def _think(self, model: str, request: Request, solution: Solution) -> str:
        skill = self._skills[model](solution.family.name).thinker
        helpful = self._chance(model, Role.THINKER, request.query, request.worker_turns) < skill
        return write_thinker(solution.family.method if helpful else EMPTY_PLAN, Role.WORKER)

    def _verify(self, model: str, request: Request, solution: Solution) -> str:
        if self._takes(model, request, request.answer_under_review, solution):
            return write_verdict(Verdict.ACCEPT, ACCEPTED)
        return write_verdict(Verdict.REVISE, REVISED)

    def _takes(self, model: str, request: Request, answer: str | None, solution: Solution) -> bool:
        """Tell whether the model takes an answer for right, which it judges rightly with its skill."""
        skill = self._skills[model](solution.family.name).verifier
        correct = agree(solution.family.scorer, answer, solution.answer)
        judged_rightly = self._chance(model, Role.VERIFIER, request.query, answer or "") < skill
        return correct == judged_rightly and answer is not None

    def _choose(self, model: str, asked: Choosing) -> str:
        last = asked.notes[-1].role if asked.notes else None
        wanted = Role.VERIFIER if last is Role.WORKER else Role.WORKER
        role = wanted if wanted in asked.roles else asked.roles[0]
        place = derive(self.seed, "coordinator", model, asked.query, len(asked.notes)) % len(asked.agents)
        return write_choice(asked.agents[place], role)
