"""The trade-off function: the dual of a privacy profile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dpaccount import _check
from dpaccount.results import Bounds, LogDelta, Status

Curve = Callable[[float], LogDelta]
ROUNDS = 90


class TradeOffFunction:
    """f(alpha), the least type II error of any test between M(D) and M(D') at type I error alpha.

    ``f(alpha) = sup over real eps of max(0, 1 - delta(eps) - e^eps alpha)`` (DRS19, Proposition 2.12,
    over all real eps), where delta is the profile of the *larger* direction. For an ordered pair
    taken "as-written" the profile H(P||Q) gives T(Q||P) by this formula; here P is the null of
    ``T(P||Q)``, so the curve of the swapped pair is used.

    Guarantee
    ---------
    ``lower`` is valid for the profile's upper bound: any eps gives a valid lower bound, the best found is
    reported. ``upper`` bounds the supremum by concavity in e^eps from four points.

    Examples
    --------
    >>> from dpaccount import Gaussian, PrivacyProfile
    >>> f = PrivacyProfile(Gaussian(1.0)).trade_off()
    >>> round(f(0.05).estimate, 12)
    0.740488977159
    """

    def __init__(self, curve: Curve, swapped: Curve, *, notes: tuple[str, ...] = (), proved: bool = True) -> None:
        self._curve, self._swapped, self._notes, self._proved = curve, swapped, notes, proved
        self.hint = np.nan  # an epsilon near the tangent point, if one is known

    def __call__(self, false_positive_rate: Any) -> Bounds:
        """f at the given type I errors in [0, 1] (array)."""
        alpha = _check.reals("TradeOffFunction", "false_positive_rate", false_positive_rate, low=0.0, high=1.0)
        found = [self._at(float(a)) for a in alpha.ravel()]
        lower, middle, upper = (np.array([f[i] for f in found]).reshape(alpha.shape)[()] for i in range(3))
        return Bounds(
            lower, middle, upper, all(f[3] for f in found), "dual of " + ", ".join(dict.fromkeys(f[4] for f in found)),
            Status.OK if self._proved else Status.UNPROVED, "lower", notes=self._notes,
        )

    def inverse(self, false_negative_rate: Any) -> Bounds:
        """The least alpha with f(alpha) <= beta; for a symmetric profile this is f itself (DRS19, Lemma A.2)."""
        beta = _check.reals("TradeOffFunction.inverse", "false_negative_rate", false_negative_rate, low=0.0, high=1.0)
        inverse = TradeOffFunction(self._swapped, self._curve, notes=self._notes, proved=self._proved)
        return inverse(beta)  # T(P||Q)^{-1} = T(Q||P)

    def _at(self, alpha: float) -> tuple[float, float, float, bool, str]:
        if 0.0 < alpha < 1.0:
            found = self._by_slope(alpha)
            if found is not None:
                return found
        return _dual(self._curve, alpha)

    def _by_slope(self, alpha: float) -> tuple[float, float, float, bool, str] | None:
        """The tangent point Q[L > eps] = alpha by secants on log Q[L > eps]; None where the curve has kinks or no slope."""
        start = self.hint if self.hint == self.hint else min(max(-0.5 * np.log(alpha), 0.1), 50.0)
        goal, known = float(np.log(alpha)), {}
        low, high, here, rate = -np.inf, np.inf, float(start), -2.0
        last: tuple[float, float] | None = None
        for _ in range(24):
            answer = self._curve(here)
            if answer.method != "line" or not np.isfinite(answer.log_tail):
                return None
            gap = answer.log_tail - goal
            known[here] = (answer, gap)
            low, high = (here, high) if gap > 0 else (low, here)
            if abs(gap) < 3e-7:
                break
            if last is not None and here != last[0]:
                rate = min((gap - last[1]) / (here - last[0]), -1e-6)
            last = (here, gap)
            new = here - gap / rate
            new = min(max(new, here - 3.0), here + 3.0)
            if not low < new < high:
                new = (low + high) / 2
            if abs(new - here) < 1e-9 * max(1.0, abs(here)):
                break
            here = new
        self.hint = here
        extra = [0.0] if low < 0.0 < high else []
        if not (np.isfinite(low) and np.isfinite(high)):  # a point on the other side bounds what is left
            extra += [here + (1e-6 if np.isfinite(low) else -1e-6) * max(1.0, abs(here))]
        for epsilon in extra:
            answer = self._curve(epsilon)
            if answer.method != "line" or not np.isfinite(answer.log_tail):
                return None
            known[epsilon] = (answer, answer.log_tail - goal)
        return _read_tangent(known, alpha)


def _read_tangent(known: dict[float, tuple[LogDelta, float]], alpha: float) -> tuple[float, float, float, bool, str]:
    """f(alpha) from evaluated tangents: each gives a lower bound; by concavity in gamma slopes bound what is left."""
    best_low = best_mid = -np.inf
    best_up = 1.0 - alpha
    points = [(float(np.exp(e)), alpha * float(np.expm1(gap)), answer) for e, (answer, gap) in known.items()]
    for gamma, slope, answer in points:
        scale = gamma * alpha
        best_low = max(best_low, -float(np.expm1(answer.upper)) - scale)
        best_mid = max(best_mid, -float(np.expm1(answer.estimate)) - scale)
        # the maximum lies uphill, before the nearest point from which it is uphill the other way
        ends = [g for g, s, _ in points if s * slope <= 0.0 and (g - gamma) * slope > 0.0]
        if ends:
            far = min(abs(g - gamma) for g in ends)
            best_up = min(best_up, -float(np.expm1(answer.lower)) - scale + abs(slope) * far)
    lower, middle = max(0.0, best_low), max(0.0, best_mid)
    return lower, middle, max(best_up, middle), False, "line"


def _dual(curve: Curve, alpha: float) -> tuple[float, float, float, bool, str]:
    """Golden sections in eps for the concave-in-e^eps objective, from a bracket grown around 0."""
    if alpha == 1.0:
        return 0.0, 0.0, 0.0, True, "the end point"
    known: dict[float, LogDelta] = {}

    def gain(epsilon: float) -> float:
        if epsilon not in known:
            known[epsilon] = curve(epsilon)
        return -float(np.expm1(known[epsilon].estimate)) - float(np.exp(epsilon + np.log(alpha))) if alpha > 0 else -float(
            np.expm1(known[epsilon].estimate)
        )

    if alpha == 0.0:
        top = 700.0
        found = curve(top)
        low, mid, up = (max(-float(np.expm1(v)), 0.0) for v in (found.upper, found.estimate, found.lower))
        return low, mid, up, found.certified, found.method
    best = min(max(-0.5 * np.log(alpha), -1.0), 600.0) if alpha < 0.5 else -0.2
    step = 0.5
    left, right = best - step, best + step
    for _ in range(ROUNDS):
        if gain(left) > gain(best):
            best, right, left, step = left, best, left - 2 * step, 2 * step
        elif gain(right) > gain(best):
            best, left, right, step = right, best, min(right + 2 * step, 700.0), 2 * step
        else:
            break
        if best <= -700.0 or best >= 700.0:
            break
    golden = 0.3819660112501051
    a, b, m = left, right, best
    for _ in range(ROUNDS):
        # a smooth optimum needs half the digits; kinks, which closed forms and lattices have, need all
        if b - a < (2e-7 if known[m].method == "line" else 4e-15) * max(1.0, abs(m)):
            break
        x = m + golden * (b - m) if b - m > m - a else m - golden * (m - a)
        if gain(x) > gain(m):
            a, b = (m, b) if x > m else (a, m)
            m = x
        elif x > m:
            b = x
        else:
            a = x
    points = sorted(known, key=lambda e: -gain(e))[:1]
    lead = known[points[0]]
    scale = float(np.exp(points[0] + np.log(alpha)))
    lower = max(0.0, -float(np.expm1(lead.upper)) - scale)
    middle = max(0.0, -float(np.expm1(lead.estimate)) - scale)
    upper = min(max(_ceiling(known, alpha, a, b), middle), 1.0 - alpha)
    return lower, middle, upper, all(v.certified for v in known.values()), lead.method


def _ceiling(known: dict[float, LogDelta], alpha: float, a: float, b: float) -> float:
    """An upper bound on the supremum over [a, b]: secants through points outside it, by concavity in e^eps."""

    def top(e: float) -> float:
        return -float(np.expm1(known[e].lower)) - float(np.exp(e + np.log(alpha)))

    def floor(e: float) -> float:
        return -float(np.expm1(known[e].upper)) - float(np.exp(e + np.log(alpha)))

    left, right = sorted(e for e in known if e <= a), sorted(e for e in known if e >= b)
    if len(left) < 2 or len(right) < 2:
        return 1.0 - alpha
    width = np.exp(b) - np.exp(a)
    # secants from points far enough apart that rounding does not rule their slope
    e1, e2 = left[-1], right[0]
    e0 = next((e for e in reversed(left) if e <= e1 - 1e-3), left[0])
    e3 = next((e for e in right if e >= e2 + 1e-3), right[-1])
    if np.exp(e1) == np.exp(e0) or np.exp(e3) == np.exp(e2):
        return 1.0 - alpha
    rise = (top(e1) - floor(e0)) / (np.exp(e1) - np.exp(e0))
    fall = (top(e2) - floor(e3)) / (np.exp(e3) - np.exp(e2))
    return float(min(top(e1) + max(rise, 0.0) * width, top(e2) + max(fall, 0.0) * width))
