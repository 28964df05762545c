"""Measurements of speed: each runs its rival in the same process tree and the same run, and prints ratios."""
