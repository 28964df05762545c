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


ROLE_ORDER: tuple[Role, ...] = (Role.WORKER, Role.THINKER, Role.VERIFIER)
