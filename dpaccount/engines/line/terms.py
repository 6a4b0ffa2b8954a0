"""The steps of a composition, each with nodes of its own: moments under a tilt, and what rounding does to them."""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dpaccount._log import SUM, ULP, log1m_exp, log_total
from dpaccount._quadrature import Nodes
from dpaccount.engines.vouch import CannotVouch, Overflow
from dpaccount.pair import Step, log_error

Array = npt.NDArray[np.float64]
SAFE = 600.0  # exponents up to here neither overflow nor vanish
MANY = 5000  # from so many steps on, K is summed without cancellation
FEW = 2000  # so many summands are added without any error


class Part(NamedTuple):
    """The losses of a step in (lower, upper], so many times."""

    step: Step
    times: int
    lower: float = -np.inf
    upper: float = np.inf


class Term:
    """One part: its count, normalised nodes with a weight, and the log of its mass."""

    def __init__(self, part: Part, nodes: Nodes, whole: bool = False) -> None:
        self.part, self.count, self.loss = part, part.times, nodes.loss
        self.log_mass, self.mass_error = log_mass(part, nodes)
        self.error, self.atoms, self.ends_only = nodes.error, nodes.atoms, nodes.ends_only
        self.state_rounding = nodes.rounding
        self.whole = whole and part.times >= MANY and nodes.rounding is not None and not nodes.ends_only
        self.log_p, self.top = nodes.log_p, float(nodes.log_p.max())
        weight = np.exp(nodes.log_p - self.top)
        self.weight = weight / weight.sum()
        self.most = max(float(self.loss.max()), -float(self.loss.min()))
        self._grown: tuple[float, Array] | None = None
        self._bowl: tuple[float, Array] | None = None

    @cached_property
    def log_weight(self) -> Array:
        """log of the normalised weights."""
        return np.asarray(self.log_p - log_total(self.log_p))

    @property
    def _exact(self) -> bool:
        """Whether the sum of K is added up without error."""
        return self.count >= MANY and self.loss.size <= FEW

    @property
    def variance(self) -> float:
        """Of the loss of one such step."""
        return self._moments[2]

    @cached_property
    def _moments(self) -> tuple[Array, float, float]:
        """Weights times powers of L less its mean, that mean, and the variance."""
        mean = float(self.weight @ self.loss)
        moved = self.loss - mean
        first = self.weight * moved
        second = first * moved
        return np.array([self.weight, first, second]), mean, float(second.sum())

    def tilted(self, c: float) -> Array:
        """The masses under the tilt, normalised."""
        power = c * self.loss
        if abs(c) * self.most > SAFE:
            power = power - max(0.0, float(power.max()))
        found = self.weight * np.exp(power)
        return np.asarray(found / found.sum())

    def growth(self, c: float) -> Array:
        """e^{cL} - 1, remembered for the next question about the same tilt."""
        if self._grown is None or self._grown[0] != c:
            if abs(c) * self.most > SAFE:
                with np.errstate(over="ignore"):
                    found = np.expm1(c * self.loss)
            else:
                found = np.expm1(c * self.loss)
            self._grown = c, found
        return self._grown[1]

    def cumulants(self, c: float) -> tuple[float, float, float]:
        """K(c) - K(0), K'(c), K''(c) of one such step."""
        moments, mean, variance = self._moments
        if abs(c) * self.most > SAFE:
            with np.errstate(over="ignore", invalid="ignore"):
                total, shift, square = (moments @ self.growth(c)).tolist()
        else:
            total, shift, square = (moments @ self.growth(c)).tolist()
        if not square < 1e280:
            raise Overflow("the tilt overflows")
        mass = 1.0 + total
        if not mass > 0.0:
            raise CannotVouch("the tilt leaves no mass")
        shift /= mass
        return math.log1p(total), mean + shift, max((variance + square) / mass - shift * shift, 0.0)

    def log_mgfs(self, tilts: Array) -> Array:
        """K(c) - K(0) at many tilts, to the accuracy of a guide."""
        if float(np.abs(tilts).max()) * self.most > SAFE:
            return np.array([self.cumulants(float(c))[0] for c in tilts])
        return np.asarray(np.log1p(np.expm1(np.multiply.outer(tilts, self.loss)) @ self.weight))

    def tabulated(self, tilts: Array) -> tuple[Array, Array]:
        """At many tilts that are `SAFE`, for one such step: K(c) - K(0), K' and K'' to the accuracy of a guide, and K(c) - K(0) from
        above, but for the error of the nodes, by the reasons of `log_mgf_error`.
        """
        assert self.rounding is not None
        (off, part), (moments, mean, variance) = self.rounding, self._moments
        growth = np.multiply.outer(tilts, self.loss)
        np.expm1(growth, out=growth)
        total = (growth * self.weight).sum(axis=1)
        _, shift, square = (growth @ moments.T).T
        shift = shift / (1.0 + total)
        log = np.log1p(total)
        guide = np.array([log, mean + shift, np.maximum((variance + square) / (1.0 + total) - shift * shift, 0.0)])
        each = (float(self.weight @ part) + SUM) * np.abs(total)
        moving = self.weight * (off + ULP * np.abs(self.loss))
        each += tilts * (growth @ moving + float(moving.sum()))
        each += np.abs(growth, out=growth) @ (self.weight * (part + (9 * ULP + SUM)))
        return guide, np.asarray(log + 1.1 * (each / (1.0 + total) + 4 * ULP * np.abs(log)))

    def log_mgf(self, c: float) -> float:
        """K(c) - K(0) of one such step, summed as `log_mgf_error` expects."""
        if self.whole and c > 0.0 and max(c, 1.0) * self.most <= SAFE:
            return math.log1p(float((self.weight * self._bent(c)).sum()))
        with np.errstate(over="ignore", invalid="ignore"):
            product = self.weight * self.growth(c)
        moved = math.fsum(product.tolist()) if self._exact else float(product.sum())
        if not -1.0 < moved < 1e280:
            raise Overflow("the tilt leaves no mass, or overflows")
        return math.log1p(moved)

    def log_mgf_error(self, c: float) -> float:
        """Absolute error of `log_mgf` beside that of the nodes: a bound where they are proved, else an estimate.

        The masses are off by their own relative errors, and by those of their sum: a common factor, which moves the sum of
        w (e^{cL} - 1) by no more than itself times that.
        """
        growth = self.growth(c)
        if not growth.max() < 1e280:
            raise Overflow("the tilt overflows")
        if self.whole and c > 0.0 and max(c, 1.0) * self.most <= SAFE:
            return self._bent_error(c)
        gross = self.weight * np.abs(growth)
        if self.rounding is None:
            return (16 * ULP + self.error) * min(float(gross.sum()), 4.0)
        off, part = self.rounding
        moved = float(self.weight @ growth)
        each = float(gross @ part) + (9 * ULP + (0.0 if self._exact else SUM)) * float(gross.sum())
        each += (float(self.weight @ part) + SUM) * abs(moved)
        each += abs(c) * float(self.weight @ ((off + ULP * np.abs(self.loss)) * (1.0 + growth)))
        return each / (1.0 + moved) + 4 * ULP * abs(math.log1p(moved))

    def _bent(self, c: float) -> Array:
        """e^{cL} - 1 + c (e^{-L} - 1) >= 0, for c > 0: its mean is that of e^{cL} - 1, since E e^{-L} = 1, but nothing cancels."""
        if self._bowl is None or self._bowl[0] != c:
            self._bowl = c, exp_beyond_linear(c * self.loss) + c * self._at_minus_one
        return self._bowl[1]

    @cached_property
    def _at_minus_one(self) -> Array:
        return exp_beyond_linear(-self.loss)

    def _bent_error(self, c: float) -> float:
        """As `log_mgf_error`, from `_bent`, whose slope in L is c (e^{cL} - e^{-L})."""
        assert self.rounding is not None
        off, part = self.rounding
        gross = self.weight * self._bent(c)
        moved = float(gross.sum())
        each = float(gross @ part) + (float(self.weight @ part) + 2 * SUM + BENT) * moved
        steep = np.abs(self.growth(c) - np.expm1(-self.loss))
        each += c * float(self.weight @ ((off + ULP * np.abs(self.loss)) * steep))
        return each / (1.0 + moved) + 4 * ULP * math.log1p(moved)

    @cached_property
    def rounding(self) -> tuple[Array, Array] | None:
        """What the losses may be off by absolutely and the masses relatively; None if the nodes are not proved."""
        return None if self.state_rounding is None else self.state_rounding()

    def phase_errors(self, tilted: Array, c: float) -> PhaseErrors:
        """What rounding does to the tilted masses and to e^{isL} - 1."""
        assert self.rounding is not None
        (off, part), size = self.rounding, np.abs(self.loss)
        far = max(0.0, float((c * self.loss).max())) if abs(c) * self.most > SAFE else 0.0
        relative = part + (abs(c) * off + (abs(c) * ULP) * size) + (12 + far) * ULP
        moved = tilted * size
        return PhaseErrors(
            math.sqrt(float(tilted @ (relative * relative))), float(moved @ relative), float(tilted @ relative) + SUM,
            float(tilted @ off) + 2 * ULP * float(moved.sum()), float(moved.sum()),
        )


def exp_beyond_linear(x: Array) -> Array:
    """e^x - 1 - x to a relative error of `BENT`, products with weights included."""
    near = np.abs(x) < NEAR
    small = np.where(near, x, 0.0)
    series = np.full(x.shape, _TAYLOR[0])
    for a in _TAYLOR[1:]:
        series *= small
        series += a
    series *= small * small
    if not near.all():
        far = ~near
        series[far] = np.expm1(x[far]) - x[far]
    return series


NEAR = 0.25
BENT = 40 * ULP  # at NEAR four ulps of e^x - 1 are 70 roundings of what is left of it
_TAYLOR = [1.0 / math.factorial(n) for n in range(13, 1, -1)]  # the next term is below 1e-19 of the sum


class PhaseErrors(NamedTuple):
    """For e^{isL} - 1 summed over tilted masses: the root mean square of the relative errors of the summands; their mean against
    |L|; what all have in common; the mean error of the loss; and the mean of |L|."""

    spread: float
    linear: float
    common: float
    off: float
    size: float

    def bound(self, s: Array, wave: Array, modulus: Array) -> Array:
        """By Cauchy-Schwarz, or by |e^{isL} - 1| <= s |L|, with wave^2 = E |e^{isL} - 1|^2; `modulus` is that of the sum itself."""
        return np.minimum(self.spread * wave, self.linear * s) + self.common * modulus + self.off * s

    def mean(self, s: Array, wave: Array) -> Array:
        """A bound on E |e^{isL} - 1|."""
        return np.minimum(wave, self.size * s)


class JumpTerm(Term):
    """A part far from 0, of few steps: sums are scaled by their largest summand, so that no tilt overflows."""

    def _scaled(self, c: float) -> tuple[Array, float]:
        power = self.log_weight + c * self.loss
        top = float(power.max())
        return np.exp(power - top), top

    def tilted(self, c: float) -> Array:
        found, _ = self._scaled(c)
        return np.asarray(found / found.sum())

    def cumulants(self, c: float) -> tuple[float, float, float]:
        moved, top = self._scaled(c)
        mass = float(moved.sum())
        mean = float(moved @ self.loss) / mass
        return top + math.log(mass), mean, float(moved @ (self.loss - mean) ** 2) / mass

    def log_mgfs(self, tilts: Array) -> Array:
        return np.array([self.cumulants(float(c))[0] for c in tilts])

    def log_mgf(self, c: float) -> float:
        moved, top = self._scaled(c)
        return top + math.log(float(moved.sum()))

    def log_mgf_error(self, c: float) -> float:
        moved, top = self._scaled(c)
        if self.rounding is None:
            return 16 * ULP * (4.0 + abs(top)) + self.error
        off, part = self.rounding
        relative = part + float(self.weight @ part) + abs(c) * (off + ULP * np.abs(self.loss))
        return float(moved @ relative) / float(moved.sum()) + 2 * SUM + (12 + 2 * abs(top)) * ULP


def _mass_below(step: Step, cut: float) -> tuple[float, float]:
    """log P[L <= cut, L < inf] and its absolute error: from the thinner of the two tails, which is known relatively."""
    above, below, error = step.facts.log_p_only, 0.0, 2 * ULP
    if cut < np.inf:
        tails = step.tails(np.array(cut))
        above, below, error = float(tails.p_above), float(tails.p_below), tails.error
    if above > -0.7 and cut < np.inf:
        return below, float(log_error(below, error))
    if above == -np.inf:
        return 0.0, 0.0
    below = float(log1m_exp(above))
    return below, float(log_error(above, error)) * math.exp(min(above - below, 700.0)) + ULP * abs(below)


def log_mass(part: Part, nodes: Nodes) -> tuple[float, float]:
    """log P[lower < L <= upper, L < inf] and its absolute error."""
    if part.lower == -np.inf:
        return _mass_below(part.step, part.upper)
    total = log_total(nodes.log_p)
    weight = np.exp(nodes.log_p - total)
    relative = 16 * ULP if nodes.rounding is None else float(weight @ nodes.rounding()[1])
    return total, nodes.error + relative + 2 * SUM + 4 * ULP * abs(total)
