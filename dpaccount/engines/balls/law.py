"""What a step says, in balls, from its parameters alone: atoms (p, q) and continuous pieces.

Sampling and swapping are linear in (P, Q), so they act on the masses; no loss is ever mapped. Every double is taken as the exact
number that it is; probabilities that should sum to 1 are divided by their sum.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from flint import arb

from dpaccount.engines.balls.numbers import NotHere, exact
from dpaccount.engines.balls.piece import Piece
from dpaccount.mechanisms.additive import AdditiveMixture, AdditiveStep
from dpaccount.mechanisms.curve import CurvePair
from dpaccount.mechanisms.discrete import DiscreteGaussian, DiscreteLaplace
from dpaccount.mechanisms.exponential import ExponentialMechanism
from dpaccount.mechanisms.finite import FinitePair
from dpaccount.mechanisms.gaussian import Gaussian
from dpaccount.mechanisms.gdp import GaussianDP
from dpaccount.mechanisms.laplace import Laplace
from dpaccount.mechanisms.pure import ApproximateDP, PureDP
from dpaccount.mechanisms.response import RandomizedResponse
from dpaccount.pair import Reversed, Step
from dpaccount.sampling.fixed_size import FixedSizeSampled
from dpaccount.sampling.poisson import PoissonSampled

Masses = list[tuple[arb, arb]]
Shares = Mapping[int, arb]


@dataclass(frozen=True, eq=False)
class Law:
    """Atoms as (P-mass, Q-mass), either of them 0 where the loss is infinite, and pieces."""

    atoms: Masses
    pieces: list[Piece]

    def mixed(self, a: arb, b: arb, c: arb, d: arb, keeps: bool) -> Law:
        """(a P + b Q, c P + d Q); `keeps` if larger losses stay larger."""
        atoms = [(a * p + b * q, c * p + d * q) for p, q in self.atoms]
        return Law(atoms, [x.mixed(a, b, c, d, x.rising if keeps else not x.rising) for x in self.pieces])

    @property
    def finite(self) -> Masses:
        """The atoms with a finite loss."""
        return [(p, q) for p, q in self.atoms if p != 0 and q != 0]

    @property
    def p_only(self) -> arb:
        """P{q = 0}."""
        return sum((p for p, q in self.atoms if q == 0), arb(0))

    @property
    def q_only(self) -> arb:
        """Q{p = 0}."""
        return sum((q for p, q in self.atoms if p == 0), arb(0))


def law(step: Step) -> Law:
    """The law of one step at the precision in force."""
    one, zero = arb(1), arb(0)
    if isinstance(step, Reversed):
        return law(step.step).mixed(zero, one, one, zero, keeps=False)
    if isinstance(step, PoissonSampled):
        share = exact(step.sampling_probability)
        if share == 0:
            return Law([(one, one)], [])
        return law(step.step).mixed(share, 1 - share, zero, one, keeps=True)
    if isinstance(step, GaussianDP):
        return law(step.attained)
    if isinstance(step, AdditiveMixture):
        p, q = _shares(step.p_weights), _shares(step.q_weights)
        same = {s: w for s, w in p.items() if w != 0} == {s: w for s, w in q.items() if w != 0}
        return Law([(one, one)], []) if same else _additive(step.base, p, q)
    if isinstance(step, AdditiveStep):
        return _additive(step, {1: one}, {0: one})
    if isinstance(step, ExponentialMechanism):
        half = exact(step.epsilon) / 2
        norm = 1 / (2 * half.sinh())
        return Law([], [Piece(None, one, {1: norm}, {-1: norm}, -half, half, rising=True)])
    if isinstance(step, FixedSizeSampled):
        return _fixed_size(step)
    if isinstance(step, CurvePair):
        return _curve(step)
    return Law(_finite(step), [])


def _finite(step: Step) -> Masses:
    """Mechanisms of finitely many outcomes."""
    zero = arb(0)
    if isinstance(step, FinitePair):
        p, q = ([exact(x) for x in side] for side in (step.p, step.q))
        p_sum, q_sum = sum(p, zero), sum(q, zero)
        return [(x / p_sum, y / q_sum) for x, y in zip(p, q, strict=True) if x != 0 or y != 0]
    if isinstance(step, RandomizedResponse):
        wave, others = exact(step.epsilon).exp(), step.num_categories - 2
        norm = 1 / (wave + others + 1)
        return [(norm, wave * norm), (wave * norm, norm), *([(others * norm, others * norm)] if others else [])]
    if isinstance(step, PureDP | ApproximateDP):
        beyond = exact(step.delta) if isinstance(step, ApproximateDP) else zero
        wave = exact(step.epsilon).exp()
        low, high = (1 - beyond) / (wave + 1), (1 - beyond) * wave / (wave + 1)
        return [x for x in ((low, high), (high, low), (beyond, zero), (zero, beyond)) if x[0] != 0 or x[1] != 0]
    raise NotHere(f"`{type(step).__name__}` has no form in ball arithmetic")


def _shares(weights: tuple[tuple[int, float], ...]) -> Shares:
    """Probabilities of shifts; that of no shift is what the others leave, if it is there."""
    found = {s: exact(w) for s, w in weights if w > 0}
    if 0 in found:
        rest = 1 - sum((w for s, w in found.items() if s), arb(0))
        return {**found, 0: rest}
    total = sum(found.values(), arb(0))
    return {s: w / total for s, w in found.items()}


def _additive(noise: AdditiveStep, p: Shares, q: Shares) -> Law:
    """Noise shifted by s with probability p_s against q_s."""
    if isinstance(noise, Gaussian):
        if not noise.noise_multiplier:
            return Law([(p.get(s, arb(0)), q.get(s, arb(0))) for s in sorted({*p, *q})], [])
        variance = exact(noise.noise_multiplier) ** 2
        return Law([], [_gaussian(variance, (2 * arb.pi() * variance).sqrt(), p, q, 1, lattice=False)])
    if isinstance(noise, DiscreteGaussian):
        variance = (exact(noise.noise_multiplier) * noise.sensitivity) ** 2
        return Law([], [_gaussian(variance, _theta(variance), p, q, noise.sensitivity, lattice=True)])
    if isinstance(noise, DiscreteLaplace):
        return Law(_discrete_laplace(noise, p, q), [])
    if isinstance(noise, Laplace):
        if not noise.noise_multiplier:
            return Law([(p.get(s, arb(0)), q.get(s, arb(0))) for s in sorted({*p, *q})], [])
        return _laplace(1 / exact(noise.noise_multiplier), p, q)
    raise NotHere(f"`{type(noise).__name__}` has no form in ball arithmetic")


def gaussian_law(variance: arb) -> Law:
    """N(1, variance) against N(0, variance)."""
    return Law([], [_gaussian(variance, (2 * arb.pi() * variance).sqrt(), {1: arb(1)}, {0: arb(1)}, 1, lattice=False)])


def _gaussian(variance: arb, norm: arb, p: Shares, q: Shares, unit: int, lattice: bool) -> Piece:
    a, b = ({s * unit: w * (-arb((s * unit) ** 2) / (2 * variance)).exp() / norm for s, w in side.items()} for side in (p, q))
    return Piece(variance, variance, a, b, None, None, rising=True, lattice=lattice)


def _theta(variance: arb) -> arb:
    """The sum of e^{-k^2/2v} over the integers; for wide noise by Poisson's formula. What is left out is below the integral of it."""
    if variance < 1:
        rate, front = 1 / (2 * variance), arb(1)
    else:
        rate, front = 2 * arb.pi() ** 2 * variance, (2 * arb.pi() * variance).sqrt()
    total, k = arb(1), 0
    while True:
        k += 1
        term = 2 * (-rate * k * k).exp()
        total += term
        left_out = term * (arb.pi() / rate).sqrt() / 2  # sum over j > k <= integral from k on <= e^{-rate k^2} sqrt(pi/rate)/2
        if left_out < total.rad() + arb(2) ** (-_bits() - 2):
            return front * total.union(total + left_out)


def _bits() -> int:
    from flint import ctx

    return int(ctx.prec)


def _laplace(r: arb, p: Shares, q: Shares) -> Law:
    """Noise of density r/2 e^{-r|x|}: beyond the outermost shifts the ratio is constant, between two of them exponentials are left."""
    shifts = sorted({*p, *q})
    low, high = shifts[0], shifts[-1]
    below = tuple(sum((w * (-r * (s - low)).exp() for s, w in side.items()), arb(0)) / 2 for side in (p, q))
    above = tuple(sum((w * (-r * (high - s)).exp() for s, w in side.items()), arb(0)) / 2 for side in (p, q))
    pieces, half = [], r / 2
    for left in range(low, high):
        sides = []
        for side in (p, q):
            falling = sum((w * (-r * (left + exact(0.5) - s)).exp() for s, w in side.items() if s <= left), arb(0)) / 2
            growing = sum((w * (-r * (s - left - exact(0.5))).exp() for s, w in side.items() if s > left), arb(0)) / 2
            sides.append({k: a for k, a in ((-1, falling), (1, growing)) if a != 0})
        pieces.append(Piece(None, arb(1), sides[0], sides[1], -half, half, rising=True))
    return Law([(below[0], below[1]), (above[0], above[1])], pieces)


def _discrete_laplace(noise: DiscreteLaplace, p: Shares, q: Shares) -> Masses:
    """Noise (1 - a)/(1 + a) a^|k|: likewise, one atom for all integers beyond the outermost shifts."""
    unit = noise.sensitivity
    a = (-1 / (exact(noise.noise_multiplier) * unit)).exp()
    shifts = sorted({*p, *q})
    low, high = shifts[0] * unit, shifts[-1] * unit
    if high - low > 50_000:
        raise NotHere("the integer noise has too many losses")
    powers = [arb(1)]
    for _ in range(high - low):
        powers.append(powers[-1] * a)
    point, end = (1 - a) / (1 + a), 1 / (1 + a)
    masses = []
    for k in range(low, high + 1):
        scale = end if k in (low, high) else point
        masses.append(tuple(sum((w * powers[abs(k - s * unit)] for s, w in side.items()), arb(0)) * scale for side in (p, q)))
    return [(x, y) for x, y in masses]


def _fixed_size(step: FixedSizeSampled) -> Law:
    """(mixture, base) where the mixture is the larger, its mirror image elsewhere, and what is left at loss 0."""
    variance = exact(step.step.noise_multiplier) ** 2 / 4  # shift 2
    q = exact(Fraction(step.sample_size, step.dataset_size))
    base = gaussian_law(variance)
    if q == 1:
        return base
    (whole,) = base.mixed(q, 1 - q, arb(0), arb(1), keeps=True).pieces
    side = Piece(variance, variance, whole.p, whole.q, exact(0.5), None, rising=True)
    mirror = side.mixed(arb(0), arb(1), arb(1), arb(0), rising=False)
    root = (2 * variance).sqrt()
    tail, shifted = (exact(0.5) / root).erfc() / 2, (-exact(0.5) / root).erfc() / 2
    rest = 1 - tail - ((1 - q) * tail + q * shifted)
    return Law([(rest, rest)], [side, mirror])


def _curve(step: CurvePair) -> Law:
    """The lower convex hull, in e^eps, of (0, 1) and the table: a kink at gamma is an atom of loss log gamma."""
    points = {exact(e): exact(d) for e, d in zip(step.epsilon, step.delta, strict=True)}
    rows = [(e, d.max(1 - e.exp())) for e, d in points.items()]
    if step.symmetric:
        rows += [(-e, (1 - (-e).exp() + (-e).exp() * d).min(arb(1))) for e, d in rows]
    rows.sort(key=lambda row: float(row[0]))
    merged: list[tuple[arb, arb]] = []
    for e, d in rows:
        d = d.max(1 - e.exp()).max(arb(0))
        if merged and merged[-1][0] == e:
            d = d.min(merged.pop()[1])
        merged.append((e, d.min(merged[-1][1]) if merged else d))
    flat = [i for i, (e, d) in enumerate(merged) if not d > 1 - e.exp()]  # on 1 - gamma, below which no curve can lie
    hull = [(arb(0), arb(1))]
    for e, d in merged[flat[-1] if flat else 0 :]:
        gamma = e.exp()
        while len(hull) > 1 and not _below(hull[-2], hull[-1], (gamma, d)):
            hull.pop()
        hull.append((gamma, d))
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in itertools.pairwise(hull)] + [arb(0)]
    atoms = []
    for (gamma, _), (a, b) in zip(hull[1:], itertools.pairwise(slopes), strict=True):
        if b > a:
            atoms.append((gamma * (b - a), b - a))
        elif not b == a:  # noqa: SIM201, balls may be neither
            raise NotHere("a kink of the curve may be none")
    rest = arb(0) if flat else 1 + slopes[0]  # what only Q shows, where the curve starts flatter than 1 - gamma
    infinite = [(hull[-1][1], arb(0))] if hull[-1][1] != 0 else []
    return Law([*atoms, *infinite, *([(arb(0), rest)] if rest > 0 else [])], [])


def _below(a: tuple[arb, arb], b: tuple[arb, arb], c: tuple[arb, arb]) -> bool:
    """Whether b lies strictly below the chord from a to c."""
    gap = (b[1] - a[1]) * (c[0] - a[0]) - (c[1] - a[1]) * (b[0] - a[0])
    if not (gap < 0 or gap >= 0):
        raise NotHere("three points of the curve may lie on one chord")
    return bool(gap < 0)


def grid(step: Step) -> tuple[Fraction, Fraction] | None:
    """(offset, spacing) if all losses are known to lie on a lattice, exactly."""
    if isinstance(step, Reversed):
        inner = grid(step.step)
        return None if inner is None else (-inner[0], inner[1])
    if isinstance(step, PoissonSampled):
        if step.sampling_probability == 0.0:
            return Fraction(0), Fraction(0)
        return grid(step.step) if step.sampling_probability == 1.0 else None
    if isinstance(step, RandomizedResponse | PureDP | ApproximateDP):
        e = Fraction(step.epsilon)
        wide = not isinstance(step, RandomizedResponse) or step.num_categories == 2
        return -e, 2 * e if wide else e
    if isinstance(step, DiscreteGaussian):
        spread = Fraction(step.noise_multiplier) ** 2
        return 1 / (2 * spread), 1 / (spread * step.sensitivity)
    if isinstance(step, DiscreteLaplace):
        scale = Fraction(step.noise_multiplier)
        return -1 / scale, 2 / (scale * step.sensitivity)
    return None

