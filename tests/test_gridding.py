"""Sums by one FFT over spread losses: within their error of plain sums, and a spread cut short is caught."""

import numpy as np

from dpaccount.engines.smoothed import gridding


def far_from_plain(count=600):
    """Whether gridded sums differ from plain ones by more than they say."""
    rng = np.random.default_rng(4)
    cell, inside, weight, size = rng.integers(-9999, 9999, 200) * 1.0, rng.uniform(-0.5, 0.5, 200), rng.random(200) / 100, 2048
    moved, error = gridding.gridded(cell, inside, weight, count, size, 1e-15)
    assert error < 3e-12
    turns = np.outer(np.arange(count + 1), cell) % size / size + np.outer(np.arange(count + 1), inside) / size
    return bool(np.any(np.abs(moved - np.expm1(2j * np.pi * turns) @ weight) > error))


def test_gridded_sums_are_within_their_error():
    assert not far_from_plain()


def test_a_narrower_spread_is_caught(monkeypatch):
    honest = gridding._spread
    monkeypatch.setattr(gridding, "_spread", lambda *facts: honest(*facts[:-1], facts[-1] - 4))
    assert far_from_plain()
