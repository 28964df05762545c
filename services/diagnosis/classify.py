"""Can a line tell the families apart? Cross-validated linear support vector machine (paper, appendix A.3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

FOLDS = 5


@dataclass(frozen=True)
class Classified:
    """How often held-out folds got the right label.

    Attributes:
        right: correct predictions.
        n: predictions, one per example of the classes that are large enough.
        chance: share of the largest class.
        classes: how many there are.
        folds: of the cross-validation.
        recall: per class, (right, n).
    """

    right: int
    n: int
    chance: float
    classes: int
    folds: int
    recall: dict[str, tuple[int, int]]


def classify(features: NDArray[np.float64], labels: Sequence[str], seed: int) -> Classified | str:
    """Return the cross-validated outcome, or in words why there is none; classes of one example are left out."""
    sizes = Counter(labels)
    kept = np.array([sizes[label] > 1 for label in labels], dtype=bool)
    names = np.array(labels, dtype=object)[kept].astype(str)
    sizes = Counter(names.tolist())
    if len(sizes) < 2:
        return f"{len(sizes)} families with two questions or more; two are needed"
    folds = min(FOLDS, *sizes.values())
    state = seed % 2**32
    model = make_pipeline(StandardScaler(), LinearSVC(random_state=state, dual="auto"))
    split = StratifiedKFold(folds, shuffle=True, random_state=state)
    predicted = cross_val_predict(model, features[kept], names, cv=split)
    right = predicted == names
    return Classified(
        right=int(right.sum()),
        n=len(names),
        chance=max(sizes.values()) / len(names),
        classes=len(sizes),
        folds=folds,
        recall={name: (int(right[names == name].sum()), size) for name, size in sorted(sizes.items())},
    )
