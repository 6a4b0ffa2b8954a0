"""Worst pairs for mechanisms that add noise to clipped gradients, and the score that is best for Gaussian noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpaccount import _check

Array = npt.NDArray[np.float64]


def gradient_canary(x: Any, y: Any, *, norm: float = 1.0, label: float = 1.0) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """A record that no other record's gradient interferes with: its only feature is one that nobody else has.

    For a linear model the gradients of all others are 0 in that coordinate, so that noise and the canary alone move it, and the
    canary's gradient has the norm ``|loss'| norm``. Start the coordinate where the loss is steep (a logit of -10 for label 1),
    and with ``|loss'|`` near 1 and clipping at `norm` every step shows the whole clipping norm: the worst case of add-or-remove.

    Parameters
    ----------
    x, y : arrays
        Features, one row a record, and labels.
    norm : float
        The canary's feature, > 0.
    label : float
        The canary's label.

    Returns
    -------
    (x, y) without the canary, (x, y) with it as the last row
        Both have one column more than `x`.

    Examples
    --------
    >>> from dpaccount.auditing import gradient_canary
    >>> (x0, _), (x1, y1) = gradient_canary([[0.5], [0.2]], [0, 1])
    >>> x0.tolist(), x1.tolist(), y1.tolist()
    ([[0.5, 0.0], [0.2, 0.0]], [[0.5, 0.0], [0.2, 0.0], [0.0, 1.0]], [0.0, 1.0, 1.0])
    """
    owner = "gradient_canary"
    features, labels = _check.reals(owner, "x", x), _check.reals(owner, "y", y)
    size = _check.real(owner, "norm", norm, low=0.0, open_low=True)
    if features.ndim != 2 or labels.shape != features.shape[:1]:
        _check.refuse(owner, "y", "one label for each row of x", labels.shape, f"x has the shape {features.shape}.")
    without = np.concatenate([features, np.zeros((len(features), 1))], axis=1)
    canary = np.zeros((1, without.shape[1]))
    canary[0, -1] = size
    within = np.concatenate([without, canary])
    return (without, labels), (within, np.append(labels, _check.real(owner, "label", label)))


@dataclass(frozen=True)
class GaussianRatio:
    """The log-likelihood ratio of ``N(shift, noise^2 I)`` to ``N(0, noise^2 I)``, as a score of outputs or of steps.

    ``(<x, shift> - |shift|^2/2)/noise^2`` over the last axis: no score tells two Gaussians apart better.

    Parameters
    ----------
    shift : float or sequence
        How far the record moves the output; a number for outputs that are numbers.
    noise : float
        > 0.

    Examples
    --------
    >>> from dpaccount.auditing import GaussianRatio
    >>> GaussianRatio((0.0, 1.0), 2.0)([[5.0, 0.5], [5.0, 2.5]]).tolist()
    [0.0, 0.5]
    """

    shift: Any
    noise: float

    def __post_init__(self) -> None:
        shift = _check.reals("GaussianRatio", "shift", self.shift)
        if shift.ndim > 1:
            _check.refuse("GaussianRatio", "shift", "a number or a vector", self.shift)
        object.__setattr__(self, "shift", float(shift) if shift.ndim == 0 else tuple(shift.tolist()))
        object.__setattr__(self, "noise", _check.real("GaussianRatio", "noise", self.noise, low=0.0, open_low=True))

    def __call__(self, seen: Any, step: int = 0) -> Any:
        shift, x = np.asarray(self.shift), np.asarray(seen, dtype=float)
        along = x @ shift if shift.ndim else x * shift
        return (along - float(np.sum(shift**2)) / 2.0) / self.noise**2
