"""Small problems that several files of tests fit."""

from __future__ import annotations

import math

import numpy as np

from solvers.losses import Logistic
from solvers.problem import Problem
from solvers.sets import L2Ball


def two_classes(n=400, d=4, seed=0, *, ramp=False, noise=0.2, loss=None, constraint=None, **options):
    """Two classes told apart by a line, with some noise: by the first column alone, or by all with weights 1 .. d."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d)) / math.sqrt(d)
    score = x @ np.arange(1.0, d + 1.0) if ramp else x[:, 0]
    y = np.where(score + noise * rng.standard_normal(n) > 0, 1.0, -1.0)
    return Problem(x, y, loss or Logistic(), constraint or L2Ball(8.0), **options)
