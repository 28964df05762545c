"""Tokens of one call, as the provider counted them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Usage:
    """Unknown is not zero: ``estimated`` marks counts that the provider did not report and we bounded ourselves."""

    prompt_tokens: int
    completion_tokens: int
    estimated: bool = False

    @property
    def total(self) -> int:
        return self.prompt_tokens + self.completion_tokens
