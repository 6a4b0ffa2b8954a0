"""Noisy gradient descent, full batch or in cyclic batches, of which only the last iterate is released."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, final

import numpy as np
import numpy.typing as npt

from dpaccount import _check
from dpaccount._log import ULP, gaussian_log_delta, gaussian_log_error
from dpaccount.adjacency import Adjacency, parse
from dpaccount.curves.profile import PrivacyProfile
from dpaccount.iteration.best import BestCurve, pointwise_minimum
from dpaccount.iteration.periodic import Uses, attained_mu, shifted_mu
from dpaccount.iteration.shifted import LEAST, RANGE, Schedule, gap_of, gdp_pair
from dpaccount.mechanisms.gaussian import Gaussian
from dpaccount.mechanisms.pure import PureDP
from dpaccount.results import Bounds, Status

Array = npt.NDArray[np.float64]
OWNER = "NoisyGD"
HIDDEN = "holds only if the last iterate is all that anyone ever sees"
ENDLESS = "infinitely many steps cost infinitely much unless steps contract or the set is bounded"
SOLVED = 10**5  # expanding runs are solved step by step, up to this many steps before the end
SHIFTED, CONTRACTION, MIXED, COMPOSITION = "shifted", "contraction", "shifted, then contraction", "composition"
THEOREMS = {
    SHIFTED: "BSA24: shifted interpolation, the best shifts and the best restart at the diameter",
    CONTRACTION: "ADC20, Lemma 3: contraction of E_gamma, after the record's last use from any two points of the set",
    MIXED: "BSA24 up to the record's last use, then contraction of E_gamma (ADC20, Lemma 3)",
    COMPOSITION: "DRS19, Corollary 3.3: every iterate released, each use of the record a Gaussian mechanism",
}


@final
@dataclass(frozen=True)
class NoisyGD:
    """``x_t = Proj_K(x_{t-1} - eta (mean of grad f_i(x_{t-1}) over the batch of step t + N(0, sigma^2 I)))``; only x_T is released.

    f_i(x) = l(x; record i) + r(x), r a regulariser that knows no record, or 0. Step t uses batch ``(t - 1) mod batches + 1`` of
    a fixed partition into equal batches; with one batch every step uses every record.

    Parameters
    ----------
    num_records : int
        n >= 1, public and fixed: means divide by it (by n/batches), whatever a record contributes.
    lipschitz : float
        L >= 0: l has gradients of norm at most L; r does not count. Clipping gradients to L does not give this: clipped steps
        need not be gradient steps of convex losses.
    smoothness : float
        beta >= 0: every f_i has a beta-Lipschitz gradient.
    strong_convexity : float
        rho in [-beta, beta]: f_i - rho |x|^2/2 is convex. 0 is convex, below 0 need not be.
    step_size : float
        eta > 0.
    noise_scale : float
        sigma >= 0, the noise on the mean gradient. At 0 every epsilon is infinite.
    steps : int or inf
        T >= 1; inf is the limit of ever more steps.
    diameter : float
        of the convex set K, or inf without a projection.
    batches : int
        A divisor of n; n/batches records in each.
    adjacency : {"zero-out", "add-or-remove", "replace-one"}
        The record's l is replaced by 0 (sensitivity L/batch size), or exchanged (2L/batch size). Add-or-remove is for one batch
        alone: the mean of the records present is a sum divided by the public n, so a removed record counts as 0; r stays. In
        several batches a removed record would move all after it into other places, and that is refused.

    Guarantee
    ---------
    For every record, or for those of one batch. ``shifted``: mu-GDP with the least mu of any shifted interpolation, for any
    step size and convexity: a step has the Lipschitz constant c = max(|1 - eta rho|, |1 - eta beta|), and where c > 1 hiding
    iterates buys little. Without a projection, convex and eta rho <= 1, one batch, it is attained by a quadratic loss.
    ``contraction`` needs a bounded set. ``best`` is the least of them, made a curve again. `Bounds.lower` is the exact
    curve of a quadratic loss without a projection, else 0.

    References
    ----------
    Bok, Su, Altschuler (2024), Section 4 (for one batch c = 1 - eta rho unprojected, for cyclic batches); the exact optimum
    and the contraction of later steps are derived in the documentation.

    Examples
    --------
    >>> from dpaccount.iteration import NoisyGD
    >>> run = NoisyGD(num_records=100, lipschitz=1, smoothness=1, strong_convexity=0.1, step_size=0.5, noise_scale=0.1, steps=1000)
    >>> round(run.mu(), 6), round(run.composed_mu(), 6)
    (0.6245, 3.162278)
    >>> run.epsilon(delta=1e-5)
    Bounds(2.55762... in [2.5576217..., 2.5576218], certified, shifted)
    """

    num_records: int
    lipschitz: float
    smoothness: float
    strong_convexity: float
    step_size: float
    noise_scale: float
    steps: float
    diameter: float = math.inf
    batches: int = 1
    adjacency: str = Adjacency.ZERO_OUT

    def __post_init__(self) -> None:
        def put(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

        put("num_records", _check.count(OWNER, "num_records", self.num_records))
        put("batches", _check.count(OWNER, "batches", self.batches))
        if self.num_records % self.batches:
            _check.refuse(OWNER, "batches", f"a divisor of num_records = {self.num_records}", self.batches, "Batches are of one size.")
        for name in ("lipschitz", "smoothness", "noise_scale"):
            put(name, _check.real(OWNER, name, getattr(self, name), low=0.0, high=RANGE**0.5))
        rho = _check.real(OWNER, "strong_convexity", self.strong_convexity)
        if abs(rho) > self.smoothness:
            _check.refuse(OWNER, "strong_convexity", f"in [-smoothness, smoothness], smoothness = {self.smoothness:g}", rho)
        put("strong_convexity", rho)
        put("step_size", _check.real(OWNER, "step_size", self.step_size, low=RANGE**-0.5, high=RANGE**0.5))
        if self.noise_scale and self.noise_scale < RANGE**-0.5:
            _check.refuse(OWNER, "noise_scale", f"0 or at least {RANGE**-0.5:g}", self.noise_scale)
        if not (isinstance(self.steps, (float, np.floating)) and self.steps == math.inf):
            put("steps", _check.count(OWNER, "steps", self.steps))
        hint = "Without a projection it is inf."
        put("diameter", _check.real(OWNER, "diameter", self.diameter, low=0.0, open_low=True, infinite=True, hint=hint))
        relation = parse(OWNER, self.adjacency)
        if relation is Adjacency.AS_WRITTEN:
            _check.refuse(OWNER, "adjacency", "'zero-out', 'add-or-remove' or 'replace-one'", str(relation))
        if relation is Adjacency.ADD_OR_REMOVE and self.batches > 1:
            _check.refuse(OWNER, "adjacency", "'zero-out' or 'replace-one' in several batches", str(relation),
                          "Removing a record would change the partition into batches of one size; it is proved for one batch alone.")
        put("adjacency", str(relation))

    # the setting

    @cached_property
    def gap(self) -> float:
        """1 - c, rounded down; below 0 if a step can move points apart."""
        return gap_of(self.step_size, self.smoothness, self.strong_convexity)

    @property
    def sensitivity(self) -> float:
        """How far a record moves the mean gradient of its batch."""
        factor = 2.0 if self.adjacency == Adjacency.REPLACE_ONE else 1.0
        return factor * self.lipschitz * self.batches / self.num_records

    def uses(self, batch: int | None = None) -> Uses:
        """How often, and how long before the end, the records of a batch are used; by default those of the last step.

        The records of the last step are the worst: stopped d steps earlier another batch's run is theirs with fewer steps.
        """
        period = self.batches
        if batch is None:
            return Uses(period, math.inf if self.steps == math.inf else -(-int(self.steps) // period), 0)
        place = _check.count(f"{OWNER}.uses", "batch", batch, maximum=period, hint="Batches are numbered from 1.")
        if self.steps == math.inf:
            return Uses(period, math.inf, period - place)  # whole passes
        uses = max(0, (int(self.steps) - place) // period + 1)
        return Uses(period, uses, int(self.steps) - place - (uses - 1) * period if uses else 0)

    def limit(self) -> NoisyGD:
        """The same run for ever."""
        return replace(self, steps=math.inf)

    def schedule(self, batch: int | None = None) -> Schedule:
        """The run step by step, from the first use of the batch's records on, in units of the step size."""
        use = self.uses(batch)
        if use.uses in (0, math.inf):
            _check.refuse(f"{OWNER}.schedule", "batch", "one that is used, of finitely many steps", batch)
        shift = np.zeros(int((use.uses - 1) * use.period + use.idle + 1))
        shift[:: use.period] = self.sensitivity
        far = None if self.diameter == math.inf else self.diameter / self.step_size
        return Schedule(1.0 - self.gap, shift, self.noise_scale, diameter=far)

    # what is known

    def mu(self, batch: int | None = None) -> float:
        """The Gaussian-DP parameter by shifted interpolation, rounded up: of one batch's records, or of the worst."""
        return self._mu(self.uses(batch))

    def composed_mu(self, batch: int | None = None) -> float:
        """The same if every iterate is released."""
        return self._composed(self.uses(batch))

    def pair(self, batch: int | None = None) -> Gaussian:
        """N(mu, 1) against N(0, 1), a dominating pair for the run under its adjacency; use it ``as-written``, compose it as it is."""
        return gdp_pair(self.mu(batch))

    @property
    def methods(self) -> tuple[str, ...]:
        """The bounds that hold, and ``best``."""
        bounded = (CONTRACTION, MIXED) if self.diameter < math.inf else ()
        return (SHIFTED, *bounded, COMPOSITION, "best")

    def theorem(self, method: str) -> str:
        """What stands behind a method."""
        self._check_method("theorem", method)
        return "the least of all: each holds, so does their minimum" if method == "best" else THEOREMS[method]

    def delta(self, epsilon: Any, batch: int | None = None, *, method: str = "best") -> Bounds:
        """delta(eps) at any real eps (array) of the worst records, or of one batch's; `method` is one of `methods`."""
        return self._answer("delta", method, batch, epsilon=epsilon)

    def log_delta(self, epsilon: Any, batch: int | None = None, *, method: str = "best") -> Bounds:
        """log delta(eps): keeps its digits where delta underflows."""
        return self._answer("log_delta", method, batch, epsilon=epsilon)

    def epsilon(self, delta: Any = None, batch: int | None = None, *, method: str = "best", log_delta: Any = None) -> Bounds:
        """The least eps >= 0 with delta(eps) at most `delta` (array), or e^log_delta."""
        return self._answer("epsilon", method, batch, delta=delta, log_delta=log_delta)

    def trade_off(self, false_positive_rate: Any = None, batch: int | None = None) -> Any:
        """The trade-off function of the `shifted` bound, or a value of it."""
        return PrivacyProfile(self.pair(batch), Adjacency.AS_WRITTEN).trade_off(false_positive_rate)

    # how it is computed

    def _answer(self, asked: str, method: str, batch: int | None, **given: Any) -> Bounds:
        self._check_method(asked, method)
        use = self.uses(batch)
        gaussian: dict[str, Callable[[Uses], float]] = {SHIFTED: self._mu, COMPOSITION: self._composed}
        name = SHIFTED if method in ("best", MIXED) and (use.idle == 0 or self.diameter == math.inf) else method
        if self.noise_scale == 0.0:
            name = SHIFTED
        if name not in gaussian:
            of_curve: Bounds = getattr(self._curve(name, use), asked)(**given)
            return replace(of_curve, notes=(HIDDEN,))
        mu = gaussian[name](use)
        found: Bounds = getattr(PrivacyProfile(gdp_pair(mu), Adjacency.AS_WRITTEN), asked)(**given)
        known = self._attained(use) if name == SHIFTED else mu
        if known > 0.0:
            of_known = getattr(PrivacyProfile(gdp_pair(known), Adjacency.AS_WRITTEN), asked)(**given)
            lower = np.minimum(of_known.lower, found.lower)
        else:  # what every mechanism has
            lower = getattr(PrivacyProfile(PureDP(0.0), Adjacency.AS_WRITTEN), asked)(**given).lower
        status, notes = found.status, (HIDDEN,) if name == SHIFTED else ()
        if mu == math.inf and self.noise_scale > 0.0:
            status, notes = Status.INFINITE_MASS, (*notes, ENDLESS)
        return Bounds(lower, found.estimate, found.upper, found.certified, name, status, condition=found.condition, notes=notes)

    def _curve(self, method: str, use: Uses) -> BestCurve:
        """Bounds with a factor for every step after the last use, and the least of all."""
        reach = (1.0 - self.gap) * self.diameter / (self.step_size * self.noise_scale) * (1.0 + 4 * ULP)
        before = use._replace(idle=0)
        far = self._one_use if use.uses == 1 else reach + self._one_use
        known = {
            CONTRACTION: lambda e: _contracted(e, far, reach, use.idle),
            MIXED: lambda e: _contracted(e, self._mu(before), reach, use.idle),
            SHIFTED: lambda e: _contracted(e, self._mu(use), reach, 0),
        }
        chosen = {SHIFTED: known[SHIFTED], MIXED: known[MIXED]} if method == "best" else {method: known[method]}
        return pointwise_minimum(chosen, certified=True, convex=True)

    def _composed(self, use: Uses) -> float:
        return self._one_use * math.sqrt(use.uses) * (1.0 + 4 * ULP) if self.sensitivity else 0.0

    @property
    def _one_use(self) -> float:
        return self.sensitivity / self.noise_scale if self.noise_scale else math.inf

    def _mu(self, use: Uses) -> float:
        if self.sensitivity == 0.0 or use.uses == 0:
            return 0.0
        if self.noise_scale == 0.0:
            return math.inf
        far = self.diameter / self.step_size
        if self.gap >= 0.0:
            return shifted_mu(self.gap, self.sensitivity, self.noise_scale, use, far)
        return self._expanding(use, far)

    def _expanding(self, use: Uses, far: float) -> float:
        """The last steps solved one by one; the ones before them, if any, behind a restart; never more than composition."""
        kept = min(use.uses, max(1, SOLVED // use.period))
        shift = np.zeros(int((kept - 1) * use.period + use.idle + 1))
        shift[:: use.period] = self.sensitivity
        whole = kept == use.uses
        far = far if far <= RANGE else math.inf
        if not whole and far == math.inf:
            return self._composed(use)
        solved = Schedule(
            1.0 - self.gap, shift, self.noise_scale, initial=0.0 if whole else far, diameter=None if far == math.inf else far
        ).solve()
        return min(self._composed(use), solved.mu)

    def _attained(self, use: Uses) -> float:
        """mu of the last iterate for quadratic losses of curvature rho, or of the curvature that one step forgets all with."""
        if self.noise_scale == 0.0:
            return self._mu(use)
        if self.diameter < math.inf or not 0.0 <= self.step_size * self.strong_convexity <= 1.0:
            return 0.0
        gaps = [min(self.step_size * self.strong_convexity * (1.0 + 2 * ULP), 1.0)]
        if self.step_size * self.smoothness >= 1.0:
            gaps.append(1.0)
        return max(attained_mu(gap, self.sensitivity, self.noise_scale, use, self.steps) for gap in gaps)

    def _check_method(self, name: str, method: str) -> None:
        if method in (CONTRACTION, MIXED) and self.diameter == math.inf:
            _check.refuse(f"{OWNER}.{name}", "method", f"one of {', '.join(map(repr, self.methods))} here", method,
                          "Contraction needs a bounded set: give its diameter.")
        _check.choice(f"{OWNER}.{name}", "method", method, self.methods)


def _contracted(epsilon: Array, mu: float, reach: float, count: int) -> Array:
    """log of theta(mu) theta(reach)^count with the rounding of both, theta the Gaussian curve."""
    found = np.zeros(np.shape(epsilon))
    for size, times in ((mu, 1), (reach, count)):
        if times and size < math.inf:
            error = np.array([gaussian_log_error(float(e), max(size, LEAST)) for e in np.ravel(epsilon)]).reshape(found.shape)
            with np.errstate(over="ignore"):
                value, error = np.maximum(gaussian_log_delta(epsilon, max(size, LEAST)), -1e300), np.minimum(error, 1e290)
            found = found + times * np.minimum(value + error + 8 * ULP * (1.0 + np.abs(value)), 0.0)
    return np.where(np.isneginf(found), -np.finfo(float).max, found)
