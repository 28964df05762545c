"""Hostile programs, and what each of them would have to achieve to count as a success.

``python -m tests.attacks`` runs all of them with nothing but the standard library, as whatever user it is started.
"""
