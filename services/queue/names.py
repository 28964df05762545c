"""Names on the wire. Renaming one breaks workers of another version, so they are in one place."""

from __future__ import annotations

from services.core.states import Purpose

EPISODE_TASK = "trinity.episode.run"
EPISODES_QUEUE = "episodes"
VALIDATION_QUEUE = "validation"
QUEUES = (EPISODES_QUEUE, VALIDATION_QUEUE)


def queue_for(purpose: Purpose) -> str:
    """Training episodes gate the next update; the others have a queue of their own so that each can get own workers."""
    return EPISODES_QUEUE if purpose is Purpose.TRAINING else VALIDATION_QUEUE
