"""One side of the lattice: distributions composed by FFT under a tilt, and every error of doing so.

The transform of n factors is exp(sum of n_i log f_i). Elementary functions are taken as accurate to four ulps, and
the FFT to eta = 3 ulp log2(N) of its l2 norm (Higham, Accuracy and Stability of Numerical Algorithms, Theorem 24.2).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dpaccount._lattice_curve import Grid
from dpaccount._log import log_kappa
from dpaccount.pld import PrivacyLossDistribution

Array = npt.NDArray[np.float64]
OUTSIDE = 24.0  # the tilted mass outside the window is below e^-24 on either side, and counted as error
SLOPE = 3.0  # the tilt may cost this much of log condition to keep single jumps light
ULP = 2.3e-16


def failure(parts: list[tuple[PrivacyLossDistribution, int]], distance: float) -> float:
    """log of an upper bound on the probability that the sum of the losses exceeds `distance`, by Chernoff.

    For pessimistic distributions: E[e^{tL}] is an f-divergence of the pair, so the pessimistic one is the larger.
    """
    return min(Side(parts, distance).log_tail, 0.0)


class Side:
    """The composition of one side's distributions, tilted at its own saddle point."""

    def __init__(self, parts: list[tuple[PrivacyLossDistribution, int]], epsilon: float) -> None:
        self.epsilon = epsilon
        self.h = parts[0][0].grid.step
        self.parts = [_trimmed(d.grid, d.mass, n) for d, n in parts]
        self.empty = any(not part.log_mass.size for part in self.parts)
        if self.empty:
            self.window, self.c, self.log_size, self.chernoff, self.log_tail = 0.0, 1.0, -np.inf, -np.inf, -np.inf
            return
        self._coarse = [_coarse(part, d.mass) for part, (d, _) in zip(self.parts, parts, strict=True)]
        self.c = self._tilt()
        k, mean, variance = self._cumulants(self.c)
        self.log_size = k - self.c * epsilon - float(np.log(self.c) + np.log1p(self.c))
        self.window = 2 * self._half_width(k, mean, variance)

    def _cumulants(self, c: float, rough: bool = False) -> tuple[float, float, float]:
        """Of the composition; `rough` from masses joined in blocks, to find a tilt, never as a bound."""
        k = mean = variance = 0.0
        for part in self._coarse if rough else self.parts:
            loss = part.loss
            w, top = _tilted(part.log_mass, loss, c)
            total = float(w.sum())
            m = float(w @ loss) / total
            k += part.times * (top + float(np.log(total)))
            mean += part.times * m
            loss -= m
            np.square(loss, out=loss)
            variance += part.times * float(w @ loss) / total
        return k, mean, variance

    def _tilt(self) -> float:
        """The saddle point, or the smallest tilt that costs at most e^SLOPE more: a smaller one makes single jumps rare."""
        low, high = 1e-6, 1.0
        for _ in range(60):
            if self._slope(high) > 0 or high > 1e7:
                break
            low, high = high, 2 * high
        for _ in range(30):
            c = float(np.sqrt(low * high))
            low, high = (low, c) if self._slope(c) > 0 else (c, high)
            if high < 1.02 * low:
                break
        k, _, _ = self._cumulants(high)
        # sup over l of (1 - e^{eps - l})_+ e^{-c (l - eps)} is kappa(c) = c^c/(1+c)^{1+c}
        self.log_tail = k - high * self.epsilon + float(np.log1p(self._relative_error(high))) + 1e-12 * (1 + abs(k))
        self.chernoff = self.log_tail + log_kappa(high)
        best = self._exponent(high)
        low, top = 1e-3 * high, high
        for _ in range(8):
            c = float(np.sqrt(low * high))
            low, high = (low, c) if self._exponent(c) <= best + SLOPE else (c, high)
        return min(high, top)

    def _slope(self, c: float) -> float:
        return self._cumulants(c, rough=True)[1] - self.epsilon - 1 / c - 1 / (c + 1)

    def _exponent(self, c: float) -> float:
        return self._cumulants(c, rough=True)[0] - c * self.epsilon - float(np.log(c) + np.log1p(c))

    def _half_width(self, k: float, mean: float, variance: float) -> float:
        """w with tilted mass below e^-OUTSIDE beyond mean +- w, by Chernoff over a few tilts."""
        widths = [0.0]
        ends = tuple(sum(part.times * part.end(which) for part in self.parts) for which in (0, -1))
        start = self._cumulants(self.c, rough=True)[0]
        scale = float(np.sqrt(2 * OUTSIDE / max(variance, 1e-300)))
        for sign, end in ((-1.0, ends[0]), (1.0, ends[1])):
            tilts = (scale * np.array([0.05, 0.15, 0.3, 0.5, 0.75, 1.0, 1.5, 2.5, 5.0])).tolist()
            t = min(tilts, key=lambda t: (self._cumulants(self.c + sign * t, rough=True)[0] - start + OUTSIDE) / t)
            moved = self._cumulants(self.c + sign * t)[0] - k
            widths.append(min(abs(end - mean), (moved + OUTSIDE) / t - sign * mean))
        return max(widths) + 2 * self.h

    def value(self, length: int) -> tuple[float, float, float]:
        """(log delta_B, log of its absolute error, log of Q[L > eps]) of this side, on a window of `length` points.

        Errors, all relative to e^{K(c) - c eps}: of the transforms (`transform_error`), of the tilted masses and the
        place of the lattice (`_relative_error`), of the last sum, and of what lies outside the window.
        """
        if self.empty:
            return -np.inf, -np.inf, -np.inf
        y, entry, log_scale, place, drift = self._composed(length)
        index = np.arange(length)
        index = index + length * np.rint((drift - index) / length).astype(int)  # the window is centred on the mean
        gap = self.h * (place[0] + index) + (place[1] - self.epsilon)  # loss of every window point above epsilon
        keep = gap > 0.0
        with np.errstate(under="ignore"):
            decay = np.exp(-self.c * gap[keep])
            kernel = decay * -np.expm1(-gap[keep])
            seen = np.maximum(y[keep], 0.0)
            value = float(seen @ kernel)
            tail = float(seen @ (decay * np.exp(-np.minimum(gap[keep], 700.0))))
        # rounding of the places, and of the losses at which the steps' curves were taken
        moved = 4 * ULP * (abs(self.h * place[0]) + abs(place[1]) + self.epsilon + sum(part.times * part.farthest for part in self.parts))
        rounding = self._relative_error(self.c)
        error = entry * float(kernel.sum()) + value * (rounding + length * ULP + moved * self.c)
        error += moved * (float(seen @ decay) + entry * float(decay.sum()))
        error += 2.2 * float(np.exp(-OUTSIDE)) * (1 + rounding) ** 2
        outer = log_scale - self.c * self.epsilon
        with np.errstate(divide="ignore"):
            return outer + float(np.log(value)), outer + float(np.log(error)), outer - self.epsilon + float(np.log(tail))

    def _relative_error(self, c: float) -> float:
        """Of a composed tilted mass: every factor's mass, logarithm, exponent and normalisation are rounded."""
        total = 0.0
        for part in self.parts:
            size = np.abs(part.log_mass) + np.abs(c * part.loss)
            largest = float(size[size < np.inf].max())
            total += part.times * ULP * (40.0 + 2 * largest)
        return float(np.expm1(min(total, 700.0)))

    def _composed(self, length: int) -> tuple[Array, float, float, tuple[int, float], float]:
        """Composed tilted masses on the circle, their absolute error, log of the scale, the place of index 0, the drift."""
        log_f, log_scale, shift, base, drift = np.zeros(length // 2 + 1, dtype=complex), 0.0, 0, 0.0, 0.0
        gross = np.zeros(log_f.shape)
        factors: list[tuple[Array, float, int]] = []
        for part in self.parts:
            grid, n = part.grid, part.times
            w, top = _tilted(part.log_mass, part.loss, self.c)
            total = float(w.sum())
            w /= total
            log_scale += n * (top + float(np.log(total)))
            mean = float(w @ np.arange(w.size))
            middle = round(mean)
            drift += n * (mean - middle)
            shift += n * (grid.first + middle)
            base += n * grid.offset
            folded = _fold(w, middle, length)
            f = np.fft.rfft(folded)
            size = np.abs(f)
            log_f.real += n * np.log(np.maximum(size, 1e-300))  # a transform that is 0 stays as small as makes no difference
            angle = np.angle(f)
            log_f.imag += n * angle
            gross += n * np.abs(angle)
            factors.append((size, float(np.sqrt(folded @ folded)), n))
        gross += np.abs(log_f.real)
        y, entry = power_on_circle(log_f, factors, length, gross)
        return y, entry, log_scale, (shift, base), drift


def power_on_circle(
    log_f: npt.NDArray[np.complex128], factors: list[tuple[Array, float, int]], length: int, gross: Array | None = None
) -> tuple[Array, float]:
    """The inverse transform of exp(log_f), and a bound on the error of each of its entries.

    A factor's transform is off by e_i with |e_i| <= eta sqrt(N) |x_i|_2, in l2 as well; then the product is off by at
    most sum_i n_i e_i (|f_i| + |e_i|)^{n_i - 1} prod over others, which Cauchy-Schwarz sums over frequencies; exp and log
    add ulps of `gross`, the sum of the moduli of what log_f is the sum of (|log_f| by default); the inverse transform eta of the l2 norm.
    """
    eta = 6 * ULP * float(np.log2(length))
    with np.errstate(under="ignore", invalid="ignore", divide="ignore"):
        g = np.exp(log_f)
        g = np.where(np.isfinite(g), g, 0.0)
        y = np.fft.irfft(g, length)
        size = np.abs(g)
        slips = [eta * float(np.sqrt(length)) * norm for _, norm, _ in factors]
        bound = np.zeros(size.shape)
        for (f, _, n), slip in zip(factors, slips, strict=True):
            bound += n * np.log(f + slip)
        spread = 0.0
        for (f, _, n), slip in zip(factors, slips, strict=True):
            others = np.exp(bound - np.log(f + slip))
            spread += n * slip * float(np.sqrt(2 * (others @ others)))
        turns = np.where(size > 0.0, size * (np.abs(log_f) if gross is None else gross), 0.0)
    phase = 4 * ULP * 2 * float(size.sum() + np.where(np.isfinite(turns), turns, 0.0).sum())
    norm = float(np.sqrt(2 * (size @ size)))
    return y, (spread + phase) / length + eta * norm / float(np.sqrt(length))


class _Part(NamedTuple):
    """Logarithms of the masses of one distinct step on its grid, and its count."""

    grid: Grid
    log_mass: Array
    times: int

    @property
    def loss(self) -> Array:
        """An array of its own: a million losses are not kept."""
        return self.grid.losses()

    @property
    def farthest(self) -> float:
        """The largest modulus of a loss, or of where the grid is put."""
        return max(abs(self.end(0)), abs(self.end(-1)), abs(self.grid.offset))

    def end(self, which: int) -> float:
        """The first loss (0) or the last (-1)."""
        grid = self.grid
        return grid.offset + grid.step * (grid.first + (grid.size - 1 if which else 0))


class _Coarse(NamedTuple):
    """Masses of blocks, at their means."""

    log_mass: Array
    place: Array
    times: int

    @property
    def loss(self) -> Array:
        return self.place.copy()


def _trimmed(grid: Grid, mass: Array, count: int) -> _Part:
    """The distribution without leading and trailing zeros."""
    where = np.flatnonzero(mass)
    if not where.size:
        return _Part(grid, np.empty(0), count)
    first, last = int(where[0]), int(where[-1])
    with np.errstate(divide="ignore"):
        log_mass = np.log(mass[first : last + 1])
    return _Part(grid._replace(first=grid.first + first, size=last - first + 1), log_mass, count)


BLOCKS = 8192


def _coarse(part: _Part, mass: Array) -> _Coarse:
    """The masses joined in blocks, each at its mean: a million steps move nothing else by less than their spread."""
    loss, size = part.loss, -(-part.log_mass.size // BLOCKS)
    if size == 1:
        return _Coarse(part.log_mass, loss, part.times)
    where = np.flatnonzero(mass)
    mass = mass[where[0] : where[-1] + 1]
    starts = np.arange(0, mass.size, size)
    total = np.add.reduceat(mass, starts)
    middle = (loss[starts] + loss[np.minimum(starts + size, loss.size) - 1]) / 2
    loss -= np.repeat(middle, size)[: loss.size]
    loss *= mass
    with np.errstate(divide="ignore"):
        return _Coarse(np.log(total), middle + np.add.reduceat(loss, starts) / np.maximum(total, 1e-300), part.times)


def _tilted(log_mass: Array, loss: Array, c: float) -> tuple[Array, float]:
    """mass e^{cl - top} with its largest term about 1."""
    with np.errstate(under="ignore"):
        exponent = log_mass + c * loss
        top = float(exponent.max())
        exponent -= top
        return np.exp(exponent, out=exponent), top


def _fold(w: Array, middle: int, length: int) -> Array:
    """The masses on a circle of `length` points, with index `middle` at 0."""
    start = (-middle) % length
    padded = np.zeros(((start + w.size + length - 1) // length) * length)
    padded[start : start + w.size] = w
    return np.asarray(padded.reshape(-1, length).sum(axis=0))
