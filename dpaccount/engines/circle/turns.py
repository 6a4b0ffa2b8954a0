"""One step's finite losses on a lattice: its tilted masses, their transform with exact phases, and a bound on it.

Phases are fractions of a turn, reduced in integers. What a loss misses the lattice by, or is rounded by, is kept apart.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dpaccount._log import SUM, ULP, log1m_exp, polar_log1p, polar_slip
from dpaccount.engines.vouch import CannotVouch
from dpaccount.pair import Step, log_error

Array = npt.NDArray[np.float64]
MAX_SPAN = 200_000  # lattice points between the ends of one step
NEGLIGIBLE = 1e-28  # tilted masses below this share of the largest are left out, and counted as error
FINE = float(np.finfo(np.longdouble).eps)


class Tilted(NamedTuple):
    """One step's law under a tilt, masses that matter only: places about `centre`, masses, their relative error (root mean
    square), the share left out (twice), and the errors of the losses: on average and at most."""

    centre: int
    k: npt.NDArray[np.int64]
    p: Array
    part: float
    dropped: float
    off: float
    most: float


class Law:
    """The finite losses of one distinct step on the lattice: places k about a reference point, normalised masses."""

    def __init__(self, step: Step, count: int, h: float) -> None:
        loss, log_p = step.atoms()
        if not loss.size:
            raise CannotVouch("no loss is finite")
        assert step.facts.lattice is not None
        offset = step.facts.lattice[0] if loss.size > 1 else float(loss[0])
        place = np.rint((loss - offset) / h)
        if not np.abs(place).max() < 1e15:
            raise CannotVouch("the lattice is too fine")
        weight = np.exp(log_p - log_p.max())
        weight /= weight.sum()
        self.count, self.weight = count, weight
        reference = round(float(weight @ place))
        self.k = place.astype(np.int64) - reference
        self.base = Fraction(offset) + reference * Fraction(h)
        off, self.part = step.atom_rounding()
        exact = np.abs(loss.astype(np.longdouble) - (np.longdouble(offset) + np.longdouble(h) * place)).astype(np.float64)
        self.off = off + exact + 4 * FINE * (abs(offset) + np.abs(loss))
        above = step.facts.log_p_only
        self.log_mass = float(log1m_exp(above))
        self.mass_error = 0.0 if above == -np.inf else (
            float(log_error(above, 2 * ULP)) * math.exp(min(above - self.log_mass, 700.0)) + ULP * abs(self.log_mass)
        )

    def log_mgf(self, tau: float) -> tuple[float, float]:
        """log E[e^{tau k}] of the finite losses, and its error."""
        turn = tau * self.k
        relative = self.part + float(self.weight @ self.part) + (8 + 2 * np.abs(turn)) * ULP + _sum_slip(turn.size)
        if np.abs(turn).max() < 30.0:
            growth = np.expm1(turn)
            moved = float((self.weight * growth).sum())
            value = math.log1p(moved)
            return value, float(self.weight @ (relative * np.abs(growth))) / (1.0 + moved) + 2 * ULP * abs(value)
        top = float(turn.max())
        grown = self.weight * np.exp(turn - top)
        total = float(grown.sum())
        if not total > 0.0:
            raise CannotVouch("the tilt leaves no mass")
        value = top + math.log(total)
        return value, float(grown @ relative) / total + 2 * ULP * (abs(top) + abs(value))

    def moments(self, tau: float) -> tuple[float, float]:
        turn = tau * self.k
        p = self.weight * np.exp(turn - turn.max())
        p /= p.sum()
        mean = float(p @ self.k)
        return mean, float(p @ (self.k - mean) ** 2)

    def tilted(self, tau: float) -> Tilted:
        turn = tau * self.k
        p = self.weight * np.exp(turn - turn.max())
        p /= p.sum()
        keep = p > NEGLIGIBLE * p.max()
        relative = (self.part + (10 + 2 * np.abs(turn)) * ULP + 2 * _sum_slip(p.size))[keep]
        centre = round(float(p @ self.k))
        return Tilted(
            centre, self.k[keep] - centre, p[keep], math.sqrt(float(p[keep] @ (relative * relative))), 2 * float(p[~keep].sum()),
            float(p @ self.off), float(self.off.max()),
        )


def _sum_slip(size: int) -> float:
    return min(size * ULP / 2, SUM)


BLOCK = 400_000


def phi(t: Tilted, j: npt.NDArray[np.int64], count: int) -> tuple[npt.NDArray[np.complex128], Array]:
    """log of sum p e^{2 pi i jk/count} at every j, and its error: as `contour._phi`, with exact phases."""
    log_phi, slip = np.empty(j.size, dtype=complex), np.empty(j.size)
    rows = max(1, BLOCK // t.k.size)
    for start in range(0, j.size, rows):
        part = slice(start, start + rows)
        turn = np.mod(np.multiply.outer(j[part], t.k % count), count)
        half = np.where(2 * turn > count, turn - count, turn) * (math.pi / count)
        sine = np.sin(half)
        real, imag = -2 * ((sine * sine) * t.p).sum(axis=-1), 2 * ((sine * np.cos(half)) * t.p).sum(axis=-1)
        log_size, angle = polar_log1p(real, imag)
        log_phi[part] = log_size + 1j * angle
        slip[part] = polar_slip(t.part * np.sqrt(-2 * real) + t.dropped, log_size)
    return log_phi, slip


def log_bound(t: Tilted, theta: Array) -> Array:
    """log of a bound on |sum p e^{i theta' k}| for all theta' in [theta, pi].

    Up to theta = pi/(range of k) the modulus falls, since its square is 1 - 4 sum over pairs of p p' sin^2(theta (k - k')/2).
    Anywhere, a unimodal piece of the masses is a sum of layers, each an interval of m lattice points, whose sum has modulus
    |sin(m theta/2)/sin(theta/2)|.
    """
    span = int(t.k.max() - t.k.min())
    if span > MAX_SPAN or not span:
        return np.zeros(theta.shape)
    monotone = math.pi / span
    total = np.zeros(theta.shape)
    at = np.maximum(theta, monotone)
    dense = np.zeros(span + 1)
    np.add.at(dense, t.k - t.k.min(), t.p * (1.0 - 1e-9))
    for low, high in itertools.pairwise(_pieces(dense)):
        g = np.sort(dense[low:high])[::-1]
        m = np.arange(1, g.size + 1)
        fall = -np.diff(np.append(g, 0.0))
        keep = fall > 1e-12
        total += ((m[keep] - _envelope(m[keep], at)) * fall[keep]).sum(axis=-1)
    bound = np.log1p(-np.minimum(total, 1.0 - 1e-15))
    if theta.min() < monotone:
        near = theta < monotone
        half = np.multiply.outer(theta[near] / 2, t.k.astype(np.float64))
        sine = np.sin(half)
        real, imag = -2 * (sine * sine) @ t.p, 2 * (sine * np.cos(half)) @ t.p
        lost = -(2 * real + real * real + imag * imag) - 8 * t.part * np.sqrt(-2 * real) - 4 * t.dropped
        bound[near] = np.maximum(bound[near], 0.5 * np.log1p(-np.clip(lost * (1 - 1e-9), 0.0, 1.0 - 1e-15)))
    return np.asarray(bound)


def _pieces(g: Array) -> list[int]:
    """Where to cut so that every piece rises and then falls."""
    turn = np.sign(np.diff(g))
    moves = np.flatnonzero(turn)
    rising = turn[moves] > 0
    starts = moves[1:][rising[1:] & ~rising[:-1]] + 1
    return [0, *starts.tolist(), g.size]


def _envelope(m: npt.NDArray[np.int64], theta: Array) -> Array:
    """sup over theta' in [theta, pi] of |sin(m theta'/2)/sin(theta'/2)|, at every theta (rows) and m (columns)."""
    rows = theta[:, None]
    first = np.where(m * rows < 2 * np.pi, np.abs(np.sin(m * rows / 2) / np.sin(rows / 2)), 0.0)
    beyond = 1 / np.sin(np.clip(np.maximum(rows, 2 * np.pi / m), 0.0, np.pi) / 2)
    return np.asarray(np.where(m == 1, 1.0, np.where(m == 2, first, np.maximum(first, np.minimum(beyond, m)))))
