"""Atoms and exponential densities composed exactly: finite sums, no integral.

With v = z + 1/2 one step of atoms (p, q) and of pieces P = a e^t, Q = b e^{-t} has

    M(z) = sum over f of e^{vf} (a_f + b_f/v):   sqrt(pq) at f = log(p/q); +-sqrt(ab)/2 at f = log(a/b) + 2t at a piece's ends.

Products stay of this form with polynomials in 1/v, and by residues

    (1/2 pi i) integral of e^{v tau} v^{-k}/((v - 1/2)(v + 1/2)) dv = R_k(tau) = 2^{k+1} sum over i = k+1, k+3, ... of (tau/2)^i/i!

for tau > 0, and 0 otherwise. So delta(eps) = e^{eps/2} sum over f, k of c_{f,k} R_k(f - eps), plus the mass at infinity.
"""

from __future__ import annotations

from functools import reduce
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from flint import arb, arb_poly

from dpaccount.engines.balls.law import Law
from dpaccount.engines.balls.numbers import rough
from dpaccount.engines.balls.plan import Term

Array = npt.NDArray[np.float64]
MOST = 60_000  # products of two terms, weighted by their degrees


class Wave(NamedTuple):
    """e^{v place} times a polynomial in 1/v."""

    place: arb
    factor: arb_poly


Waves = list[Wave]


def waves(law: Law) -> Waves | None:
    """One step in this form, or None if it has another density."""
    found = [Wave(p.log() - q.log(), arb_poly([(p * q).sqrt()])) for p, q in law.finite]
    for piece in law.pieces:
        if piece.variance is not None or len(piece.p) != 1 or len(piece.q) != 1:
            return None
        ((s, a),), ((r, b),) = piece.p.items(), piece.q.items()
        if s != -r or piece.low is None or piece.high is None:
            return None
        root, ratio = (a * b).sqrt() / 2, (a / b).log()
        for end, sign in ((piece.high, 1), (piece.low, -1)):
            found.append(Wave(ratio + 2 * s * end, arb_poly([0, sign * s * root])))
    return _merged(found)


def composed(terms: list[Term]) -> Waves | None:
    """The whole composition, or None if that takes too many terms."""
    single = [(waves(term.law), term.count) for term in terms]
    if any(one is None for one, _ in single) or not _affordable([(one, n) for one, n in single if one is not None]):
        return None
    return reduce(_product, [_power(one, n) for one, n in single if one is not None])


def _affordable(single: list[tuple[Waves, int]]) -> bool:
    """The same products on places in doubles, to count how many terms they take."""
    total, degree = np.zeros(1), 0
    for one, count in single:
        base, own = np.array([rough(w.place) for w in one]), max(w.factor.length() - 1 for w in one)
        power, square, size = np.zeros(1), base, 1
        while True:
            if count & 1:
                if power.size * square.size * (1 + own * size // 8) > MOST:
                    return False
                power = _different(power, square)
            count >>= 1
            if not count:
                break
            if square.size**2 * (1 + own * size // 8) > MOST:
                return False
            square, size = _different(square, square), 2 * size
        if total.size * power.size * (1 + degree // 8) > MOST:
            return False
        total, degree = _different(total, power), degree + own * size
    return True


def _different(a: Array, b: Array) -> Array:
    sums = np.sort(np.add.outer(a, b).ravel())
    return np.asarray(sums[np.append(True, np.diff(sums) > 1e-10 * (1.0 + np.abs(sums[1:])))])


def _power(base: Waves, count: int) -> Waves:
    result: Waves | None = None
    while True:
        if count & 1:
            result = base if result is None else _product(result, base)
        count >>= 1
        if not count:
            assert result is not None
            return result
        base = _product(base, base)


def _product(a: Waves, b: Waves) -> Waves:
    return _merged([Wave(x.place + y.place, x.factor * y.factor) for x in a for y in b])


def _merged(found: Waves) -> Waves:
    """Places whose balls overlap become one place, in a ball that holds them all."""
    rows = sorted(found, key=lambda w: w.place.lower())
    merged = rows[:1]
    for wave in rows[1:]:
        last = merged[-1]
        if wave.place.overlaps(last.place):
            merged[-1] = Wave(last.place.union(wave.place), last.factor + wave.factor)
        else:
            merged.append(wave)
    return merged


def delta(composition: Waves, epsilon: arb) -> arb:
    """delta less the mass at infinity."""
    total = arb(0)
    for place, factor in composition:
        tau = place - epsilon
        if tau <= 0:
            continue
        if not tau > 0:
            tau = tau.union(arb(0))  # R_k vanishes at 0, so the ball of its values there and above holds it
            tau = tau.max(arb(0))
        coefficients = factor.coeffs()
        total += sum((a * r for a, r in zip(coefficients, _residues(tau, len(coefficients)), strict=True)), arb(0))
    return total * (epsilon / 2).exp()


def _residues(tau: arb, count: int) -> list[arb]:
    """R_0..R_{count-1}, from the far end of the series."""
    half = tau / 2
    size = half.abs_upper()
    last = count + 2
    terms = [arb(1)]
    for i in range(1, last + 1):
        terms.append(terms[-1] * half / i)
    scale = terms[-1].abs_upper()
    goal = arb(2) ** (-_bits() - 8) * (terms[count + 1].abs_upper() + arb(2) ** (-20 * _bits()))
    while not (2 * size < last and scale < goal):
        last += 1
        terms.append(terms[-1] * half / last)
        scale = terms[-1].abs_upper()
    sums = [arb(0)] * (last + 2)
    tail = scale.union(arb(0))  # terms at least halve from here on
    for i in range(last, 0, -1):
        sums[i - 1] = terms[i] + (sums[i + 1] if i + 1 <= last else tail)
    return [arb(2) ** (k + 1) * sums[k] for k in range(count)]


def _bits() -> int:
    from flint import ctx

    return int(ctx.prec)
