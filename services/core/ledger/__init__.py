"""Tokens, prices and limits."""
