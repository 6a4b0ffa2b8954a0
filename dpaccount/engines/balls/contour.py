"""delta by one contour integral in balls: proved truncation and aliasing, and arb's own error for all arithmetic.

With M(z) = E[e^{zL}; L finite] of the composition, c right of the poles and P = 2 pi/h, the trapezoid sum is

    h/2pi sum over k of M(z) e^{-eps z}/(z (z+1)) at z = c + ikh  =  sum over k of e^{ckP} g(eps + kP),

g(eps) = delta(eps) less the mass at infinity, in [0, min(1, kappa(d) M(d) e^{-d eps})] for every d > 0, kappa(d) = d^d/(1+d)^{1+d}.
Between the poles g is the same less M(0), in [-min(1, e^eps), 0]. On a lattice of spacing a the sum over one period, with the kernel
e^{-z l}/(1 - e^{-az}) - e^{eps - (z+1) l}/(1 - e^{-a(z+1)}), l the first lattice point above eps, has the same aliases for
P = a times the number of points, and nothing is truncated.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from flint import acb, acb_mat, arb

from dpaccount.engines.balls.decay import Decay
from dpaccount.engines.balls.numbers import NotHere, around, disc, exact, precision, rough
from dpaccount.engines.balls.plan import Saddle, Sketch, Term

MOST = 40_000_000  # nodes times points of the line
CHUNK = 2000  # nodes at a time


class Problem:
    """A composition at one epsilon: terms, the joint mu^2 of plain Gaussian steps, the mass at infinity, and a lattice
    (offset, spacing) if all losses lie on one."""

    def __init__(
        self, terms: list[Term], gaussian: arb, epsilon: Fraction, infinite: arb, lattice: tuple[Fraction, Fraction] | None
    ) -> None:
        self.terms, self.gaussian, self.epsilon, self.infinite, self.lattice = terms, gaussian, epsilon, infinite, lattice
        self.sketch = Sketch(terms, float(gaussian))
        self.fall = math.nan

    def delta(self, goal: float, log_delta: float | None, floor: float = -math.inf, most: int = MOST) -> arb:
        """delta less the mass at infinity, with errors of about e^-goal of it; `log_delta` is a better guess than the saddle point's.

        Errors need not be smaller than e^-goal of e^floor. `most` is how many nodes times points may be spent.

        Afterwards `fall` estimates -d delta/d eps.
        """
        eps = float(self.epsilon)
        at = self.sketch.saddle(eps)
        if log_delta is not None:
            at = at._replace(log_delta=log_delta)
        at, self._most = at._replace(log_delta=max(at.log_delta, floor)), most
        period, tilt = self.sketch.period(at, eps, goal)
        if self.lattice is not None:
            return self._over_a_period(at, period, tilt, goal)
        reach = self._reach(at, goal)
        step = 2 * math.pi / period
        count = max(math.ceil(reach / step), 2)
        h, c = exact(step), exact(at.c)
        line = self._transform(c, h, count, goal + max(at.log_size - at.log_delta, 0.0))
        total, fall = arb(0), arb(0)
        epsilon = exact(self.epsilon)
        for k, value in enumerate(line):
            z = acb(c, h * k)
            part = value * (-epsilon * z).exp() / (z * (z + 1))
            total += part.real / 2 if k == 0 else part.real
            fall += c * part.real / 2 if k == 0 else (z * part).real
        total *= h / arb.pi()
        self.fall = rough(fall * h / arb.pi())
        end = h * count  # beyond it |z (z+1)| >= s^2, and the integral of s^-2 is 1/S
        beyond = self._bound(at, end) * (-epsilon * c).exp() / (arb.pi() * end)
        return self._less_aliases(total + around(beyond), at, 2 * arb.pi() / h, tilt)

    # errors

    def _reach(self, at: Saddle, goal: float) -> float:
        """Where the line may be cut: planned in doubles, proved by `_bound`."""
        self._decays = []
        with precision(64):
            for term in self.terms:
                weights, _, error = _nodes(term, at.c, 0.0, 30.0)
                self._decays.append(Decay(term.law.pieces, at.c, (sum(weights, arb(0)) + error).upper()))
        s = np.geomspace(1.0, 1e5, 240) / at.spread
        total = -np.log(np.pi * s) + math.log(abs(at.c * (at.c + 1))) + at.log_size - at.log_delta
        total -= 0.5 * float(self.gaussian) * s * s
        for term, decay in zip(self.terms, self._decays, strict=True):
            if decay.bars:
                total += term.count * decay.sketch(s)
        enough = np.flatnonzero(total <= -goal)
        if not enough.size:
            raise NotHere("the characteristic function does not decay far enough: too few steps, or atoms off a lattice")
        return float(s[enough[0]])

    def _bound(self, at: Saddle, s: arb) -> arb:
        """sup over u >= s of |M(c + iu)|."""
        c = exact(at.c)
        total = (self.gaussian * (c * (c + 1) - s * s) / 2).exp()
        for term, decay in zip(self.terms, self._decays, strict=True):
            total *= (decay.bound(s) * upper_mgf(term, at.c)) ** term.count
        return total.abs_upper()

    def _less_aliases(self, total: arb, at: Saddle, period: arb, tilt: float) -> arb:
        c, d, epsilon = exact(at.c), exact(tilt), exact(self.epsilon)
        if at.middle:  # all aliases have the sign of the integral
            excess = _series(c * period) + epsilon.exp() * _series(-(1 + c) * period)
            return 1 - self.infinite + total + excess.union(arb(0))
        excess = _series(-c * period)
        mgf = (self.gaussian * d * (d + 1) / 2).exp()
        for term in self.terms:
            mgf *= upper_mgf(term, tilt) ** term.count
        kappa = (d * d.log() - (1 + d) * (1 + d).log()).exp()
        excess += kappa * mgf * (-d * epsilon).exp() * _series(-(d - c) * period)
        return total - excess.union(arb(0))

    # values

    def _transform(self, c: arb, h: arb, count: int, goal: float) -> list[acb]:
        """M(c + ikh) for k = 0..count."""
        rate = float((h * count).abs_upper()) * (1 + 1e-12)
        tilt = float(c)
        found = []
        for k in range(count + 1):
            z = acb(c, h * k)
            found.append((self.gaussian * z * (z + 1) / 2).exp())
        for term in self.terms:
            weights, losses, error = _nodes(term, tilt, rate, goal + math.log(term.count))
            if len(weights) * count > self._most:
                raise NotHere("too many points of the line: too few steps, or a lattice too fine")
            slip = disc(error)
            values = waves(weights, losses, h, count)
            found = [a * (b + slip) ** term.count for a, b in zip(found, values, strict=True)]
        return found

    def _over_a_period(self, at: Saddle, period: float, tilt: float, goal: float) -> arb:
        assert self.lattice is not None
        offset, spacing = self.lattice
        number = math.ceil(Fraction(period) / spacing)
        if number > 200_000:
            raise NotHere("the lattice of the losses is too fine")
        a, c, epsilon = exact(spacing), exact(at.c), exact(self.epsilon)
        h = 2 * arb.pi() / (number * a)
        first = exact(offset + spacing * (math.floor((self.epsilon - offset) / spacing) + 1))
        line = self._transform(c, h, number // 2, goal + max(at.log_size - at.log_delta, 0.0))
        total, fall = arb(0), arb(0)
        for k, value in enumerate(line):
            z = acb(c, h * k)
            below = (epsilon - (z + 1) * first).exp() / (1 - (-a * (z + 1)).exp())
            kernel = (-z * first).exp() / (1 - (-a * z).exp()) - below
            share = 1 if k == 0 or 2 * k == number else 2
            total += share * (value * kernel).real
            fall += share * (value * below).real
        self.fall = rough(fall / number)
        return self._less_aliases(total / number, at, number * a, tilt)


def _nodes(term: Term, c: float, rate: float, goal: float) -> tuple[list[arb], list[arb], arb]:
    """(weights of e^{cL}, losses, error) of one step."""
    weights, losses, error = [], [], arb(0)
    tilt = exact(c)
    for p, q in term.law.finite:
        loss = p.log() - q.log()
        weights.append(p * (tilt * loss).exp())
        losses.append(loss)
    for piece in term.law.pieces:
        found = piece.nodes(c, rate, goal)
        weights += found[0]
        losses += found[1]
        error += found[2]
    return weights, losses, error.abs_upper()


def upper_mgf(term: Term, c: float) -> arb:
    weights, _, error = _nodes(term, c, 0.0, 25.0 + math.log(term.count))
    return (sum(weights, arb(0)) + error).abs_upper()


def _series(log_ratio: arb) -> arb:
    """r + r^2 + ... for r = e^log_ratio."""
    if not log_ratio < 0:
        raise NotHere("no tilt bounds the aliases")
    r = log_ratio.exp()
    return (r / (1 - r)).abs_upper()


def waves(weights: list[arb], losses: list[arb], h: arb, count: int) -> list[acb]:
    """sum of weight e^{ikhL} for k = 0..count: powers in two strides, whose products are one product of matrices."""
    stride = math.isqrt(count) + 1
    far = count // stride + 1
    total: acb_mat | None = None
    for start in range(0, len(weights), CHUNK):
        near_rows: list[acb] = []
        far_columns: list[list[acb]] = []
        for weight, loss in zip(weights[start : start + CHUNK], losses[start : start + CHUNK], strict=True):
            turn = acb(0, h * loss).exp()
            power = acb(1)
            for _ in range(stride):
                near_rows.append(power)
                power = power * turn
            value, column = acb(weight), []
            for _ in range(far):
                column.append(value)
                value = value * power
            far_columns.append(column)
        rows = len(far_columns)
        part = acb_mat(rows, far, [x for column in far_columns for x in column]).transpose() * acb_mat(rows, stride, near_rows)
        total = part if total is None else total + part
    assert total is not None
    return total.entries()[: count + 1]

