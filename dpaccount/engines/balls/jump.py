"""One big jump split off, in balls: where the tilt would build a far cluster of single jumps, the plain contour pays for it.

Every step's outcomes are cut where the loss reaches eps + d; E: some step lies beyond its cut, and none has an infinite loss. Then

    delta = P(E) - e^eps Q(E) + delta_B + r,   0 <= r <= e^eps (sum over steps of Q{beyond}) Q{the others' losses sum to <= -d},

delta_B the divergence of the laws cut off, and the last probability at most e^{-td} E_Q e^{-t sum L} for every t > 0, since the step
left out has E_Q e^{-tL} >= 1.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from flint import arb

from dpaccount.engines.balls.contour import upper_mgf
from dpaccount.engines.balls.law import Law
from dpaccount.engines.balls.numbers import NotHere, exact
from dpaccount.engines.balls.piece import Piece
from dpaccount.engines.balls.plan import Sketch, Term
from dpaccount.engines.balls.single import moment


class Split(NamedTuple):
    """P(E) - e^eps Q(E) + r, the laws cut off, and what they miss of the mass 1 together."""

    jump: arb
    terms: list[Term]
    missing: arb


def split(terms: list[Term], gaussian: arb, epsilon: arb, goal: float) -> Split:
    """The split with r below e^-goal of delta."""
    if any(term.law.q_only != 0 for term in terms):
        raise NotHere("some outcomes have no loss, so no jump can be split off")
    tilt, distance = _margin(Sketch(terms, float(gaussian)), goal)
    t, cut = exact(tilt), float(epsilon) + distance
    fail = (gaussian * t * (t + 1) / 2 - t * exact(distance)).exp()
    seen_p, seen_q, finite, beyond, kept = arb(1), arb(1), arb(1), arb(0), []
    for term in terms:
        law, count = term.law, term.count
        fail *= upper_mgf(term, -1.0 - tilt) ** count
        pieces, p, q = [], arb(0), arb(0)
        for piece in law.pieces:
            body, p_mass, q_mass = _cut(piece, cut, epsilon + exact(distance))
            pieces.append(body)
            p, q = p + p_mass, q + q_mass
        seen_p, seen_q, beyond = seen_p * (1 - law.p_only) ** count, seen_q * (1 - q) ** count, beyond + count * q
        finite *= (1 - p - law.p_only) ** count
        kept.append(Term(Law(law.finite, pieces), count))
    gamma = epsilon.exp()
    jump = (seen_p - finite) - gamma * (1 - seen_q) + (gamma * beyond * fail).union(arb(0))
    return Split(jump, kept, 1 - finite)


def _margin(sketch: Sketch, goal: float) -> tuple[float, float]:
    """(t, d) of about the least d with e^{-td} E_Q e^{-t sum L} below e^-goal."""
    variance = sketch.cumulants(-1.0)[2]
    best = (math.inf, 0.0)
    for scale in (1.2, 0.9, 0.6, 0.35, 0.2, 0.1, 0.05, 0.02):
        t = math.sqrt(2 * goal / variance) * scale
        try:
            best = min(best, ((sketch.cumulants(-1.0 - t)[0] + goal) / t, t))
        except NotHere:
            continue
    if not math.isfinite(best[0]):
        raise NotHere("no tilt bounds the other losses from below")
    return best[1], max(best[0], 0.0)


def _cut(piece: Piece, cut: float, level: arb) -> tuple[Piece, arb, arb]:
    """The part of a piece with losses up to about `cut`, and the masses of the rest, whose losses are proved to exceed `level`."""
    nothing = piece, arb(0), arb(0)
    if piece.lattice or piece.variance is None:
        return nothing
    towards = 1.0 if piece.rising else -1.0
    if (piece.high if piece.rising else piece.low) is not None:
        return nothing
    (a, b) = (max(piece.p), max(piece.q)) if piece.rising else (-min(piece.p), -min(piece.q))
    if a <= b:
        return nothing  # the loss is bounded above

    def loss(x: float) -> float:
        return float(piece.sketch(np.array([x]))[1][0])

    start = piece.low if piece.rising else piece.high
    inside = 0.0 if start is None else float(start)
    if loss(inside) >= cut:
        return nothing
    reach = piece.spread
    while loss(inside + towards * reach) < cut:
        reach *= 2
    near, far = 0.0, reach
    for _ in range(60):
        middle = (near + far) / 2
        near, far = (near, middle) if loss(inside + towards * middle) >= cut else (middle, far)
    x = exact(inside + towards * far * (1 + 1e-9))
    log_p, log_q = piece.logs(x)
    if not log_p - log_q >= level:
        raise NotHere("a cut cannot be placed")
    low, high = (x, None) if piece.rising else (None, x)
    p, q = (sum((w * moment(piece, s, low, high) for s, w in side.items()), arb(0)) for side in (piece.p, piece.q))
    return replace(piece, low=piece.low, high=x) if piece.rising else replace(piece, low=x, high=piece.high), p, q
