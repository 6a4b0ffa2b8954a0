"""Integer-valued noise: the discrete Gaussian and the discrete Laplace (geometric) mechanism."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from dpaccount import _check
from dpaccount._quadrature import Density, Nodes, nodes_log_mgf
from dpaccount.adjacency import Adjacency, parse
from dpaccount.mechanisms.additive import CUT, AdditiveStep
from dpaccount.mechanisms.atomic import atom_log_delta, atom_tails
from dpaccount.mechanisms.gaussian import noise_multiplier
from dpaccount.pair import DominatingPair, Facts, Step, Tails

Array = npt.NDArray[np.float64]
MAX_POINTS = 2_000_000


def _positive_multiplier(owner: str, value: Any) -> float:
    number = noise_multiplier(owner, value)
    if not number:
        _check.refuse(owner, "noise_multiplier", "a number > 0", value, "Integer noise of scale 0 is no noise.")
    return number


class _IntegerNoise(AdditiveStep):
    """Shared by the two: log-probabilities on the integers, loss on a lattice."""

    noise_multiplier: float
    sensitivity: int

    @abstractmethod
    def _reach(self) -> int:
        """Largest integer kept in the support."""

    @abstractmethod
    def _log_weight(self, k: Array) -> Array:
        """log of the unnormalised probability of k."""

    def _points(self) -> tuple[Array, Array]:
        """Integers k and their log-probabilities, normalised."""
        reach = self._reach()
        if 2 * reach > MAX_POINTS:
            _check.refuse(
                type(self).__name__, "noise_multiplier", f"small enough for {MAX_POINTS} support points",
                self.noise_multiplier, "At this scale use the continuous mechanism as the model.",
            )
        k = np.arange(-reach, reach + 1).astype(float)
        log_w = self._log_weight(k)
        return k, log_w - logsumexp(log_w)

    def noise_support(self) -> Array | None:
        return np.asarray(self._points()[0] / self.sensitivity)

    def noise_log_density(self, x: Array) -> Array:
        k, log_w = self._points()
        index = np.rint(np.asarray(x) * self.sensitivity).astype(int) + (k.size - 1) // 2
        inside = (index >= 0) & (index < k.size)
        beyond = self._log_weight(np.asarray(x) * self.sensitivity) - logsumexp(self._log_weight(k))
        return np.where(inside, log_w[np.clip(index, 0, k.size - 1)], beyond)

    def noise_log_tails(self, x: Array) -> tuple[Array, Array]:
        k, log_w = self._points()
        tails = atom_tails(k, log_w, log_w, -np.inf, -np.inf, np.asarray(x) * self.sensitivity)
        return np.asarray(tails.p_above), np.asarray(tails.p_below)

    @property
    def noise_scale(self) -> float:
        return self.noise_multiplier

    @property
    def noise_kind(self) -> str:
        return "lattice"

    def density(self) -> Density | None:
        return None

    def tails(self, loss: Any) -> Tails:
        at, log_p = self.atoms()
        return atom_tails(at, log_p, log_p - at, -np.inf, -np.inf, loss)

    def log_delta(self, epsilon: Any) -> Any | None:
        return atom_log_delta(*self.atoms(), -np.inf, epsilon)

    def step_log_mgf(self, z: Any) -> Any:
        loss, log_p = self.atoms()
        return nodes_log_mgf(Nodes(loss, log_p, 0.0), 0.0, z)

    def reversed(self) -> Step:
        return self


@final
@dataclass(frozen=True)
class DiscreteGaussian(_IntegerNoise):
    """An integer f(D) plus discrete Gaussian noise, P[k] proportional to e^{-k^2/(2 sigma^2)} (CKS20).

    L = (2 x Delta - Delta^2)/(2 sigma^2) for an integer x, so losses form a lattice of step
    Delta/sigma^2.

    Parameters
    ----------
    noise_multiplier : float
        sigma / sensitivity, > 0.
    sensitivity : int
        Delta >= 1, the largest change of f under add-or-remove; replace-one doubles it.

    Guarantee
    ---------
    The pair is exact in one dimension; points of probability below e^-800 are left out.
    """

    noise_multiplier: float
    sensitivity: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise_multiplier", _positive_multiplier("DiscreteGaussian", self.noise_multiplier))
        object.__setattr__(self, "sensitivity", _check.count("DiscreteGaussian", "sensitivity", self.sensitivity))

    @property
    def sigma(self) -> float:
        """Parameter of the noise, in units of the integers."""
        return self.noise_multiplier * self.sensitivity

    def _reach(self) -> int:
        return int(self.sigma * np.sqrt(2 * CUT)) + 2 * self.sensitivity + 2

    def _log_weight(self, k: Array) -> Array:
        return np.asarray(-0.5 * (k / self.sigma) ** 2)

    def atoms(self) -> tuple[Array, Array]:
        k, log_w = self._points()
        return ((k + 0.5 * self.sensitivity) * self.sensitivity) / self.sigma**2, log_w  # x = k + sensitivity under P

    @property
    def facts(self) -> Facts:
        step = self.sensitivity / self.sigma**2
        return Facts(lattice=(0.5 * self.sensitivity * step, step))

    @property
    def log_left_out(self) -> float:
        return 1.0 - CUT

    def scaled(self, factor: int) -> DiscreteGaussian:
        return DiscreteGaussian(self.noise_multiplier / factor, self.sensitivity * factor)

    def under(self, adjacency: str | Adjacency) -> tuple[DominatingPair, ...]:
        relation = parse("DiscreteGaussian.under", adjacency)
        return (self.scaled(2),) if relation is Adjacency.REPLACE_ONE else (self,)


@final
@dataclass(frozen=True)
class DiscreteLaplace(_IntegerNoise):
    """An integer f(D) plus two-sided geometric noise, P[k] proportional to e^{-|k|/b} (GRS09).

    L = (|x| - |x - Delta|)/b, a lattice of step 2/b inside [-Delta/b, Delta/b].

    Parameters
    ----------
    noise_multiplier : float
        b / sensitivity, > 0; its inverse is the pure epsilon.
    sensitivity : int
        Delta >= 1 under add-or-remove; replace-one doubles it.
    """

    noise_multiplier: float
    sensitivity: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise_multiplier", _positive_multiplier("DiscreteLaplace", self.noise_multiplier))
        object.__setattr__(self, "sensitivity", _check.count("DiscreteLaplace", "sensitivity", self.sensitivity))

    @property
    def scale(self) -> float:
        """b, in units of the integers."""
        return self.noise_multiplier * self.sensitivity

    def _reach(self) -> int:
        return int(self.scale * CUT) + 2 * self.sensitivity + 2

    def _log_weight(self, k: Array) -> Array:
        return np.asarray(-np.abs(k) / self.scale)

    def atoms(self) -> tuple[Array, Array]:
        """The Delta + 1 losses; the two ends hold the geometric tails, 1/(1 + a) and a^Delta/(1 + a), a = e^{-1/b}."""
        width, b = self.sensitivity, self.scale
        j = np.arange(width + 1).astype(float)
        loss = (2 * j - width) / b
        a = np.exp(-1 / b)
        log_p = np.log(-np.expm1(-1 / b)) - np.log1p(a) - (width - j) / b
        log_p[0] = -width / b - np.log1p(a)
        log_p[-1] = -np.log1p(a)
        return loss, log_p

    @property
    def facts(self) -> Facts:
        end = 1 / self.noise_multiplier
        return Facts(min_loss=-end, max_loss=end, lattice=(-end, 2 / self.scale))

    def scaled(self, factor: int) -> DiscreteLaplace:
        return DiscreteLaplace(self.noise_multiplier / factor, self.sensitivity * factor)

    def under(self, adjacency: str | Adjacency) -> tuple[DominatingPair, ...]:
        relation = parse("DiscreteLaplace.under", adjacency)
        return (self.scaled(2),) if relation is Adjacency.REPLACE_ONE else (self,)
