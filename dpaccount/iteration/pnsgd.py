"""Projected noisy stochastic gradient descent: one pass over the data, only the last iterate released."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, cast, final

import numpy as np
import numpy.typing as npt

import dpaccount.iteration.rdp as rdp
from dpaccount import _check
from dpaccount._log import ULP
from dpaccount.iteration.face import Curve, OnePass, Theorem
from dpaccount.iteration.instances import one_pass, worst_log_delta
from dpaccount.iteration.kernels import NOISES, log_overlap, overlap_error, scalar
from dpaccount.iteration.nonlinear import nonlinear_contraction
from dpaccount.iteration.one_pass import pnsgd_mu
from dpaccount.iteration.passes import SeveralPasses
from dpaccount.iteration.periodic import Uses, shifted_mu
from dpaccount.iteration.stopping import RandomPermutation, RandomStopping

Array = npt.NDArray[np.float64]
STEPS = ("cocoercivity", "spectrum")
FARTHEST = 1e20  # lengths and scales lie between this and its inverse


@final
@dataclass(frozen=True)
class PNSGD(OnePass):
    """``Y_t = Proj_K(Y_{t-1} - eta (grad l(Y_{t-1}, x_t) + Z_t))``, t = 1..n, record i used at step i; only Y_n is released.

    Parameters
    ----------
    num_records : int
        n >= 1, also the number of steps.
    lipschitz : float
        L >= 0: every gradient has norm at most L at every point of K.
    smoothness : float
        beta >= 0, or inf: gradients are beta-Lipschitz in the point.
    strong_convexity : float
        rho in [-beta, beta]: l - rho |y|^2/2 is convex. 0 is convex; a negative number admits losses that are not.
    step_size : float
        eta > 0, of the update and of the noise in it.
    diameter : float
        D > 0 of the convex set K, or inf without a projection.
    noise : {"gaussian", "laplace"}
        Z ~ N(0, noise_scale^2 I), or Laplace in one dimension, K an interval.
    noise_scale : float
        sigma or v, >= 0, before the step size multiplies it. At 0 every epsilon is infinite.
    gradient_step : {"cocoercivity", "spectrum"}
        The Lipschitz constant of a gradient step for rho >= 0 and eta <= 2/(beta + rho): the papers'
        ``M = sqrt(1 - 2 eta beta rho/(beta + rho))``, or the smaller ``1 - eta rho`` that the mean Hessian's spectrum gives.

    Guarantee
    ---------
    Replace-one at index i, both orders. ``contraction`` always holds: beyond rho >= 0 and eta <= 2/(beta + rho) with the spread
    of a gradient step the least of ``max(|1 - eta rho|, |1 - eta beta|) D``, ``sqrt(max(1 - 2 eta rho, 0) D^2 + 4 eta^2 L^2)``
    and ``D + 2 eta L``. ``shifted`` needs Gaussian noise and a finite smoothness; ``rdp`` also that steps do not expand.
    What does not hold is refused. On K no rho-strongly convex loss has L < rho D/2, and without a projection none has any L:
    there, and wherever steps contract, L counts only as half the largest difference of two records' gradients at one point,
    and the spread is ``contraction * D``.

    References
    ----------
    Asoodeh, Diaz, Calmon (2020), Theorems 3 to 5; Feldman, Mironov, Talwar, Thakurta (2018); Balle, Barthe, Gaboardi,
    Geumlek (2019); Bok, Su, Altschuler (2024).

    Examples
    --------
    >>> from dpaccount.iteration import PNSGD
    >>> p = PNSGD(num_records=40, lipschitz=1, smoothness=1, strong_convexity=0, step_size=0.5, diameter=1, noise_scale=2.0)
    >>> p.delta(epsilon=0.5, index=39, method="contraction")
    Bounds(at most 0.056845 in [0, 0.056845], certified, contraction)
    >>> p.log_delta(epsilon=0.5, index=[1, 20], method="contraction").upper.round(6).tolist()
    [-57.348572, -30.108]
    """

    num_records: int
    lipschitz: float
    smoothness: float
    strong_convexity: float
    step_size: float
    diameter: float
    noise: str = "gaussian"
    noise_scale: float = 1.0
    gradient_step: str = "cocoercivity"

    def __post_init__(self) -> None:
        owner = "PNSGD"

        def put(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

        put("num_records", _check.count(owner, "num_records", self.num_records))
        put("lipschitz", _check.real(owner, "lipschitz", self.lipschitz, low=0.0, hint="It bounds the norm of every gradient."))
        put("smoothness", _check.real(owner, "smoothness", self.smoothness, low=0.0, infinite=True))
        rho = _check.real(
            owner, "strong_convexity", self.strong_convexity, hint="0 is convex; -smoothness is nothing beyond smoothness."
        )
        put("strong_convexity", rho)
        if abs(rho) > self.smoothness:
            _check.refuse(
                owner, "strong_convexity", f"in [-smoothness, smoothness] = [-{self.smoothness:g}, {self.smoothness:g}]", rho,
                "No loss bends more than its smoothness allows.",
            )
        put("step_size", _check.real(owner, "step_size", self.step_size, low=0.0, open_low=True))
        put("diameter", _check.real(
            owner, "diameter", self.diameter, low=0.0, open_low=True, infinite=True, hint="Without a projection it is inf."
        ))
        put("noise", _check.choice(owner, "noise", self.noise, NOISES))
        put("noise_scale", _check.real(owner, "noise_scale", self.noise_scale, low=0.0))
        put("gradient_step", _check.choice(owner, "gradient_step", self.gradient_step, STEPS))
        for name in ("lipschitz", "step_size", "diameter", "noise_scale", "smoothness"):
            given = getattr(self, name)
            if 0.0 < given < math.inf and not 1.0 / FARTHEST <= given <= FARTHEST:
                _check.refuse(owner, name, f"in [{1.0 / FARTHEST:g}, {FARTHEST:g}]", given, "Choose units in which it is not so extreme.")

    # the setting

    @property
    def largest_step(self) -> float:
        """2/(beta + rho), up to which the theorems know that a gradient step does not expand; inf for linear losses."""
        total = self.smoothness + self.strong_convexity
        return 2.0 / total if total else math.inf

    @property
    def contracts(self) -> bool:
        """Whether losses are convex and the step size is at most `largest_step`: no gradient step moves points apart."""
        return self.strong_convexity >= 0.0 and self.step_size <= self.largest_step * (1.0 + 2 * ULP)

    @property
    def contraction(self) -> float:
        """A Lipschitz constant of every gradient step: M or c where `contracts`, else the spectrum's, at least 1."""
        eta, beta, rho = self.step_size, self.smoothness, self.strong_convexity
        if not self.contracts:
            return max(abs(1.0 - eta * rho), abs(1.0 - eta * beta))
        if self.gradient_step == "spectrum":
            return max(1.0 - eta * rho, eta * beta - 1.0)
        if rho == 0.0:
            return 1.0
        return math.sqrt(max(1.0 - 2.0 * eta * beta * rho / (beta + rho), 0.0))

    @property
    def spread(self) -> float:
        """How far apart one gradient step can leave two points of K; its assumptions are those of the class."""
        eta, rho, far = self.step_size, self.strong_convexity, self.diameter
        through = self.contraction * far if self.contraction else 0.0
        if self.contracts or far == math.inf or 2.0 * self.lipschitz < rho * far:  # L bounds no gradient's norm, or does not help
            return through
        push = 2.0 * eta * self.lipschitz
        return min(through, far + push, math.hypot(math.sqrt(max(1.0 - 2.0 * eta * rho, 0.0)) * far, push))

    @property
    def sensitivity(self) -> float:
        """2L/noise_scale, how far the record moves its own step, in units of the noise."""
        return 2.0 * self.lipschitz / self.noise_scale if self.noise_scale else math.inf if self.lipschitz else 0.0

    @property
    def reach(self) -> float:
        """spread/(eta noise_scale), how far any later step can leave two iterates, in units of the noise."""
        noise = self.step_size * self.noise_scale
        return self.spread / noise if noise else math.inf if self.spread else 0.0

    @property
    def records(self) -> int:
        return self.num_records

    @property
    def worst_index(self) -> int:
        return self.num_records

    @property
    def noiseless(self) -> bool:
        return self.noise_scale == 0.0 and self.lipschitz > 0.0

    @property
    def bounded(self) -> bool:
        return self.noise == "laplace" and self.noise_scale > 0.0

    def limit(self, index: Array) -> Array:
        if self.noise == "gaussian":
            return super().limit(index)
        return np.where(index < self.num_records, min(self.sensitivity, self.reach), self.sensitivity)

    # variants

    def random_stopping(self) -> RandomStopping:
        """The run stopped after T steps, T uniform on 1..n, and Y_T released."""
        return RandomStopping(self)

    def random_permutation(self) -> RandomPermutation:
        """The run over a uniformly random order of the records."""
        return RandomPermutation(self)

    def several_passes(self, passes: int) -> SeveralPasses:
        """The run over the same order `passes` times, Y after all of them released."""
        return SeveralPasses(self, passes)

    # the bounds

    def theorems(self) -> tuple[Theorem, ...]:
        found = [self._contraction_theorem()]
        if self.noise == "gaussian" and self.contracts:
            found.append(Theorem("rdp", self._rdp_statement()))
        if self.noise == "gaussian" and self.contraction < math.inf:
            found.append(Theorem("shifted", (
                "BSA24: shifted interpolation, Gaussian DP of the last iterate, with the diameter restart, "
                f"gradient steps with Lipschitz constant {self.contraction:.6g}"
            )))
        found.append(Theorem("composition", "every iterate released: the record's own step alone, the other steps cost it nothing"))
        found.append(Theorem("nonlinear", (
            "a nonlinear strong data-processing inequality, proved in the documentation: ADC20's contraction with the coefficient "
            "at 1 + (gamma - 1)/delta in every step"
        )))
        return tuple(found)

    def refusal(self, method: str) -> str:
        if method == "composed":
            return "One pass uses each record once, so there is nothing to compose; see several_passes."
        if self.noise != "gaussian":
            return "Its theorem is about Gaussian noise."
        if self.smoothness == math.inf:
            return "Its theorem needs gradient steps with a Lipschitz constant: a finite smoothness."
        if self.strong_convexity < 0.0:
            return "Its theorem needs convex losses, strong_convexity >= 0."
        return (
            f"Its theorem needs step_size <= 2/(smoothness + strong_convexity) = {self.largest_step:g}; "
            f"here it is {self.step_size:g}, and a step may move points apart."
        )

    def curve(self, method: str, epsilon: Array, index: Array, conversion: str) -> Curve:
        after = self.num_records - index
        if method == "contraction":
            return self._contraction(epsilon, after)
        if method == "composition":
            return self.log_factors(epsilon)[0]
        if method == "rdp":
            rate = self.rdp_rate(index)
            value = rdp.zcdp_log_delta(rate, epsilon, conversion)
            return Curve(value, rdp.zcdp_error(rate, epsilon, value))
        if method == "nonlinear":
            own, later = self.log_factors(epsilon)
            return nonlinear_contraction(self.noise, own, later, self.reach, self._slip(), epsilon, after)
        mu = self.gdp_parameter(index)
        value = log_overlap("gaussian", epsilon, mu)
        return Curve(value, overlap_error("gaussian", epsilon, mu, value, 64 * ULP))

    def lower(self, epsilon: Array, index: Array) -> Array:
        return worst_log_delta(lambda i: one_pass(self, i), epsilon, index)

    def rdp_rate(self, index: Any, source: str = "best") -> Any:
        """r of ``D_a <= r a`` for every order a > 1, by record.

        ``FMTT18`` (Theorem 23, convex losses), ``BBGG19`` (Theorem 5, strongly convex), or the smaller of those that hold:
        at rho = 0 that is FMTT18's, since BBGG19's is weaker at M = 1.
        """
        place, chosen = self._index("rdp_rate", index), _check.choice("PNSGD.rdp_rate", "source", source, rdp.SOURCES)
        self._check_method("rdp_rate", "rdp")
        after = self.num_records - place
        found = [rdp.fmtt18(self.sensitivity, after)] if chosen != "BBGG19" else []
        if chosen == "BBGG19" or (chosen == "best" and self.strong_convexity > 0.0):
            found.append(rdp.bbgg19(self.sensitivity, after, self.contraction))
        return scalar(np.min(found, axis=0))

    def gdp_parameter(self, index: Any) -> Any:
        """mu of Gaussian DP by shifted interpolation (BSA24), by record."""
        place = self._index("gdp_parameter", index)
        self._check_method("gdp_parameter", "shifted")
        factor = self.contraction
        if self.lipschitz == 0.0 or factor == 0.0:
            return scalar(np.where(place == self.num_records, self.sensitivity, 0.0))
        return scalar(pnsgd_mu(cast(Any, self), place, self._log_factor()))

    def cyclic_parameter(self, passes: int, index: Any) -> Any:
        """The same after several passes in the same order: one interpolation over all uses of the record (BSA24, cyclic batches)."""
        place = self._index("cyclic_parameter", index)
        self._check_method("cyclic_parameter", "shifted")
        if passes == 1 or not self.contracts or self.lipschitz == 0.0 or self.noise_scale == 0.0:
            return scalar(np.hypot(self.gdp_parameter(place), math.sqrt(passes - 1.0) * self.gdp_parameter(1)))
        gap = max((1.0 - self.contraction) * (1.0 - 4 * ULP) - 2 * ULP / max(self.contraction, 1e-8), 0.0)
        far = self.diameter / self.step_size
        known = {
            i: shifted_mu(gap, 2.0 * self.lipschitz, self.noise_scale, Uses(self.num_records, passes, self.num_records - int(i)), far)
            for i in np.unique(place)
        }
        return scalar(np.array([known[i] for i in place.ravel()]).reshape(place.shape))

    def _log_factor(self) -> float | None:
        if self.gradient_step != "spectrum":
            return None
        c = self.contraction  # a difference from 1, so rounded by an ulp of 1
        return math.log(c + 2 * ULP) if c > 0.0 else -math.inf

    def log_factors(self, epsilon: Array) -> tuple[Curve, Curve]:
        """log of the contraction bound's two factors, with their rounding: the record's own step, and each later one."""
        own = log_overlap(self.noise, epsilon, self.sensitivity)
        later = log_overlap(self.noise, epsilon, self.reach)
        return (
            Curve(own, overlap_error(self.noise, epsilon, self.sensitivity, own)),
            Curve(later, overlap_error(self.noise, epsilon, self.reach, later, self._slip())),
        )

    def _slip(self) -> float:
        """The relative rounding error of `reach`."""
        square = self.contraction**2
        return (8.0 + (4.0 / square if 0.0 < square < 1.0 else 0.0)) * ULP

    def _contraction(self, epsilon: Array, after: Array) -> Curve:
        own, later = self.log_factors(epsilon)
        with np.errstate(invalid="ignore"):
            value = np.where(after > 0.0, after * later.value, 0.0) if np.isinf(later.value).any() else after * later.value
        return Curve(own.value + value, own.error + after * later.error)

    def _contraction_theorem(self) -> Theorem:
        number = "Theorem 4" if self.noise == "gaussian" else "Theorem 3"
        if self.contracts:
            text = f"ADC20, {number}: contraction of E_gamma, convex losses, step size at most 2/(beta + rho)"
        else:
            text = (
                f"ADC20, Lemma 3 and {number}'s proof, with the spread {self.spread:g} that a gradient step can leave here: "
                "losses that need not be convex, or a step size above 2/(beta + rho)"
            )
        return Theorem("contraction", text)

    def _rdp_statement(self) -> str:
        if self.strong_convexity == 0.0:
            return "FMTT18, Theorem 23: Renyi bound, convex losses, step size at most 2/beta"
        return "the smaller of FMTT18, Theorem 23 (convex) and BBGG19, Theorem 5 (strongly convex): step size at most 2/(beta + rho)"

