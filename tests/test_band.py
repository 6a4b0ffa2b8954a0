"""Limits that hold at all thresholds at once: the level against determinants and against simulated samples."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from scipy.special import betainccinv, betaincinv

from dpaccount.auditing import audit_samples, band
from dpaccount.auditing.selection import band as banded


def determinant(size, level, ranks=None):
    """P[U_(k) <= b_k for all k] = n! det[b_i^(j-i+1)/(j-i+1)!] (Steck 1971), in 100 digits; a rank left out is below the next."""
    looked = np.arange(1, size + 1) if ranks is None else ranks
    with mpmath.workdps(100):
        limit = {int(k): mpmath.mpf(float(betainccinv(k, size - k + 1.0, level))) for k in looked}
        b = [limit[int(looked[np.searchsorted(looked, k)])] for k in range(1, size + 1)]
        table = mpmath.matrix(size, size)
        for i in range(size):
            for j in range(max(i - 1, 0), size):
                table[i, j] = b[i] ** (j - i + 1) / mpmath.factorial(j - i + 1)
        return float(1 - mpmath.factorial(size) * mpmath.det(table))


@pytest.mark.parametrize("size", [1, 2, 3, 10, 40])
@pytest.mark.parametrize("level", [0.01, 1e-4])
def test_the_probability_of_a_failure_is_a_determinant(size, level):
    assert band.crossing(size, level) == pytest.approx(determinant(size, level), rel=1e-9)


def test_both_ends_count_the_same_failures():
    for size in (5, 60, 300):
        assert band._below(size, size, 0.003) == pytest.approx(band._above(size, size, 0.003), rel=1e-9)


def test_ends_and_the_ranks_between_them_are_a_bound_above(monkeypatch):
    size, level = 600, 0.002
    whole = band.crossing(size, level)
    monkeypatch.setattr(band, "ALL", 100)
    monkeypatch.setattr(band, "ENDS", 50)
    band.ranks.cache_clear()
    looked = band.ranks(size)
    assert looked.tolist() == [*range(1, 51), 100, 200, 401, 501, *range(551, 601)]
    ends = band._above(size, 50, level) + band._below(size, 50, level)
    assert 0.5 * ends < whole  # of the same size; the middle is left out of one, counted twice in neither
    assert band.crossing(size, level) == pytest.approx(ends + 4 * level)
    tp, fp = band.rounded(np.array([0, 50, 99, 100, 450, 600]), size, np.array([0, 49, 50, 100, 560, 600]), size)
    assert tp.tolist() == [0, 50, 50, 100, 401, 600]
    assert fp.tolist() == [0, 49, 99, 199, 560, 600]
    monkeypatch.undo()
    band.ranks.cache_clear()


def test_ranks_left_out_are_bounded_above_by_the_determinant(monkeypatch):
    monkeypatch.setattr(band, "ALL", 10)
    monkeypatch.setattr(band, "ENDS", 8)
    band.ranks.cache_clear()
    size, looked = 60, band.ranks(60)
    assert looked.tolist() == [*range(1, 9), 16, 45, *range(53, 61)]
    for level in (0.01, 1e-4):
        truth = determinant(size, level, looked)
        assert truth < band.crossing(size, level) < 1.4 * truth
    monkeypatch.undo()
    band.ranks.cache_clear()


def test_the_level_spends_alpha_and_no_more():
    for size in (1, 7, 200):
        level = band.level_of(size, 0.025)
        assert 0.025 * (1 - 1e-4) < band.crossing(size, level) <= 0.025
        assert 0.025 / size <= level * (1 + 1e-5)  # better than the union bound
    assert band.level_of(10**8, 0.025) == pytest.approx(0.025 / (band.ranks(10**8).size + 1))


@pytest.mark.parametrize("draw", [lambda rng, n: rng.random(n), lambda rng, n: rng.integers(0, 4, n) / 4.0], ids=["smooth", "ties"])
def test_all_limits_hold_at_once_as_often_as_promised(draw):
    """4000 samples: in 5 % and three standard errors the false-positive rate is beyond its limit somewhere; false alarm 0.3 %."""
    size, runs, failed = 50, 4000, 0
    level = band.level_of(size, 0.05)
    grid = np.arange(4) / 4.0
    for seed in range(runs):
        x = np.sort(draw(np.random.default_rng([3, seed]), size))
        at = np.union1d(x, grid) if x[0] in grid else np.nextafter(x, 2.0)  # just above a score the rate is largest for its count
        count = size - np.searchsorted(x, at)
        rate = 1.0 - at if x[0] not in grid else 1.0 - np.floor(at * 4.0) / 4.0
        limit = np.where(count < size, betaincinv(count + 1.0, np.maximum(size - count, 1), 1.0 - level), 1.0)
        failed += bool((rate > limit * (1 + 1e-12)).any())
    spread = 3 * np.sqrt(0.05 * 0.95 / runs)
    assert failed / runs <= 0.05 + spread
    if draw(np.random.default_rng(0), 1)[0] not in grid:
        assert failed / runs >= 0.05 - spread  # exact, not merely safe


def test_a_band_finds_the_best_threshold_and_refutes():
    rng = np.random.default_rng(0)
    x0, x1 = rng.normal(0, 1, 400), rng.normal(2, 1, 500)
    found = audit_samples(x0, x1, epsilon=1.0, delta=1e-5, selection="band")
    assert (found.kind, found.verdict) == ("confidence", "refuted")
    assert "hold at all of them at once" in found.selection
    assert found.upper is None
    table = banded(x0, x1, 0.05)
    each = 0.025 / table.rules
    assert each == pytest.approx(min(band.level_of(400, 0.025), band.level_of(500, 0.025)))
    best = max(
        np.log((float(betaincinv(max(t, 1e-9), 500 - t + 1.0, each)) - 1e-5) / float(betainccinv(f + 1.0, 400.0 - f, each)))
        for t, f in zip(table.tp.tolist(), table.fp.tolist(), strict=True) if f < 400 and t > 5
    )
    assert found.lower >= best * (1 - 1e-9)


@pytest.mark.parametrize("method", ["bayes", "steinke", "fdp", "hockey-stick"])
def test_a_band_is_for_statistics_of_two_limits(method):
    with pytest.raises(ValueError, match="band") as caught:
        audit_samples([0.0], [1.0], epsilon=1.0, delta=1e-5, method=method, selection="band")
    assert "total-variation" in str(caught.value)
    with pytest.raises(ValueError, match="threshold"):
        audit_samples([0.0], [1.0], epsilon=1.0, delta=1e-5, selection="band", threshold=0.5)
