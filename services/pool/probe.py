"""Each model asked once in each role, under a cap of money: does it answer, how fast, for how much, in which form?"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from decimal import Decimal

from services.core.campaign import ModelSpec, ProtocolSpec
from services.core.errors import PoolError
from services.core.ledger.budget import largest_call_cost
from services.core.ledger.usage import Usage
from services.core.protocol.answers import blocks, parse_thinker, parse_worker, without_reasoning
from services.core.protocol.ports import ModelPool, Reply, ReplyKind
from services.core.protocol.prompts import messages_for
from services.core.protocol.roles import Role, RoleSource
from services.core.protocol.transcript import Item, Transcript
from services.core.protocol.verdict import Verdict, parse_verdict

QUESTION = "What is 17 + 25? Answer with a number."
ANSWER = "42"


@dataclass(frozen=True)
class Probe:
    """One call, or why there was none.

    Attributes:
        outcome: kind of the reply, class name of the error, or ``not asked``.
        compliant: the reply has the form that the role asks for; None without a reply.
        remark: a sentence where something is wrong or worth knowing.
        cost: USD; the most it can have been where the provider may have charged for a failure.
    """

    model: str
    role: Role
    outcome: str
    compliant: bool | None
    remark: str
    latency_seconds: float | None = None
    usage: Usage | None = None
    cost: Decimal = Decimal(0)


class Purse:
    """Money that many threads share; nobody starts a call whose largest cost is not left."""

    def __init__(self, limit: Decimal) -> None:
        self._left = self.limit = limit
        self._lock = threading.Lock()

    def take(self, amount: Decimal) -> bool:
        with self._lock:
            if amount > self._left:
                return False
            self._left -= amount
            return True

    def give_back(self, amount: Decimal) -> None:
        with self._lock:
            self._left += amount


def probe(pool: ModelPool, models: Sequence[ModelSpec], protocol: ProtocolSpec, limit: Decimal) -> list[Probe]:
    """Ask every model once in every role of the protocol, the models beside each other; never repeats a call.

    Args:
        pool: of the models, in their order.
        models: to ask.
        protocol: roles, limits and settings of the calls.
        limit: of what all calls together may cost, in USD.
    """
    purse = Purse(limit)

    def ask_model(agent: int) -> list[Probe]:
        return [_ask(pool, agent, models[agent], role, protocol, purse) for role in protocol.roles]

    with ThreadPoolExecutor(len(models)) as threads:
        return [each for found in threads.map(ask_model, range(len(models))) for each in found]


def _ask(pool: ModelPool, agent: int, model: ModelSpec, role: Role, protocol: ProtocolSpec, purse: Purse) -> Probe:
    messages = messages_for(role, _conversation(role), protocol)
    largest = largest_call_cost(model.price, messages, protocol.max_output_tokens)
    if not purse.take(largest):
        remark = f"it may cost {largest:f} USD, which the cap of {purse.limit:f} USD does not leave"
        return Probe(model.name, role, "not asked", None, remark)
    try:
        reply = pool.complete(
            agent,
            messages,
            max_output_tokens=protocol.max_output_tokens,
            temperature=protocol.temperature,
            timeout_seconds=protocol.call_timeout_seconds,
        )
    except PoolError as error:
        cost = largest if error.billed_unknown else Decimal(0)
        purse.give_back(largest - cost)
        return Probe(model.name, role, type(error).__name__, None, str(error), cost=cost)
    cost = model.price.cost(reply.usage)
    purse.give_back(largest - cost)
    compliant, remark = compliance(role, reply, protocol)
    return Probe(model.name, role, reply.kind, compliant, remark, reply.latency_seconds, reply.usage, cost)


def compliance(role: Role, reply: Reply, protocol: ProtocolSpec) -> tuple[bool, str]:
    """Return whether the reply has the role's form, and a sentence on what is wrong or odd about it."""
    if reply.kind is ReplyKind.TRUNCATED:
        return False, f"cut off at protocol.max_output_tokens, {protocol.max_output_tokens}"
    if reply.kind is not ReplyKind.OK:
        return False, f"no text ({reply.kind})"
    if role is Role.WORKER:
        return _worker(reply.text)
    return _thinker(reply.text, protocol) if role is Role.THINKER else _verifier(reply.text)


def _worker(text: str) -> tuple[bool, str]:
    answer = parse_worker(text)[1]
    if answer is None:
        return False, "no <answer>"
    return True, "" if answer.strip(" .") == ANSWER else f"its answer is not {ANSWER}"


def _thinker(text: str, protocol: ProtocolSpec) -> tuple[bool, str]:
    if not blocks(without_reasoning(text), "suggestion"):
        return False, "no <suggestion>"
    if protocol.thinker_sets_role and parse_thinker(text)[1] is None:
        return False, "no role in <suggested_role>"
    return True, ""


def _verifier(text: str) -> tuple[bool, str]:
    verdict = parse_verdict(text)[0]
    if verdict is Verdict.UNCLEAR:
        return False, "its first word is neither ACCEPT nor REVISE"
    return True, "" if verdict is Verdict.ACCEPT else "it does not accept a right answer"


def _conversation(role: Role) -> Transcript:
    empty = Transcript(QUESTION)
    if role is not Role.VERIFIER:
        return empty
    ideas = "17 + 25 = 17 + 20 + 5 = 42"
    return empty.with_item(Item(1, 0, Role.WORKER, RoleSource.POLICY, "", ideas, answer=ANSWER))
