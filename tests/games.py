"""What the tests of games play with."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest

from dpaccount.auditing import audit_game

ROOT = Path(__file__).resolve().parents[1]
DELTA, TRUTH = 1e-5, 4.37717810  # epsilon of mu = 1
CANARY = (0.0, 1.0)  # worlds of a Gaussian whose mean the record moves by one


def has_joblib():
    try:
        import joblib  # noqa: F401
    except ImportError:
        return False
    return True


needs_joblib = pytest.mark.skipif(not has_joblib(), reason="joblib is not installed (extra: parallel)")


def gaussian(mean, rng, size, noise=1.0):
    return rng.normal(mean, noise, size)


def one_gaussian(mean, rng):
    return rng.normal(mean, 1.0)


def where(mean, rng, size):
    """Scores that say which process made them."""
    time.sleep(0.02)
    return np.full(size, float(os.getpid()))


def game(mechanism=gaussian, pair=CANARY, **options):
    given = {"batch": True, "delta": DELTA, "runs": 4000, "chunk": 250, "seed": 0, "n_jobs": 1} | options
    return audit_game(mechanism, pair, **given)


def slow(pause, mean, rng, size):
    time.sleep(pause)
    return rng.normal(mean, 1.0, size)
