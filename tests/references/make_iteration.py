"""Recompute the values of `test_iteration.py` with mpmath at 50 digits: ``python tests/references/make_iteration.py``.

Nothing here uses dpaccount: each value is the theorem as written. i is the record, n the number of steps.
"""

from __future__ import annotations

from typing import Any

from mpmath import mp, mpf
from references.make_values import gaussian_delta, least

mp.dps = 50
Number = Any


def theta(epsilon: Number, distance: Number) -> Number:
    """E_gamma(N(0, 1)||N(r, 1))."""
    return gaussian_delta(epsilon, distance)


def laplace_lambda(epsilon: Number, distance: Number) -> Number:
    """max(0, 1 - e^{(eps - r)/2})."""
    return max(mpf(0), 1 - mp.exp((mpf(epsilon) - distance) / 2))


def factor(step: Number, smoothness: Number, convexity: Number) -> Number:
    """M = sqrt(1 - 2 eta beta rho/(beta + rho))."""
    eta, beta, rho = mpf(step), mpf(smoothness), mpf(convexity)
    return mp.sqrt(1 - 2 * eta * beta * rho / (beta + rho))


def contraction(curve: Any, scale: Number, m: Number, index: int, epsilon: Number = "0.5", n: int = 40) -> Number:
    """Theorems 3 and 4 with L = 1, D = 1, eta = 1/2: the record's factor, and the later ones' to the power n - i."""
    scale = mpf(scale)
    return curve(mpf(epsilon), 2 / scale) * curve(mpf(epsilon), m / (mpf("0.5") * scale)) ** (n - index)


def nonlinear(scale: Number, m: Number, index: int, epsilon: Number = "0.5", n: int = 40) -> Number:
    """log of d_{n-i}: d_0 the record's factor, d_{k+1} = d_k theta at gamma = 1 + (e^eps - 1)/d_k."""
    scale, gamma = mpf(scale), mp.exp(mpf(epsilon))
    d = theta(mpf(epsilon), 2 / scale)
    for _ in range(n - index):
        with mp.workdps(mp.dps + 400):
            d = d * theta(mp.log(1 + (gamma - 1) / d), m / (mpf("0.5") * scale))
    return mp.log(d)


def stopping(scale: Number, uses: int, epsilon: Number = "0.5", n: int = 40) -> Number:
    """Theorem 5 at rho = 0, as the sum it comes from, over `uses` stopping times."""
    return mp.fsum(contraction(theta, scale, mpf(1), n - k, epsilon, n) for k in range(uses)) / n


def shifted_mu(scale: Number, m: Number, index: int, n: int = 40) -> Number:
    """The smaller of (2L/sigma) M^k/sqrt(sum over j <= k of M^2j) and, for k > 0, D/(eta sigma) M^k/sqrt(sum over j < k)."""
    k, scale = n - index, mpf(scale)
    one = 2 / scale * m**k / mp.sqrt(mp.fsum(m ** (2 * j) for j in range(k + 1)))
    return one if k == 0 else min(one, 2 / scale * m**k / mp.sqrt(mp.fsum(m ** (2 * j) for j in range(k))))


def bbgg19(scale: Number, m: Number, index: int, n: int = 40) -> Number:
    """2L^2/((n-i) sigma^2) M^{n-i+1}."""
    return 2 / mpf(scale) ** 2 / (n - index) * m ** (n - index + 1)


def converted(rate: Number, epsilon: Number, name: str) -> Number:
    """log delta at eps from D_a <= r a: the least over real orders, `mironov` or `improved`."""
    r, e = mpf(rate), mpf(epsilon)
    if name == "mironov":
        return -((e - r) ** 2) / (4 * r)
    return least(lambda a: (a - 1) * (r * a - e) + a * mp.log(1 - 1 / a) - mp.log(a - 1), (e / r + 1) / 2)


def values() -> dict[str, Number]:
    """Every value by name; the settings are eps = 0.5, n = 40, L = beta = D = 1, eta = 0.5."""
    one, m = mpf(1), factor("0.5", 1, "0.4")
    found: dict[str, Number] = {"M": m}
    for i in (1, 20, 39, 40):
        found[f"fig 2 contraction {i}"] = contraction(theta, 2, one, i)
        found[f"laplace contraction {i}"] = contraction(laplace_lambda, 2, one, i)
    for i in (20, 30, 39):
        found[f"fig 3 contraction {i}"] = contraction(theta, 1, m, i)
        found[f"fig 3 shifted mu {i}"] = shifted_mu(1, m, i)
        found[f"fig 3 bbgg19 rate {i}"] = bbgg19(1, m, i)
    for i in (1, 20, 39, 40):
        found[f"fig 2 shifted mu {i}"] = shifted_mu(2, one, i)
        for name in ("mironov", "improved"):
            found[f"fig 2 {name} {i}"] = converted(mpf(1) / 2 / (41 - i), 2, name)
    for i in (39, 38):
        found[f"fig 2 log nonlinear {i}"] = nonlinear(2, one, i)
        found[f"fig 3 log nonlinear {i}"] = nonlinear(1, m, i)
    found["fig 2 stopping 1"] = stopping(2, 40)
    found["fig 2 stopping 39"] = stopping(2, 2)
    found["fig 2 log contraction, a million"] = mp.log(theta("0.5", one)) * 10**6
    found["near one, a million"] = mp.log(theta("0.5", mpf(8))) * 10**6
    return found



if __name__ == "__main__":
    for key, value in values().items():
        print(f"{key:<32}{mp.nstr(value, 18)}")
