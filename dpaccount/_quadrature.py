"""Nodes for sums of P-mass over a step's outcomes that follow the tilt e^{zL}.

A step with a density gives an integrand analytic in its outcome x, so the trapezoid rule
converges geometrically; with a hard cut inside the bulk, Gauss-Legendre panels do. Where the step states its strip
(`_strip`) the rule's error is bounded beforehand; elsewhere both are refined until two node sets agree, and the finer
one is returned with the square of the disagreement.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dpaccount._log import log_total, polar_log1p
from dpaccount._panels import graded
from dpaccount._strip import GOAL, FlippedStrip, Rounding, Strip, trapezoid

Array = npt.NDArray[np.float64]
BULK = 52.0  # weights below e^-BULK of the largest are dropped: 3e-23, so that 10^9 steps lose nothing
AGREE = 2e-9  # two interleaved rules agree to this; their union is then accurate to about its square
ROUGH = 2e-5  # rules of twice that spacing agree to this on the real axis
MAX_NODES = 40_000
PHASE = 2.8  # radians between neighbouring nodes of one rule
MATTERS = 44.0  # nodes below e^-MATTERS of the largest weight may alias: 8e-20 of the sum, which counts may multiply


class Density(NamedTuple):
    """The continuous part of a step: outcome x on (low, high), analytic between `breaks`.

    evaluate(x) is the privacy loss (increasing in x) and the log density of P, inverse(loss) the
    outcome of a loss, `window(low_tilt, high_tilt)` an interval outside which every tilted weight
    p(x) e^{zL(x)} with z between the tilts is negligible, `scale` the noise's own width, `strip` the facts
    that make sums provable, if they are known, on outcomes within `support` (without breaks inside). A density whose facts
    change at its breaks lists `pieces` instead: densities in outcomes of their own, side by side. `under_q` is
    `evaluate` with the log density of Q, where it has digits that log p - L loses; the strip's `q_rounding` is then about it.
    """

    evaluate: Callable[[Array], tuple[Array, Array]]
    inverse: Callable[[float], float]
    window: Callable[[float, float], tuple[float, float]]
    scale: float
    breaks: tuple[float, ...] = ()
    strip: Strip | None = None
    support: tuple[float, float] = (-np.inf, np.inf)
    pieces: tuple[Density, ...] = ()
    under_q: Callable[[Array], tuple[Array, Array]] | None = None

    def evaluate_q(self, x: Array) -> tuple[Array, Array]:
        """The privacy loss and the log density of Q."""
        if self.under_q is not None:
            return self.under_q(x)
        loss, log_p = self.evaluate(x)
        return loss, log_p - loss

    @property
    def provable(self) -> bool:
        """Whether every piece states its facts."""
        return all(piece.strip is not None for piece in self.pieces or (self,))


def swapped(inner: Density) -> Density:
    """The density of the swapped pair, in the outcome -x."""

    def evaluate(y: Array) -> tuple[Array, Array]:
        loss, log_q = inner.evaluate_q(-y)
        return -loss, log_q

    def under_q(y: Array) -> tuple[Array, Array]:
        loss, log_p = inner.evaluate(-y)
        return -loss, log_p

    return Density(
        evaluate=evaluate,
        inverse=lambda loss: -inner.inverse(-loss),
        window=lambda low, high: _flip(inner.window(-1.0 - high, -1.0 - low)),
        scale=inner.scale,
        breaks=tuple(-b for b in reversed(inner.breaks)),
        strip=None if inner.strip is None else FlippedStrip(inner.strip),
        support=_flip(inner.support),
        pieces=tuple(swapped(piece) for piece in inner.pieces),
        under_q=under_q,
    )


def _flip(window: tuple[float, float]) -> tuple[float, float]:
    return -window[1], -window[0]


class Nodes(NamedTuple):
    """Sum of weight e^{zL} over nodes: `log_p` are log P-masses; `error` is relative to E[e^{Re z L}].

    The first `atoms` of them are atoms of the loss, the rest stand for its density. With `rounding` the error is a
    bound, and rounding comes on top; without it, it is an estimate. With `ends_only` it is stated at the two ends of the tilts.
    """

    loss: Array
    log_p: Array
    error: float
    atoms: int = 0
    rounding: Rounding | None = None
    ends_only: bool = False


class TooManyNodes(ArithmeticError):
    """The tilted integrand needs more nodes than the engine is willing to spend."""


def density_nodes(
    density: Density, low_tilt: float, high_tilt: float, rate: float, lower: float, upper: float
) -> Nodes:
    """Nodes of the continuous part on {lower < L <= upper}, valid for low_tilt <= Re z <= high_tilt, |Im z| <= rate."""
    if density.pieces:
        inside = [piece for piece in density.pieces if _meets(piece, lower, upper)]
        parts = [density_nodes(piece, low_tilt, high_tilt, rate, lower, upper) for piece in inside]
        if parts and all(part.loss.size and part.rounding is not None for part in parts):
            return side_by_side(parts)
    low, high = density.window(low_tilt, high_tilt)
    left = -np.inf if lower == -np.inf else density.inverse(lower)
    right = np.inf if upper == np.inf else density.inverse(upper)
    left, right = max(left, density.support[0]), min(right, density.support[1])
    if not max(low, left) < min(high, right):
        return Nodes(np.empty(0), np.empty(0), 0.0)
    tilts = (low_tilt, high_tilt)
    if density.strip is not None:
        facts = density.evaluate, density.strip, density.scale, (low, high)
        whole = left < low and high < right
        found = trapezoid(*facts, tilts, rate, MAX_NODES) if whole else None
        if found is None or not lower < found[0][0] <= found[0][-1] <= upper:  # no rule may reach beyond a cut
            whole, found = False, graded(*facts, (left, right), tilts, rate, MAX_NODES, GOAL)
        if found is not None:
            return Nodes(*found[:3], rounding=found[3], ends_only=not whole)
    low, high, hard, slope = _bulk(density, max(low, left), min(high, right), tilts, (left, right))
    inner = tuple(b for b in density.breaks if low < b < high)
    if hard or inner or density.breaks:
        return _panels(density, (low, *inner, high), tilts, rate)
    step = min(0.8 * density.scale, PHASE / (1.05 * rate * slope + 1e-300))
    return _trapezoid(density, low, high, step, tilts, rate)


def _meets(piece: Density, lower: float, upper: float) -> bool:
    """Whether any loss of a piece lies between the cuts."""
    left = -np.inf if lower == -np.inf else piece.inverse(lower)
    right = np.inf if upper == np.inf else piece.inverse(upper)
    return max(left, piece.support[0]) < min(right, piece.support[1])


def side_by_side(parts: list[Nodes]) -> Nodes:
    """Proved nodes of several pieces as one: each error is relative to its own piece, and so to the whole."""

    def rounding() -> tuple[Array, Array]:
        off, part = zip(*(part.rounding() for part in parts if part.rounding is not None), strict=True)
        return np.concatenate(off), np.concatenate(part)

    loss, log_p = np.concatenate([part.loss for part in parts]), np.concatenate([part.log_p for part in parts])
    error = max(part.error for part in parts)
    return Nodes(loss, log_p, error, rounding=rounding, ends_only=any(part.ends_only for part in parts))


def both_roundings(first: Rounding, second: Rounding | None) -> Rounding | None:
    """The roundings of two node sets, one after the other; None if those of the second are not known."""
    if second is None:
        return None

    def both() -> tuple[Array, Array]:
        (a, b), (c, d) = first(), second()
        return np.concatenate([a, c]), np.concatenate([b, d])

    return both


def nodes_log_mgf(nodes: Nodes, log_mass: float, z: Any) -> Any:
    """log_mass + log E[e^{zL}] under the normalised nodes; log1p(sum p expm1) near z = 0, scaled sums elsewhere."""
    z = np.asarray(z)
    weight = nodes.log_p - log_total(nodes.log_p)
    turn = np.multiply.outer(z, nodes.loss)
    near = np.abs(turn).max(axis=-1, initial=0.0) < 30.0
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        moved = np.expm1(turn) @ np.exp(weight)
        if np.iscomplexobj(moved):
            log_size, angle = polar_log1p(np.real(moved), np.imag(moved))
            small = log_size + 1j * angle
        else:
            small = np.log1p(moved)
        shifted = turn + weight
        peak = np.max(np.real(shifted), axis=-1, initial=-np.inf)
        large = peak + np.log(np.exp(shifted - peak[..., None]).sum(axis=-1))
    return (log_mass + np.where(near, small, large))[()]


def _bulk(
    density: Density, low: float, high: float, tilts: tuple[float, float], cuts: tuple[float, float]
) -> tuple[float, float, bool, float]:
    """Shrink (low, high) to where a tilted weight matters; say whether a hard cut lies inside, and how steep L gets."""
    count = int(min(max(64, 2 * (high - low) / density.scale), MAX_NODES))
    if 2 * (high - low) / density.scale > MAX_NODES:
        raise TooManyNodes(f"the tilted mass spreads over {(high - low) / density.scale:.3g} noise widths")
    x = np.linspace(low, high, count)
    loss, log_p = density.evaluate(x)
    depth = np.full(count, np.inf)
    for tilt in set(tilts):
        weight = log_p + tilt * loss
        depth = np.minimum(depth, weight.max() - weight)
    where = np.flatnonzero(depth < BULK)
    first, last = max(int(where[0]) - 1, 0), min(int(where[-1]) + 1, count - 1)
    hard = (first == 0 and low == cuts[0]) or (last == count - 1 and high == cuts[1])
    steep = float(np.max(np.diff(loss)[depth[1:] < MATTERS], initial=0.0)) / (float(x[1] - x[0]) + 1e-300)
    return float(x[first]), float(x[last]), hard, steep


def _sums(loss: Array, log_w: Array, tilts: tuple[float, float], rate: float) -> Array:
    """Test sums at the two tilts and, normalised, at the far corner of the strip."""
    first = log_w + tilts[0] * loss
    second = log_w + tilts[1] * loss
    top0, top1 = first.max(initial=-np.inf), second.max(initial=-np.inf)
    w0, w1 = np.exp(first - top0), np.exp(second - top1)
    turn = np.exp(1j * rate * loss)
    half = np.exp(0.37j * rate * loss)
    s0, s1 = w0.sum(), w1.sum()
    return np.array(
        [top0 + np.log(s0), top1 + np.log(s1), (w0 @ turn) / s0, (w1 @ turn) / s1, (w1 @ half) / s1],
        dtype=complex,
    )


def _agreement(a: Array, b: Array) -> float:
    return float(np.abs(a - b).max())


def _too_coarse(loss: Array, log_w: Array, tilts: tuple[float, float], rate: float) -> bool:
    """Whether e^{i rate L} turns by more than PHASE between neighbours that matter: sums would alias, unseen by a test."""
    fast = np.diff(loss) * rate > PHASE
    if not fast.any():
        return False
    for tilt in set(tilts):
        weight = (log_w + tilt * loss)[1:]
        if np.any(weight[fast] > weight.max() - MATTERS):
            return True
    return False


def _real_gap(loss: Array, log_w: Array, tilts: tuple[float, float]) -> float:
    """Largest disagreement of the four interleaved rules, two by two: both cannot vanish by an accident of phase."""
    gap = 0.0
    for tilt in set(tilts):
        weight = log_w + tilt * loss
        quarter = np.exp(weight - weight.max()).reshape(-1, 4).sum(axis=0)
        gap = max(gap, float(np.abs(quarter[:2] - quarter[2:]).max() / quarter.mean()))
    return gap


def _trapezoid(
    density: Density, low: float, high: float, step: float, tilts: tuple[float, float], rate: float
) -> Nodes:
    """Four interleaved rules of spacing 2 step; two halves of spacing step are compared, and all four returned."""
    while True:
        count = int((high - low) / (2 * step)) + 2
        if 4 * count > MAX_NODES:
            raise TooManyNodes("the integrand oscillates too fast for the trapezoid rule")
        x = low + step * (np.arange(4 * count) / 2 - 0.75)
        loss, log_w = density.evaluate(x)
        log_w = log_w + np.log(step)
        if _too_coarse(loss[::2], log_w[::2], tilts, rate):
            step *= 0.6
            continue
        rough = _real_gap(loss, log_w, tilts)
        gap = _agreement(_sums(loss[::2], log_w[::2], tilts, rate), _sums(loss[1::2], log_w[1::2], tilts, rate))
        if gap <= AGREE and rough <= ROUGH:
            return Nodes(loss, log_w - np.log(2.0), 2e-16 + gap * gap + rough**4)
        step *= 0.5 if gap > 1e-3 else 0.75


_RULES = tuple(np.polynomial.legendre.leggauss(order) for order in (12, 20))


def _panels(density: Density, ends: tuple[float, ...], tilts: tuple[float, float], rate: float) -> Nodes:
    width = 3.0 * density.scale
    while True:
        pieces = [np.linspace(a, b, int((b - a) / width) + 2)[:-1] for a, b in itertools.pairwise(ends)]
        edges = np.concatenate([*pieces, [ends[-1]]])
        if edges.size * 20 > MAX_NODES:
            raise TooManyNodes("the integrand oscillates too fast for Gauss-Legendre panels")
        half = np.diff(edges)[:, None] / 2
        found = []
        for nodes, weights in _RULES:
            x = (edges[:-1, None] + half + half * nodes).ravel()
            loss, log_density = density.evaluate(x)
            found.append((loss, log_density + np.log((half * weights).ravel())))
        gap = _agreement(_sums(*found[0], tilts, rate), _sums(*found[1], tilts, rate))
        if gap <= AGREE:
            return Nodes(*found[1], 2e-16 + gap * gap)
        width *= 0.5 if gap > 1e-3 else 0.7
