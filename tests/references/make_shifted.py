"""Recompute `shifted.json` with mpmath at 50 digits: ``python tests/references/make_shifted.py``.

Nothing here uses dpaccount. The best shifted interpolation is found by trying every set of zeros and every restart, which the
package never does; common tangents of curves by solving for both points of contact, crossings by root finding.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

from mpmath import mp, mpf

try:
    from references.make_values import gaussian_delta
except ImportError:  # run as a script
    from make_values import gaussian_delta  # type: ignore[import-not-found, no-redef]

mp.dps = 50
Number = Any
FILE = Path(__file__).with_name("shifted.json")

MIXED = [".5", ".8", "1", ".3", ".9", ".7", ".6"], [".3", "0", "2", ".1", "0", ".7", ".2"], ["1", ".4", ".9", "2", ".1", ".6", ".8"]
# contraction, shift, noise, initial distance, diameter; decimals, read as such
SCHEDULES: list[tuple[list[str], list[str], list[str], str, str | None]] = [
    (["1", "1", "1", "1"], ["1", "0", "0", "0"], ["1", "1", "1", "1"], "0", None),
    ([".9"] * 6, ["1", "0", "0", "1", "0", "0"], ["1", "2", ".5", "1", "1", ".25"], "0", None),
    (*MIXED, "0", None),
    (*MIXED, "0", ".9"),
    (["1.2", ".8", "1.3", "1", ".9", "1.1", "1.05"], ["0", ".4", "0", "1", "0", "0", ".3"], ["1"] * 7, ".2", "1.5"),
    (["1"] * 8, [".1", ".2", ".4", ".8", "1.6", ".2", ".1", ".1"], ["1", "1", ".5", ".5", "1", "2", "1", "1"], "0", ".3"),
    (["1"] * 8, ["1"] * 8, ["1"] * 8, "0", "2"),
    ([".95"] * 8, ["1"] * 8, ["1"] * 8, "3", "2.5"),
    (["1"] * 9, ["0", "0", "1", "0", "0", "1", "0", "0", "1"], ["1"] * 9, "0", None),
    ([".7"] * 9, ["1", "0", "0", "1", "0", "0", "1", "0", "0"], ["1"] * 9, "0", ".8"),
    ([".9", "0", ".9", ".9"], ["1", ".5", "0", "0"], ["1", "1", "1", "1"], "4", None),
    ([".9", "1", "1", "1"], ["1", "0", "0", "2"], ["1", "0", "1", "3"], "0", "1"),
]


def segment(c: list[Number], s: list[Number], v: list[Number], begin: Number) -> tuple[Number, list[Number]]:
    """mu^2 of a segment that ends with nothing left, and what is left after each of its steps."""
    n = len(c)
    later = [mpf(1)] * n
    for t in range(n - 2, -1, -1):
        later[t] = later[t + 1] * c[t + 1]
    total = later[0] * c[0] * begin + sum((a * b for a, b in zip(later, s, strict=True)), mpf(0))
    variance = sum((a * a * b for a, b in zip(later, v, strict=True)), mpf(0))
    if total == 0:
        return mpf(0), [mpf(0)] * n
    if variance == 0:
        return mp.inf, [mpf(0)] * n
    rate, left, z = total / variance, [], begin
    for t in range(n):
        z = c[t] * z + s[t] - rate * later[t] * v[t]
        left.append(z)
    return total * rate, left


def best_mu(schedule: tuple[list[str], list[str], list[str], str, str | None]) -> Number:
    """The least mu over all sets of zeros and restarts that leave no negative shift."""
    c, s, noise = ([mpf(x) for x in column] for column in schedule[:3])
    v = [x * x for x in noise]
    initial, diameter = mpf(schedule[3]), None if schedule[4] is None else mpf(schedule[4])
    n, best = len(c), mp.inf
    starts = [(0, initial)] + ([] if diameter is None else [(k, diameter) for k in range(1, n)])
    for start, begin in starts:
        for count in range(n - start):
            for inner in itertools.combinations(range(start + 1, n), count):
                bounds = [start, *inner, n]
                cost, first = mpf(0), begin
                for a, b in itertools.pairwise(bounds):
                    more, left = segment(c[a:b], s[a:b], v[a:b], first)
                    if any(z < -mpf(10) ** -40 for z in left):
                        cost = mp.inf
                        break
                    cost, first = cost + more, mpf(0)
                best = min(best, cost)
    return mp.sqrt(best)


def one_pass(n: int, i: int, lipschitz: str, contraction: Number, sigma: str) -> Number:
    """(2L/sigma) M^{n-i} / sqrt(sum of M^{2j} for j <= n - i)."""
    m = mpf(contraction)
    return 2 * mpf(lipschitz) / mpf(sigma) * m ** (n - i) / mp.sqrt(mp.fsum(m ** (2 * j) for j in range(n - i + 1)))


def fig3_contraction() -> Number:
    """M at beta = 1, rho = 0.4, eta = 0.5."""
    return mp.sqrt(1 - 2 * mpf("0.5") * mpf("0.4") / mpf("1.4"))


def full_batch(steps: int, c: str, records: int, sigma: str) -> Number:
    """L/(n sigma) sum of c^j / sqrt(sum of c^{2j}), L = 1."""
    x = mpf(c)
    return mp.fsum(x**j for j in range(steps)) / mp.sqrt(mp.fsum(x ** (2 * j) for j in range(steps))) / records / mpf(sigma)


def common_tangent(first: list[str], second: list[str], epsilon: str, guess: tuple[str, str]) -> tuple[Number, Number, Number]:
    """delta at epsilon on the common tangent, in gamma, of two products of Gaussian curves, and the points of contact."""

    def value(mus: list[str], gamma: Number) -> Number:
        return mp.fprod(gaussian_delta(mp.log(gamma), mpf(mu)) for mu in mus)

    def slope(mus: list[str], gamma: Number) -> Number:
        return mp.diff(lambda g: value(mus, g), gamma)

    a, b = mp.findroot(
        lambda a, b: [
            slope(first, a) - slope(second, b),
            value(first, a) + slope(first, a) * (b - a) - value(second, b),
        ],
        (mp.exp(mpf(guess[0])), mp.exp(mpf(guess[1]))), tol=mpf(10) ** -36,
    )
    gamma = mp.exp(mpf(epsilon))
    return value(first, a) + slope(first, a) * (gamma - a), mp.log(a), mp.log(b)


def crossing(index: int, rho: str, sigma: str, guess: str) -> Number:
    """Where contraction (ADC20, Theorem 4) and the shifted bound meet: n = 40, L = beta = D = 1, eta = 1/2."""
    m, later = mp.sqrt(1 - 2 * mpf("0.5") * mpf(rho) / (1 + mpf(rho))), 40 - index
    mu, own, reach = one_pass(40, index, "1", m, sigma), 2 / mpf(sigma), 2 * m / mpf(sigma)

    def gap(epsilon: Number) -> Number:
        contracted = mp.log(gaussian_delta(epsilon, own)) + later * mp.log(gaussian_delta(epsilon, reach))
        return contracted - mp.log(gaussian_delta(epsilon, mu))

    return mp.findroot(gap, mpf(guess), tol=mpf(10) ** -30)


def values() -> dict[str, Any]:
    """Everything, as decimals of 25 digits."""
    text = lambda x: mp.nstr(x, 25)  # noqa: E731
    m = fig3_contraction()
    tangent = common_tangent(["2", "1.5"], ["1"], "0.15", ("0.05", "0.235"))
    return {
        "schedules": [{"schedule": schedule, "mu": text(best_mu(schedule))} for schedule in SCHEDULES],
        "fig2": {str(i): text(one_pass(40, i, "1", mpf(1), "2")) for i in (1, 20, 30, 39, 40)},
        "fig3": {str(i): text(one_pass(40, i, "1", m, "1")) for i in (1, 20, 30, 39, 40)},
        "full_batch": [
            {"steps": t, "c": c, "mu": text(full_batch(t, c, 100, "0.5"))} for t in (1, 7, 400) for c in ("1", "0.95", "0.3")
        ],
        "crossings": {
            "fig2": {"39": text(crossing(39, "0", "2", "9")), "20": text(crossing(20, "0", "2", "11.4"))},
            "fig3": {
                "20": text(crossing(20, "0.4", "1", "0.115")), "30": text(crossing(30, "0.4", "1", "0.5")),
                "39": text(crossing(39, "0.4", "1", "3.2")),
            },
        },
        "tangent": {"delta": text(tangent[0]), "from": text(tangent[1]), "to": text(tangent[2])},
    }


if __name__ == "__main__":
    FILE.write_text(json.dumps(values(), indent=1) + "\n", encoding="utf-8")
