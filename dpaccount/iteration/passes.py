"""The same order of records several times over: what is proved for the iterate after the last pass."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import final

import numpy as np
import numpy.typing as npt

from dpaccount import _check
from dpaccount._log import ULP, log1m_exp
from dpaccount.iteration.composed import ComposedCurve, composed_curve
from dpaccount.iteration.face import DERIVED, Curve, OnePass, Theorem, Variant
from dpaccount.iteration.instances import several_passes, worst_log_delta
from dpaccount.iteration.kernels import log_overlap, overlap_error
from dpaccount.iteration.rdp import zcdp_error, zcdp_log_delta
from dpaccount.mechanisms.curve import CurvePair

Array = npt.NDArray[np.float64]
GRID = 128  # splits of epsilon, up to the power of two above it
SMALLEST, ROWS = 2.0**-20, 1000  # the end of the finest grid, and how many epsilons are followed at once
POINTS, MAX_POINTS = 400, 2**20  # of a pass's own curve when passes are composed, and of all of them


@final
class SeveralPasses(Variant):
    """PNSGD over x_1..x_n, k times in the same order, only Y_{kn} released: record i is used at steps i, i + n, i + 2n...

    Write a and b for the factors of `PNSGD` at gamma. Between two uses of a record n - 1 common steps multiply E_gamma by
    ``b^{n-1}``; after the last one, ``b^{n-i}`` remains. At a use, with laws mu and nu before it and kernels K and K' of the two
    records, let ``gamma = gamma_1 gamma_2``, all >= 1, and ``d = E_{gamma_1}(mu||nu)``. Split mu into ``min(mu, gamma_1 nu)`` and a
    rest of mass d, and ``gamma_1 nu`` into the same part and a rest of mass ``gamma_1 - 1 + d``. The common part passes through K
    and K' from the same points, the rests from points that are at most ``spread + 2 eta L`` apart after their gradient steps:

        ``E_gamma(mu K||nu K') <= (1 - d) a(gamma_2) + d theta_{gamma'}((spread + 2 eta L)/(eta sigma))``,
        ``gamma' = gamma_2 (1 + (gamma_1 - 1)/d)``.

    It is convex in d, so with an upper bound on d the larger of its values there and at d = 0 holds. The bounds:

    - ``contraction``: the least over a grid of splits at every pass, times ``b^{n-i}``;
    - ``composed``: the iterate before every use is released too. Each pass is then a mechanism with the curve ``a b^{n-1}``
      (the last: ``a b^{n-i}``) whatever was released before, and dominating pairs compose adaptively (ZDW22, Theorem 10);
    - ``rdp``: the same with Renyi rates, which add;
    - ``shifted``: one interpolation over all uses, or, where gradient steps may expand, one for each pass, composed;
    - ``composition``: all iterates are released: k mechanisms with noise of scale sigma and sensitivity 2L.

    Nothing here has passes in another order, or an order drawn anew.

    Examples
    --------
    >>> from dpaccount.iteration import PNSGD
    >>> p = PNSGD(num_records=40, lipschitz=1, smoothness=1, strong_convexity=0, step_size=0.5, diameter=1, noise_scale=2.0)
    >>> three = p.several_passes(3)
    >>> answer = three.delta(epsilon=0.5, index=20, method="contraction")
    >>> float(answer) < 1e-12 < float(three.delta(epsilon=0.5, index=20, method="composition"))
    True
    """

    def __init__(self, run: OnePass, passes: int) -> None:
        super().__init__(run)
        self.passes = _check.count("PNSGD.several_passes", "passes", passes, maximum=10_000)

    def __repr__(self) -> str:
        return f"{self.run!r}.several_passes({self.passes})"

    @property
    def worst_index(self) -> int:
        return self.run.records

    def theorems(self) -> tuple[Theorem, ...]:
        names = [t.name for t in self.run.theorems() if t.name not in (*DERIVED, "composition")]
        return tuple(Theorem(n, _STATED[n]) for n in (names[0], "composed", *names[1:], "composition"))

    def curve(self, method: str, epsilon: Array, index: Array, conversion: str) -> Curve:
        if method == "contraction":
            return self._joint(epsilon, index)
        if method in ("composed", "composition"):
            return self._composed(method, epsilon, index)
        if method == "rdp":
            rate = self.run.rdp_rate(index) + (self.passes - 1) * self.run.rdp_rate(1)
            value = zcdp_log_delta(rate, epsilon, conversion)
            return Curve(value, zcdp_error(rate, epsilon, value))
        mu = self.run.cyclic_parameter(self.passes, index)
        value = log_overlap("gaussian", epsilon, mu)
        return Curve(value, overlap_error("gaussian", epsilon, mu, value, 64 * ULP))

    def lower(self, epsilon: Array, index: Array) -> Array:
        return worst_log_delta(lambda i: several_passes(self.run, self.passes, i), epsilon, index)

    # the curve followed from pass to pass

    def _joint(self, epsilon: Array, index: Array) -> Curve:
        level, place = np.unique(epsilon, return_inverse=True)
        _, later = self.run.log_factors(epsilon)
        after = self.records - index
        with np.errstate(invalid="ignore"):
            rest = np.where(after > 0.0, after * later.value, 0.0)
        return Curve(self._last_use(level)[place.reshape(epsilon.shape)] + rest, after * later.error)

    def _last_use(self, level: Array) -> Array:
        """log E_gamma right after the record's last use, from above: every epsilon for itself, over the grid of its power of two."""
        found, top = np.empty(level.size), np.exp2(np.clip(np.ceil(np.log2(np.maximum(level, SMALLEST))), -20.0, 1000.0))
        for end in np.unique(top):
            (here,) = np.nonzero(top == end)
            for some in np.split(here, range(ROWS, here.size, ROWS)):
                found[some] = self._split(level[some], float(end))
        return found

    def _split(self, level: Array, end: float) -> Array:
        """The same for epsilons up to the end of one grid; eps_1 is a point of the grid, or the epsilon itself."""
        upper = self._own(level)
        if self.passes == 1:
            return upper
        grid = np.linspace(0.0, end, GRID)
        use = self._use(level, np.hstack([np.broadcast_to(grid, (level.size, GRID)), level[:, None]]))
        before: Array | None = None
        for known in self._on_grid(end):
            new = use(np.hstack([np.broadcast_to(known, (level.size, GRID)), upper[:, None]]))
            if known is before and np.array_equal(new, upper):
                break  # and so it stays
            upper, before = new, known
        return upper

    @cached_property
    def _on_grid(self) -> Callable[[float], list[Array]]:
        """log E_gamma after each use but the last, on the grid that ends there; the latest are kept."""

        @lru_cache(maxsize=16)
        def made(end: float) -> list[Array]:
            grid = np.linspace(0.0, end, GRID)
            use, found = self._use(grid, np.broadcast_to(grid, (GRID, GRID))), [self._own(grid)]
            for _ in range(self.passes - 2):
                new = use(np.broadcast_to(found[-1], (GRID, GRID)))
                found.append(found[-1] if np.array_equal(new, found[-1]) else new)
                if found[-1] is found[-2]:
                    return found + found[-1:] * (self.passes - 1 - len(found))
            return found

        return made

    def _own(self, level: Array) -> Array:
        own, _ = self.run.log_factors(level)
        return np.asarray(own.value + own.error)

    def _use(self, level: Array, first: Array) -> Callable[[Array], Array]:
        """From log E_{gamma_1} after a use, by (row of gamma, split), to log E_gamma after the next one."""
        possible = first <= level[:, None]
        first = np.where(possible, first, 0.0)
        rest = (level[:, None] - first) * (1.0 - 2 * ULP)
        _, later = self.run.log_factors(first)
        n = self.records
        with np.errstate(invalid="ignore"):
            between = (n - 1) * (later.value + later.error) if n > 1 else np.zeros(first.shape)
        value = log_overlap(self.run.noise, rest, self.run.sensitivity)
        alone = value + overlap_error(self.run.noise, rest, self.run.sensitivity, value)
        far = self.run.reach + self.run.sensitivity
        with np.errstate(divide="ignore"):
            more = first + log1m_exp(-first)  # log(gamma_1 - 1)

        def use(upper: Array) -> Array:
            before = np.minimum(upper + between, 0.0)  # log d
            with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
                raised = rest + np.logaddexp(0.0, more - before) * (1.0 - 8 * ULP)
                raised = np.where(before == -np.inf, np.where(first > 0.0, np.inf, rest), raised)
            apart = self._apart(raised, far)
            with np.errstate(divide="ignore"):
                both = np.logaddexp(alone + log1m_exp(before), before + apart)
            split = np.where(possible, np.maximum(alone, both), np.inf).min(axis=1)
            return np.asarray(split + 32 * ULP * np.where(np.isfinite(split), 1.0 + np.abs(split), 0.0))

        return use

    def _apart(self, epsilon: Array, far: float) -> Array:
        finite = epsilon < np.inf
        level = np.where(finite, epsilon, 0.0)
        value = log_overlap(self.run.noise, level, far)
        return np.where(finite, value + overlap_error(self.run.noise, level, far, value), -np.inf)

    # every pass released

    def _composed(self, method: str, epsilon: Array, index: Array) -> Curve:
        shape = np.broadcast_shapes(epsilon.shape, index.shape)
        if method == "composition" and self.run.noise == "gaussian":
            mu = self.run.sensitivity * math.sqrt(self.passes)
            value = np.broadcast_to(log_overlap("gaussian", epsilon, mu), shape)
            return Curve(value, overlap_error("gaussian", epsilon, mu, value))
        e, place = np.broadcast_to(epsilon, shape), np.broadcast_to(index, shape)
        value = np.empty(shape)
        for after in np.unique(self.records - place):
            here = place == self.records - after
            ends = (0.0, 0.0) if method == "composition" else (self.records - 1.0, float(after))
            with np.errstate(divide="ignore"):
                value[here] = np.log(self._released(*ends)(e[here]))
        return Curve(value, np.zeros(shape))

    @cached_property
    def _released(self) -> Callable[[float, float], ComposedCurve]:
        """The composed curve by the steps after all uses but the last, and after the last; the latest are kept."""

        top = float(np.max(self.run.limit(np.array([1.0, self.records]))))
        if top == math.inf:
            s = self.run.sensitivity
            top = s * s / 2 + 9.0 * s  # delta is below 1e-18 there
        step = max(top, 1e-12) / max(min(POINTS, MAX_POINTS // self.passes), 8)

        @lru_cache(maxsize=64)
        def pair(after: float) -> CurvePair:
            return self._pair(after, step, top)

        @lru_cache(maxsize=64)
        def made(between: float, after: float) -> ComposedCurve:
            parts = [(pair(after), 1), (pair(between), self.passes - 1)]
            return composed_curve(parts[: min(self.passes, 2)], step)

        return made

    def _pair(self, after: float, step: float, top: float) -> CurvePair:
        """A pair above the curve a b^after, with losses on the lattice of a step."""
        grid = np.asarray(step * np.arange(math.ceil(top / step) + 1), dtype=np.float64)
        own, later = self.run.log_factors(grid)
        with np.errstate(invalid="ignore", under="ignore"):
            rest = after * (later.value + later.error) if after else 0.0
            delta = np.exp(np.minimum(own.value + own.error + rest + 1e-14, 0.0))
        return CurvePair(tuple(grid), tuple(np.where(own.value + rest > -np.inf, np.maximum(delta, 1e-300), 0.0)))


_STATED = {
    "contraction": "ADC20, Lemma 3 between uses, and the split of both laws at every use (see SeveralPasses)",
    "composed": "ADC20, Theorem 4 or 3 for each pass, composed as if the iterate before every use were released (ZDW22, Theorem 10)",
    "rdp": "FMTT18, Theorem 23 or BBGG19, Theorem 5 for each pass, composed as if the iterate before every use were released",
    "shifted": "BSA24: shifted interpolation over all uses of the record; composed by pass where gradient steps may expand",
    "composition": "every iterate released: the record's steps compose",
}
