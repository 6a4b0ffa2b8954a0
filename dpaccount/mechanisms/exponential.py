"""The exponential mechanism, known by its bounded range."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt

from dpaccount import _check
from dpaccount._log import ULP, log1m_exp
from dpaccount._quadrature import Density
from dpaccount._slip import Slip
from dpaccount.adjacency import Adjacency, parse
from dpaccount.mechanisms.laplace import ExponentialStrip
from dpaccount.mechanisms.response import pure_epsilon
from dpaccount.pair import DominatingPair, Facts, Guarantee, Step, Tails
from dpaccount.renyi import RenyiBound

Array = npt.NDArray[np.float64]


@final
@dataclass(frozen=True)
class ExponentialMechanism(Step):
    """Pick y with probability proportional to e^{eta u(y)/(2 Delta)}: its log-ratio has range at most eta.

    Over all eta-bounded-range mechanisms ``delta(eps) = (1 - e^{(eps-eta)/2})^2/(1 - e^{-eta})``
    on [-eta, eta], and ``K(z) = log[ sinh(eta(z+1/2)) / ((2z+1) sinh(eta/2)) ]`` (DDR20, Theorem 2).

    Parameters
    ----------
    epsilon : float
        eta in (0, 700]: the range of the log-ratio, hence also the pure epsilon. With a utility of
        sensitivity Delta and weights e^{eta u/(2 Delta)} it is eta; if u is monotone in the
        data, weights e^{eta u/Delta} have the same range. Used as given under every relation.

    Guarantee
    ---------
    The pair dominates one pick; composing it is valid and wins for few picks. eta^2/8-zCDP
    (DDR20 with CKS20) is carried beside it and wins for many: profiles answer with the better.

    Examples
    --------
    >>> from dpaccount import ExponentialMechanism, PrivacyProfile
    >>> round(PrivacyProfile(ExponentialMechanism(1.0)).delta(epsilon=0.5).estimate, 6)
    0.077405
    """

    epsilon: float

    def __post_init__(self) -> None:
        value = pure_epsilon("ExponentialMechanism", self.epsilon)
        if value < 1e-8:
            _check.refuse("ExponentialMechanism", "epsilon", "in [1e-8, 700]", value, "Smaller ranges lose all digits.")
        object.__setattr__(self, "epsilon", value)

    @property
    def facts(self) -> Facts:
        return Facts(min_loss=-self.epsilon, max_loss=self.epsilon, smooth=True)

    def tails(self, loss: Any) -> Tails:
        """p(l) = e^{l/2}/(4 sinh(eta/2)) and q(l) = e^{-l/2}/(4 sinh(eta/2)) on [-eta, eta]."""
        e = self.epsilon
        inside = np.clip(np.asarray(loss, dtype=float), -e, e)
        norm = -float(log1m_exp(-e))  # 1/(1 - e^{-eta})
        with np.errstate(divide="ignore"):
            thin_p = inside / 2 - e / 2 + log1m_exp(-(inside + e) / 2) + norm
            thick_p = log1m_exp(-(e - inside) / 2) + norm
            thick_q = log1m_exp(-(inside + e) / 2) + norm
            thin_q = -inside / 2 - e / 2 + log1m_exp(-(e - inside) / 2) + norm
        return Tails(thick_p, thin_p, thin_q, thick_q, 1e-15 * (2 + e))

    def atoms(self) -> tuple[Array, Array]:
        return np.empty(0), np.empty(0)

    def density(self) -> Density | None:
        e = self.epsilon
        log_norm = np.log(2.0) + e / 2 + float(log1m_exp(-e))  # log(4 sinh(eta/2))
        return Density(
            evaluate=lambda x: (x, x / 2 - log_norm),
            inverse=lambda loss: loss,
            window=lambda low, high: (-e, e),
            scale=max(e, 1.0) / 2,
            breaks=(-e, e),
            strip=ExponentialStrip(e, -log_norm, 0.0),
            support=(-e, e),
        )

    def log_delta(self, epsilon: Any) -> Any | None:
        e = self.epsilon
        epsilon = np.asarray(epsilon, dtype=float)
        with np.errstate(divide="ignore"):
            inside = 2 * log1m_exp((np.clip(epsilon, -e, e) - e) / 2) - log1m_exp(-e)
            below = np.log(-np.expm1(np.minimum(epsilon, 0.0)))
        return np.where(epsilon >= e, -np.inf, np.where(epsilon <= -e, below, inside))[()]

    def slip(self, epsilon: float, value: float) -> Slip:
        return Slip(4 * ULP, -np.inf)  # eps - eta is exact near the end

    def step_log_mgf(self, z: Any) -> Any:
        e = self.epsilon
        v = np.asarray(z) + 0.5
        v = np.where(np.real(v) < 0, -v, v)
        small = np.abs(e * v) < 1e-4
        safe = np.where(small, 1.0, v)
        # sinh(ev)/(2v sinh(e/2)) = e^{ev - e/2} (1 - e^{-2ev})/(2v (1 - e^{-e}))
        large = e * (safe - 0.5) + np.log(-np.expm1(-2 * e * safe) / (2 * safe)) - log1m_exp(-e)
        series = np.log(e * (1 + (e * v) ** 2 / 6)) - e / 2 - log1m_exp(-e)
        return np.where(small, series, large)[()]

    def loss_error(self, loss: Array) -> Array:
        return np.zeros(loss.shape)  # its losses are the parameter itself

    def reversed(self) -> Step:
        return self

    def under(self, adjacency: str | Adjacency) -> tuple[DominatingPair, ...]:
        parse("ExponentialMechanism.under", adjacency)
        return (self,)

    @property
    def alternatives(self) -> tuple[Guarantee, ...]:
        return (RenyiBound.zcdp(self.epsilon**2 / 8),)

    def probabilities(self, utility: Any, *, sensitivity: float = 1.0, measure: Any = None) -> Array:
        """Selection probabilities, proportional to ``measure * exp(epsilon * utility / (2 * sensitivity))``.

        Parameters
        ----------
        utility : array, shape (n,)
            Finite utilities; only differences matter, so their size does not.
        sensitivity : float
            > 0, the largest change of any utility between neighbours.
        measure : array, shape (n,), optional
            Non-negative base measure; at least one entry must be positive. Entries with zero
            measure are never picked and do not set the scale.
        """
        owner = "ExponentialMechanism.probabilities"
        scores = _check.reals(owner, "utility", utility)
        delta = _check.real(owner, "sensitivity", sensitivity, low=0.0, open_low=True)
        if scores.ndim != 1 or not scores.size:
            _check.refuse(owner, "utility", "a non-empty one-dimensional array", utility)
        base = np.ones(scores.shape) if measure is None else _check.reals(owner, "measure", measure, low=0.0)
        if base.shape != scores.shape:
            _check.refuse(owner, "measure", f"of shape {scores.shape}", measure)
        if not base.any():
            _check.refuse(owner, "measure", "positive somewhere", measure, "No candidate has positive measure.")
        with np.errstate(divide="ignore"):
            log_weight = np.log(base) + self.epsilon / (2 * delta) * (scores - scores[base > 0].max())
        weight = np.exp(log_weight - log_weight.max())
        return np.asarray(weight / weight.sum())
