"""All studies by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from services.core.studies import paper
from services.core.studies.ablations import ablation_rows, head_rows, turn_rows
from services.core.studies.learners import choice_rows, learner_rows
from services.core.studies.rivals import all_rows, compared_rows, prompted_rows, vote_rows
from services.core.studies.study import Measure, Study, StudyName

EQUAL_BUDGETS = (
    "Every learner books at most the episodes that sep-CMA-ES books before the held-out evaluation, labels and "
    "validation included. REINFORCE and SFT train the head alone. The box of random search is the paper's 0.5 at "
    "its first step size of 0.03, scaled to this base's."
)
RIVALS_ALONE = (
    "The rivals' campaign trains for three episodes and ignores the result: the trained coordinator is the "
    "base's, on the same held-out problems with the same seeds. Nothing equalises what the methods take per "
    "question: table9 tells it."
)

BY_MODEL = "A line for one model stands beside one of the paper only where the pool has that model under its name."

STUDIES: Final[Mapping[StudyName, Study]] = {
    study.name: study
    for study in (
        Study(
            StudyName.TABLE_2,
            "Ablations",
            "Which parts of the method does the result need?",
            Measure.REWARD,
            paper.TABLE_2,
            ablation_rows,
            (
                "Each variant is trained anew with one thing changed; where one model is left, roles are chosen.",
                "The paper's TRINITY searches singular values. A base that does not stands beside it all the same.",
                BY_MODEL,
            ),
        ),
        Study(
            StudyName.TABLE_3,
            "Heads",
            "Does the linear head do better than smaller, sparser and block-diagonal ones?",
            Measure.REWARD,
            paper.TABLE_3,
            head_rows,
            (
                "All heads have the base's settings; an automatic population grows with the number of parameters.",
                "block-diagonal-10 has one block for each output, of models and roles together: ten in the paper only.",
            ),
        ),
        Study(
            StudyName.TABLE_4,
            "Learning algorithms",
            "Which learner does best with the same number of episodes?",
            Measure.REWARD,
            paper.TABLE_4,
            learner_rows,
            (EQUAL_BUDGETS,),
        ),
        Study(
            StudyName.TABLE_7,
            "Votes of one model",
            "Does a trained coordinator do better than five votes of a single model?",
            Measure.REWARD,
            paper.TABLE_7,
            vote_rows,
            (RIVALS_ALONE, BY_MODEL),
        ),
        Study(
            StudyName.TABLE_8,
            "A prompted model as coordinator",
            "Does training do better than asking a model of the pool to coordinate?",
            Measure.REWARD,
            paper.TABLE_8,
            prompted_rows,
            (RIVALS_ALONE, BY_MODEL),
        ),
        Study(
            StudyName.TABLE_9,
            "Output tokens per question",
            "What does each method write to answer a question?",
            Measure.TOKENS,
            paper.TABLE_9,
            all_rows,
            (RIVALS_ALONE, BY_MODEL, "Fewer is cheaper. Tokens of turns that had to be repeated are not counted."),
        ),
        Study(
            StudyName.FIGURE_3,
            "Single models and coordination methods",
            "Does the trained coordinator do better than what else the pool can be used for?",
            Measure.REWARD,
            paper.FIGURE_3,
            compared_rows,
            (RIVALS_ALONE, BY_MODEL),
        ),
        Study(
            StudyName.FIGURE_6,
            "Choices of models over the generations",
            "How do the learners' choices of models move while they train?",
            Measure.CHOICES,
            paper.FIGURE_6,
            choice_rows,
            (EQUAL_BUDGETS,),
        ),
        Study(
            StudyName.TURNS,
            "Number of turns",
            "Does the coordinator gain from more turns?",
            Measure.REWARD,
            paper.TURNS,
            turn_rows,
        ),
    )
}
