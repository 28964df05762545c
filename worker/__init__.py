"""Runs episodes: claim, decide, call, score, record."""
