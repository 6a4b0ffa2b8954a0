"""Recompute every number of `test_values.py` with mpmath at 50 digits: ``python tests/references/make_values.py``.

Nothing here uses dpaccount. Each value is a definition evaluated as written, with enough guard digits for its
cancellation; `references.make_values.values()` is also called by the tests, to check the copied digits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mpmath import mp, mpf

mp.dps = 50
Number = Any  # mpmath has no types


def normal_cdf(x: Number) -> Number:
    """Phi(x), accurate in both tails."""
    return mp.erfc(-x / mp.sqrt(2)) / 2


def gaussian_delta(epsilon: Number, mu: Number) -> Number:
    """Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu), with guard digits for the difference."""
    with mp.workdps(mp.dps + 60):
        epsilon, mu = mpf(epsilon), mpf(mu)
        return normal_cdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * normal_cdf(-mu / 2 - epsilon / mu)


def root(function: Callable[[Number], Number], low: Number, high: Number) -> Number:
    """Zero of a function that changes sign on [low, high]."""
    return mp.findroot(function, (mpf(low), mpf(high)), solver="anderson", tol=mpf(10) ** -45, maxsteps=400)


def gaussian_sigma(epsilon: Number, delta: Number) -> Number:
    """The least noise standard deviation at sensitivity 1 for (epsilon, delta)."""
    return root(lambda s: mp.log(gaussian_delta(epsilon, 1 / s) / mpf(delta)), mpf(1) / 20, 400)


def gaussian_epsilon(mu: Number, delta: Number) -> Number:
    """The epsilon at which the Gaussian curve is delta."""
    return root(lambda e: mp.log(gaussian_delta(e, mu) / mpf(delta)), mpf("1e-3"), 100)


def normal_quantile(p: Number) -> Number:
    """Phi^-1(p)."""
    return mp.sqrt(2) * mp.erfinv(2 * mpf(p) - 1)


def gaussian_trade_off(mu: Number, alpha: Number) -> Number:
    """Phi(Phi^-1(1 - alpha) - mu)."""
    return normal_cdf(-normal_quantile(mpf(alpha)) - mpf(mu))


def finite_trade_off(p: list[str], q: list[str], alpha: str) -> Number:
    """T(P||Q)(alpha) by the Neyman-Pearson lemma: reject P where q/p is largest, randomise at the edge."""
    pairs = sorted(zip(map(mpf, p), map(mpf, q), strict=True), key=lambda v: -v[1] / v[0])
    left, power = mpf(alpha), mpf(0)
    for a, b in pairs:
        share = min(mpf(1), left / a)
        left, power = left - share * a, power + share * b
    return 1 - power


def mironov(order: Number, rho: Number, delta: Number) -> Number:
    """rho + log(1/delta)/(a - 1)."""
    return rho - mp.log(delta) / (order - 1)


def improved(order: Number, rho: Number, delta: Number) -> Number:
    """rho + log((a - 1)/a) - (log delta + log a)/(a - 1)."""
    return rho + mp.log((order - 1) / order) - (mp.log(delta) + mp.log(order)) / (order - 1)


def least(function: Callable[[Number], Number], guess: Number) -> Number:
    """Local minimum near a guess."""
    with mp.workdps(70):
        return function(mp.findroot(lambda a: mp.diff(function, a), mpf(guess)))


def two_point_q(order: Number, rho: Number, p: Number) -> Number:
    """The least q with D_a(Ber(p)||Ber(q)) <= rho."""
    def excess(log_q: Number) -> Number:
        q = mp.exp(log_q)
        return mp.log(p**order * q ** (1 - order) + (1 - p) ** order * (1 - q) ** (1 - order)) - (order - 1) * rho

    low = (order * mp.log(p) - (order - 1) * rho) / (order - 1) - mpf("1e-12")  # the first term alone breaks the budget below
    return mp.exp(mp.findroot(excess, (low, mp.log(p) - mpf("1e-12")), solver="anderson", tol=mpf(10) ** -35, maxsteps=400))


def joint_epsilon(order: Number, rho: Number, delta: Number) -> Number:
    """ALCKS21: max over p of log((p - delta)/q(p)), q the least with D_a(Ber(p)||Ber(q)) <= rho, at one order."""
    def value(t: Number) -> Number:
        p = 1 / (1 + mp.exp(-t))
        return mp.log(p - delta) - mp.log(two_point_q(order, rho, p))

    def slope(t: Number) -> Number:
        h = mpf("1e-8")
        return (value(t + h) - value(t - h)) / (2 * h)

    best = max(range(-11, 12), key=lambda t: value(mpf(t)))
    return value(mp.findroot(slope, (mpf(best) - 1, mpf(best) + 1), solver="anderson", tol=mpf(10) ** -12))


def optimal(delta: Number) -> Number:
    """The least `joint_epsilon` over real orders for the Gaussian with mu = 1; flat at its minimum, so a parabola is enough."""
    with mp.workdps(40):
        middle, h = mpf("5.43182"), mpf("1e-3")
        left, centre, right = (joint_epsilon(a, a / 2, delta) for a in (middle - h, middle, middle + h))
        bend, lean = left - 2 * centre + right, (right - left) / 2
        return centre - lean**2 / (2 * bend)


def laplace_renyi(order: Number, r: Number) -> Number:
    """By quadrature of p^a q^(1-a) for unit-scale Laplace densities at r and 0."""
    order, r = mpf(order), mpf(r)
    total = mp.quad(lambda x: mp.exp(-order * abs(x - r) - (1 - order) * abs(x)) / 2, [-mp.inf, 0, r, mp.inf])
    return mp.log(total) / (order - 1)


def pure_delta(epsilon0: Number, epsilon: Number) -> Number:
    """Binary randomised response by enumeration: sum of (p - e^eps q)_+."""
    keep = 1 / (1 + mp.exp(-mpf(epsilon0)))
    return sum(max(a - mp.exp(epsilon) * b, mpf(0)) for a, b in ((keep, 1 - keep), (1 - keep, keep)))


def sampled_gaussian_delta(sigma: str, q: str, epsilon: str, direction: str) -> Number:
    """One step as an integral of (p - e^eps q)_+ between mixtures, closed by normal tails at the crossing x0."""
    s, q_, gamma = mpf(sigma), mpf(q), mp.exp(mpf(epsilon))
    level = ((gamma if direction == "remove" else 1 / gamma) - 1 + q_) / q_
    if level <= 0:
        return 1 - gamma if direction == "remove" else mpf(0)
    x0 = s**2 * mp.log(level) + mpf(1) / 2
    base, moved = normal_cdf(-x0 / s), normal_cdf(-(x0 - 1) / s)
    if direction == "remove":
        return (1 - q_) * base + q_ * moved - gamma * base
    return (1 - base) - gamma * ((1 - q_) * (1 - base) + q_ * (1 - moved))


def fixed_size_delta(sigma: str, q: str, gamma: str) -> Number:
    """E_gamma(base||mixture), the tight side for gamma <= 1 at shift 2, by normal tails."""
    s, q_, g = mpf(sigma), mpf(q), mpf(gamma)
    x0 = s**2 * mp.log((1 / g - 1 + q_) / q_) / 2 + 1
    return normal_cdf(x0 / s) - g * ((1 - q_) * normal_cdf(x0 / s) + q_ * normal_cdf((x0 - 2) / s))


def fixed_size_wrong_side(sigma: str, q: str, gamma: str) -> Number:
    """E_gamma(mixture||base) by quadrature: the side that is not valid for gamma < 1."""
    s, q_, g = mpf(sigma), mpf(q), mpf(gamma)

    def gap(x: Number) -> Number:
        base = mp.npdf(x, 0, s)
        return max((1 - q_) * base + q_ * mp.npdf(x, 2, s) - g * base, mpf(0))

    return mp.quad(gap, [-12, -6, -3, 0, 1, 2, 4, 8, 14])


def values() -> dict[str, Number]:
    """Every value by name."""
    delta5 = mpf("1e-5")
    with mp.workdps(2400):
        far = mp.log(gaussian_delta("0.1", "0.001"))
    return {
        "gaussian delta(1; mu=1)": gaussian_delta("1", "1"),
        "gaussian delta(0; mu=1)": gaussian_delta("0", "1"),
        "gaussian delta(-1; mu=1)": gaussian_delta("-1", "1"),
        "gaussian delta(50; mu=10)": gaussian_delta("50", "10"),
        "gaussian delta(1e-12; mu=1e-9)": gaussian_delta("1e-12", "1e-9"),
        "gaussian delta(3; mu=0.1)": _with_digits(300, lambda: gaussian_delta("3", "0.1")),
        "gaussian log delta(0.1; mu=0.001)": far,
        "gaussian sigma(1, 1e-5)": gaussian_sigma("1", "1e-5"),
        "gaussian sigma(0.1, 1e-6)": gaussian_sigma("0.1", "1e-6"),
        "gaussian sigma(8, 1e-5)": gaussian_sigma("8", "1e-5"),
        "gaussian eps(mu=1, 1e-5)": gaussian_epsilon("1", "1e-5"),
        "G_1(0.05)": gaussian_trade_off("1", "0.05"),
        "G_2(1e-6)": gaussian_trade_off("2", "1e-6"),
        "finite T(P||Q)(.05)": finite_trade_off([".5", ".3", ".15", ".05"], [".1", ".2", ".3", ".4"], ".05"),
        "finite crossed": finite_trade_off([".1", ".2", ".3", ".4"], [".5", ".3", ".15", ".05"], ".05"),
        "laplace delta(0.5; r=1)": mp.quad(
            lambda x: max(mp.exp(-abs(x - 1)) - mp.exp(mpf("0.5") - abs(x)), 0) / 2, [mpf("0.75"), 1, 60]
        ),
        "mironov eps(mu=1, 1e-5)": least(lambda a: mironov(a, a / 2, delta5), "5.8"),
        "improved eps(mu=1, 1e-5)": least(lambda a: improved(a, a / 2, delta5), "5.43"),
        "optimal eps(mu=1, 1e-5)": optimal(delta5),
        "laplace renyi(3; r=1)": laplace_renyi("3", "1"),
        "pure delta(0.5; eps=1)": pure_delta("1", "0.5"),
        "pure delta(-0.5; eps=1)": pure_delta("1", "-0.5"),
        "sampled gaussian remove": sampled_gaussian_delta("0.8", "0.1", "0.5", "remove"),
        "sampled gaussian add": sampled_gaussian_delta("0.8", "0.1", "0.05", "add"),
        "sampled gaussian remove below": sampled_gaussian_delta("0.8", "0.1", "-0.05", "remove"),
        "fixed size true, gamma=.7": fixed_size_delta("0.8", "0.1", "0.7"),
        "fixed size wrong side, gamma=.7": fixed_size_wrong_side("0.8", "0.1", "0.7"),
    }


def _with_digits(digits: int, function: Callable[[], Number]) -> Number:
    with mp.workdps(digits):
        return function()


if __name__ == "__main__":
    for name, value in values().items():
        print(f"{name:40s} {mp.nstr(value, 20)}")
