"""Measures what the pool's models are worth as Verifiers: answers known to be right or wrong are put to each of them.

Runs in a process of its own, ``python -m services.verifiers``, because it talks to the models.
"""
