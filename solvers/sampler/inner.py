"""The inner steps: x from ``exp(-H(x) - m |x|^2/2 - |x - y|^2/(2 eta))`` on a set, for several chains at once."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpaccount import _check
from solvers.sampler.plan import Plan
from solvers.sampler.restricted import restricted
from solvers.sampler.stock import Stock
from solvers.sampler.target import Target

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
MOST_ROUNDS = 20_000  # of proposals, before a step gives up
WORTH = 400  # proposals at once that cost little more than one
SLACK = 0.05  # of the exponent, for difference quotients: one proposal in twenty
DUST = 1e-9
TERMS = 40  # of the series at most: one in 40! draws would have more


@dataclass
class Tally:
    """What was asked and what happened; it depends on the data."""

    queries: int = 0  # function values of one record for `series` and `poisson`, else of all records, with or without a gradient
    proposals: int = 0
    kept: int = 0
    outside_range: int = 0  # estimates not in [0, cap]; values below a tangent, which convex losses do not have


class Inner(ABC):
    """Proposals in parallel, the first that is kept in each chain, and more rounds for the chains that keep none."""

    parallel: int  # proposals at once of a chain alone
    least: int  # and of one among many

    def __init__(self, target: Target, plan: Plan, stock: Stock) -> None:
        self.target, self.plan, self.stock, self.tally = target, plan, stock, Tally()
        self.variance = 1.0 / (target.curvature + 1.0 / plan.step_size)
        self.shrink = self.variance / plan.step_size
        self.restricted = restricted(target.constraint, target.dimension, stock, "sample")

    @abstractmethod
    def proposed(self, centres: Array, many: int) -> tuple[Array, Mask]:
        """`many` points of the set for each centre, (chains, many, d), and which of them may be kept."""

    def begin(self, y: Array) -> Array:
        """The centres of the proposals."""
        return self.shrink * y

    def step(self, y: Array) -> Array:
        """One inner step of every chain, (chains, d)."""
        out, waiting = np.empty(y.shape), np.arange(len(y))
        centres = self.begin(y)
        for _ in range(MOST_ROUNDS):
            many = min(self.parallel, max(self.least, WORTH // len(waiting)))
            points, kept = self.proposed(centres[waiting], many)
            self.tally.proposals += kept.size
            self.tally.kept += int(kept.sum())
            first = kept.argmax(axis=1)
            done = kept[np.arange(len(waiting)), first]
            out[waiting[done]] = points[np.flatnonzero(done), first[done]]
            self._settle(done)
            waiting = waiting[~done]
            if not waiting.size:
                return out
        hint = "A smaller step keeps more of them."
        _check.refuse("sample", "plan", "one whose proposals are kept now and then", self.plan, hint, RuntimeError)

    @abstractmethod
    def _settle(self, done: Mask) -> None:
        """Forget what belongs to chains that are done."""

    def _around(self, centres: Array, many: int) -> Array:
        return self.restricted.draw(centres, math.sqrt(self.variance), many)


class ByTangent(Inner):
    """Exact: H is convex, so ``exp(-H)`` lies below its tangent at any point; a Gaussian moved by the slope is the envelope."""

    parallel, least = 4, 1
    slack = 0.0  # by which the envelope is raised

    def begin(self, y: Array) -> Array:
        centres = self.shrink * y
        base = centres
        if not math.isinf(self.target.smoothness):
            base = centres - self.variance * self._oracle(centres)[1]  # one step to the proximal point; any point would do
        value, slope = self._oracle(base)
        self._base, self._value, self._slope = base, value, slope
        return np.asarray(centres - self.variance * slope)

    def _oracle(self, points: Array) -> tuple[Array, Array]:
        """H and its slope."""
        self.tally.queries += len(points)
        return self.target.value_and_gradient(points)

    def proposed(self, centres: Array, many: int) -> tuple[Array, Mask]:
        points = self._around(centres, many)
        x = points.reshape(-1, points.shape[2])
        chain = np.repeat(np.arange(len(centres)), many)
        above = self.target.values(x) - self._value[chain] - np.einsum("ij,ij->i", self._slope[chain], x - self._base[chain]) + self.slack
        self.tally.queries += len(x)
        self.tally.outside_range += int((above < -DUST * (1.0 + np.abs(self._value[chain]))).sum())
        with np.errstate(under="ignore"):
            kept = self.stock.uniform(len(x)) < np.exp(-np.maximum(above, 0.0))
        return points, kept.reshape(points.shape[:2])

    def _settle(self, done: Mask) -> None:
        self._base, self._value, self._slope = self._base[~done], self._value[~done], self._slope[~done]


class ByDifferences(ByTangent):
    """The same with forward difference quotients of H over h, beta-smooth: off by at most ``beta h sqrt(d)/2`` in norm.

    At distances up to R, which bounds the set as seen from the point of tangency, h = 2 slack/(beta sqrt(d) R) makes that `slack` at
    most, and the raised envelope lies above: exact.
    """

    slack = SLACK

    def _oracle(self, points: Array) -> tuple[Array, Array]:
        chains, d = points.shape
        reach = self.target.constraint.radius(d) + np.linalg.norm(points, axis=1)
        h = 2.0 * self.slack / (max(self.target.smoothness, 1e-100) * math.sqrt(d) * reach)
        h = np.minimum(h, reach)
        beside = points[:, None, :] + h[:, None, None] * np.eye(d)
        asked = self.target.values(np.concatenate([points, beside.reshape(-1, d)]))
        self.tally.queries += len(asked)
        value = asked[:chains]
        return value, (asked[chains:].reshape(chains, d) - value[:, None]) / h[:, None]


class ByValues(Inner):
    """From values of F: x is kept with probability ``min(1, e^{R - H(x)}/cap)``, R the mean of H at other points of the proposal."""

    parallel, least = 56, 8

    def begin(self, y: Array) -> Array:
        centres = np.asarray(self.shrink * y)
        self._level = self._heights(self._around(centres, self.plan.references)).mean(axis=1)
        return centres

    def _heights(self, points: Array) -> Array:
        self.tally.queries += points.shape[0] * points.shape[1]
        return self.target.values(points.reshape(-1, points.shape[2])).reshape(points.shape[:2])

    def proposed(self, centres: Array, many: int) -> tuple[Array, Mask]:
        points = self._around(centres, many)
        above = self._heights(points) - self._level[:, None] + math.log(self.plan.cap)
        self.tally.outside_range += int((above < 0.0).sum())
        with np.errstate(under="ignore"):
            return points, self.stock.uniform(above.size).reshape(above.shape) < np.exp(-np.maximum(above, 0.0))

    def _settle(self, done: Mask) -> None:
        self._level = self._level[~done]


class ByEstimates(Inner):
    """From function values of single records: x is kept with probability ``clip(rho, 0, cap)/cap``."""

    def _settle(self, done: Mask) -> None:
        """Nothing is kept by chain."""

    @abstractmethod
    def estimates(self, x: Array, z: Array) -> Array:
        """rho of every pair of points, with mean ``e^{H(z) - H(x)}``."""

    def proposed(self, centres: Array, many: int) -> tuple[Array, Mask]:
        points = self._around(centres, 2 * many)
        x, z = (points[:, side :: 2].reshape(-1, points.shape[2]) for side in (0, 1))
        rho = self.estimates(x, z)
        self.tally.outside_range += int(((rho < 0.0) | (rho > self.plan.cap)).sum())
        kept = self.stock.uniform(len(rho)) * self.plan.cap < rho
        return points[:, ::2], kept.reshape(len(centres), many)

    def _differences(self, counts: npt.NDArray[np.int64], x: Array, z: Array) -> Array:
        """``counts`` differences h_j(z) - h_j(x) of each pair, j drawn anew for each, one after the other."""
        pair = np.repeat(np.arange(len(counts)), counts)
        self.tally.queries += 2 * len(pair)
        records = self.stock.below(self.target.problem.num_records, len(pair))
        return self.target.differences(records, z[pair], x[pair])


class BySeries(ByEstimates):
    """GLL22, Algorithm 2: ``rho = 1 + sum over a <= N of a product of a differences``, N >= a with probability 1/a!."""

    parallel, least = 6, 2

    def __init__(self, target: Target, plan: Plan, stock: Stock) -> None:
        super().__init__(target, plan, stock)
        self._reached = np.cumprod(1.0 / np.arange(1.0, TERMS + 1))[::-1]  # rising

    def estimates(self, x: Array, z: Array) -> Array:
        terms = TERMS - np.searchsorted(self._reached, self.stock.uniform(len(x)), side="left")
        terms = np.maximum(terms, 1)
        differences = self._differences(terms * (terms + 1) // 2, x, z)
        ends = np.cumsum(terms)
        lengths = np.arange(1, ends[-1] + 1) - np.repeat(ends - terms, terms)
        products = np.multiply.reduceat(differences, np.cumsum(lengths) - lengths)
        return np.asarray(1.0 + np.add.reduceat(products, ends - terms))


class ByPoisson(ByEstimates):
    """``rho = product of N factors 1 + difference/rate``, N Poisson with mean `rate`."""

    parallel, least = 40, 8

    def __init__(self, target: Target, plan: Plan, stock: Stock) -> None:
        super().__init__(target, plan, stock)
        terms = np.cumsum(np.log(np.arange(1.0, 200.0)))
        counts = np.arange(200)
        self._below = np.cumsum(np.exp(counts * math.log(plan.rate) - plan.rate - np.concatenate([[0.0], terms])))

    def estimates(self, x: Array, z: Array) -> Array:
        counts = np.searchsorted(self._below, self.stock.uniform(len(x)), side="left")
        rho = np.ones(len(x))
        some = np.flatnonzero(counts)
        if some.size:
            many = counts[some]
            factors = 1.0 + self._differences(many, x[some], z[some]) / self.plan.rate
            rho[some] = np.multiply.reduceat(factors, np.cumsum(many) - many)
        return rho


KINDS: dict[str, type[Inner]] = {
    "exact": ByTangent, "differences": ByDifferences, "values": ByValues, "series": BySeries, "poisson": ByPoisson,
}
