"""One continuous stretch of a pair, in balls: sums of exponentials under a Gaussian or a flat weight.

P(x) = w(x) sum of a_s e^{s x/t}, Q(x) = w(x) sum of b_s e^{s x/t} with whole numbers s, w = e^{-x^2/2v} or 1, x in an interval.
Shifted Gaussians are of this form (t = v), Laplace noise between two kinks (s = -1, 1), and whatever sampling and swapping
make of them. Off the axis the terms of P turn apart by no more than (s_max - s_min) y/t, hence for z = c + ib

    |P^{1+z} Q^{-z} w|(x + iy) <= (P^{1+c} Q^{-c} w)(x) e^{y^2/2v + |b| R |y|/t} cos^{-k}(...),   f := P^{1+c} Q^{-c} w,

R the largest difference of a shift of P and one of Q; the cosine of half the turn enters for a negative exponent alone.
On the axis (log f)' = m(x)/t - x/v with m = (1+c) m_P - c m_Q, where the mean shifts m_P and m_Q increase with x.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt
from flint import arb

from dpaccount.engines.balls.numbers import NotHere, exact, precision, rough, rough_log

Array = npt.NDArray[np.float64]
MOST = 60_000  # nodes of one piece


@dataclass(frozen=True, eq=False)
class Piece:
    """`variance` None means a flat weight; `low`, `high` None an infinite end; `lattice` a sum over the integers."""

    variance: arb | None
    scale: arb
    p: Mapping[int, arb]
    q: Mapping[int, arb]
    low: arb | None
    high: arb | None
    rising: bool
    lattice: bool = False

    def mixed(self, a: arb, b: arb, c: arb, d: arb, rising: bool) -> Piece:
        """(a P + b Q, c P + d Q) on the same stretch."""
        shifts = sorted({*self.p, *self.q})
        zero = arb(0)
        p = {s: a * self.p.get(s, zero) + b * self.q.get(s, zero) for s in shifts}
        q = {s: c * self.p.get(s, zero) + d * self.q.get(s, zero) for s in shifts}
        p, q = ({s: x for s, x in side.items() if x != 0} for side in (p, q))
        return Piece(self.variance, self.scale, p, q, self.low, self.high, rising, self.lattice)

    # in balls

    def logs(self, x: arb) -> tuple[arb, arb]:
        """log P - log w and log Q - log w."""
        turn = x / self.scale
        waves = {s: (turn * s).exp() for s in {*self.p, *self.q} if s}
        return _log_sum(self.p, waves, turn), _log_sum(self.q, waves, turn)

    def log_weight(self, x: arb) -> arb:
        """log w."""
        return arb(0) if self.variance is None else -x * x / (2 * self.variance)

    def node(self, x: arb, c: arb) -> tuple[arb, arb]:
        """log f and the loss."""
        log_p, log_q = self.logs(x)
        loss = log_p - log_q
        return self.log_weight(x) + log_p + c * loss, loss

    def means(self, x: arb) -> tuple[arb, arb]:
        """The mean shifts of P and of Q."""
        turn = x / self.scale
        waves = {s: (turn * s).exp() for s in {*self.p, *self.q}}
        found = []
        for side in (self.p, self.q):
            parts = [(s, a * waves[s]) for s, a in side.items()]
            found.append(sum((s * y for s, y in parts), arb(0)) / sum((y for _, y in parts), arb(0)))
        return found[0], found[1]

    # the same in doubles, to plan with

    @cached_property
    def _rough(self) -> tuple[float, float, list[tuple[Array, Array]]]:
        inverse = 0.0 if self.variance is None else 1.0 / rough(self.variance)
        sides = []
        for side in (self.p, self.q):
            shifts = np.array(list(side), dtype=float)
            sides.append((shifts, np.array([rough_log(a) for a in side.values()])))
        return inverse, rough(self.scale), sides

    def sketch(self, x: Array) -> tuple[Array, Array]:
        """log P and the loss."""
        inverse, scale, sides = self._rough
        logs = []
        for shifts, log_a in sides:
            parts = log_a + np.multiply.outer(x / scale, shifts)
            top = parts.max(axis=-1)
            logs.append(top + np.log(np.exp(parts - top[..., None]).sum(axis=-1)))
        return logs[0] - 0.5 * inverse * x * x, logs[0] - logs[1]

    @property
    def spread(self) -> float:
        """The width of the weight, or of the scale on a flat stretch."""
        return 1.0 if self.variance is None else math.sqrt(rough(self.variance))

    def ends(self, c: float, reach: float) -> tuple[float, float]:
        """Where f is within e^-(reach^2/2) of its largest value, at the widest."""
        low = -math.inf if self.low is None else rough(self.low)
        high = math.inf if self.high is None else rough(self.high)
        if self.variance is None:
            return low, high
        (p, q) = (list(side) for side in (self.p, self.q))
        m = [(1 + c) * s - c * t for s in (min(p), max(p)) for t in (min(q), max(q))]
        unit = self.spread**2 / rough(self.scale)  # shifts move the weight by this much
        return max(low, unit * min(m) - reach * self.spread), min(high, unit * max(m) + reach * self.spread)

    def window(self, c: float, goal: float) -> tuple[float, float]:
        """Where log f is above its maximum - goal."""
        low, high = self.ends(c, math.sqrt(2 * goal) + 1.0)
        if self.variance is None:
            return low, high
        x = np.linspace(low, high, 1201)
        log_p, loss = self.sketch(x)
        log_f = log_p + c * loss
        inside = np.flatnonzero(log_f > log_f.max() - goal)
        gap = (high - low) / 1200
        left, right = float(x[inside[0]]) - gap, float(x[inside[-1]]) + gap
        most = exact(float(log_f.max()) - goal).exp() * self.spread
        with precision(64):
            return max(low, self._clear(left, c, most, False)), min(high, self._clear(right, c, most, True))

    def _clear(self, x: float, c: float, most: arb, right: bool) -> float:
        """x, or a place farther out, beyond which f is bounded by so much."""
        if (self.high if right else self.low) is not None:
            return x
        for _ in range(400):
            with suppress(NotHere):
                if self.beyond(exact(x), exact(c), right) <= most:
                    break
            x += self.spread if right else -self.spread
        return x

    def rough_nodes(self, low_tilt: float, high_tilt: float) -> tuple[Array, Array]:
        """(loss, log P-mass) of a plain rule that serves every tilt between the two, in doubles."""
        a, b = (self.ends(t, 9.0) for t in (low_tilt, high_tilt))
        low, high = min(a[0], b[0]), max(a[1], b[1])
        if self.lattice or (self.low is None and self.high is None):
            step = 1.0 if self.lattice else self.spread / 6
            if (high - low) / step > 400_000:
                raise NotHere("the outcomes span too many nodes")
            x = np.asarray(step * np.arange(math.ceil(low / step), math.floor(high / step) + 1), dtype=np.float64)
            log_w = np.full(x.shape, math.log(step))
        else:
            count = max(math.ceil((high - low) / (2 * self.spread)), 1)
            nodes, weights = np.polynomial.legendre.leggauss(24)
            half = (high - low) / (2 * count)
            middle = low + half * (2 * np.arange(count, dtype=np.float64) + 1)
            x = np.asarray((middle[:, None] + half * nodes).ravel(), dtype=np.float64)
            log_w = np.tile(np.log(half * weights), count)
        log_p, loss = self.sketch(x)
        return loss, log_p + log_w

    # bounds

    @property
    def turns(self) -> tuple[int, int, int]:
        """Spread of P's shifts, of Q's, and the largest difference between the two."""
        p, q = list(self.p), list(self.q)
        return max(p) - min(p), max(q) - min(q), max(max(p) - min(q), max(q) - min(p), 0)

    @property
    def reach(self) -> float:
        """How far off the axis the integrand is analytic."""
        widest = max(self.turns[:2])
        return math.pi * rough(self.scale) / widest if widest else math.inf

    def growth(self, y: arb, c: arb, rate: arb) -> arb:
        """log of the factor by which |f e^{ibL}| may grow within y of the axis, |b| <= rate; y below `reach`."""
        wide_p, wide_q, apart = self.turns
        total = rate * apart * y / self.scale
        if self.variance is not None:
            total += y * y / (2 * self.variance)
        for wide, power in ((wide_p, 1 + c), (wide_q, -c)):
            if wide and power < 0:
                half = wide * y / (2 * self.scale)
                if not half < arb.pi() / 2:
                    raise NotHere("the strip is left")
                total += power * half.cos().log()
        return total

    def beyond(self, x: arb, c: arb, right: bool) -> arb:
        """Upper bound on the integral of f beyond x, and on the sum over any grid of it times its spacing.

        Towards that end P e^{-sx/t} falls for the outermost shift s, and rises for the innermost one; it never falls below the
        outermost coefficient. So P^{1+c} Q^{-c} is at most an exponential through its value at x, or through a little more.
        """
        assert self.variance is not None
        outer, inner = (max, min) if right else (min, max)
        log_f, log_p, log_q = self.node(x, c)[0], *self.logs(x)
        choices = [(arb(0), arb(0))]  # (mean shift of the exponential, log of what it exceeds f by at x)
        for side, log_side, power in ((self.p, log_p, 1 + c), (self.q, log_q, -c)):
            s = outer(side)
            if power >= 0:
                choices = [(m + power * s, more) for m, more in choices]
            else:
                level = side[s].log() + s * x / self.scale - log_side
                choices = [(m + power * inner(side), more) for m, more in choices] + [
                    (m + power * s, more + power * level) for m, more in choices
                ]
        sigma, best = self.variance.sqrt(), None
        for m, more in choices:
            gap = (x - m * self.variance / self.scale) * (1 if right else -1)
            if gap > 0:
                bound = (log_f + more).exp() * sigma * (arb.pi() / 2).sqrt().min(sigma / gap)
                best = bound if best is None else best.min(bound)
        if best is None:
            raise NotHere("a tail starts inside the bulk")
        return best

    def nodes(self, c: float, rate: float, goal: float) -> tuple[list[arb], list[arb], arb]:
        """(weights of f, losses, bound on the error of sum weight e^{ibL}) for |b| <= rate; the error is e^-goal of the whole."""
        if self.lattice:
            return self._sum(c, goal)
        if self.low is None and self.high is None:
            return self._trapezoid(c, rate, goal)
        return self._panels(c, rate, goal)

    def _tails(self, c: arb, low: arb, high: arb) -> arb:
        total = arb(0)
        if self.low is None:
            total += self.beyond(low, c, right=False)
        if self.high is None:
            total += self.beyond(high, c, right=True)
        return total

    def _sum(self, c: float, goal: float) -> tuple[list[arb], list[arb], arb]:
        low, high = self.window(c, goal + 8.0)
        first, last = math.floor(low) - 1, math.ceil(high) + 1
        if last - first > MOST:
            raise NotHere("the integer noise has too many support points")
        tilt = exact(c)
        found = [self.node(arb(k), tilt) for k in range(first, last + 1)]
        return [a.exp() for a, _ in found], [loss for _, loss in found], self._tails(tilt, arb(first), arb(last))

    def _trapezoid(self, c: float, rate: float, goal: float) -> tuple[list[arb], list[arb], arb]:
        """TW14, Theorem 5.1: off by at most 2 e^growth/(e^{2 pi alpha/h} - 1) of the whole."""
        tilt, fast = exact(c), exact(rate)
        best, alpha = 0.0, 0.0
        reach = min(self.reach, self.spread * math.sqrt(2 * goal) * 2)
        for part in (0.05, 0.1, 0.2, 0.3, 0.42, 0.56, 0.74, 0.88, 0.97):
            y = part * reach
            widest = 2 * math.pi * y / (rough(self.growth(exact(y), tilt, fast)) + goal + 1.0)
            if widest > best:
                best, alpha = widest, y
        h = _short(best)
        low, high = self.window(c, goal + 8.0)
        first, last = math.floor(low / h) - 1, math.ceil(high / h) + 1
        if last - first > MOST:
            raise NotHere("the outcomes span too many nodes")
        step = exact(h)
        found = [self.node(k * step, tilt) for k in range(first, last + 1)]
        weights = [a.exp() * step for a, _ in found]
        height = exact(alpha)
        share = 2 * self.growth(height, tilt, fast).exp() / ((2 * arb.pi() * height / step).exp() - 1)
        if not share < 1:
            raise NotHere("the rule over the outcomes is too coarse")
        tails = self._tails(tilt, first * step, last * step)
        whole = (sum(weights, arb(0)) + tails) / (1 - share)
        return weights, [loss for _, loss in found], whole * share + tails

    def _panels(self, c: float, rate: float, goal: float) -> tuple[list[arb], list[arb], arb]:
        """Gauss-Legendre panels: n nodes on a half-width w are off by at most 64/15 w M rho^{-2n}/(1 - rho^{-2}), M the maximum on
        the ellipse that reaches w (rho + 1/rho)/2 along the axis and w (rho - 1/rho)/2 off it (T13, Theorem 19.3)."""
        tilt, fast = exact(c), exact(rate)
        low, high = self.window(c, goal + 8.0)
        start, end = exact(low) if self.low is None else self.low, exact(high) if self.high is None else self.high
        count, order, rho = self._plan(c, rate, goal, rough(start), rough(end))
        if count * order > MOST:
            raise NotHere("the outcomes span too many nodes")
        half = (end - start) / (2 * count)
        stretch = exact(rho)
        along, off = half * (stretch + 1 / stretch) / 2, half * (stretch - 1 / stretch) / 2
        scale = exact(64) / 15 * half * stretch ** (-2 * order) / (1 - stretch**-2) * self.growth(off, tilt, fast).exp()
        rule = legendre(order, _bits())
        weights, losses, error = [], [], arb(0)
        for i in range(count):
            middle = start + half * (2 * i + 1)
            for x, w in rule:
                log_f, loss = self.node(middle + half * x, tilt)
                weights.append(log_f.exp() * half * w)
                losses.append(loss)
            error += scale * self._crest(middle, along, tilt).exp()
        return weights, losses, error + self._tails(tilt, start, end)

    def slopes(self, left: arb, right: arb, c: arb) -> tuple[arb, arb]:
        """(least, largest) (log f)' between two points."""
        (p0, q0), (p1, q1) = self.means(left), self.means(right)
        if 1 + c < 0:
            p0, p1 = p1, p0
        if c < 0:
            q0, q1 = q1, q0
        low, high = ((1 + c) * p0 - c * q1) / self.scale, ((1 + c) * p1 - c * q0) / self.scale
        if self.variance is not None:
            low, high = low - right / self.variance, high - left / self.variance
        return low, high

    def _crest(self, middle: arb, along: arb, c: arb) -> arb:
        """Upper bound on log f within `along` of a point: its slopes lie between known values on every short stretch."""
        parts = 8
        points = [middle + along * (exact(2 * i) / parts - 1) for i in range(parts + 1)]
        found = None
        for left, right in itertools.pairwise(points):
            low, high = self.slopes(left, right, c)
            # from either end, and no higher than where the two lines meet
            ends = self.node(left, c)[0], self.node(right, c)[0]
            step = right - left
            top = (ends[0] + step * high.max(arb(0))).min(ends[1] + step * (-low).max(arb(0)))
            found = top if found is None else found.max(top)
        assert found is not None
        return found

    def _plan(self, c: float, rate: float, goal: float, low: float, high: float) -> tuple[int, int, float]:
        """(panels, nodes a panel, rho) of about the least total, in doubles."""
        x = np.linspace(low, high, 801)
        log_p, loss = self.sketch(x)
        log_f = log_p + c * loss
        log_width = math.log(max(float(np.exp(log_f - log_f.max()).sum()) * float(x[1] - x[0]), 1e-300))
        best: tuple[float, int, int, float] = (math.inf, 0, 0, 0.0)
        for count in sorted({max(int(1.35**k), 1) for k in range(30)}):
            half = (high - low) / (2 * count)
            for rho in (1.5, 2.0, 3.0, 4.0, 6.0, 9.0, 14.0):
                off, along = half * (rho - 1 / rho) / 2, half * (rho + 1 / rho) / 2
                if off >= 0.95 * self.reach:
                    break
                grown = rough(self.growth(exact(off), exact(c), exact(rate)))
                log_p, loss = self.sketch(np.array([low + half - along, high - half + along]))  # the ellipses reach beyond the ends
                grown += max(float((log_p + c * loss).max() - log_f.max()), 0.0)
                order = math.ceil((goal + grown + 4.0 + math.log(half * count) - log_width) / (2 * math.log(rho)))
                if order <= 160 and order * count < best[0]:
                    best = (order * count, count, order, rho)
        if not best[1]:
            raise NotHere("no panels serve the outcomes")
        return best[1], max(best[2], 4), best[3]


def _log_sum(side: Mapping[int, arb], waves: Mapping[int, arb], turn: arb) -> arb:
    if len(side) == 1:
        ((s, a),) = side.items()
        return a.log() + s * turn
    total = arb(0)
    for s, a in side.items():
        total += a * waves[s] if s else a
    return total.log()


def _short(x: float) -> float:
    """x rounded down to ten bits, so that its multiples are exact."""
    mantissa, exponent = math.frexp(x)
    return math.ldexp(math.floor(mantissa * 1024), exponent - 10)


def _bits() -> int:
    from flint import ctx

    return int(ctx.prec)


@lru_cache(maxsize=64)
def legendre(order: int, bits: int) -> list[tuple[arb, arb]]:
    """Nodes and weights of Gauss-Legendre's rule in balls of so many bits."""
    return [arb.legendre_p_root(order, k, weight=True) for k in range(order)]
