"""Owns the search and the budget: turns events into generations and generations into queued episodes."""
