"""Tokens of one call, as the provider counted them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Usage:
    """Unknown is not zero: ``estimated`` marks counts that the provider did not report and we bounded ourselves.

    Attributes:
        cached_prompt_tokens: part of the prompt's, read from the provider's cache.
        reasoning_tokens: part of the completion's, spent on reasoning.

    Raises:
        ValueError: a part is larger than its whole, or a number is negative.
    """

    prompt_tokens: int
    completion_tokens: int
    estimated: bool = False
    cached_prompt_tokens: int = 0
    reasoning_tokens: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.cached_prompt_tokens <= self.prompt_tokens:
            raise ValueError(f"{self.cached_prompt_tokens} of {self.prompt_tokens} prompt tokens from the cache")
        if not 0 <= self.reasoning_tokens <= self.completion_tokens:
            raise ValueError(f"{self.reasoning_tokens} of {self.completion_tokens} completion tokens for reasoning")

    @property
    def total(self) -> int:
        return self.prompt_tokens + self.completion_tokens
