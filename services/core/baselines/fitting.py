"""Every rival that is fitted to labels: from labels to a parameter vector, and from the vector to a router."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from services.core.baselines import logistic, lookup, mas_router, router_dc, smoothie_independent
from services.core.baselines.router import FEWEST, Router
from services.core.labels import Labels
from services.core.rivals import RivalKind, RivalSpec


def fit(spec: RivalSpec, labels: Labels, seed: int) -> NDArray[np.float64]:
    """Return the rival's parameters; their values are those of single precision, in which they are stored.

    Args:
        spec: one of ``rivals.FITTED``.
        labels: what every model answered to the labelled problems.
        seed: the campaign's; folds, first vectors and batches are derived from it.

    Raises:
        ValueError: the rival is not fitted, or the labels are too few or not finite.
    """
    if len(labels.states) < FEWEST or not (np.isfinite(labels.states).all() and np.isfinite(labels.rewards).all()):
        raise ValueError(f"got {len(labels.states)} labelled problems, wanted at least {FEWEST}, all numbers finite")
    match spec.kind:
        case RivalKind.LOOKUP:
            return lookup.fit(labels, seed)
        case RivalKind.LOGISTIC:
            return logistic.fit(labels, seed)
        case RivalKind.SMOOTHIE_INDEPENDENT:
            return smoothie_independent.fit(labels)
        case RivalKind.ROUTER_DC:
            return router_dc.fit(labels, seed)
        case RivalKind.MAS_ROUTER:
            return mas_router.fit(labels, seed)
        case _:
            raise _not_fitted(spec)


def router(spec: RivalSpec, parameters: NDArray[Any], models: int, hidden: int) -> Router:
    """Return the fitted rival as it plays: one Worker turn by the model it names.

    Args:
        spec: one of ``rivals.FITTED``.
        parameters: what ``fit`` returned, in double or single precision.
        models: of the pool.
        hidden: d, of the states.

    Raises:
        LayoutMismatch: the parameters do not fit pool and states.
        ValueError: the rival is not fitted.
    """
    match spec.kind:
        case RivalKind.LOOKUP:
            return lookup.LookupRouter(parameters, models, hidden)
        case RivalKind.LOGISTIC:
            return logistic.LogisticRouter(parameters, models, hidden)
        case RivalKind.SMOOTHIE_INDEPENDENT:
            return smoothie_independent.ConstantRouter(parameters, models, hidden)
        case RivalKind.ROUTER_DC:
            return router_dc.RouterDc(parameters, models, hidden)
        case RivalKind.MAS_ROUTER:
            return mas_router.MasRouter(parameters, models, hidden)
        case _:
            raise _not_fitted(spec)


def _not_fitted(spec: RivalSpec) -> ValueError:
    return ValueError(f"{spec.kind.value} is not fitted to labels; it has no parameters")
