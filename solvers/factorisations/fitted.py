"""Toeplitz factorisations whose coefficients minimise the loss: banded ones, and buffered ones (BLT), whose noise needs a few buffers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, final

import numpy as np
from scipy.linalg import toeplitz
from scipy.optimize import minimize
from scipy.special import expit

from dpaccount import _check
from solvers.factorisations.base import Array, Factorisation, Participation, checked_steps
from solvers.factorisations.toeplitz import root_coefficients

LOSSES = ("rms", "max")
MOST_BUFFERS = 10
ONCE = Participation()
OPTIONS: Any = {"maxiter": 300, "maxfun": 600, "ftol": 1e-14, "gtol": 1e-9, "maxcor": 20}


class FittedToeplitz(Factorisation):
    """C and B = A C^(-1) lower triangular and Toeplitz, by the first columns c and b of both: ``b(x) = 1/((1 - x) c(x))`` as series."""

    _columns: tuple[Array, Array]

    def encoder(self) -> Array:
        return np.asarray(toeplitz(self._columns[0], np.zeros(self.steps)))

    def decoder(self) -> Array:
        return np.asarray(toeplitz(self._columns[1], np.zeros(self.steps)))

    def noise_norms(self) -> Array:
        return np.asarray(np.sqrt(np.cumsum(self._columns[1] ** 2)))


@final
@dataclass(frozen=True)
class BandedToeplitz(FittedToeplitz):
    """C with `bands` diagonals, each constant, of least loss; from a separation of `bands` on participations are orthogonal.

    The sensitivity is then sqrt(k) |c| for k participations, so that the best c is the same for every k.

    Parameters
    ----------
    steps : int
        n >= 1.
    bands : int
        1 .. n.
    loss : {"rms", "max"}
        Root mean square of the noise over all prefixes, or the largest.

    References
    ----------
    Choquette-Choo and others (2023), banded matrices; McKenna (2024), the Toeplitz ones.
    """

    steps: int
    bands: int
    loss: str = "rms"

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", checked_steps("BandedToeplitz", self.steps))
        object.__setattr__(self, "bands", _check.count("BandedToeplitz", "bands", self.bands, maximum=self.steps))
        _check.choice("BandedToeplitz", "loss", self.loss, LOSSES)

    @cached_property
    def _columns(self) -> tuple[Array, Array]:  # type: ignore[override]
        return _banded_columns(self.steps, self.bands, self.loss)


@final
@dataclass(frozen=True)
class Buffered(FittedToeplitz):
    """BLT: ``c_0 = 1, c_i = sum_k w_k t_k^(i-1)``, of least loss for the participation that is stated.

    1/c(x) has the same form, so that a stream can make its noise from as many buffers, each of the size of theta.

    Parameters
    ----------
    steps : int
        n >= 1.
    buffers : int
        1 .. 10.
    participation : Participation, optional
        For which loss and sensitivity are weighed; default one.
    loss : {"rms", "max"}
    weights, decays : tuples of floats, optional
        w_k > 0 and t_k in (0, 1), in the place of those that are fitted.

    References
    ----------
    Dvijotham, McMahan, Pillutla, Steinke, Thakurta (2024); McMahan, Xu, Zhang (2024) for several participations.
    """

    steps: int
    buffers: int = 3
    participation: Participation = ONCE
    loss: str = "rms"
    weights: tuple[float, ...] | None = None
    decays: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        owner = "Buffered"
        object.__setattr__(self, "steps", checked_steps(owner, self.steps))
        object.__setattr__(self, "buffers", _check.count(owner, "buffers", self.buffers, maximum=MOST_BUFFERS))
        _check.instance(owner, "participation", self.participation, Participation, "a Participation")
        _check.choice(owner, "loss", self.loss, LOSSES)
        if (self.weights is None) != (self.decays is None):
            _check.refuse(owner, "decays", "given with weights, or neither", self.decays, kind=TypeError)
        if self.weights is None:
            return
        for name, high in (("weights", math.inf), ("decays", 1.0)):
            found = np.atleast_1d(_check.reals(owner, name, getattr(self, name)))
            if found.shape != (self.buffers,) or not ((found > 0.0) & (found < high)).all():
                domain = f"{self.buffers} numbers, one a buffer, above 0" + " and below 1" * (high == 1.0)
                _check.refuse(owner, name, domain, found.tolist())
            object.__setattr__(self, name, tuple(found.tolist()))

    @cached_property
    def _columns(self) -> tuple[Array, Array]:  # type: ignore[override]
        if self.weights is not None:
            w, t = np.array(self.weights), np.array(self.decays)
        else:
            w, t = _buffers(self.steps, self.buffers, self.participation, self.loss)
        top, bottom = _rational(w, t)
        return _series(top, bottom, _impulse(self.steps)), _series(bottom, top, np.ones(self.steps))


def _series(top: Array, bottom: Array, given: Array) -> Array:
    """``given(x) top(x)/bottom(x)`` as a series, of the length of `given`."""
    from scipy.signal import lfilter  # half a second at import

    return np.asarray(lfilter(top, bottom, given))


def _impulse(steps: int) -> Array:
    return np.concatenate([[1.0], np.zeros(steps - 1)])


def _share(steps: int, loss: str) -> Array:
    """What b_s^2 counts: it is in every prefix from s on."""
    return (steps - np.arange(steps)) / steps if loss == "rms" else np.ones(steps)


def _cost(c: Array, top: Array, bottom: Array, share: Array, participation: Participation) -> tuple[float, Array]:
    """log(sens^2 |b|^2) and its gradient in the coefficients c, which ``top/bottom`` generate.

    c >= 0 falls, or the participation is one, so that the first pattern is the worst.
    """
    from scipy.signal import fftconvolve

    steps, most = len(share), len(c)
    places = np.arange(0, steps, participation.separation)[: participation.count]
    total = np.zeros(steps)
    for first in places:
        total[first : first + most] += c[: steps - first]
    square = float(total @ total)
    pull = np.zeros(most)
    for first in places:
        part = total[first : first + most]
        pull[: len(part)] += part
    b = _series(bottom, top, np.ones(steps))
    h = _series(bottom, top, b)
    weighed = share * b
    noise = float(weighed @ b)
    slopes = fftconvolve(weighed, h[::-1])[steps - 1 :][:most]  # sum_t share_t b_t h_{t-j}
    return math.log(square) + math.log(noise), 2.0 * (pull / square - slopes / noise)


@lru_cache(maxsize=32)
def _banded_columns(steps: int, bands: int, loss: str) -> tuple[Array, Array]:
    """c with c_0 = 1, and b. The start is the square root, cut; without a fall of the loss it stays there."""
    share, one = _share(steps, loss), np.ones(1)

    def cost(rest: Array) -> tuple[float, Array]:
        c = np.concatenate([one, rest])
        value, slope = _cost(c, c, one, share, ONCE)
        return (value, slope[1:]) if math.isfinite(value) else (1e9, np.zeros(len(rest)))

    c = root_coefficients(bands)
    if bands > 1:
        with np.errstate(over="ignore", invalid="ignore"):  # a step too long makes 1/c explode, and is taken back
            found = minimize(cost, c[1:], jac=True, method="L-BFGS-B", bounds=[(0.0, 1.0)] * (bands - 1), options=OPTIONS)
        c = np.concatenate([one, found.x])
    full = np.concatenate([c, np.zeros(steps - bands)])
    b = _series(one, c, np.ones(steps))
    for column in (full, b):
        column.setflags(write=False)
    return full, b


def _rational(w: Array, t: Array) -> tuple[Array, Array]:
    """(P, Q) with c(x) = P(x)/Q(x): ``Q = prod (1 - t_k x)``, ``P = Q + x sum_k w_k prod_{l != k} (1 - t_l x)``."""
    bottom = np.ones(1)
    for decay in t:
        bottom = np.convolve(bottom, [1.0, -decay])
    top = bottom.copy()
    for k in range(len(t)):
        part = np.ones(1)
        for decay in np.delete(t, k):
            part = np.convolve(part, [1.0, -decay])
        top[1:] += w[k] * part
    return top, bottom


@lru_cache(maxsize=32)
def _buffers(steps: int, buffers: int, participation: Participation, loss: str) -> tuple[Array, Array]:
    """The best (w, t): w = e^u and t = 1/(1 + e^-v), so that coefficients are positive; c falls where sum_k w_k <= 1, which is enforced."""
    share, power = _share(steps, loss), np.arange(steps - 1.0)

    def cost(given: Array) -> tuple[float, Array]:
        w, t = np.exp(given[:buffers]), expit(given[buffers:])
        top, bottom = _rational(w, t)
        c = _series(top, bottom, _impulse(steps))
        value, slope = _cost(c, top, bottom, share, participation)
        if not math.isfinite(value):
            return 1e9, np.zeros(2 * buffers)
        powers = np.exp(np.log(t)[:, None] * power)
        by_w = powers @ slope[1:]
        by_t = w * ((power[1:] * powers[:, :-1]) @ slope[2:])
        return value, np.concatenate([by_w * w, by_t * t * (1.0 - t)])

    best = None
    for spread in (0.5, 1.0, 1.5):
        rates = np.minimum(float(max(steps, 2)) ** (-spread * (np.arange(buffers) + 0.5) / buffers), 0.9)
        start = np.concatenate([np.log(0.5 * np.sqrt(rates) / math.sqrt(buffers)), np.log(1.0 / rates - 1.0)])
        with np.errstate(over="ignore", invalid="ignore"):
            found = minimize(
                cost, start, jac=True, method="L-BFGS-B", bounds=[(-40.0, -math.log(buffers))] * buffers + [(-30.0, 30.0)] * buffers,
                options=OPTIONS,
            )  # fmt: skip
        best = found if best is None or found.fun < best.fun else best
    assert best is not None
    return np.exp(best.x[:buffers]), expit(best.x[buffers:])
