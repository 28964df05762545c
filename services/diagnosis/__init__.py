"""Looks into a trained coordinator: its states, its choices, and what its search could have learned.

It makes no model calls. It loads the encoder, so it runs in a process of its own: ``python -m services.diagnosis``.
"""
