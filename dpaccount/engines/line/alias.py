"""Aliasing: what the trapezoid rule on a line adds, by Chernoff's bound."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from dpaccount._log import ULP, log_geometric, log_kappa
from dpaccount.engines.line.axis import Axis
from dpaccount.engines.vouch import CannotVouch

Array = npt.NDArray[np.float64]
_WIDTHS = np.array([0.5, 1.0, 2.0, 4.0])
AIM = 26.0  # aliasing and truncation below e^-AIM of the answer


class Alias:
    """The period 2 pi/h that keeps aliasing below e^goal, and a bound on it at any epsilon."""

    def __init__(self, axis: Axis, c: float, epsilon: float, goal: float, middle: bool, spread: float) -> None:
        self.c, self.middle, self.log_mass, self.proved = c, middle, axis.log_mass, True
        if middle:
            self.period = max(-goal / abs(c), (epsilon - goal) / (1 + c), 8.0 * spread)
            return
        self.period, self.tilt = math.inf, 0.0
        tilts = c + _WIDTHS / spread
        tilts = tilts[tilts <= axis.high]  # nodes are made for tilts up to there
        if tilts.size:
            for d, k in zip(tilts.tolist(), axis.log_mgfs(tilts).tolist(), strict=True):
                period = (axis.log_mass + k + log_kappa(d) - d * epsilon - goal) / (d - c)
                if period < self.period:
                    self.period, self.tilt = period, d
        if not math.isfinite(self.period):
            raise CannotVouch("no tilt bounds the aliasing")
        d = self.tilt
        if axis.ends_only:
            axis = Axis(axis.parts, 0.0, d, 0.0)
        self.proved = axis.proved
        self.k_far = axis.log_mass + axis.mass_error + axis.log_mgf(d) + axis.rounding(d)
        self.log_far = self.k_far + log_kappa(d) + 4 * ULP * (1 + d)
        self.period = max(max(-goal, AIM) / c, self.period, 8.0 * spread)

    def log_bound(self, epsilon: Array) -> Array:
        """log of what all aliases add up to."""
        if self.middle:
            near, far = log_geometric(-abs(self.c) * self.period), epsilon + log_geometric(-(1 + self.c) * self.period)
            return np.asarray(np.logaddexp(near, far))
        right = self.log_far - self.tilt * epsilon + log_geometric(-self.period * (self.tilt - self.c))
        return np.asarray(np.logaddexp(right, self.log_mass + log_geometric(-self.c * self.period)))
