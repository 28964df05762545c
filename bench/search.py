"""Searches at equal budget on two noisy objectives with a known truth: our default settings, public libraries, random
search and REINFORCE, in the same run.

    python bench/search.py [--json] [--seeds 3] [--objective head] [--adaptive | --levers]

Each method spends 40,960 Bernoulli draws from zero, as 80 generations of 32 candidates x 16 replicates; what counts is
the true value of the mean that it ends with. A (``block_separable_j``) is block-separable, n = 10,240, sigma0 0.3; B
(``head_j``) is a linear head over synthetic states of length 10, n = 10,240, value of its argmax policy; best possible
about 0.91. Ours are the values of the preset ``recommended``; on B its first step size in units of a logit (5), as
``search.logit_sigma0`` has it. ``head_j_common_seeds``: B when the candidates of a generation share the draws of agents
and roles too, as in the product. Rivals run with their own defaults, at sigma0 0.1 on B.
``reported_minus_true``: the validation score that the product would report for the mean it releases, minus that mean's
true value. ``--levers`` changes one setting at a time, ``--adaptive`` drops bad candidates early, both on 16 instances.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy is loaded: small products gain nothing from threads

# Python put this file's folder first, where bench/queue.py would hide the standard library's module of its name.
sys.path[0] = str(Path(__file__).resolve().parents[1])

from bench.search_report import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main(__doc__))
