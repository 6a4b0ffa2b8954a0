"""Poisson sampling: every record joins the batch independently with probability q."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, final

import numpy as np
import numpy.typing as npt
from scipy.special import log_expit

from dpaccount import _check
from dpaccount._log import log_expm1_plus, log_sampled, log_unsampled
from dpaccount._quadrature import Density
from dpaccount._slip import Slip, level_error, level_of
from dpaccount._strip import ULP, LinearStrip
from dpaccount.adjacency import Adjacency, parse, unsupported
from dpaccount.mechanisms.additive import AdditiveMixture, AdditiveStep
from dpaccount.mechanisms.pure import PureDP
from dpaccount.moments import quadrature_log_mgf
from dpaccount.pair import DominatingPair, Facts, Reversed, Step, Tails
from dpaccount.sampling.sampled_strip import SampledStrip

Array = npt.NDArray[np.float64]


@final
@dataclass(frozen=True)
class PoissonSampled(Step):
    """A step run on a Poisson sample: ((1-q)Q + qP, Q) in the remove direction (ZDW22, Theorem 11).

    The loss l of the step becomes ``log(1 - q + q e^l)``; the add direction is the swapped pair of
    the step's own add direction. One sampled Gaussian has, for v = (e^eps - 1 + q)/q > 0,
    ``delta(eps) = q delta_G(log v)`` in the remove direction.

    Parameters
    ----------
    step : Step
        One release (not a composition), taken as its remove-direction pair.
    sampling_probability : float
        q in [0, 1]; 0 gives epsilon 0, 1 no amplification.

    Guarantee
    ---------
    Exact under add-or-remove and zero-out for additive noise. Under replace-one an additive step gives
    the pair of mixtures around +1 and -1: the best known, never exceeded in searches, not proved
    to dominate, so answers carry `Status.UNPROVED` and are not certified.

    Examples
    --------
    >>> from dpaccount import Gaussian, PoissonSampled, PrivacyProfile
    >>> run = 1000 * PoissonSampled(Gaussian(1.0), sampling_probability=0.01)
    >>> round(PrivacyProfile(run).epsilon(delta=1e-5).estimate, 6)
    1.828237
    """

    step: Step
    sampling_probability: float

    def __post_init__(self) -> None:
        _check.instance(
            "PoissonSampled", "step", self.step, Step, "one step of a mechanism, such as Gaussian(1.0)",
            "Sample each step before composing: 1000 * PoissonSampled(step, q).",
        )
        q = _check.real(
            "PoissonSampled", "sampling_probability", self.sampling_probability, low=0.0, high=1.0,
            hint="Did you pass batch size over data size?",
        )
        if 0.0 < q < 1e-100:
            _check.refuse("PoissonSampled", "sampling_probability", "0 or in [1e-100, 1]", q)
        object.__setattr__(self, "sampling_probability", q)

    @property
    def _trivial(self) -> bool:
        return self.sampling_probability == 0.0

    @cached_property
    def facts(self) -> Facts:
        q = self.sampling_probability
        if self._trivial:
            return Facts(min_loss=0.0, max_loss=0.0, lattice=(0.0, 1.0))
        inner = self.step.facts
        if q == 1.0:
            return inner
        # outcomes only Q can show keep the loss log(1 - q), as (1-q)Q + qP shows them too
        low = float(np.log1p(-q)) if inner.log_q_only > -np.inf else float(log_sampled(inner.min_loss, q))
        high = float(log_sampled(inner.max_loss, q))
        if inner.log_p_only == 0.0:
            low = high = float(np.log1p(-q))
        return Facts(inner.log_p_only + math.log(q), -np.inf, low, high, self._lattice, inner.smooth, inner.proved, inner.upper_bound)

    @property
    def _lattice(self) -> tuple[float, float] | None:
        """Two losses lie on a lattice, whatever they are; more do not, once sampled."""
        loss = self.atoms()[0] if self.step.density() is None else np.empty(0)
        return (float(loss[0]), float(abs(loss[1] - loss[0]))) if loss.size == 2 and loss[0] != loss[1] else None

    def tails(self, loss: Any) -> Tails:
        loss = np.asarray(loss, dtype=float)
        q = self.sampling_probability
        if self._trivial:
            above, below = np.where(loss < 0, 0.0, -np.inf), np.where(loss < 0, -np.inf, 0.0)
            return Tails(above, below, above, below, 0.0)
        if q == 1.0:
            return self.step.tails(loss)
        inner = self.step.tails(log_expm1_plus(loss, q) - np.log(q))
        mix, keep = np.log(q), np.log1p(-q)
        under = loss < keep
        return Tails(
            np.where(under, 0.0, np.logaddexp(keep + inner.q_above, mix + inner.p_above)),
            np.where(under, -np.inf, np.logaddexp(keep + inner.q_below, mix + inner.p_below)),
            np.where(under, 0.0, inner.q_above),
            np.where(under, -np.inf, inner.q_below),
            inner.error + 1e-15,
        )

    def atoms(self) -> tuple[Array, Array]:
        q = self.sampling_probability
        if self._trivial:
            return np.zeros(1), np.zeros(1)
        loss, log_p = self.step.atoms()
        if q == 1.0:
            return loss, log_p
        mapped = np.asarray(log_sampled(loss, q))
        log_new = mapped + log_p - loss
        only = self.step.facts.log_q_only
        if only > -np.inf:
            keep = np.log1p(-q)
            return np.append(mapped, keep), np.append(log_new, keep + only)
        return mapped, log_new

    def density(self) -> Density | None:
        return None if self._trivial else _density(self.step, self.sampling_probability)

    def log_delta(self, epsilon: Any) -> Any | None:
        """Remove direction: q E_v(P||Q) for v > 0, and 1 - e^eps otherwise."""
        q = self.sampling_probability
        epsilon = np.asarray(epsilon, dtype=float)
        with np.errstate(divide="ignore"):
            edge = np.log(-np.expm1(np.minimum(epsilon, 0.0)))
        if self._trivial:
            return edge[()]
        level = np.asarray(log_unsampled(epsilon, q))
        inside = level > -np.inf
        inner = self.step.log_delta(np.where(inside, level, 0.0))
        if inner is None:
            return None
        return np.where(inside, np.maximum(np.log(q) + inner, edge), edge)[()]

    def reversed_log_delta(self, epsilon: Any) -> Any | None:
        """Add direction: (1 - (1-q) e^eps) E_{1/v}(Q||P), v = (e^{-eps} - 1 + q)/q, and 0 if v <= 0."""
        q = self.sampling_probability
        epsilon = np.asarray(epsilon, dtype=float)
        if self._trivial:
            return self.log_delta(epsilon)
        level = np.asarray(log_unsampled(-epsilon, q))
        inside = level > -np.inf
        inner = self.step.reversed().log_delta(np.where(inside, -level, 0.0))
        if inner is None:
            return None
        with np.errstate(divide="ignore"):
            edge = np.log(-np.expm1(np.minimum(epsilon, 0.0)))
            # 1 - (1-q) e^eps = e^eps q v, with the very v of the level: delta is then stationary in it but for P[L > eps]
            value = (np.log(q) + np.where(inside, level, 0.0)) + epsilon + inner
        return np.where(inside, np.maximum(value, edge), edge)[()]

    def slip(self, epsilon: float, value: float) -> Slip:
        if self._trivial:
            return Slip(ULP, -np.inf)
        return level_slip(self.step, self.sampling_probability, epsilon)

    def reversed_slip(self, epsilon: float, value: float) -> Slip:
        """e^eps q v E_{1/v}(Q||P) with v = 1 + (e^{-eps} - 1)/q: its rounding moves delta by Q[L > -log v] e^eps q dv."""
        if self._trivial:
            return Slip(ULP, -np.inf)
        q, step = self.sampling_probability, self.step.reversed()
        level = level_of(-epsilon, q)
        log_move, _ = level_error(-epsilon, q, level)
        highest = float(np.logaddexp(level, log_move + math.log(2.0 / q)))
        moved = epsilon + log_move + step.above(-highest)[0]
        if level == -np.inf:
            return Slip(0.0, moved)
        below = step.slip(-level, float(np.asarray(step.log_delta(np.array(-level)))))
        rounding = 2 * ULP * (abs(epsilon) + abs(level) + abs(float(np.log(q))))
        return Slip(below.relative + rounding, float(np.logaddexp(below.log_absolute + epsilon + np.log(q) + level, moved)))

    def above(self, loss: float) -> tuple[float, float]:
        q = self.sampling_probability
        if q in (0.0, 1.0):
            return self.step.above(loss) if q else super().above(loss)
        level = level_of(loss, q)
        if level == -np.inf:
            return 0.0, 0.0
        own, other = self.step.above(level)
        return float(np.logaddexp(np.log1p(-q) + other, np.log(q) + own)), other

    def reversed_above(self, loss: float) -> tuple[float, float]:
        q = self.sampling_probability
        if q in (0.0, 1.0):
            return self.step.reversed_above(loss) if q else super().reversed_above(loss)
        own, other = self.step.reversed_above(-level_of(-loss, q))
        return own, float(np.logaddexp(np.log1p(-q) + own, np.log(q) + other))

    def step_log_mgf(self, z: Any) -> Any:
        if self._trivial:
            return np.zeros_like(np.asarray(z))[()]
        if self.sampling_probability == 1.0:
            return self.step.step_log_mgf(z)
        if self.facts.log_p_only > -np.inf and not self.atoms()[0].size:
            return np.full(np.shape(z), np.log1p(-self.sampling_probability), dtype=np.asarray(z).dtype)[()]
        return quadrature_log_mgf(self, z)

    def loss_error(self, loss: Array) -> Array:
        q = self.sampling_probability
        if q in (0.0, 1.0):
            return self.step.loss_error(loss) if q else np.zeros(loss.shape)
        own = np.asarray(log_unsampled(loss, q))
        inner = np.where(np.isfinite(own), own, 0.0)
        share = np.where(np.isfinite(own), np.exp(np.minimum(np.log(q) + inner - loss, 0.0)), 0.0)
        return np.asarray(share * self.step.loss_error(inner) + 4 * ULP * np.abs(loss))

    def atom_rounding(self) -> tuple[Array, Array]:
        """p' = (p e^{-l}) e^{l'}: the mass is off by what p, l and l' are, and by the rounding of the three logarithms."""
        q = self.sampling_probability
        if q in (0.0, 1.0):
            return self.step.atom_rounding() if q else (np.zeros(1), np.zeros(1))
        (off, part), (loss, log_p) = self.step.atom_rounding(), self.step.atoms()
        mapped = np.asarray(log_sampled(loss, q))
        own = np.exp(np.minimum(np.log(q) + loss - mapped, 0.0)) * off + 4 * ULP * np.abs(mapped)
        part = part + off + own + 2 * ULP * (np.abs(mapped) + np.abs(log_p) + np.abs(loss))
        if self.step.facts.log_q_only == -np.inf:
            return own, part
        keep = -float(np.log1p(-q))
        return np.append(own, 4 * ULP * keep), np.append(part, 1e-15 * (2.0 + keep - self.step.facts.log_q_only) + self.mass_error)

    @property
    def mass_error(self) -> float:
        return self.step.mass_error

    @property
    def log_left_out(self) -> float:
        return self.step.log_left_out

    def reversed(self) -> Step:
        return self if self._trivial else Reversed(self)

    def under(self, adjacency: str | Adjacency) -> tuple[DominatingPair, ...]:
        relation = parse("PoissonSampled.under", adjacency)
        q = self.sampling_probability
        if relation is Adjacency.AS_WRITTEN or self._trivial:
            return (self,)
        if relation is Adjacency.REPLACE_ONE:
            return (self._exchanged(relation),)
        sides = self.step.under(relation)
        remove, add = (_one_step(self, side) for side in (sides[0], sides[-1]))
        if q == 1.0:
            return sides
        return self._of(remove), Reversed(self._of(add.reversed()))

    def _of(self, step: Step) -> PoissonSampled:
        return self if step is self.step else PoissonSampled(step, self.sampling_probability)

    def _exchanged(self, relation: Adjacency) -> Step:
        q = self.sampling_probability
        if q == 1.0:
            return _one_step(self, self.step.under(relation)[0])
        if isinstance(self.step, PoissonSampled):
            inner = self.step
            return PoissonSampled(inner.step, q * inner.sampling_probability)._exchanged(relation)
        if not isinstance(self.step, AdditiveStep) or self.step.facts.log_p_only == 0.0:
            unsupported(
                repr(self), relation,
                "two exchanged records need the outputs with either and with neither, which only an additive "
                "mechanism gives; use add-or-remove, and group privacy of size 2 for an exchange.",
            )
        return AdditiveMixture(self.step, ((0, 1.0 - q), (1, q)), ((0, 1.0 - q), (-1, q)), proved=False)


@lru_cache(maxsize=256)
def _density(step: Step, q: float) -> Density | None:
    """The density of the sampled step, in the step's own outcomes."""
    inner = step.density()
    if inner is None or q == 1.0:
        return inner

    def under_q(x: Array) -> tuple[Array, Array]:
        base, log_q = inner.evaluate_q(x)
        return log_sampled(base, q), log_q

    def evaluate(x: Array) -> tuple[Array, Array]:
        loss, log_q = under_q(x)
        return loss, log_q + loss

    def window(low_tilt: float, high_tilt: float) -> tuple[float, float]:
        # p' e^{zl'} = q(x) e^{(1+z) l'}: between q(x) and q(x) e^{(1+z) l}, up to constants; as l' >= q l, a power below 0
        # weighs no more than q times as strongly
        low = max(low_tilt, -1.0 + q * (1.0 + low_tilt)) if low_tilt < -1.0 else low_tilt
        low = low if low > -1.0 - 4.0 * inner.scale else _effective(inner, low_tilt, q)
        return inner.window(min(-1.0, low), max(-1.0, high_tilt))

    def inverse(value: float) -> float:
        return inner.inverse(float(log_expm1_plus(value, q)) - float(np.log(q)))

    strip = SampledStrip(inner, q) if isinstance(inner.strip, LinearStrip) else None
    return Density(evaluate, inverse, window, inner.scale, inner.breaks, strip, inner.support, under_q=under_q)


def _effective(inner: Density, tilt: float, q: float) -> float:
    """The tilt of the step itself that lies where q(x) A^{1+tilt} does, tilt < -1: -1 + (1+tilt) w at the mode.

    log A^{1+tilt} is concave there, so that its tangent at the mode bounds it from above.
    """
    low, high = -700.0, 0.0
    odds = math.log(q) - math.log1p(-q)
    while high - low > 0.02:
        log_share = (low + high) / 2
        at = -1.0 + (1.0 + tilt) * math.exp(log_share)
        there = inner.evaluate(np.array([sum(inner.window(at, at)) / 2]))[0][0] + odds
        low, high = (log_share, high) if float(log_expit(there)) > log_share else (low, log_share)
    return -1.0 + (1.0 + tilt) * math.exp(high)


def level_slip(step: Step, q: float, epsilon: float) -> Slip:
    """q E_v(P||Q) with v = 1 + (e^eps - 1)/q: its rounding moves delta by Q[L > log v] q dv."""
    level = level_of(epsilon, q)
    if level == -np.inf:
        return Slip(8 * ULP, -np.inf)
    value = step.log_delta(np.array(level))
    assert value is not None
    below = step.slip(level, float(value))
    log_move, shift = level_error(epsilon, q, level)
    log_q = float(np.log(q))
    moved = log_move + step.above(level - shift)[1]
    return Slip(below.relative - 2 * ULP * log_q, float(np.logaddexp(below.log_absolute + log_q, moved)))


def _one_step(owner: PoissonSampled, pair: DominatingPair) -> Step:
    _check.instance("PoissonSampled", "step", pair, Step, "one step", f"It is {owner.step!r}.")
    return pair  # type: ignore[return-value]


def amplified(epsilon: float, sampling_probability: float) -> float:
    """The pure epsilon of a Poisson-sampled eps-DP step, ``log(1 + q (e^eps - 1))``.

    Examples
    --------
    >>> round(amplified(1.0, 0.01), 12)
    0.017036863236
    """
    step = PoissonSampled(PureDP(epsilon), sampling_probability)
    return step.facts.max_loss


def unamplified(epsilon: float, delta: float, sampling_probability: float) -> tuple[float, float]:
    """The (eps0, delta0) one step may spend so that sampling gives (eps, delta): log(1 + (e^eps - 1)/q), delta/q.

    Exact for one Poisson-sampled step in the remove direction; delta0 is capped at 1.
    """
    owner = "unamplified"
    epsilon = _check.real(owner, "epsilon", epsilon, low=0.0)
    delta = _check.real(owner, "delta", delta, low=0.0, high=1.0)
    q = _check.real(owner, "sampling_probability", sampling_probability, low=0.0, high=1.0, open_low=True)
    return float(log_expm1_plus(epsilon, q) - np.log(q)), min(1.0, delta / q)


