"""One episode: at most K turns of decide, ask, read, append, until a Verifier accepts (paper, section 3.2).

The stop rule is an OR: the first ACCEPT ends the episode, and so does the turn limit. The returned answer is that of
the latest Worker turn, whoever spoke last (the only sensible reading of the paper's O_tau; authors' code).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from services.core.campaign import EvidenceUse, ProtocolSpec, VerifierWithoutAnswer
from services.core.protocol.answers import parse_thinker, parse_worker
from services.core.protocol.evidence import Evidence, Examine
from services.core.protocol.ports import Decision, ModelCall, Policy, Reply
from services.core.protocol.prompts import messages_for
from services.core.protocol.roles import Role, RoleSource
from services.core.protocol.transcript import Item, Transcript
from services.core.protocol.verdict import Verdict, VerdictSource, parse_verdict
from services.core.protocol.visibility import router_view

NOTHING_TO_CHECK = "There is no answer to check yet."


class Termination(StrEnum):
    """Why an episode ended. NO_ANSWER exactly when there is no answer to return, whatever ended it."""

    ACCEPTED = "accepted"
    TURN_LIMIT = "turn_limit"
    NO_ANSWER = "no_answer"


@dataclass(frozen=True)
class EpisodeResult:
    """The finished conversation.

    Attributes:
        transcript: the query and one item per turn.
        termination: why it ended.
        answer: the latest Worker's final answer, or None.
        answered_by: pool index of the agent that gave it, or None.
        calls: LLM calls made; a turn with nothing to verify, or with a machine's verdict, made none.
        truncated: whether the latest Worker's reply was cut off at its limit of tokens.
    """

    transcript: Transcript
    termination: Termination
    answer: str | None
    answered_by: int | None
    calls: int
    truncated: bool = False

    @property
    def turns(self) -> int:
        return len(self.transcript.items)


def single_turn(protocol: ProtocolSpec) -> ProtocolSpec:
    """Return the protocol cut to one Worker turn: a pool model on its own, without a coordinator."""
    return replace(protocol, roles=(Role.WORKER,), max_turns=1)


def run_episode(
    query: str,
    policy: Policy,
    call: ModelCall,
    protocol: ProtocolSpec,
    pool_size: int,
    rng: np.random.Generator,
    *,
    check: Callable[[], None] = lambda: None,
    examine: Examine = lambda work: None,
) -> EpisodeResult:
    """Play one episode.

    A Verifier chosen before any Worker has spoken has nothing to verify, so no model is asked and nothing is paid.
    ``protocol.verifier_without_answer`` says what happens instead: the turn counts as a REVISE, the episode ends
    without an answer (authors' code), or the agent acts as a Worker.

    Unless ``protocol.evidence`` is ``none``, the answer under review is examined first. The Verifier reads what was
    found; with ``decide`` a finding that refutes the answer is itself the verdict, and again nobody is asked and
    nothing is paid. Later turns and the router read such a verdict like any other; of evidence that was only shown they
    read what the Verifier makes of it.

    Args:
        query: the problem's question.
        policy: decides agent and role from what the router may read; draws only from ``rng``.
        call: asks one pool model.
        protocol: roles, turn limit and the switches above.
        pool_size: number of pool models.
        rng: the episode's own generator.
        check: runs before every turn; raises when the episode must not go on (deadline, lease, pause).
        examine: finds evidence on a Worker's turn, the same for the same turn.

    Raises:
        ValueError: the policy chose an agent or a role that the campaign does not have.
        TrinityError: whatever ``check``, ``call`` and ``examine`` raise; the episode then has no result at all.
    """
    transcript = Transcript(query)
    named: Role | None = None
    calls = 0
    for number in range(1, protocol.max_turns + 1):
        check()
        decision = policy.decide(router_view(transcript, protocol.notes), rng)
        _require_possible(decision, protocol, pool_size)
        role, source = _role_of(decision, named, transcript, protocol)
        named = None
        if role is Role.VERIFIER and transcript.latest_work is None:
            transcript = transcript.with_item(_unasked(number, decision, source, NOTHING_TO_CHECK, VerdictSource.RULE))
            if protocol.verifier_without_answer is VerifierWithoutAnswer.END_ZERO:
                break
            continue
        evidence = _evidence(role, transcript, protocol, examine)
        if evidence is not None and evidence.refutes and protocol.evidence is EvidenceUse.DECIDE:
            transcript = transcript.with_item(_unasked(number, decision, source, evidence.text, VerdictSource.MACHINE))
            continue
        messages = messages_for(role, transcript, protocol, evidence)
        reply = call(turn=number, agent=decision.agent, role=role, messages=messages)
        calls += 1
        item, named = _read_reply(number, decision, role, source, reply)
        transcript = transcript.with_item(item)
        if item.verdict is Verdict.ACCEPT:
            return _finish(transcript, Termination.ACCEPTED, calls)
    return _finish(transcript, Termination.TURN_LIMIT, calls)


def _require_possible(decision: Decision, protocol: ProtocolSpec, pool_size: int) -> None:
    if not 0 <= decision.agent < pool_size:
        raise ValueError(f"the policy chose agent {decision.agent}, the pool has agents 0 to {pool_size - 1}")
    if decision.role not in protocol.roles:
        raise ValueError(f"the policy chose the role {decision.role}, the campaign allows {', '.join(protocol.roles)}")


def _role_of(
    decision: Decision, named: Role | None, transcript: Transcript, protocol: ProtocolSpec
) -> tuple[Role, RoleSource]:
    """Return the turn's role and who chose it; a Thinker's word beats the head's (paper, section 3.2)."""
    if decision.drawn:
        return decision.role, RoleSource.CHANCE
    if len(protocol.roles) == 1:
        return decision.role, RoleSource.FIXED
    role, source = decision.role, RoleSource.POLICY
    if named is not None and named in protocol.roles and protocol.thinker_sets_role:
        role, source = named, RoleSource.THINKER
    forced = protocol.verifier_without_answer is VerifierWithoutAnswer.FORCE_WORKER
    if forced and role is Role.VERIFIER and transcript.latest_work is None:
        return Role.WORKER, RoleSource.FIXED
    return role, source


def _evidence(role: Role, transcript: Transcript, protocol: ProtocolSpec, examine: Examine) -> Evidence | None:
    work = transcript.latest_work
    if role is not Role.VERIFIER or work is None or protocol.evidence is EvidenceUse.NONE:
        return None
    return examine(work)


def _unasked(number: int, decision: Decision, source: RoleSource, text: str, verdict_source: VerdictSource) -> Item:
    """Return a Verifier's turn in which no model was asked and the answer is not accepted."""
    return Item(
        number=number,
        agent=decision.agent,
        role=Role.VERIFIER,
        role_source=source,
        output="",
        text=text,
        verdict=Verdict.REVISE,
        verdict_source=verdict_source,
        logits=decision.logits,
    )


def _read_reply(
    number: int, decision: Decision, role: Role, source: RoleSource, reply: Reply
) -> tuple[Item, Role | None]:
    """Return the item a reply becomes, and the next role if a Thinker named one."""
    output = reply.text
    answer: str | None = None
    verdict: Verdict | None = None
    named: Role | None = None
    if role is Role.WORKER:
        text, answer = parse_worker(output)
    elif role is Role.THINKER:
        text, named = parse_thinker(output)
    else:
        verdict, text = parse_verdict(output)
    item = Item(
        number=number,
        agent=decision.agent,
        role=role,
        role_source=source,
        output=output,
        text=text,
        answer=answer,
        verdict=verdict,
        verdict_source=None if verdict is None else VerdictSource.MODEL,
        logits=decision.logits,
        truncated=reply.finish_reason == "length",
    )
    return item, named


def _finish(transcript: Transcript, termination: Termination, calls: int) -> EpisodeResult:
    work = transcript.latest_work
    if work is None or work.answer is None:
        cut = work is not None and work.truncated
        return EpisodeResult(transcript, Termination.NO_ANSWER, None, None, calls, cut)
    return EpisodeResult(transcript, termination, work.answer, work.agent, calls, work.truncated)
