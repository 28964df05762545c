"""Judging programs by their tests: ``grading`` for a reward, ``public`` for what a Verifier may be shown.

One module for each form of tests. None of them runs anything itself: they build jobs for a ``CodeRunner`` and judge
what came back. What runs within the sandbox lies in ``inside``.
"""
