"""Sampled Gaussians of one sampling probability side by side: K for an array of noise multipliers in one call.

In the base loss l = (x - 1/2)/s^2 every noise multiplier s sees the same privacy loss, log A or -log A with A = 1 - q + q e^l.
With t = 1/s^2 only the weight q(l; t) = (2 pi t)^{-1/2} e^{-l^2/(2t) - l/2 - t/8} differs, so that one set of nodes and one table
of e^{zL} serve a whole row of t. The rule's errors are bounded as in `_strip`: in the strip |Im l| < pi the integrand q A^a e^{isL}
grows by at most e^{y^2/(2t) + |s| y}, and by (cos(y/2))^a more where a < 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr

from dpaccount._log import ULP, log_sampled, log_unsampled, polar_log1p, polar_slip
from dpaccount._panels import ORDER, legendre
from dpaccount._quadrature import TooManyNodes
from dpaccount._strip import GOAL

Array = npt.NDArray[np.float64]
T = TypeVar("T", np.float64, np.complex128)
MOST = 24_000  # nodes
TABLE = 400_000  # entries of a table over points of the line and nodes
BLOCK = 24
_HEIGHTS = np.pi * np.array([0.03, 0.06, 0.12, 0.2, 0.3, 0.42, 0.56, 0.74, 0.88, 0.97])
_RHO = np.array([1.6, 2.0, 2.5, 3.2, 4.0, 5.5])


@dataclass(frozen=True)
class Kind:
    """What the steps of a row share: q, which of the two orders, and where outcomes are cut off (a loss, or inf)."""

    probability: float
    swapped: bool
    cut: float

    def power(self, tilt: float) -> float:
        """a with q(l) A^a the tilted P-density."""
        return -tilt if self.swapped else 1.0 + tilt

    def log_a(self, base: Array) -> Array:
        return np.asarray(log_sampled(base, self.probability))

    @property
    def base_cut(self) -> float:
        """Where outcomes end in l: above, or below for the swapped order; infinite if no outcome is cut off."""
        q, cut = self.probability, -self.cut if self.swapped else self.cut
        if not cut > math.log1p(-q):
            return -math.inf
        return cut if cut == math.inf else float(log_unsampled(cut, q))


class Rows:
    """Normalised weights of many t on common nodes, valid for tilts in [low, high] and |Im z| <= rate."""

    def __init__(self, kind: Kind, tau: Array, low: float, high: float, rate: float) -> None:
        self.kind, self.tau, self.low, self.high = kind, tau, low, high
        powers = sorted((kind.power(low), kind.power(high)))
        edge = kind.base_cut
        self.whole = edge == (-math.inf if kind.swapped else math.inf)
        start, end = self._window(powers)
        for _ in range(8):
            first, last = (max(start, edge), end) if kind.swapped else (start, min(end, edge))
            if not first < last:
                raise TooManyNodes("no mass below the cut")
            cut_off = not self.whole and (first == edge or last == edge)
            node, log_w, error = self._panels(first, last, powers, rate) if cut_off else self._trapezoid(first, last, powers, rate)
            if not (self.whole or cut_off or (node[0] >= edge if kind.swapped else node[-1] <= edge)):
                start, end = (edge, end) if kind.swapped else (start, edge)  # no rule may reach beyond a cut
                continue
            log_a = kind.log_a(node)
            log_m = self._log_density(node) + log_w
            ends = (-math.inf if kind.swapped and first == edge else float(node[0]), math.inf if last == edge else float(node[-1]))
            left, right = self._left_out(ends, log_a, log_m, powers)
            if max(left, right) <= -GOAL + 2.0:
                break
            span = end - start
            start, end = start - 0.12 * span * (left > -GOAL + 2.0), end + 0.12 * span * (right > -GOAL + 2.0)
        else:
            raise TooManyNodes("the window does not close")
        self.error = error + math.exp(left) + math.exp(right)
        self.ends_only = cut_off
        self.node, self.log_a = node, log_a
        self.loss = -log_a if kind.swapped else log_a
        if not kind.swapped:
            log_m = log_m + log_a
        top = log_m.max(axis=1, keepdims=True)
        weight = np.exp(log_m - top)
        total = weight.sum(axis=1, keepdims=True)
        self.weight = weight / total
        self.log_total = (top + np.log(total))[:, 0]

    def _window(self, powers: list[float]) -> tuple[float, float]:
        """Where a weight q A^a with a between the powers, or 0, is above e^-62 of the largest of its row."""
        ends = float(self.tau.min()), float(self.tau.max())
        width = 11.5 * math.sqrt(ends[1])
        start = min(t * (min(powers[0], 0.0) - 0.5) for t in ends) - width
        end = max(t * (max(powers[1], 0.0) - 0.5) for t in ends) + width
        node = np.linspace(start, end, 400)
        tau, log_a = np.array([[t] for t in ends]), self.kind.log_a(node)
        matters = np.zeros(node.size, dtype=bool)
        for power in {0.0, *powers}:
            log_w = -((node + 0.5 * tau) ** 2) / (2 * tau) + power * log_a
            matters |= (log_w > log_w.max(axis=1, keepdims=True) - 62.0).any(axis=0)
        inside = np.flatnonzero(matters)
        return float(node[max(inside[0] - 1, 0)]), float(node[min(inside[-1] + 1, node.size - 1)])

    def _log_density(self, node: Array) -> Array:
        tau = self.tau[:, None]
        return np.asarray(-((node + 0.5 * tau) ** 2) / (2 * tau) - 0.5 * np.log(2 * math.pi * tau))

    def _trapezoid(self, first: float, last: float, powers: list[float], rate: float) -> tuple[Array, Array, float]:
        y = _HEIGHTS[13.0 * math.sqrt(self.tau.min()) > _HEIGHTS]
        y = y if y.size else _HEIGHTS[:1]
        grown = y * y / (2 * self.tau.min()) + rate * y
        if powers[0] < 0.0:
            grown = grown + powers[0] * np.log(np.cos(y / 2))
        step = _short(float(np.max(2 * np.pi * y / (grown + GOAL + 1.0))))
        low, high = math.floor(first / step), math.ceil(last / step)
        if high - low >= MOST:
            raise TooManyNodes("the integrand oscillates too fast for the trapezoid rule")
        node = step * np.arange(low, high + 1, dtype=np.float64)  # exact: `step` has few digits
        return node, np.full(node.size, math.log(step)), math.exp(-GOAL)

    def _panels(self, first: float, last: float, powers: list[float], rate: float) -> tuple[Array, Array, float]:
        """Gauss-Legendre panels up to the cut, by the bound of `_panels`, for every row."""
        half = 0.7 * math.sqrt(self.tau.min())
        nodes, weights = legendre()
        for _ in range(30):
            count = math.ceil((last - first) / (2 * half))
            if count * ORDER > MOST:
                break
            half = (last - first) / (2 * count)
            middle = np.asarray(first + half * (2 * np.arange(count) + 1), dtype=np.float64)
            node = (middle[:, None] + half * nodes).ravel()
            log_w = np.tile(np.log(half * weights), count)
            error = self._panel_error(node, log_w, middle, half, powers, rate)
            if error <= 3 * math.exp(-GOAL):
                return node, log_w, error
            half *= 0.75
        raise TooManyNodes("the integrand oscillates too fast for Gauss-Legendre panels")

    def _panel_error(self, node: Array, log_w: Array, middle: Array, half: float, powers: list[float], rate: float) -> float:
        """The largest over rows and powers, on the best of a few ellipses: one for both powers, so that its log is convex between."""
        tau, best, ats = self.tau[:, None], math.inf, []
        log_q, log_a = self._log_density(node) + log_w, self.kind.log_a(node)
        for power in powers:
            ats.append(self._log_density(middle) + power * self.kind.log_a(middle) - _log_sum(log_q + power * log_a)[:, None])
        for rho in _RHO:
            off, along = half * (rho - 1 / rho) / 2, half * (rho + 1 / rho) / 2
            if off >= 0.98 * np.pi:
                break
            worst = -math.inf
            for power, at in zip(powers, ats, strict=True):
                slope = np.maximum(np.abs(middle / tau + 0.5), np.abs(middle / tau + 0.5 - power))
                grown = off * off / (2 * tau) + rate * off + min(power, 0.0) * math.log(math.cos(off / 2))
                bound = _log_sum(at + along * slope + grown) + math.log(64 / 15 * half / (1 - rho**-2)) - 2 * ORDER * math.log(rho)
                worst = max(worst, float(bound.max()))
            best = min(best, worst)
        return math.exp(min(best, 0.0))

    def _left_out(self, ends: tuple[float, float], log_a: Array, log_m: Array, powers: list[float]) -> tuple[float, float]:
        """log of the largest share of a tilted total beyond the ends (infinite where nothing is left out), at either tilt."""
        tau, root, (start, end), left, right = self.tau, np.sqrt(self.tau), ends, -math.inf, -math.inf
        for power in powers:
            total = _log_sum(log_m + power * log_a)
            if start > -math.inf:
                at = power * (float(log_a[0]) if power >= 0.0 else math.log1p(-self.kind.probability))
                left = max(left, float((at + log_ndtr((start + tau / 2) / root) - total).max()))
            if end < math.inf and power < 0.0:
                right = max(right, float((power * float(log_a[-1]) + log_ndtr(-(end + tau / 2) / root) - total).max()))
            elif end < math.inf:  # A grows no faster than e^l
                tail = power * (power - 1.0) * tau / 2 + log_ndtr((tau * (power - 0.5) - end) / root)
                right = max(right, float((power * (float(log_a[-1]) - end) + tail - total).max()))
        return left, right

    # sums

    def tilted(self, c: float) -> Array:
        """Normalised tilted masses, one row a t."""
        power = c * self.loss
        top = float(power.max())
        moved = self.weight * np.exp(power - top)
        return np.asarray(moved / moved.sum(axis=1, keepdims=True))

    def log_mgf(self, c: float) -> Array:
        """K(c) - K(0) of every t."""
        power = c * self.loss
        if not power.max() < 600.0:
            raise TooManyNodes("the tilt overflows")
        return np.asarray(np.log1p(block_products(np.expm1(power)[None, :], self.weight)[0]))

    def cumulants(self, c: float) -> tuple[Array, Array, Array]:
        """K(c) - K(0), K'(c) and K''(c) of every t."""
        value, tilted = self.log_mgf(c), self.tilted(c)
        mean = tilted @ self.loss
        return value, mean, np.maximum((tilted * (self.loss - mean[:, None]) ** 2).sum(axis=1), 0.0)

    def rounding(self) -> tuple[Array, Array]:
        """What losses may be off by absolutely and masses relatively, t itself being rounded by two ulps."""
        tau, base = self.tau[:, None], np.abs(self.node)
        square = (self.node + 0.5 * tau) ** 2 / (2 * tau)
        log_size = np.abs(np.log(2 * np.pi * tau))
        # nodes of panels are rounded, which moves l by an ulp: twice its slope in the exponent, and that of the loss
        move = 2 * ULP * base * (base / tau + 1.5) if self.ends_only else 0.0
        part = ULP * (12.0 + 12 * square + 4 * base + tau + log_size + 4 * np.abs(self.log_a)) + move
        return 4 * ULP * np.abs(self.log_a) + (2 * ULP * base if self.ends_only else 0.0), part

    def log_mgf_error(self, c: float) -> Array:
        """A bound on the absolute error of `log_mgf`, for every t."""
        growth = np.expm1(c * self.loss)
        off, part = self.rounding()
        mass = 1.0 + self.weight @ growth
        common = (self.weight * part).sum(axis=1)
        sums = self._sums
        moved = (self.weight * (part + common[:, None] + sums + 8 * ULP)) @ np.abs(growth)
        moved = moved + abs(c) * (self.weight @ ((off + ULP * np.abs(self.loss)) * (1.0 + growth)))
        return np.asarray(1.1 * (moved / mass + 4 * self._node_error(c) + 4 * ULP * np.abs(np.log(mass))))

    def log_phi(self, c: float, s: Array) -> tuple[Array, Array, Array]:
        """log |phi| and arg phi at every s (rows) and t (columns), and a bound on the error of the logarithm; see `contour`."""
        tilted = self.tilted(c)
        real, imag = np.empty((s.size, self.tau.size)), np.empty((s.size, self.tau.size))
        for block in np.array_split(np.arange(s.size), -(-s.size * self.loss.size // TABLE)):
            tan = np.tan(np.multiply.outer(s[block] / 2, self.loss))
            shrink = tan / (1.0 + tan * tan)
            real[block], imag[block] = -2 * block_products(shrink * tan, tilted), 2 * block_products(shrink, tilted)
        size, angle = polar_log1p(real, imag)
        off, part = self.rounding()
        largest = max(0.0, float((c * self.loss).max()))
        relative = part + abs(c) * (off + ULP * np.abs(self.loss)) + 2 * self._sums + (10 + largest) * ULP
        wave = np.sqrt(-2 * np.minimum(real, 0.0))
        error = np.sqrt((tilted * relative**2).sum(axis=1)) * wave + np.multiply.outer(s, tilted @ (off + 2 * ULP * np.abs(self.loss)))
        return size, angle, polar_slip(error + 2 * self._node_error(c), size)

    def _node_error(self, c: float) -> Array | float:
        """Relative to E[e^{cL}]; of panels it is stated at the ends of the tilts, and log-convex between, in absolute terms."""
        if not self.ends_only or c in (self.low, self.high):
            return self.error
        here = self.log_mgf(c)
        most = np.maximum(np.maximum(self.log_mgf(self.low), self.log_mgf(self.high)), here)
        return np.asarray(self.error * np.exp(np.minimum(most - here, 600.0)))

    @property
    def _sums(self) -> float:
        """Relative error of a sum over the nodes, of `block_products` or of a whole matrix product."""
        return 1.2e-16 * (BLOCK + self.loss.size // BLOCK + 4)


def block_products(values: npt.NDArray[T], weight: npt.NDArray[T]) -> npt.NDArray[T]:
    """values @ weight.T with sums over short blocks first, since BLAS may add in any order."""
    n = values.shape[1]
    cut = n - n % BLOCK
    total = values[:, cut:] @ weight[:, cut:].T
    for k in range(0, cut, BLOCK):
        total += values[:, k : k + BLOCK] @ weight[:, k : k + BLOCK].T
    return total


def _short(x: float) -> float:
    """x rounded down to 20 bits, so that its small multiples are doubles."""
    mantissa, exponent = math.frexp(x)
    return math.ldexp(math.floor(mantissa * 2**20), exponent - 20)


def _log_sum(rows: Array) -> Array:
    top = rows.max(axis=1)
    return np.asarray(top + np.log(np.exp(rows - top[:, None]).sum(axis=1)))
