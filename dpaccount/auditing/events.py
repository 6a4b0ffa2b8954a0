"""A search for events by a classifier (Bichsel et al. 2021): outputs become scores, and a set {score >= t} is the event."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from dpaccount import _check

Array = npt.NDArray[np.float64]
Score = Callable[[Array], Array]
ROUNDS, RIDGE = 30, 1e-3


def classifier_of(owner: str, classifier: Any) -> Callable[[Array, Array], Score]:
    """A trainer: `logistic`, or the caller's own."""
    if classifier is None or classifier == "logistic":
        return logistic
    if not callable(classifier):
        _check.refuse(
            owner, "classifier", "'logistic', or a callable of two samples that returns a function from outputs to scores",
            classifier, kind=TypeError,
        )
    return classifier  # type: ignore[no-any-return]


def logistic(x0: Array, x1: Array) -> Score:
    """Logistic regression on the outputs, their squares and products, by Newton's method with a small ridge."""
    both = np.concatenate([x0, x1]).astype(float)
    both = both[:, None] if both.ndim == 1 else both
    centre, spread = both.mean(axis=0), both.std(axis=0)
    spread = np.where(spread > 0.0, spread, 1.0)

    def features(x: Array) -> Array:
        z = ((x[:, None] if x.ndim == 1 else x) - centre) / spread
        upper = np.triu_indices(z.shape[1])
        squares = (z[:, :, None] * z[:, None, :])[:, upper[0], upper[1]] if z.shape[1] <= 20 else z**2
        return np.concatenate([np.ones((len(z), 1)), z, squares], axis=1)

    design, label = features(both), np.repeat([0.0, 1.0], [len(x0), len(x1)])
    weight = np.where(label > 0, 0.5 / len(x1), 0.5 / len(x0))
    beta = np.zeros(design.shape[1])
    ridge = RIDGE * np.eye(beta.size)
    for _ in range(ROUNDS):
        p = expit(design @ beta)
        slope = design.T @ (weight * (label - p)) - ridge @ beta
        curve = (design * (weight * p * (1 - p))[:, None]).T @ design + ridge
        step = np.linalg.solve(curve, slope)
        beta = beta + step * min(1.0, 5.0 / max(float(np.abs(step).max()), 1e-300))
        if float(np.abs(step).max()) < 1e-9:
            break
    return lambda x: np.asarray(features(np.asarray(x, dtype=float)) @ beta)
