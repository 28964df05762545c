"""The three roles and the order in which the head's role logits stand (authors' code: solver, thinker, verifier)."""

from __future__ import annotations

from enum import StrEnum


class Role(StrEnum):
    WORKER = "worker"
    THINKER = "thinker"
    VERIFIER = "verifier"


class RoleSource(StrEnum):
    """Who chose the role of a turn."""

    POLICY = "policy"  # the head's role softmax
    THINKER = "thinker"  # the Thinker of the turn before named it (paper, section 3.2)
    FIXED = "fixed"  # the campaign's rules left one role only: a single allowed role, or force_worker
    CHANCE = "chance"  # a prompted coordinator named no possible action; agent and role were drawn


class CallRole(StrEnum):
    """What a model call was made for: a turn in one of the roles, rating the final answer, or picking who acts."""

    WORKER = Role.WORKER.value
    THINKER = Role.THINKER.value
    VERIFIER = Role.VERIFIER.value
    JUDGE = "judge"
    COORDINATOR = "coordinator"  # a prompted model that picks who acts next


ROLE_ORDER: tuple[Role, ...] = (Role.WORKER, Role.THINKER, Role.VERIFIER)
