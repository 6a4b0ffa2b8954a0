"""Exact curves of one-dimensional chains Y_t = clip(c_t Y_{t-1} + s_t + W_t): how much of a bound is attained."""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, final

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from dpaccount import _check
from dpaccount._log import gaussian_log_delta
from dpaccount.iteration.kernels import NOISES, scalar

Array = npt.NDArray[np.float64]
LAPLACE_NODES = 240
WIDEST = 200.0  # scales of noise in an interval: then nodes are at most half a scale apart, and Gaussians lose 1e-25
FINE = 401  # points that look for the edges of the best test


Steps = tuple[tuple[float, float], ...]
Key = tuple[float, float, float, float]  # factors and shifts of two steps in a row


@final
@dataclass(frozen=True)
class Chain:
    """Affine steps on an interval (quadratic or linear losses): ``Y_t = clip(c_t Y_{t-1} + s_t + scale W_t, low, high)``.

    Parameters
    ----------
    steps, others : sequence of (c_t, s_t)
        Factor and shift of every step, for one data set and for its neighbour. A gradient step of size eta on the loss
        ``k (y - m)^2/2`` has c = 1 - eta k and s = eta k m; on ``g y`` it has c = 1 and s = -eta g.
    low, high : float
        The interval; infinite ends mean no projection, with Gaussian noise and common factors only.
    noise : {"gaussian", "laplace"}
    scale : float, > 0
        Of the noise in Y, step size times noise scale.
    start : float
        Y_0.

    Guarantee
    ---------
    Without a projection both laws are Gaussian, and the curve is a formula. With one, each law is an atom at either end and
    a density at Gauss-Legendre nodes between; the edges of the best test are refined by bisection, and the masses of its
    pieces come from tails of the last step's noise. The error is that of the quadrature, measured and not bounded: about 1e-13
    for Gaussian noise, and 1e-7 of the answer for Laplace noise, whose kinks the nodes do not see.

    Examples
    --------
    >>> from dpaccount.iteration import Chain
    >>> inf = float("inf")
    >>> chain = Chain(((1, 1), (1, 0)), ((1, -1), (1, 0)), low=-inf, high=inf, noise="gaussian", scale=2.0)
    >>> round(chain.delta(0.5), 12), round(chain.mu, 12)
    (0.123724879557, 0.707106781187)
    """

    steps: Steps
    others: Steps
    low: float
    high: float
    noise: str
    scale: float
    start: float = 0.0

    def __post_init__(self) -> None:
        owner = "Chain"
        for name in ("steps", "others"):
            values = _check.reals(owner, name, getattr(self, name))
            if values.ndim != 2 or values.shape[1] != 2 or len(values) != len(self.steps):
                _check.refuse(owner, name, f"{len(self.steps)} pairs of a factor and a shift, at least one", getattr(self, name))
            object.__setattr__(self, name, tuple((c, s) for c, s in values.tolist()))
        _check.choice(owner, "noise", self.noise, NOISES)
        _check.real(owner, "scale", self.scale, low=0.0, open_low=True)
        _check.real(owner, "start", self.start)
        free = self.low == -math.inf and self.high == math.inf
        if not free and not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            _check.refuse(owner, "high", "finite and above a finite low, or both infinite", (self.low, self.high))
        if not free and self.high - self.low > WIDEST * self.scale:
            _check.refuse(
                owner, "high", f"at most {WIDEST:g} scales above low", self.high,
                "The nodes would lie too far apart. Take an interval that holds all but the outermost tails.",
            )
        if free and (self.noise != "gaussian" or [c for c, _ in self.steps] != [c for c, _ in self.others]):
            _check.refuse(
                owner, "high", "finite unless noise is Gaussian and factors are common", self.high,
                "Take an interval that is wide against the noise.",
            )

    @property
    def mu(self) -> float:
        """Shift over standard deviation of the last iterate without a projection."""
        gap = variance = 0.0
        for (c, s), (_, t) in zip(self.steps, self.others, strict=True):
            gap, variance = c * gap + (s - t), c * c * variance + 1.0
        return abs(gap) / (self.scale * math.sqrt(variance))

    @property
    def projected(self) -> bool:
        """Whether the interval is finite."""
        return math.isfinite(self.high)

    def delta(self, epsilon: Any) -> Any:
        """E_gamma of the two last iterates, the larger of both orders, for any real eps (array)."""
        levels = _check.reals("Chain.delta", "epsilon", epsilon)
        if not self.projected:
            with np.errstate(under="ignore"):
                return scalar(np.exp(self.log_delta(levels)))
        first, second = self.laws()
        found = [excess(a, b, levels.ravel()) for a, b in ((first, second), (second, first))]
        return scalar(np.maximum(*found).reshape(levels.shape))

    def log_delta(self, epsilon: Any) -> Any:
        """log of `delta`."""
        levels = _check.reals("Chain.log_delta", "epsilon", epsilon)
        with np.errstate(divide="ignore"):
            if self.projected:
                return scalar(np.log(self.delta(levels)))
            return scalar(gaussian_log_delta(levels, self.mu) if self.mu else np.log(np.maximum(-np.expm1(levels), 0.0)))

    def laws(self) -> tuple[Law, Law]:
        """The two last iterates of a chain with a projection."""
        known: dict[Key, Array] = {}
        return last(self, self.steps, known), last(self, self.others, known)

    def simulate(self, count: int, rng: np.random.Generator, *, other: bool = False) -> Array:
        """`count` independent last iterates."""
        y = np.full(count, self.start)
        for c, s in self.others if other else self.steps:
            w = rng.standard_normal(count) if self.noise == "gaussian" else rng.laplace(size=count)
            y = np.clip(c * y + s + self.scale * w, self.low, self.high)
        return y


class Law(NamedTuple):
    """The law after a last step: `mass` at `points` (moved by the step), noise of `scale` added, clipped to [low, high]."""

    points: Array
    mass: Array
    low: float
    high: float
    noise: str
    scale: float

    def density(self, x: Array) -> Array:
        """Inside the interval."""
        z = (x[:, None] - self.points) / self.scale
        values = np.exp(-z * z / 2) / math.sqrt(2 * math.pi) if self.noise == "gaussian" else np.exp(-np.abs(z)) / 2
        return np.asarray(values @ self.mass / self.scale)

    def below(self, x: Any) -> Array:
        """P[X < x] before clipping."""
        z = (np.asarray(x, dtype=float)[..., None] - self.points) / self.scale
        return np.asarray(_below(self.noise, z) @ self.mass)

    def above(self, x: Any) -> Array:
        """P[X > x] before clipping."""
        z = (self.points - np.asarray(x, dtype=float)[..., None]) / self.scale
        return np.asarray(_below(self.noise, z) @ self.mass)


def _below(noise: str, z: Array) -> Array:
    if noise == "gaussian":
        return np.asarray(ndtr(z))
    return np.where(z < 0.0, np.exp(np.minimum(z, 0.0)) / 2, 1.0 - np.exp(-np.maximum(z, 0.0)) / 2)


@lru_cache(maxsize=64)
def _rule(count: int) -> tuple[Array, Array]:
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return nodes, weights


def _nodes(chain: Chain, kinks: Sequence[float]) -> tuple[Array, Array]:
    """Gauss-Legendre nodes and weights inside the interval, for Laplace noise in panels between the kinks of the density."""
    width = chain.high - chain.low
    if chain.noise == "gaussian":
        ends = [chain.low, chain.high]
        count = int(min(max(40.0, 12.0 * width / chain.scale), 600.0))
    else:
        ends = sorted({chain.low, chain.high, *(x for x in kinks if chain.low < x < chain.high)})
        count = LAPLACE_NODES
    rules = [(*_rule(int(8 + count * (b - a) / width)), a, b) for a, b in itertools.pairwise(ends)]
    return (
        np.concatenate([a + (b - a) * (nodes + 1) / 2 for nodes, _, a, b in rules]),
        np.concatenate([weights * (b - a) / 2 for _, weights, a, b in rules]),
    )


def mixture(laws: Sequence[Law]) -> Law:
    """The mixture of laws on one interval with equal weights, as random stopping makes it."""
    return laws[0]._replace(
        points=np.concatenate([law.points for law in laws]), mass=np.concatenate([law.mass for law in laws]) / len(laws)
    )


def path(chain: Chain, steps: Steps, known: dict[Key, Array] | None = None) -> Iterator[Law]:
    """The law after every step in turn; `known` keeps the matrices of steps that come again."""
    mass, at, key = np.ones(1), np.array([chain.start]), (math.nan, math.nan)
    matrices: dict[Key, Array] = {} if known is None else known
    for t, (c, s) in enumerate(steps):
        law = Law(c * at + s, mass, chain.low, chain.high, chain.noise, chain.scale)
        yield law
        if t == len(steps) - 1:
            return
        inside, weights = _nodes(chain, (c * at[0] + s, c * at[-1] + s))
        if t == 0:
            mass = np.concatenate([law.below([chain.low]), law.density(inside) * weights, law.above([chain.high])])
        else:
            if (*key, c, s) not in matrices:
                unit = law._replace(mass=np.eye(at.size))
                matrices[*key, c, s] = np.concatenate([
                    unit.below([chain.low]), unit.density(inside) * weights[:, None], unit.above([chain.high]),
                ])
            new = matrices[*key, c, s] @ mass
            mass = new / new.sum()
        key, at = (c, s) if t else (math.nan, c * chain.start + s), np.concatenate([[chain.low], inside, [chain.high]])


def last(chain: Chain, steps: Steps, known: dict[Key, Array] | None = None) -> Law:
    """The law of the last iterate."""
    return deque(path(chain, steps, known), maxlen=1).pop()


def excess(first: Law, second: Law, epsilon: Array) -> Array:
    """E_gamma of two clipped laws on one interval, at a one-dimensional array of eps."""
    gamma, low, high = np.exp(np.minimum(epsilon, 700.0)), first.low, first.high
    total = np.maximum(first.below(low) - gamma * second.below(low), 0.0)
    total += np.maximum(first.above(high) - gamma * second.above(high), 0.0)
    x = np.linspace(low, high, FINE)
    up = first.density(x) > gamma[:, None] * second.density(x)
    level, flips = np.nonzero(up[:, 1:] != up[:, :-1])
    left, right, rising = x[flips], x[flips + 1], up[level, flips + 1]
    for _ in range(24 if flips.size else 0):  # the gain is 0 at an edge, so its error counts squared
        middle = (left + right) / 2
        positive = first.density(middle) > gamma[level] * second.density(middle)
        left, right = np.where(positive == rising, left, middle), np.where(positive == rising, middle, right)
    edges = (left + right) / 2
    for k in range(epsilon.size):
        mine = np.concatenate([[low] if up[k, 0] else [], edges[level == k], [high] if up[k, -1] else []])
        if mine.size:
            a, b = (law.below(mine[1::2]) - law.below(mine[0::2]) for law in (first, second))
            total[k] += float(np.maximum(a - gamma[k] * b, 0.0).sum())
    return np.asarray(np.minimum(total, 1.0))
