"""Additive noise: one density, shifted. It also gives mixtures of shifts, for sampling and for groups."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any, final

import numpy as np
import numpy.typing as npt

from dpaccount._facts import tail_log_delta
from dpaccount._log import ULP, log_diff
from dpaccount._quadrature import Density
from dpaccount._slip import Slip, log
from dpaccount.adjacency import Adjacency, parse, unsupported
from dpaccount.mechanisms.atomic import atom_log_delta, atom_tails
from dpaccount.moments import quadrature_log_mgf
from dpaccount.pair import DominatingPair, Facts, Reversed, Step, Tails, plain_slip

Array = npt.NDArray[np.float64]
CUT = 800.0  # support points of integer noise with probability below e^-CUT are left out


class AdditiveStep(Step):
    """A release f(D) + noise, in units in which the sensitivity of f is 1."""

    @abstractmethod
    def noise_log_density(self, x: Array) -> Array:
        """log density (or log probability) of the noise at x."""

    def noise_log_ratio(self, x: Array, shift: int) -> Array:
        """log n(x - shift)/n(x)."""
        return np.asarray(self.noise_log_density(x - shift) - self.noise_log_density(x))

    @abstractmethod
    def noise_log_tails(self, x: Array) -> tuple[Array, Array]:
        """log P[noise > x] and log P[noise <= x]."""

    @property
    @abstractmethod
    def noise_scale(self) -> float:
        """The noise's own width in units of the sensitivity."""

    @property
    @abstractmethod
    def noise_kind(self) -> str:
        """"smooth", "cusp" (a kink at 0, exponential tails) or "lattice"."""

    @abstractmethod
    def noise_support(self) -> Array | None:
        """For lattice noise its points, cut where the probability falls below e^-800; None otherwise."""

    @abstractmethod
    def scaled(self, factor: int) -> AdditiveStep:
        """The same noise on a function whose sensitivity is `factor` times as large."""


Weights = tuple[tuple[int, float], ...]


@final
@dataclass(frozen=True)
class AdditiveMixture(Step):
    """P = sum of p-weights times the noise shifted, Q likewise: sampled groups and exchanges.

    P's shifts are >= 0 and Q's are <= 0, so for log-concave noise the loss increases in x.

    Parameters
    ----------
    base : AdditiveStep
    p_weights, q_weights : tuple of (shift, probability)
        Shifts in units of the sensitivity; probabilities sum to 1.
    proved : bool
        Whether the pair is proved to dominate the mechanism it stands for.
    """

    base: AdditiveStep
    p_weights: Weights
    q_weights: Weights
    proved: bool = True

    def _log_mix(self, weights: Weights, x: Array) -> Array:
        rows = [np.log(w) + self.base.noise_log_density(x - s) for s, w in weights if w > 0]
        return np.asarray(reduce(np.logaddexp, rows))

    def _evaluate(self, x: Array) -> tuple[Array, Array]:
        """Loss and log P-density; the loss from ratios to the unshifted noise, so that tiny losses keep their digits."""
        p_ratio, q_ratio = self._log_ratio(self.p_weights, x), self._log_ratio(self.q_weights, x)
        return p_ratio - q_ratio, p_ratio + self.base.noise_log_density(x)

    def _log_ratio(self, weights: Weights, x: Array) -> Array:
        """log of sum of w_s n(x - s)/n(x)."""
        logs = [(w, self.base.noise_log_ratio(x, s)) for s, w in weights if w > 0]
        big = max(float(d.max(initial=-np.inf)) for _, d in logs)
        if big < 600.0:
            return np.asarray(np.log1p(np.maximum(sum(w * np.expm1(d) for w, d in logs), -1.0 + 1e-300)))
        return np.asarray(reduce(np.logaddexp, [np.log(w) + d for w, d in logs]))

    def _loss(self, x: Array) -> Array:
        return self._evaluate(x)[0]

    @property
    def _span(self) -> tuple[int, int]:
        return min(s for s, _ in self.q_weights), max(s for s, _ in self.p_weights)

    @cached_property
    def facts(self) -> Facts:
        kind = self.base.noise_kind
        if kind == "lattice":
            loss, _ = self.atoms()
            return Facts(min_loss=float(loss.min()), max_loss=float(loss.max()), proved=self.proved)
        if kind == "cusp":
            low, high = self._span
            ends = self._loss(np.array([low - 1.0, high + 1.0]))
            return Facts(min_loss=float(ends[0]), max_loss=float(ends[1]), proved=self.proved)
        shift_free_p = sum(w for s, w in self.p_weights if s == 0)
        shift_free_q = sum(w for s, w in self.q_weights if s == 0)
        low_loss = np.log(shift_free_p) if len(self.q_weights) == 1 and shift_free_p > 0 else -np.inf
        high_loss = -np.log(shift_free_q) if len(self.p_weights) == 1 and shift_free_q > 0 else np.inf
        return Facts(min_loss=float(low_loss), max_loss=float(high_loss), smooth=True, proved=self.proved)

    def _table(self) -> tuple[Array, Array]:
        low, high = self._span
        reach = 45.0 * self.base.noise_scale if self.base.noise_kind == "smooth" else 0.0
        x = np.linspace(low - reach, high + reach, 4097)
        return x, self._loss(x)

    def _inverse(self, loss: Any) -> Array:
        """x with L(x) = loss by bisection from a table; beyond the table the nearest end of it."""
        target = np.asarray(loss, dtype=float)
        exact = self._exchanged_inverse(target)
        if exact is not None:
            return exact
        x, table = self._table()
        table = np.maximum.accumulate(table)
        place = np.clip(np.searchsorted(table, target), 1, x.size - 1)
        low, high = x[place - 1], x[place]
        for _ in range(46):
            middle = (low + high) / 2
            below = self._loss(middle) <= target
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return np.where(target < table[0], -np.inf, np.where(target >= table[-1], np.inf, (low + high) / 2))

    def _exchanged_inverse(self, loss: Array) -> Array | None:
        """One exchanged, sampled record and Gaussian noise: x = s^2 [l/2 + asinh((1-q) sinh(l/2) e^{1/(2 s^2)}/q)].

        It solves the quadratic in e^{x/s^2} that P/Q = e^l is.
        """
        own, other = dict(self.p_weights), dict(self.q_weights)
        q = own.get(1, 0.0)
        if self.base.noise_kind != "smooth" or set(own) != {0, 1} or set(other) != {0, -1} or other[-1] != q or not 0 < q < 1:
            return None
        half = np.abs(loss) / 2
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            log_sinh = half + np.log(-np.expm1(-2 * half)) - np.log(2.0)
            log_y = np.log1p(-q) - np.log(q) + 0.5 / self.base.noise_scale**2 + log_sinh
            bend = np.where(log_y > 30.0, log_y + np.log(2.0), np.arcsinh(np.exp(np.minimum(log_y, 30.0))))
            x = self.base.noise_scale**2 * np.sign(loss) * (half + bend)
        return np.where(loss == 0.0, 0.0, x)

    def _log_tails(self, weights: Weights, x: Array) -> tuple[Array, Array]:
        pairs = [(np.log(w), *self.base.noise_log_tails(x - s)) for s, w in weights if w > 0]
        above = reduce(np.logaddexp, [w + a for w, a, _ in pairs])
        below = reduce(np.logaddexp, [w + b for w, _, b in pairs])
        return np.asarray(above), np.asarray(below)

    def tails(self, loss: Any) -> Tails:
        if self.base.noise_kind == "lattice":
            from_atoms, log_p = self.atoms()
            return atom_tails(from_atoms, log_p, log_p - from_atoms, -np.inf, -np.inf, loss)
        x = self._inverse(loss)
        p_above, p_below = self._log_tails(self.p_weights, x)
        q_above, q_below = self._log_tails(self.q_weights, x)
        return Tails(p_above, p_below, q_above, q_below, 1e-13)

    def atoms(self) -> tuple[Array, Array]:
        kind = self.base.noise_kind
        if kind == "lattice":
            support = self.base.noise_support()
            assert support is not None
            low, high = self._span
            step = float(support[1] - support[0]) if support.size > 1 else 1.0
            first, last = round((support[0] + low) / step), round((support[-1] + high) / step)
            x = np.arange(first, last + 1) * step
            log_p, log_q = self._log_mix(self.p_weights, x), self._log_mix(self.q_weights, x)
            return log_p - log_q, log_p
        if kind == "cusp":
            low, high = self._span
            ends = np.array([float(low), float(high)])
            above, below = self._log_tails(self.p_weights, ends)
            return self._loss(ends), np.array([below[0], above[1]])
        return np.empty(0), np.empty(0)

    def density(self) -> Density | None:
        kind = self.base.noise_kind
        if kind == "lattice":
            return None
        low, high = self._span
        scale = self.base.noise_scale
        span = high - low

        def window(low_tilt: float, high_tilt: float) -> tuple[float, float]:
            if kind == "cusp":
                return float(low), float(high)
            reach = 10.6 * scale
            return low + min(0.0, 1.0 + low_tilt) * span - reach, high + max(0.0, 1.0 + high_tilt) * span + reach

        return Density(
            evaluate=self._evaluate,
            inverse=lambda loss: float(self._inverse(loss)),
            window=window,
            scale=scale,
            breaks=tuple(float(s) for s in range(low, high + 1)) if kind == "cusp" else (),
        )

    def log_delta(self, epsilon: Any) -> Any | None:
        """P[L > eps] - e^eps Q[L > eps], near eps = 0 as a sum of differences that do not cancel."""
        if self.base.noise_kind == "lattice":
            return atom_log_delta(*self.atoms(), -np.inf, epsilon)
        return self._difference(epsilon, 0)

    def reversed_log_delta(self, epsilon: Any) -> Any | None:
        """Q[L <= -eps] - e^eps P[L <= -eps], likewise."""
        if self.base.noise_kind == "lattice":
            loss, log_p = self.atoms()
            return atom_log_delta(-loss, log_p - loss, -np.inf, epsilon)
        return self._difference(epsilon, 1)

    def _difference(self, epsilon: Any, side: int) -> Any:
        """sum of (p_s - q_s)(S_s - S_0) - (e^eps - 1) sum q_s S_s with S_s the tail of the noise shifted by s (p and q
        exchanged and lower tails for side 1); far from 0, where nothing cancels, the tails' logs are subtracted."""
        epsilon = np.asarray(epsilon, dtype=float)
        level = epsilon if side == 0 else -epsilon
        x = np.asarray(self._inverse(level))
        tails = self.tails(level)
        far = tail_log_delta(tails, epsilon) if side == 0 else log_diff(tails.q_below, epsilon + tails.p_below)
        own, other = dict(self.p_weights), dict(self.q_weights)
        if side:
            own, other = other, own
        with np.errstate(under="ignore", divide="ignore", invalid="ignore"):
            base = np.exp(self.base.noise_log_tails(x)[side])
            total = np.zeros(epsilon.shape)
            for s in sorted({*own, *other}):
                tail = np.exp(self.base.noise_log_tails(x - s)[side])
                total = total + (own.get(s, 0.0) - other.get(s, 0.0)) * (tail - base)
                total = total - np.expm1(np.clip(epsilon, -1.0, 1.0)) * other.get(s, 0.0) * tail
            near = np.log(np.maximum(total, 0.0))
        return np.where((np.abs(epsilon) < 0.5) & (base > 1e-280), near, far)[()]

    def slip(self, epsilon: float, value: float) -> Slip:
        return self._difference_slip(self, epsilon, value)

    def reversed_slip(self, epsilon: float, value: float) -> Slip:
        return self._difference_slip(self.reversed(), epsilon, value)

    def _difference_slip(self, step: Step, epsilon: float, value: float) -> Slip:
        """A difference of tails at a rounded loss; where the table of losses ends at 45 noise scales, what lies beyond."""
        if self.base.noise_kind == "lattice":
            return plain_slip(step, epsilon)
        shift = float(step.loss_error(np.array([epsilon]))[0]) + ULP * abs(epsilon)
        tails = step.tails(np.array([epsilon, epsilon - 2 * shift]))
        moved = epsilon + float(tails.q_above[1]) + log(shift)
        if value == -np.inf:
            beyond = float(self.base.noise_log_tails(np.array(45.0 * self.base.noise_scale))[0])
            return Slip(0.0, float(np.logaddexp(moved, beyond)))
        log_p = float(tails.p_above[0])
        return Slip(2 * (tails.error + 8 * ULP * abs(log_p)) * math.exp(min(log_p - value, 600.0)), moved)

    def step_log_mgf(self, z: Any) -> Any:
        return quadrature_log_mgf(self, z)

    def loss_error(self, loss: Array) -> Array:
        """Losses that are differences of logarithms."""
        kind = self.base.noise_kind
        if kind == "lattice":
            at, log_p = self.atoms()
            order = np.argsort(at)
            error = 8 * ULP * (1.0 + np.abs(log_p) + np.abs(log_p - at))
            return np.asarray(np.interp(loss, at[order], error[order]))
        if kind == "cusp":
            reach = 1.0 + max(abs(s) for s, _ in self.p_weights + self.q_weights)
            size = abs(math.log(2.0 * self.base.noise_scale)) + 2 * reach / self.base.noise_scale
            return np.asarray(4 * ULP * (np.abs(loss) + size))
        return np.asarray(4 * ULP * np.abs(loss))

    @property
    def log_left_out(self) -> float:
        return 1.0 - CUT if self.base.noise_kind == "lattice" else -np.inf

    def reversed(self) -> Step:
        return Reversed(self)

    def under(self, adjacency: str | Adjacency) -> tuple[DominatingPair, ...]:
        relation = parse("AdditiveMixture.under", adjacency)
        exchanged = any(shift for shift, _ in self.q_weights)
        if relation is Adjacency.AS_WRITTEN or (exchanged and relation is Adjacency.REPLACE_ONE):
            return (self,)
        if not exchanged and relation is not Adjacency.REPLACE_ONE:
            return (self, Reversed(self))
        unsupported(repr(self), relation, "its shifts describe another relation.")
