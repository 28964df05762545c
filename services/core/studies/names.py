"""Names of the campaigns of a study: the same for the same base, variant and seed, and never too long."""

from __future__ import annotations

import hashlib
import re

LONGEST = 64
_DIGITS = 8
_OTHER = re.compile(r"[^a-z0-9._-]+")


def slug(text: str) -> str:
    """Return the text as part of a campaign's name; what had to be changed leaves its mark, so that two stay two."""
    plain = _OTHER.sub("-", text.lower())
    return plain if plain == text else f"{plain}-{_digest(text)[:4]}"


def campaign_name(base: str, key: str, seed: int | None = None) -> str:
    """Return the name of a variant's campaign.

    Args:
        base: the base campaign's name.
        key: the variant's; empty for the base itself.
        seed: where it is another one than the base's.
    """
    whole = "-".join(part for part in (base, key, "" if seed is None else f"seed{seed}") if part)
    if len(whole) <= LONGEST:
        return whole
    return f"{whole[: LONGEST - _DIGITS - 1]}-{_digest(whole)[:_DIGITS]}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
