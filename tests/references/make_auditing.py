"""Recompute every number of ``auditing.json`` with mpmath: ``python tests/references/make_auditing.py`` (about a minute).

Nothing here uses dpaccount. Each value is a definition evaluated as written, at 30 digits: binomial limits are roots of sums of
binomial terms, the posterior region is an integral of Beta densities, one-run p-values are sums, the f-DP recursion is followed
literally, order statistics are an integral over the cut, and a shuffled epoch is a maximum over thresholds. What is costly to
invert is stored as the function's value at a stated point instead.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mpmath import mp, mpf

mp.dps = 30
Number = Any  # mpmath has no types
ALPHA, DELTA = mpf("0.05"), mpf("1e-5")
LIMITS = ((0, 1000, "0.025"), (100, 1000, "0.025"), (174, 100000, "0.025"), (174, 100000, "5e-11"), (1, 50, "0.025"), (0, 10**9, "0.025"),
          (3, 10**9, "1e-10"), (40, 41, "0.05"))
MASSES = ((950, 1000, 0, 1000, "6.2"), (900, 1000, 100, 1000, "2.1"), (3, 40, 1, 50, "0.4"), (100, 100, 0, 100, "4"), (15, 20, 12, 20, "1"))
GUESSES = ((1000, 100, 100), (1000, 100, 95), (1000, 100, 90), (1000, 1000, 600), (1000, 1000, 700), (1000, 500, 450), (40, 20, 18))
RECURSIONS = ((1000, 100, 90, "0.6"), (1000, 100, 100, "1.2"), (1000, 500, 450, "0.8"), (40, 20, 18, "0.2"), (40, 20, 20, "2"))
RANKED = ((1000, 100, 10, "0.75"), (1000, 500, 103, "0.87"), (2000, 500, 80, "0.8"), (2000, 2000, 620, "0.8"), (30, 12, 1, "1"))
EPOCHS = (("1.1", 234, "1e-5", 1), ("0.4", 10000, "1e-6", 1), ("0.5", 1000, "1e-6", 1), ("0.5", 1000, "1e-5", 1), ("2", 7, "1e-5", 0))


def cdf(x: Number) -> Number:
    """Phi(x)."""
    return mp.erfc(-x / mp.sqrt(2)) / 2


def quantile(p: Number) -> Number:
    """Phi^-1(p) by Newton on log Phi, which is concave."""
    if p > 0.5:
        return -quantile(1 - p)
    x = -mp.sqrt(-2 * mp.log(p))
    for _ in range(80):
        step = (mp.log(cdf(x)) - mp.log(p)) * cdf(x) / mp.npdf(x)
        x -= step
        if abs(step) < mpf(10) ** (5 - mp.dps):
            break
    return x


def bisect(rising: Callable[[Number], Number], low: Number, high: Number, digits: int = 16) -> Number:
    """Zero of a rising function."""
    low, high = mpf(low), mpf(high)
    while high - low > mpf(10) ** -digits * abs(high):
        middle = (low + high) / 2
        low, high = (low, middle) if rising(middle) > 0 else (middle, high)
    return (low + high) / 2


def at_most(k: int, n: int, p: Number) -> Number:
    """P[Bin(n, p) <= k], term by term from k downwards."""
    term = mp.exp(mp.loggamma(n + 1) - mp.loggamma(k + 1) - mp.loggamma(n - k + 1) + k * mp.log(p) + (n - k) * mp.log1p(-p))
    total, odds = mpf(0), (1 - p) / p
    for i in range(k, -1, -1):
        total += term
        term *= i * odds / (n - i + 1)
        if term < total * mpf(10) ** -mp.dps:
            break
    return total


def upper_limit(k: int, n: int, a: str) -> Number:
    """p with P[Bin(n, p) <= k] = a: a root in log p."""
    root = bisect(lambda t: at_most(k, n, mp.exp(-t)) - mpf(a), -mp.log1p(-mpf(10) ** -20), mp.log(100 * mpf(n) / (k + 1)))
    return mp.exp(-root)


def region_mass(epsilon: Number, tp: int, p: int, fp: int, n: int) -> Number:
    """Posterior probability of the (eps, delta) region: an integral over FNR = sin^2 theta."""
    a, b = mpf(p - tp) + 0.5, mpf(tp) + 0.5
    c, d = mpf(fp) + 0.5, mpf(n - fp) + 0.5

    def least(x: Number) -> Number:
        return max(mpf(0), 1 - DELTA - mp.exp(epsilon) * x, mp.exp(-epsilon) * (1 - DELTA - x))

    def integrand(theta: Number) -> Number:
        x = mp.sin(theta) ** 2
        low, high = least(x), 1 - least(1 - x)
        if high <= low:
            return mpf(0)
        inside = mp.betainc(c, d, low, high, regularized=True)
        return inside * 2 * mp.sin(theta) ** (2 * a - 1) * mp.cos(theta) ** (2 * b - 1) / mp.beta(a, b)

    kink = (1 - DELTA) / (1 + mp.exp(epsilon))
    centre, spread = mp.atan(mp.sqrt(a / b)), 1 / (2 * mp.sqrt(a + b))
    cuts = [centre + k * spread for k in range(-10, 11, 2)] + [mp.asin(mp.sqrt(x)) for x in (kink, 1 - kink, DELTA, 1 - DELTA)]
    cuts = sorted({min(max(x, mpf(0)), mp.pi / 2) for x in cuts})
    with mp.workdps(18):
        return mp.quad(integrand, cuts)


def steinke_p_value(m: int, r: int, v: int, epsilon: Number) -> Number:
    """The theorem's p-value, summed term by term."""
    q = 1 / (1 + mp.exp(-epsilon))
    mass = [mpf(0)] * (r + 1)
    mass[0] = (1 - q) ** r
    for k in range(r):
        mass[k + 1] = mass[k] * (r - k) / (k + 1) * q / (1 - q)
    best, total = mpf(0), mpf(0)
    for i in range(1, v + 1):
        total += mass[v - i]
        best = max(best, total / i)
    return sum(mass[v:]) + 2 * m * DELTA * best


def recursion(m: int, r: int, v: int, mu: Number) -> Number:
    """R + H - r/m at the end of the f-DP recursion: positive where mu is rejected."""
    right, wrong = ALPHA * v / m, ALPHA * (r - v) / m
    for i in range(v - 1, -1, -1):
        new = max(wrong, cdf(quantile(right) - mu))
        if new == wrong:
            break
        right += mpf(i) / (r - i) * (new - wrong)
        wrong = new
        if right >= 1:
            return 1 + wrong - mpf(r) / m
    return right + wrong - mpf(r) / m


def ranked_p_value(m: int, r: int, errors: int, mu: Number) -> Number:
    """E BinCDF(errors; r, g(W)) over the cut s, whose density is that of an order statistic."""

    def few(right: Number) -> Number:
        return at_most(errors, r, 1 - right)

    if r == m:
        return few(cdf(mu / 2))

    def integrand(s: Number) -> Number:
        share = cdf(mu / 2 - s) + cdf(-s - mu / 2)
        slope = mp.npdf(mu / 2 - s) + mp.npdf(-s - mu / 2)
        weight = share**r * (1 - share) ** (m - r - 1) / mp.beta(r + 1, m - r) * slope
        return weight * few(1 - cdf(-s - mu / 2) / share)

    typical = bisect(lambda s: mpf(r) / m - cdf(mu / 2 - s) - cdf(-s - mu / 2), mpf(10) ** -20, 12, 10)
    spread = mp.sqrt(mpf(r) / m * (1 - mpf(r) / m) / m) / (mp.npdf(mu / 2 - typical) + mp.npdf(-typical - mu / 2))
    cuts = sorted({max(typical + k * spread, mpf(0)) for k in range(-10, 13, 2)} | {mpf(0), typical + 30 * spread})
    with mp.workdps(18):
        return mp.quad(integrand, cuts)


def shuffled_epoch(sigma: str, batches: int, delta: str, other: int) -> Number:
    """max over C of ln((P - delta)/Q), by golden sections; `other` 1 is zero-out, 0 replace-one."""
    s, d = mpf(sigma), mpf(delta)

    def value(c: Number) -> Number:
        rest = cdf(c / s) ** (batches - 1)
        p, q = 1 - cdf((c - 2) / s) * rest, 1 - cdf((c - other) / s) * rest
        return mp.log((p - d) / q) if p > d else -mpf(10) ** 6

    grid = [2 + s * mpf(k) / 10 for k in range(-60, 60)]
    best = max(range(len(grid)), key=lambda i: value(grid[i]))
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    for _ in range(80):
        a, b = low + (high - low) * mpf("0.381966"), low + (high - low) * mpf("0.618034")
        low, high = (low, b) if value(a) > value(b) else (a, high)
    return value((low + high) / 2)


def values() -> dict[str, list[list[Any]]]:
    """Rows of arguments, the value last."""
    return {
        "upper_limit": [[*row, float(upper_limit(*row))] for row in LIMITS],
        "region_mass": [[*row, float(region_mass(mpf(row[4]), *row[:4]))] for row in MASSES],
        "steinke": [[*g, float(bisect(lambda e, g=g: steinke_p_value(*g, e) - ALPHA, mpf("0.01"), 8, 14))] for g in GUESSES],
        "recursion": [[*row, float(recursion(*row[:3], mpf(row[3])))] for row in RECURSIONS],
        "ranked": [[*row, float(ranked_p_value(*row[:3], mpf(row[3])))] for row in RANKED],
        "epoch": [[*row, float(shuffled_epoch(*row))] for row in EPOCHS],
    }


if __name__ == "__main__":
    Path(__file__).with_name("auditing.json").write_text(json.dumps(values(), indent=1) + "\n", encoding="utf-8")
