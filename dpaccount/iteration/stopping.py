"""Which step releases is drawn at random, or which record goes first: every record gets one guarantee."""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np
import numpy.typing as npt
from scipy.special import digamma

from dpaccount import _check
from dpaccount._log import ULP, log1m_exp
from dpaccount.conversions import renyi_log_delta
from dpaccount.iteration.face import Curve, OnePass, Theorem, Variant
from dpaccount.iteration.instances import random_permutation, random_stopping, worst_log_delta
from dpaccount.iteration.kernels import scalar

Array = npt.NDArray[np.float64]


@final
class RandomStopping(Variant):
    """PNSGD stopped after T steps, T uniform on 1..n; Y_T is released, and T may be.

    E_gamma is jointly convex, so a record has at most the mean over T of its curves in runs of T steps, which is 0 for T < i.
    All bounds here depend on the steps after the record alone, so the mean is over the records i..n of one full run:

    - ``contraction``: ``(a/n) (1 - b^{n-i+1})/(1 - b)`` with the factors a and b of `PNSGD` (Theorem 5), for every noise scale;
    - ``shifted``: the mean of the curves of shifted interpolation;
    - ``rdp``: FMTT18's, whose weak convexity needs ``2 a (a-1) L^2 <= sigma^2`` at order a. See `rdp`.

    The worst record is the first, so without an index the answer holds for all.

    Examples
    --------
    >>> from dpaccount.iteration import PNSGD
    >>> p = PNSGD(num_records=40, lipschitz=1, smoothness=1, strong_convexity=0, step_size=0.5, diameter=1, noise_scale=2.0)
    >>> round(float(p.random_stopping().delta(epsilon=0.5, method="contraction")), 12)
    0.007826565918
    """

    def __repr__(self) -> str:
        return f"{self.run!r}.random_stopping()"

    @property
    def worst_index(self) -> int:
        return 1

    def limit(self, index: Array) -> Array:
        """Only a record of the last step keeps a loss above 0 until its own step's largest."""
        return self.run.limit(np.full(index.shape, float(self.records)))

    def theorems(self) -> tuple[Theorem, ...]:
        return tuple(Theorem(t.name, _MIXED[t.name]) for t in self.run.theorems() if t.name in _MIXED)

    def refusal(self, method: str) -> str:
        return _ALL_SEEN if method == "composition" else self.run.refusal(method)

    def curve(self, method: str, epsilon: Array, index: Array, conversion: str) -> Curve:
        uses = self.records - index + 1.0
        if method == "contraction":
            return self._contraction(epsilon, uses)
        if method == "rdp":
            return self._rdp(epsilon, index, conversion)
        return self._mean(method, epsilon, index, conversion)

    def lower(self, epsilon: Array, index: Array) -> Array:
        return worst_log_delta(lambda i: random_stopping(self.run, i), epsilon, index)

    def max_order(self) -> float:
        """The largest order with ``2 a (a-1) L^2 <= sigma^2``, where FMTT18's bound ends."""
        self._check_method("max_order", "rdp")
        square = self.run.sensitivity**2 / 2
        return (1.0 + math.sqrt(1.0 + 4.0 / square)) / 2 if square else math.inf

    def rdp(self, order: Any, index: Any = None) -> Any:
        """``D_a <= (1 + c) (2 a L^2/(n sigma^2)) (1 + 1/2 + ... + 1/(n-i+1))`` with ``c = 2 a (a-1) L^2/sigma^2 <= 1``.

        The mean over T of FMTT18's Theorem 23, made a bound on the mixture by weak convexity (their Lemma 25, which their
        Theorem 26 uses with c = 1). An order with c > 1 is refused: Renyi divergences are not convex, and nothing is proved.
        """
        owner = "RandomStopping.rdp"
        top = self.max_order()
        a = _check.reals(
            owner, "order", order, low=1.0, high=top * (1 + 4 * ULP), open_low=True,
            hint=f"FMTT18's bound needs noise_scale >= L sqrt(2 a (a-1)), so orders up to {top:.6g} here; contraction has no limit.",
        )
        return scalar(self._divergence(a, _harmonic(self.records - self._index("rdp", index) + 1.0)))

    def _divergence(self, order: Array, harmonic: Array) -> Array:
        square = self.run.sensitivity**2 / 2
        return (1.0 + np.minimum(order * (order - 1.0) * square, 1.0)) * order * square * harmonic / self.records

    def _contraction(self, epsilon: Array, uses: Array) -> Curve:
        own, later = self.run.log_factors(epsilon)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.asarray(log1m_exp(uses * later.value) - log1m_exp(later.value))
            ratio = np.where(later.value == 0.0, np.log(uses), np.where(np.isneginf(later.value), 0.0, ratio))
            drift = np.minimum(uses - 1.0, 1.0 / np.expm1(-later.value)) * later.error  # d log sum/d log b
        return Curve(own.value + ratio - np.log(self.records), own.error + drift + 8 * ULP * (1.0 + np.abs(ratio)))

    def _rdp(self, epsilon: Array, index: Array, conversion: str) -> Curve:
        top, shape = self.max_order(), np.broadcast_shapes(epsilon.shape, index.shape)
        e, sums = np.broadcast_to(epsilon, shape), np.broadcast_to(_harmonic(self.records - index + 1.0), shape)

        def converted(x: float, harmonic: float) -> float:
            total = np.asarray(harmonic)
            return renyi_log_delta(lambda a: self._divergence(np.asarray(a, dtype=float), total), x, conversion, top).value

        value = np.array([converted(float(x), float(h)) for x, h in zip(e.ravel(), sums.ravel(), strict=True)]).reshape(shape)
        return Curve(value, 4e-15 * (1.0 + np.where(np.isfinite(value), np.abs(value), 0.0)) * (1.0 + e))

    def _mean(self, method: str, epsilon: Array, index: Array, conversion: str) -> Curve:
        """The mean of delta over the records from i on, by sums from the last record backwards."""
        shape = np.broadcast_shapes(epsilon.shape, index.shape)
        e, place = np.broadcast_to(epsilon, shape), np.broadcast_to(index, shape)
        value, error = np.empty(shape), np.empty(shape)
        n, first = self.records, float(index.min(initial=float(self.records)))
        backwards = np.arange(n, first - 1, -1.0)
        for x in np.unique(e):
            curve = self.run.curve(method, np.array(x), backwards, conversion)
            top = float(curve.value.max())
            here = e == x
            if top == -np.inf:
                value[here], error[here] = -np.inf, 0.0
                continue
            with np.errstate(under="ignore", divide="ignore"):
                total, most = (np.log(np.cumsum(np.exp(v - top))) for v in (curve.value, curve.value + curve.error))
            at = (n - place[here]).astype(int)
            value[here] = top + total[at] - math.log(n)
            error[here] = (most - total)[at] + ULP * (8.0 + abs(top) + at)
        return Curve(value, error)


@final
class RandomPermutation(Variant):
    """PNSGD over a uniformly random order of the records; the order may be published.

    Exchanging a record leaves the order alone, so the two outputs are mixtures with the same weights 1/n over the record's
    place, and by joint convexity every record has the mean over places: the bound of the first record under random stopping,
    ``(a/n) (1 - b^n)/(1 - b)`` by contraction.

    Examples
    --------
    >>> from dpaccount.iteration import PNSGD
    >>> p = PNSGD(num_records=40, lipschitz=1, smoothness=1, strong_convexity=0, step_size=0.5, diameter=1, noise_scale=2.0)
    >>> permuted, last = p.random_permutation(), p.delta(epsilon=0.5, index=40, method="contraction")
    >>> float(permuted.delta(epsilon=0.5, index=40, method="contraction")) < float(last)
    True
    """

    def __init__(self, run: OnePass) -> None:
        super().__init__(run)
        self._stopped = RandomStopping(run)

    def __repr__(self) -> str:
        return f"{self.run!r}.random_permutation()"

    @property
    def worst_index(self) -> int:
        return 1

    def limit(self, index: Array) -> Array:
        return self._stopped.limit(index)

    def theorems(self) -> tuple[Theorem, ...]:
        return tuple(Theorem(t.name, _PERMUTED[t.name]) for t in self.run.theorems() if t.name in _PERMUTED)

    def refusal(self, method: str) -> str:
        return _ALL_SEEN if method == "composition" else self.run.refusal(method)

    def curve(self, method: str, epsilon: Array, index: Array, conversion: str) -> Curve:
        found = self._stopped.curve(method, epsilon, np.ones(()), conversion)
        return Curve(*(np.broadcast_to(v, np.broadcast_shapes(epsilon.shape, index.shape)) for v in found))

    def lower(self, epsilon: Array, index: Array) -> Array:
        found = worst_log_delta(lambda i: random_permutation(self.run, i), epsilon, np.ones(()))  # every record's
        return np.broadcast_to(found, np.broadcast_shapes(epsilon.shape, index.shape))

    def max_order(self) -> float:
        """As in `RandomStopping`."""
        return self._stopped.max_order()

    def rdp(self, order: Any, index: Any = None) -> Any:
        """As in `RandomStopping`, at its first record, by the same lemma."""
        self._index("rdp", index)
        return self._stopped.rdp(order, 1)


def _harmonic(count: Array) -> Array:
    """1 + 1/2 + ... + 1/count."""
    return np.asarray(digamma(count + 1.0) + np.euler_gamma)


_ALL_SEEN = "With every iterate released the record's place is seen, and each has the bound of the run itself at that place."
_MIXED = {
    "contraction": "ADC20, Theorem 5: contraction of E_gamma and its joint convexity, for every noise scale",
    "rdp": "FMTT18, Lemma 25 and Theorem 26, at orders a with noise_scale >= L sqrt(2 a (a-1)) alone",
    "shifted": "the mean over the stopping time of BSA24's bounds, by joint convexity of E_gamma",
    "nonlinear": (
        "a nonlinear strong data-processing inequality: the mean over the stopping time of the nonlinear contraction bounds, "
        "by joint convexity of E_gamma"
    ),
}
_PERMUTED = {
    "contraction": "ADC20, Theorem 4 or 3, and the joint convexity of E_gamma over the record's place",
    "rdp": "FMTT18, Theorem 23 and Lemma 25 over the record's place, at orders a with noise_scale >= L sqrt(2 a (a-1)) alone",
    "shifted": "the mean over the record's place of BSA24's bounds, by joint convexity of E_gamma",
    "nonlinear": (
        "a nonlinear strong data-processing inequality: the mean over the record's place of the nonlinear contraction bounds, "
        "by joint convexity of E_gamma"
    ),
}
