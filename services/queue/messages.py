"""The one message: which episode to run. Everything else is read from Postgres by the worker that claims it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from services.core.errors import TrinityError
from services.core.ids import EpisodeId

MESSAGE_VERSION = 1


class UnknownMessage(TrinityError):
    """A message that this version of the worker cannot read. It is dropped: the episode is published again."""


@dataclass(frozen=True)
class EpisodeMessage:
    episode_id: EpisodeId

    def to_kwargs(self) -> dict[str, int]:
        return {"version": MESSAGE_VERSION, "episode_id": self.episode_id}

    @staticmethod
    def from_kwargs(kwargs: Mapping[str, Any]) -> EpisodeMessage:
        """Read a message's keyword arguments; raise UnknownMessage when they are not of our version and form."""
        if kwargs.get("version") != MESSAGE_VERSION:
            raise UnknownMessage(
                f"a message of version {kwargs.get('version')!r} arrived, this worker reads version {MESSAGE_VERSION}; "
                "run workers and scheduler of one release"
            )
        episode_id = kwargs.get("episode_id")
        if not isinstance(episode_id, int) or isinstance(episode_id, bool) or episode_id <= 0:
            raise UnknownMessage(f"a message carries episode_id {episode_id!r}, wanted a positive whole number")
        return EpisodeMessage(EpisodeId(episode_id))
