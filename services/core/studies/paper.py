"""The paper's own figures (arXiv 2512.04695, version 3), with where they stand and where they contradict each other.

Accuracies are shares, also where the paper prints per cent. A figure that the paper does not give is None.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

LCB, MATH, MMLU, RLPR = "LiveCodeBench", "MATH500", "MMLU", "RLPR"
FOUR = (LCB, MATH, MMLU, RLPR)

# How the paper calls the models that infra/campaigns/paper.yaml has under these names.
PAPER_MODELS: Final[Mapping[str, str]] = {
    "gpt-5": "GPT-5",
    "claude-sonnet-4": "Claude-4-Sonnet",
    "gemini-2.5-pro": "Gemini-2.5-pro",
    "deepseek-r1-distill-qwen-32b": "DeepSeek-R1-Distill-Qwen-32B",
    "gemma-3-27b-it": "Gemma-3-27B-It",
    "qwen3-32b-reasoning": "Qwen3-32B (reasoning)",
    "qwen3-32b-direct": "Qwen3-32B (direct)",
}


@dataclass(frozen=True)
class PaperTable:
    """Figures of one table or figure.

    Attributes:
        source: where in the paper.
        columns: what the figures of a row belong to.
        rows: the figures by row.
        conflicts: what does not fit together or cannot be known, each a sentence.
        statements: what the paper says where it gives no figure, by row.
    """

    source: str
    columns: tuple[str, ...]
    rows: Mapping[str, tuple[float | None, ...]]
    conflicts: tuple[str, ...] = ()
    statements: Mapping[str, str] = field(default_factory=dict)

    def average(self, row: str) -> float | None:
        """Return the mean over the columns; None when a figure is missing."""
        figures = self.rows.get(row, ())
        known = [figure for figure in figures if figure is not None]
        return sum(known) / len(known) if known and len(known) == len(figures) else None

    def difference(self, row: str, other: str) -> float | None:
        """Return the mean difference between two rows over the columns that both have; None when there is none."""
        pairs = zip(self.rows.get(row, ()), self.rows.get(other, ()), strict=False)
        found = [a - b for a, b in pairs if a is not None and b is not None]
        return sum(found) / len(found) if found else None


RLPR_CLASH = (
    "RLPR of TRINITY is 40.72 % in Tables 2 and 8 and .401 in Tables 3 and 4; its LiveCodeBench is 61.46 % in "
    "Table 2, 61.49 % in Table 8 and .615 in Tables 3 and 4."
)
NO_REPEATS = (
    "The paper does not say over how many runs its figures are averaged; its test sets have 175, 100, 1,531 and 5,184 "
    "questions."
)

TABLE_2 = PaperTable(
    source="Table 2",
    columns=FOUR,
    rows={
        "TRINITY": (0.6146, 0.8800, 0.9156, 0.4072),
        "w/o SVF": (0.5568, 0.8585, 0.9010, 0.3977),
        "w/o Thinker": (0.5780, 0.8620, 0.9275, 0.3800),
        "w/o tri-role": (0.5828, 0.8200, 0.9164, 0.3615),
        "last token": (0.5085, 0.8700, 0.8219, 0.3860),
        "Claude-4-Sonnet only": (0.3909, 0.8225, 0.8823, 0.3490),
        "Gemini-2.5-pro only": (0.4651, 0.8305, 0.7941, 0.4300),
        "GPT-5 only": (0.5954, 0.7566, 0.9074, 0.3787),
    },
    conflicts=(
        RLPR_CLASH,
        "Gemini alone is above TRINITY on RLPR, and TRINITY without the Thinker is above it on MMLU.",
        (
            "The paper names the ablations without describing them: 'w/o tri-role' is read as Workers alone for all "
            "turns, 'X only' keeps the choice of roles, as its caption says."
        ),
        NO_REPEATS,
    ),
)

TABLE_3 = PaperTable(
    source="Table 3 (section 4.7), heads of appendix A.4",
    columns=FOUR,
    rows={
        "linear": (0.615, 0.880, 0.916, 0.401),
        "low-rank": (0.597, 0.770, 0.914, 0.344),
        "sparse": (0.400, 0.811, 0.917, 0.372),
        "block-diagonal-2": (0.336, 0.776, 0.897, 0.378),
        "block-diagonal-10 + argmax": (0.551, 0.812, 0.802, 0.376),
    },
    conflicts=(
        RLPR_CLASH,
        (
            "The low-rank head has rank 14 in the appendix's text and 20, twice its ten outputs, by the parameter "
            "count of Table 6; twice the outputs, but at least 8, is used."
        ),
        NO_REPEATS,
    ),
)

TABLE_4 = PaperTable(
    source="Table 4 (section 4.8)",
    columns=FOUR,
    rows={
        "sep-CMA-ES": (0.615, 0.880, 0.916, 0.401),
        "SFT": (0.592, 0.786, 0.906, 0.360),
        "RS": (0.374, 0.794, 0.897, 0.345),
        "REINFORCE": (0.253, 0.459, 0.500, 0.266),
    },
    conflicts=(
        RLPR_CLASH,
        "Random search drew from [-0.5, 0.5], a band taken from the solution of sep-CMA-ES, which favours it.",
        "The label counts of Table 5 add up to the sizes of the test sets; SFT is fitted to training problems here.",
        "SFT learns no roles: it is run as one Worker turn.",
        NO_REPEATS,
    ),
)

TABLE_7 = PaperTable(
    source="Table 7, MMLU only",
    columns=(MMLU,),
    rows={
        "TRINITY": (0.9156,),
        "Majority@5 Gemini-2.5-pro": (0.9157,),
        "Majority@5 GPT-5": (0.9131,),
        "Majority@5 Claude-4-Sonnet": (0.9099,),
    },
    conflicts=(
        (
            "The paper adds +-0.70 points for Gemini, 0.23 for GPT-5, 0.39 for Claude and does not say of what. "
            "TRINITY is not above five votes of Gemini there."
        ),
    ),
)

TABLE_8 = PaperTable(
    source="Table 8",
    columns=FOUR,
    rows={
        "TRINITY": (0.6149, 0.8800, 0.9156, 0.4072),
        "LLM as coordinator (Gemini-2.5-pro)": (0.2628, 0.7867, 0.8326, 0.2683),
    },
    conflicts=(
        (
            "The text of A.7.3 gives 64.14 % as the LLM coordinator's average, Table 8 gives 53.76 %, which is the "
            "mean of its own columns."
        ),
        RLPR_CLASH,
    ),
)

_TOKENS = {
    "Qwen3-32B (direct)": ((4207, 2075, 1746, 1949), (192, 447, 152, 392), (419, 521, 154, 406)),
    "Qwen3-32B (reasoning)": ((7575, 2692, 2213, 3349), (1784, 1019, 382, 1047), (1789, 995, 397, 1191)),
    "DeepSeek-R1-Distill-Qwen-32B": ((12228, 3988, 3811, 4609), (4066, 1343, 538, 1369), (3443, 1175, 485, 1181)),
    "Gemma-3-27B-It": ((3714, 1704, 820, 1750), (159, 342, 146, 336), (483, 437, 147, 330)),
    "Claude-4-Sonnet": ((3210, 1834, 1293, 1580), (518, 367, 218, 300), (530, 382, 217, 304)),
    "GPT-5": ((1971, 577, 428, 895), (1207, 221, 66, 219), (1113, 218, 66, 220)),
    "Gemini-2.5-pro": ((11046, 5142, 5460, 6710), (5753, 1153, 579, 787), (2396, 819, 578, 774)),
}

TABLE_9 = PaperTable(
    source="Tables 9 to 12",
    columns=FOUR,
    rows={
        "TRINITY": (1999, 2853, 1200, 2141),
        "MoA": (21634, 6871, 5218, 11086),
        "RouterDC": (1552, 624, 374, 811),
        "Smoothie": (17864, 6472, 4718, 10580),
        "MasRouter": (8401, 4260, 1847, 5370),
    }
    | {f"5xSR {name}": figures[0] for name, figures in _TOKENS.items()}
    | {f"5xCTX {name}": figures[1] for name, figures in _TOKENS.items()}
    | {name: figures[2] for name, figures in _TOKENS.items()},
    conflicts=(
        "The paper gives output tokens only: neither input tokens nor dollars.",
        (
            "Smoothie's tokens are 1.4 to 2.4 times the sum of the seven models' own in Table 12, although it asks "
            "each once."
        ),
    ),
)

FIGURE_3 = PaperTable(
    source="Figure 3 (section 4.2)",
    columns=FOUR,
    rows={
        "TRINITY": (0.6146, 0.8800, 0.9156, 0.4072),
        "MoA": (0.39, 0.83, None, 0.38),
        "RouterDC": (None, None, None, 0.28),
        "random": (None, None, None, 0.32),
        "5xCTX Gemini-2.5-pro": (None, 0.864, None, None),
        "per-question best": (0.65, 0.91, 0.97, None),
    },
    conflicts=(
        (
            "The figure is a bar chart without numbers. MoA, RouterDC and random are from the text; 5xCTX of Gemini "
            "on MATH500 follows from the stated relative error reduction of 11.76 %; 'per-question best' was read off "
            "the chart by a reader."
        ),
        "The headline, a mean relative error reduction of 21.9 % over the second-best approach, cannot be recomputed.",
    ),
)

FIGURE_6 = PaperTable(
    source="Figure 6 (section 4.8)",
    columns=(),
    rows={},
    statements={
        "sep-CMA-ES": "moves to few models, which ones depends on the task (Fig. 15: three of seven are never chosen)",
        "REINFORCE": "stays almost uniform over the models",
        "RS": "collapses to one model or one role",
    },
    conflicts=("The figure has curves without numbers, and the paper reports no distribution over roles anywhere.",),
)

TURNS = PaperTable(
    source="Figure 4 (section 4.4), LiveCodeBench with unlimited output",
    columns=(LCB,),
    rows={"2 turns": (0.823,), "4 turns": (None,), "6 turns": (0.863,)},
    conflicts=(
        (
            "The paper gives the ends, .823 with 2 turns and .863 with 6, and swept 2, 4 and 6. Its models had 'full "
            "power' settings there (TRINITY .862 +- .005, GPT-5 .838 +- .007, Gemini .672 +- .031, Claude .465 +- "
            ".010), so Table 2 has other levels."
        ),
        (
            "The paper's full-power runs used a coordinator trained with the ordinary settings; here every number of "
            "turns is trained for."
        ),
    ),
)
