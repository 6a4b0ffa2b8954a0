"""Fixed-size sampling without replacement, under replace-one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
import numpy.typing as npt

from dpaccount import _check
from dpaccount._log import ULP, log1m_exp, log_expm1_plus, log_sampled, log_unsampled
from dpaccount._quadrature import Density
from dpaccount._slip import Slip
from dpaccount.adjacency import Adjacency, parse, unsupported
from dpaccount.mechanisms.gaussian import Gaussian
from dpaccount.moments import quadrature_log_mgf
from dpaccount.pair import DominatingPair, Facts, Step, Tails
from dpaccount.sampling.poisson import PoissonSampled, level_slip

Array = npt.NDArray[np.float64]


@final
@dataclass(frozen=True)
class FixedSizeSampled(Step):
    """A Gaussian sum over a uniform batch of m of n records, drawn without replacement; replace-one only.

    With q = m/n and delta_G the Gaussian curve at the doubled sensitivity (shift 2),
    ``delta(eps) = q delta_G(log(1 + (e^eps - 1)/q))`` for eps >= 0 (BBG18, Theorem 9), and
    ``1 - e^eps + e^eps delta(-eps)`` below, since the relation is symmetric.

    Parameters
    ----------
    step : Gaussian
        The release on one batch, noise over the clipping norm (its replace-one shift is 2).
    sample_size, dataset_size : int
        1 <= m <= n, both public.

    Guarantee
    ---------
    The curve is attained by data sets whose other rows all sit at the opposite bound. It is piecewise:
    neither (mixture, base) nor its swap dominates alone. The pair here is the one of the whole
    curve, with an atom at loss 0, so composing it is valid (ZDW22, Theorem 10), though not known to be tight.

    Examples
    --------
    >>> from dpaccount import FixedSizeSampled, Gaussian, PrivacyProfile
    >>> step = FixedSizeSampled(Gaussian(4.0), sample_size=100, dataset_size=1000)
    >>> round(PrivacyProfile(step, adjacency="replace-one").epsilon(delta=1e-5).estimate, 9)
    0.36903669
    """

    step: Gaussian
    sample_size: int
    dataset_size: int

    def __post_init__(self) -> None:
        owner = "FixedSizeSampled"
        _check.instance(owner, "step", self.step, Gaussian, "a Gaussian step", "Other noise has no accounting here yet.")
        if not self.step.noise_multiplier:
            _check.refuse(owner, "step", "a Gaussian with noise_multiplier > 0", self.step)
        n = _check.count(owner, "dataset_size", self.dataset_size)
        m = _check.count(owner, "sample_size", self.sample_size, maximum=n, hint="A batch is part of the data set.")
        object.__setattr__(self, "dataset_size", n)
        object.__setattr__(self, "sample_size", m)

    @property
    def _q(self) -> float:
        return self.sample_size / self.dataset_size

    @property
    def _base(self) -> Gaussian:
        return self.step.scaled(2)

    @cached_property
    def facts(self) -> Facts:
        return Facts(smooth=self._q == 1.0)

    def _upper(self, loss: Array) -> tuple[Array, Array]:
        """log P[L > l], log Q[L > l] for l >= 0: the (mixture, base) side."""
        q = self._q
        inner = self._base.tails(log_expm1_plus(loss, q) - np.log(q))
        if q == 1.0:
            return inner.p_above, inner.q_above
        return np.logaddexp(np.log1p(-q) + inner.q_above, np.log(q) + inner.p_above), inner.q_above

    def tails(self, loss: Any) -> Tails:
        """Symmetric pair: P[L < -l] = Q[L > l] and Q[L < -l] = P[L > l]."""
        loss = np.asarray(loss, dtype=float)
        p, q = self._upper(np.abs(loss))
        right = loss >= 0
        return Tails(
            np.where(right, p, log1m_exp(q)), np.where(right, log1m_exp(p), q),
            np.where(right, q, log1m_exp(p)), np.where(right, log1m_exp(q), p),
        )

    def atoms(self) -> tuple[Array, Array]:
        if self._q == 1.0:
            return np.empty(0), np.empty(0)
        # 1 - P[L > 0] - Q[L > 0] = (1 - q)(Phi(h) - Phi(-h)), h half the shift over the noise
        return np.zeros(1), np.full(1, math.log1p(-self._q) + math.log(math.erf(0.5 / (self._base.noise_multiplier * math.sqrt(2.0)))))

    def density(self) -> Density | None:
        """Outcomes x > 0 are the base's x + 1/2 on the (mixture, base) side, x < 0 mirror them."""
        q, base = self._q, self._base
        inner = base.density()
        assert inner is not None
        if q == 1.0:
            return inner

        def evaluate(x: Array) -> tuple[Array, Array]:
            plain, log_p = inner.evaluate(np.abs(x) + 0.5)
            own = log_sampled(plain, q)
            return np.sign(x) * own, log_p - plain + np.where(x < 0, 0.0, own)

        def inverse(value: float) -> float:
            y = inner.inverse(float(log_expm1_plus(abs(value), q)) - float(np.log(q))) - 0.5
            return float(np.copysign(max(y, 0.0), value))

        def window(low_tilt: float, high_tilt: float) -> tuple[float, float]:
            reach = max(abs(low_tilt), abs(high_tilt)) + 2.0
            return -reach - 11 * base.noise_multiplier, reach + 11 * base.noise_multiplier

        side = PoissonSampled(base, q)  # its outcomes beyond 1/2 have losses above 0
        right, left = side.density(), side.reversed().density()
        assert right is not None
        assert left is not None
        pieces = left._replace(support=(-np.inf, -0.5)), right._replace(support=(0.5, np.inf))
        return Density(evaluate, inverse, window, inner.scale, (0.0,), pieces=pieces)

    def log_delta(self, epsilon: Any) -> Any | None:
        q = self._q
        epsilon = np.asarray(epsilon, dtype=float)
        right = np.log(q) + np.asarray(self._base.log_delta(log_unsampled(np.abs(epsilon), q)))
        with np.errstate(divide="ignore"):
            left = np.logaddexp(np.log(-np.expm1(np.minimum(epsilon, 0.0))), epsilon + right)
        return np.where(epsilon >= 0, right, left)[()]

    def slip(self, epsilon: float, value: float) -> Slip:
        found = level_slip(self.step.scaled(2), self._q, abs(epsilon))
        if epsilon >= 0.0:
            return found
        other = epsilon + float(np.asarray(self.log_delta(np.array(-epsilon))))  # added to 1 - e^eps
        return Slip(ULP + found.relative * math.exp(min(other - value, 0.0)), found.log_absolute + epsilon)

    def step_log_mgf(self, z: Any) -> Any:
        return quadrature_log_mgf(self, z)

    def reversed(self) -> Step:
        return self

    def under(self, adjacency: str | Adjacency) -> tuple[DominatingPair, ...]:
        relation = parse("FixedSizeSampled.under", adjacency)
        if relation in (Adjacency.REPLACE_ONE, Adjacency.AS_WRITTEN):
            return (self,)
        unsupported(
            repr(self), relation,
            "the number of records is public under fixed-size sampling; pass adjacency='replace-one'.",
        )


