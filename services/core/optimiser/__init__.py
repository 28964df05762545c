"""Searches over parameter vectors, driven by ask and tell."""
