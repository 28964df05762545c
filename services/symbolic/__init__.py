"""Symbolic comparison of mathematical expressions in processes of its own; owns math-verify and sympy."""
