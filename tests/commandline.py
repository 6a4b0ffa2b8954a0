"""Runs that tests of the command line share, and how they read what it prints."""

from __future__ import annotations

import re

from dpaccount.curves.profile import PrivacyProfile
from dpaccount.mechanisms.gaussian import Gaussian
from dpaccount.sampling.poisson import PoissonSampled

SAMPLED = ["--noise-multiplier", "1", "--sampling-probability", "0.01", "--steps", "1000"]
MNIST = ["--dataset-size", "60000", "--batch-size", "256", "--epochs", "60"]


def canonical():
    """The profile of `SAMPLED`, as fresh as a command's: what a profile was asked before may move its last digits."""
    return PrivacyProfile(1000 * PoissonSampled(Gaussian(1.0), 0.01))


def fields(text):
    """The aligned lines as a dictionary (the first of equal labels)."""
    found = {}
    for line in text.splitlines():
        parts = re.split(r"\s{2,}", line, maxsplit=1)
        if len(parts) == 2:
            found.setdefault(parts[0], parts[1])
    return found
