"""The questions whose mean state is subtracted when a campaign centres its states (``encoder.center``).

Hidden states of one model share a large common part: for SmolLM2 the states of two questions have a mean cosine of
0.97 (norm 51, of which 6 remain after centring). A head that acts on the raw state therefore treats nearly all
questions alike until it has learnt to ignore that part. The list is fixed, so the mean is a property of model and
prompt alone: nothing has to be stored, and it cannot depend on which worker came first. Changing it changes what
trained heads mean.
"""

from __future__ import annotations

QUESTIONS = (
    "What is the capital of France?",
    "Compute 12 + 30.",
    "Write a Python function that reverses a list.",
    "Who wrote Hamlet?",
    "Translate 'good morning' into German.",
    "Name three renewable sources of energy.",
    "A train travels 60 km in 45 minutes. What is its average speed?",
    "Sort these words: pear, apple, fig.",
    "Is 97 a prime number?",
    "Explain photosynthesis in one sentence.",
    "What comes next: 2, 4, 8, 16?",
    "How many vowels are in the word education?",
    "Which of these is a mammal: (A) shark (B) whale (C) trout?",
    "Solve for x: 3x + 5 = 20.",
    "Give a synonym of happy.",
    "What does HTTP stand for?",
)
