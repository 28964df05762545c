"""Many operations in one transaction, so that a busy worker pays for few round trips, commits and waits for locks.

Each operation succeeds or fails on its own terms, exactly as if it had been alone; all of them can be repeated after an
answer that got lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, text

from services.core.ids import CampaignId, EpisodeId
from services.core.limits.meter import Meter
from services.storage import campaigns, episodes, ledger, limits, replies
from services.storage.operations import Claim, Keep, Operation, Recall, Reserve, Result, Score, Settle

# Locks are taken in this order everywhere: campaigns by number, episodes by number, meters by key. They need statements
# of their own (see ``nesting``).
LOCK_EPISODES = text("select id from episode where id = any(cast(:ids as bigint[])) order by id for no key update")


def apply(conn: Connection, operations: Sequence[Operation]) -> list[Result]:
    """Carry out the operations and return their results in order; an operation's error is returned, not raised.

    Calls are settled before episodes are scored, money that comes free is there for the reservations, and a reply that
    is kept is there for those who ask for it.

    Args:
        conn: an open transaction.
        operations: any mixture.
    """
    _lock(conn, operations)
    results: list[Result] = [None] * len(operations)
    kinds: tuple[tuple[type[Any], Any], ...] = (
        (Settle, ledger.settle_all),
        (Score, episodes.score_all),
        (Claim, episodes.claim_all),
        (Keep, replies.keep_all),
        (Recall, replies.recall_all),
        (Reserve, ledger.reserve_all),
    )
    for kind, carry_out in kinds:
        places = [place for place, operation in enumerate(operations) if isinstance(operation, kind)]
        if places:
            answers = carry_out(conn, [operations[place] for place in places])
            for place, answer in zip(places, answers, strict=True):
                results[place] = answer
    return results


def _lock(conn: Connection, operations: Sequence[Operation]) -> None:
    campaign_ids: set[CampaignId] = set()
    episode_ids: set[EpisodeId] = set()
    for operation in operations:
        if isinstance(operation, Settle):
            campaign_ids.add(operation.campaign_id)
        elif isinstance(operation, Claim):
            episode_ids.add(operation.episode_id)
        elif not isinstance(operation, Keep):
            episode_ids.add(operation.claim.episode_id)
            if not isinstance(operation, Score):
                campaign_ids.add(operation.claim.campaign_id)
    if campaign_ids:
        campaigns.lock(conn, campaign_ids)
    if episode_ids:
        conn.execute(LOCK_EPISODES, {"ids": sorted(episode_ids)})
    limits.lock(conn, _meters(operations))


def _meters(operations: Sequence[Operation]) -> Iterator[Meter]:
    """Yield the meters whose use is counted, or whose breaker or pause changes; of others none is locked."""
    for operation in operations:
        if isinstance(operation, Reserve) and operation.meter is not None and operation.limits.any:
            yield operation.meter
        if (
            isinstance(operation, Settle)
            and operation.meter is not None
            and (operation.answered is False or operation.rest_seconds is not None)
        ):
            yield operation.meter
