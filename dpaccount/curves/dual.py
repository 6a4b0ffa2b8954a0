"""One value of a trade-off function: the maximum of 1 - delta - e^eps alpha over eps, from a search and from brackets of delta."""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri, ndtri_exp

from dpaccount._log import log1m_exp
from dpaccount.results import LogDelta

Array = npt.NDArray[np.float64]
ROUNDS = 60
LOWEST = -740.0  # e^eps underflows
ANY = 1.0  # a goal that every bracket excludes: the coarsest lattice will do
ULP = 2.3e-16
NEAREST = 48  # points that the upper bound looks at


class Curve(Protocol):
    """log delta at an epsilon; a `goal` allows a loose bracket that excludes it."""

    def __call__(self, epsilon: float, goal: float = ..., /) -> LogDelta: ...


class Value(NamedTuple):
    """f(alpha) with a bracket."""

    lower: float
    estimate: float
    upper: float
    certified: bool
    method: str


class Dual:
    """The dual of one curve, G(gamma) = 1 - delta - gamma alpha at its maximum; remembers every delta it has asked for.

    Below eps = 0 the swapped curve is asked, G = gamma (1 - alpha - delta'(-eps)), which keeps the digits of a small f.
    Lengths along gamma are in units of 1/alpha: u = gamma alpha.
    """

    def __init__(self, curve: Curve, swapped: Curve) -> None:
        self._curve, self._swapped = curve, swapped
        self._known: dict[float, LogDelta] = {}
        self._rough: set[float] = set()
        self._bend: dict[float, float] = {}  # the normal quantile of Q[L > eps], nearly linear for sums
        self.hint = self.tangent = math.nan

    def value(self, alpha: float) -> Value:
        """f(alpha)."""
        if alpha == 1.0:
            return Value(0.0, 0.0, 0.0, True, "the end point")
        if alpha == 0.0:
            found = self._curve(math.inf)
            low, mid, up = (max(-math.expm1(v), 0.0) + 0.0 for v in (found.upper, found.estimate, found.lower))
            return Value(low, mid, up, found.certified, found.method)
        with np.errstate(all="ignore"):
            return Tangent(self, alpha).solve()

    def ask(self, epsilon: float, rough: bool = False) -> LogDelta:
        """delta at epsilon, for epsilon < 0 of the swapped pair at -epsilon; `rough` may leave a lattice coarse."""
        if epsilon not in self._known or (epsilon in self._rough and not rough):
            goal = ANY if rough else math.nan
            found = self._curve(epsilon, goal) if epsilon >= 0.0 else self._swapped(-epsilon, goal)
            self._known[epsilon] = found
            self._rough.discard(epsilon)
            if rough and "lattice" in found.method and found.upper - found.lower > 1e-4:
                self._rough.add(epsilon)
            self._bend[epsilon] = float(_quantile(found, epsilon))
        return self._known[epsilon]

    def keep(self, epsilon: float, found: LogDelta) -> None:
        """An answer that was asked elsewhere."""
        self._known[epsilon] = found
        self._bend[epsilon] = float(_quantile(found, epsilon))

    def is_rough(self, epsilon: float) -> bool:
        return epsilon in self._rough

    @property
    def bends(self) -> dict[float, float]:
        return self._bend

    @property
    def known(self) -> dict[float, LogDelta]:
        return self._known


def _quantile(found: LogDelta, epsilon: float) -> float:
    """The normal quantile of Q[L > eps], from the smaller of the two tails."""
    if epsilon >= 0.0:
        log_q = min(found.log_tail, 0.0)
        return ndtri_exp(log_q) if log_q < -0.69 else -ndtri_exp(float(log1m_exp(log_q)))
    log_rest = min(float(np.logaddexp(found.estimate, found.log_tail - epsilon)), 0.0)  # P'[L' >= -eps] = Q[L <= eps]
    return -ndtri_exp(log_rest) if log_rest < -0.69 else ndtri_exp(float(log1m_exp(log_rest)))


class Tangent:
    """The search for the tangent point of one alpha."""

    def __init__(self, dual: Dual, alpha: float) -> None:
        self.dual, self.alpha, self.log_alpha = dual, alpha, math.log(alpha)
        self.target = float(ndtri(alpha)) if alpha < 0.5 else -float(ndtri(1.0 - alpha))
        self.top = -self.log_alpha  # G <= 0 beyond

    # G and its slopes

    def gain(self, epsilon: float, log_delta: float) -> float:
        if epsilon >= 0.0:
            return -math.expm1(log_delta) - math.exp(epsilon + self.log_alpha)
        return math.exp(epsilon) * (1.0 - self.alpha - math.exp(log_delta))

    def ends(self, epsilon: float) -> tuple[float, float]:
        """G from below and from above, with the rounding of its own formula."""
        found = self.dual.known[epsilon]
        if epsilon >= 0.0:
            slack = 2 * ULP * (1.0 + math.exp(epsilon + self.log_alpha) * (1.0 + epsilon - self.log_alpha))
        else:
            size = (1.0 - self.alpha) * (2.0 - epsilon) + math.exp(found.upper) * (1.0 - found.upper if found.upper > -1e9 else 1.0)
            slack = 2 * ULP * math.exp(epsilon) * size
        return self.gain(epsilon, found.upper) - slack, self.gain(epsilon, found.lower) + slack

    def width(self, epsilon: float) -> float:
        """How far the ends lie apart; for a coarse lattice what it will be once refined."""
        if self.dual.is_rough(epsilon):
            size = math.exp(self.dual.known[epsilon].estimate + min(epsilon, 0.0))
            return 1e-4 * size
        low, up = self.ends(epsilon)
        return up - low

    def unit(self, epsilon: float) -> float:
        return math.exp(epsilon + self.log_alpha)

    def slope(self, epsilon: float) -> float:
        """dG/du, by the slope that the answer carries."""
        found = self.dual.known[epsilon]
        if epsilon >= 0.0:
            return math.expm1(min(found.log_tail - self.log_alpha, 700.0))
        rest = math.exp(min(float(np.logaddexp(found.estimate, found.log_tail - epsilon)), 0.0))
        return (1.0 - self.alpha - rest) / self.alpha

    # the search

    def sides(self) -> tuple[float, float]:
        """The nearest points from which G rises to the right, and to the left."""
        falling = [e for e, t in self.dual.bends.items() if t <= self.target]
        right = min(falling, default=math.inf)
        left = max((e for e, t in self.dual.bends.items() if t > self.target and e < right), default=-math.inf)
        return left, right

    def solve(self) -> Value:
        dual, here, last, stuck = self.dual, self._start(), math.inf, 0
        for _ in range(ROUNDS):
            dual.ask(here, rough=True)
            miss = abs(dual.bends[here] - self.target)
            left, right = self.sides()
            if self._near(here, miss, left, right):
                break
            if math.isfinite(left) and math.isfinite(right):
                if self._peak(left, right)[1] <= self._aim(here) or right - left <= 4 * ULP * max(abs(left), abs(right)):
                    break
            stuck = stuck + 1 if not miss < 0.25 * last else 0
            last = min(miss, last) if math.isfinite(miss) else last
            following = self._next(here, left, right, stuck)
            if following in dual.known or abs(following - here) <= 8 * ULP * abs(here):
                break
            here = following
        if dual.known[here].method.startswith("generic"):
            here = self._scan()
        return self._read(here)

    def _scan(self) -> float:
        """The best of a grid, and golden sections around it: the generic group bound is not convex, and cheap."""
        dual, reach = self.dual, np.geomspace(1e-3, 700.0, 40)
        grid = [float(e) for e in (*-reach[::-1], 0.0, *reach) if LOWEST < e < self.top]

        def value(epsilon: float) -> float:
            return self.gain(epsilon, dual.ask(epsilon).upper)

        best = max(range(len(grid)), key=lambda i: value(grid[i]))
        low, here, high = grid[max(best - 1, 0)], grid[best], grid[min(best + 1, len(grid) - 1)]
        for _ in range(90):
            new = here + 0.381966 * (high - here) if high - here > here - low else here - 0.381966 * (here - low)
            if value(new) > value(here):
                low, here, high = (here, new, high) if new > here else (low, new, here)
            else:
                low, high = (low, new) if new > here else (new, high)
            if high - low < 4e-15 * (1.0 + abs(here)):
                break
        return here

    def _start(self) -> float:
        if self.dual.bends:
            left, right = self.sides()
            return self._inside(self._secant(left, right), left, right)
        return self.dual.hint if math.isfinite(self.dual.hint) and LOWEST < self.dual.hint < self.top else 0.0

    def _aim(self, epsilon: float) -> float:
        """What the search may lose: less than the engine's error, and of a coarse lattice no more is to be had."""
        return (0.5 if self.dual.is_rough(epsilon) else 0.05) * self.width(epsilon)

    def _near(self, here: float, miss: float, left: float, right: float) -> bool:
        """Whether the second-order loss of stopping here is below the engine's own error."""
        rate = self._local_rate(here)
        if not (math.isfinite(miss) and rate > 0.0):
            return False
        if left < here < right:
            return False
        move = (self.dual.bends[here] - self.target) / rate
        loss = 0.5 * abs(self.slope(here) * self.unit(here) * math.expm1(min(move, 700.0)))
        jump = math.isfinite(left) and math.isfinite(right) and self.dual.bends[left] - self.dual.bends[right] > 4 * miss + 0.5
        return loss <= self._aim(here) and not jump

    def _local_rate(self, here: float, least: float = 1e-9) -> float:
        """-d quantile/d eps, from `here` and the nearest point whose quantile differs."""
        own = self.dual.bends[here]
        # a difference of quantiles that rounding rules says nothing
        points = [(abs(e - here), e, t) for e, t in self.dual.bends.items() if math.isfinite(t) and abs(t - own) > least * (1 + abs(own))]
        if not points or not math.isfinite(own):
            return math.nan
        _, e, t = min(points)
        return (t - own) / (here - e)

    def _secant(self, left: float, right: float) -> float:
        """Where the quantile passes the target, by the two points nearest to it; NaN if they do not say."""
        bends = self.dual.bends
        points = sorted((abs(t - self.target), e, t) for e, t in bends.items() if math.isfinite(t))[:2]
        if len(points) == 2:
            (_, e1, t1), (_, e2, t2) = points
            if (t1 - t2) * (e2 - e1) > 0.0:
                return e1 + (t1 - self.target) * (e2 - e1) / (t1 - t2)
        elif points:
            # one point of a normal loss N(-mu^2/2, mu^2) tells mu
            _, e, t = points[0]
            inner = math.sqrt(max(t * t - 2.0 * e, 0.0))
            mu = max(inner - t if e <= 0.0 else -t - inner, math.exp(self.dual.known[e].estimate), 1e-12)  # delta(0) is about .4 mu
            return e + (t - self.target) * mu
        return math.nan

    def _inside(self, guess: float, left: float, right: float) -> float:
        """The guess if it lies between the two sides, at a bounded distance; else the middle, or a growing step."""
        low, high = max(left, LOWEST), min(right, self.top)
        if math.isfinite(left) and math.isfinite(right):
            return guess if left < guess < right else (left + right) / 2
        reach = [e for e in self.dual.bends if math.isfinite(e)]
        step = 2.0 * (max(reach) - min(reach)) if len(reach) > 1 else 1.0
        edge = left if math.isfinite(left) else right
        limit = edge + (8.0 * step + 1.0 if math.isfinite(left) else -8.0 * step - 1.0)
        if not (low < guess < high):
            guess = edge + (max(step, 0.5) if math.isfinite(left) else -max(step, 0.5))
        guess = min(guess, limit) if math.isfinite(left) else max(guess, limit)
        return min(max(guess, LOWEST), self.top)

    def _peak(self, left: float, right: float) -> tuple[float, float]:
        """Where the tangents of both sides meet, and how far that is above the better of the two."""
        rise, fall = self.slope(left), self.slope(right)
        span = self.unit(left) * math.expm1(right - left)
        g_left, g_right = (self.gain(e, self.dual.known[e].estimate) for e in (left, right))
        if not (rise > 0.0 >= fall) or not span > 0.0:
            return math.nan, math.inf
        move = min(max((g_right - g_left - fall * span) / (rise - fall), 0.0), span)
        return left + math.log1p(move / self.unit(left)), max(g_left + rise * move - max(g_left, g_right), 0.0)

    def _next(self, here: float, left: float, right: float, stuck: int) -> float:
        if math.isfinite(left) and math.isfinite(right) and stuck:
            if stuck % 3 == 0:
                return (left + right) / 2
            at, _ = self._peak(left, right)  # exact where G has a kink
            if left < at < right:
                return at
            if at in (left, right):
                return at
        return self._inside(self._secant(left, right), left, right)

    # the answer

    def _read(self, here: float) -> Value:
        dual = self.dual
        left, right = self.sides()
        best = max((e for e in {here, left, right} if e in dual.known), key=lambda e: self.gain(e, dual.known[e].estimate))
        dual.ask(best)
        dual.tangent = best
        width = self.width(best)
        lower, middle, upper, certified = self._bracket(best)
        one_sided = dual.known[best].lower == -math.inf and width > 1e-6 * (1.0 - self.alpha)
        if not one_sided and width < 0.1 * (1.0 - self.alpha):
            for attempt in range(2 if "lattice" in dual.known[best].method else 3):
                if upper - lower <= 12 * width + 4 * ULP * upper:
                    break
                for side in self._beside(best, width, attempt):
                    if LOWEST < side < self.top:
                        dual.ask(side)
                lower, middle, upper, certified = self._bracket(best)
        return Value(lower, middle, upper, certified, dual.known[best].method)

    def _beside(self, best: float, width: float, attempt: int) -> tuple[float, float]:
        """Points where G has fallen by twice the width, so that errors of the ends do not rule the slope of a chord.

        By the curvature where G is smooth, by the nearest slopes where it has a kink, and between the two.
        """
        rate = self._local_rate(best, 1e-3)
        spread = 1.0 / rate if rate > 0.0 else 1.0
        curvature = math.exp(min(best - 0.5 * self.target**2, 700.0)) / 2.5 / spread
        smooth = min(math.sqrt(4.0 * width / max(curvature, 1e-300)), 0.5 * spread)
        kinked = []
        for sign in (-1.0, 1.0):
            nearest = [
                sign * (e - best) + 2.0 * width / max(abs(self.slope(e)) * self.unit(e), 1e-300)
                for e in self.dual.bends if sign * (e - best) > 0.0 and self.slope(e) * sign < 0.0
            ]
            kinked.append(min(nearest, default=smooth))
        least = max(8 * ULP * abs(best), 1e-300)
        left, right = ((smooth, kink, math.sqrt(smooth * kink))[attempt] for kink in kinked)
        return best - max(left, least), best + max(right, least)

    def _bracket(self, best: float) -> tuple[float, float, float, bool]:
        """Lower end, estimate and upper end of the maximum of G, from the points nearest to the best one."""
        points = sorted((e for e in self.dual.known if LOWEST <= e <= self.top), key=lambda e: abs(e - best))
        points = sorted(points[:NEAREST])
        lower = max(0.0, *(self.ends(e)[0] for e in points))
        # a coarse bracket amid narrow ones does harm, and alone it helps
        upper = max(min(self.ceiling(points), self.ceiling([e for e in points if not self.dual.is_rough(e)])), lower)
        middle = min(max(self.gain(best, self.dual.known[best].estimate), lower), upper)
        certified = all(self.dual.known[e].certified for e in points)
        return lower + 0.0, middle + 0.0, upper + 0.0, certified

    def ceiling(self, points: list[float]) -> float:
        """An upper bound on the maximum: chords, extended beyond their ends, lie above a concave function.

        Besides G(0) = 0, G <= 1 - gamma alpha and, from delta >= 1 - gamma, G <= gamma (1 - alpha).
        """
        guess = 1.0 - self.alpha
        epsilon = np.array([-np.inf, *points])
        low, up = np.array([(0.0, 0.0), *(self.ends(e) for e in points)]).T
        shift = 0.0 if self.log_alpha > -690.0 else self.log_alpha
        u, cost = np.exp(epsilon + shift), np.exp(epsilon + self.log_alpha)  # gamma, scaled where it could overflow
        gap = np.where(u[:, None] > 0.0, u[:, None] * np.expm1(epsilon[None, :] - epsilon[:, None]), u[None, :])
        later = np.triu(np.ones(gap.shape, dtype=bool), 1) & (gap > 0.0)
        rise = np.where(later, (up[None, :] - low[:, None]) / gap, np.inf).min(axis=0)  # beyond point j, from chords that end there
        back = np.where(later, (up[:, None] - low[None, :]) / gap, np.inf).min(axis=1)  # before point j, from chords that start there
        rise[0] = guess / math.exp(shift)
        span = gap[np.arange(u.size - 1), np.arange(1, u.size)]
        a, b = np.nan_to_num(rise[:-1], posinf=1e300), np.nan_to_num(back[1:], posinf=1e300)
        first, second = np.minimum(up[:-1], up[1:] + b * span), np.minimum(up[:-1] + a * span, up[1:])
        cross = (up[1:] - up[:-1] + b * span) / (a + b)
        inside = (cross > 0.0) & (cross < span)
        tops = np.maximum(np.maximum(first, second), np.where(inside, up[:-1] + a * np.clip(cross, 0.0, span), -np.inf))
        trivial = np.where(epsilon[:-1] >= 0.0, 1.0 - cost[:-1], np.where(epsilon[1:] <= 0.0, np.exp(epsilon[1:]) * guess, guess))
        tail = up[-1] if rise[-1] <= 0.0 else 1.0 - cost[-1] if epsilon[-1] >= 0.0 else guess
        highest = max(float(np.minimum(tops, trivial).max()), float(tail), 0.0)
        return min(highest * (1.0 + 8 * ULP), guess)
