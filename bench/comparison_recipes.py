"""Which learners are compared, and with which settings; all chosen on validation problems of the same splits."""

from __future__ import annotations

from bench.comparison_learners import Recipe
from services.core.campaign import Output, Start
from services.core.learners import Baseline, ReinforceSpec, SupervisedSpec, Targets

TEAM = SupervisedSpec(targets=Targets.TEAM)
TURNS = 3  # of a team

SINGLE_TURNS = (
    Recipe("sep-CMA-ES from labels", "sep_cma_es", Start.SFT, mean_rate=0.5, antithetic=True),
    Recipe("sep-CMA-ES from zero", "sep_cma_es", mean_rate=0.5, antithetic=True),
    Recipe(
        "sep-CMA-ES, actions drawn",
        "sep_cma_es",
        logit_sigma0=5.0,
        output=Output.SOFTMAX,
        mean_rate=0.5,
        antithetic=True,
    ),
    Recipe(
        "sep-CMA-ES as in the paper",
        "sep_cma_es",
        logit_sigma0=1.5,
        output=Output.SOFTMAX,
        note="sigma0 0.03 at |h| 50",
    ),
    Recipe("random search", "random_search", population=16, replicates=32, note="32 trials a vector, as in the paper"),
    Recipe("REINFORCE", "reinforce", output=Output.SOFTMAX),
    Recipe("REINFORCE from labels", "reinforce", Start.SFT, output=Output.SOFTMAX),
    Recipe(
        "REINFORCE, authors' settings",
        "reinforce",
        output=Output.SOFTMAX,
        reinforce=ReinforceSpec(
            rate=2e-3, clip=1e-3, entropy=0.35, weight_decay=1e-4, baseline=Baseline.BATCH, spread=1e-3
        ),
    ),
    Recipe("SFT, expected reward", "sft"),
    Recipe("SFT, soft targets", "sft", supervised=SupervisedSpec(targets=Targets.SOFT)),
    Recipe("SFT, hard labels", "sft", supervised=SupervisedSpec(targets=Targets.HARD)),
)
TEAMS = (
    Recipe("sep-CMA-ES from a team", "sep_cma_es", Start.SFT, mean_rate=0.5, antithetic=True, supervised=TEAM),
    Recipe("REINFORCE from a team", "reinforce", Start.SFT, output=Output.SOFTMAX, supervised=TEAM),
    Recipe("SFT, team", "sft", supervised=TEAM),
)


def recipes(turns: int) -> tuple[Recipe, ...]:
    """Return those that episodes of so many turns allow."""
    return (*TEAMS, *SINGLE_TURNS) if turns >= TURNS else SINGLE_TURNS
