"""Judging a final answer against a problem."""
