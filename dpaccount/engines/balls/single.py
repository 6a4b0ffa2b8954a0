"""One step alone: delta = integral of (P - e^eps Q)_+, in closed form beyond the point where P = e^eps Q."""

from __future__ import annotations

from collections.abc import Mapping

from flint import arb

from dpaccount.engines.balls.law import Law
from dpaccount.engines.balls.numbers import exact, precision, rough
from dpaccount.engines.balls.piece import Piece


def delta(law: Law, epsilon: arb, bits: int) -> arb:
    """The hockey-stick divergence of one step."""
    gamma = epsilon.exp()
    total = arb(0)
    for p, q in law.atoms:
        total += _positive(p - gamma * q)
    for piece in law.pieces:
        shifts = sorted({*piece.p, *piece.q})
        zero = arb(0)
        gap = {s: piece.p.get(s, zero) - gamma * piece.q.get(s, zero) for s in shifts}
        if _sign(piece, gap) >= 0:
            total += _sum(piece, gap, bits) if piece.lattice else _integral(piece, gap, bits)
    return total


def _positive(x: arb) -> arb:
    if x > 0:
        return x
    return arb(0) if x <= 0 else x.max(arb(0))


def _value(piece: Piece, gap: Mapping[int, arb], x: arb) -> arb:
    turn = x / piece.scale
    return sum((a * (s * turn).exp() for s, a in gap.items()), arb(0))


def _integral(piece: Piece, gap: Mapping[int, arb], bits: int) -> arb:
    low, high = piece.low, piece.high
    if _sign(piece, gap) == 0:
        root = _root(piece, gap, bits)
        low, high = (root, high) if piece.rising else (low, root)
    return _positive(sum((a * moment(piece, s, low, high) for s, a in gap.items()), arb(0)))


def _sign(piece: Piece, gap: Mapping[int, arb]) -> int:
    """1 or -1 if P - e^eps Q keeps this sign, 0 if it may change it; the loss is monotone, so the ends decide."""
    signs = []
    for end, outermost in ((piece.low, min), (piece.high, max)):
        value = gap[outermost(gap)] if end is None else _value(piece, gap, end)
        signs.append(1 if value > 0 else -1 if value < 0 else 0)
    return signs[0] if signs[0] == signs[1] else 0


def _root(piece: Piece, gap: Mapping[int, arb], bits: int) -> arb:
    """A ball in which P - e^eps Q changes its sign, or that reaches to the end where it may."""
    up = 1 if piece.rising else -1

    def beyond(x: arb) -> bool:
        return bool(_value(piece, gap, x) * up > 0)

    low, high = piece.low, piece.high
    width = piece.scale.mid() if piece.variance is None else piece.variance.sqrt().mid()
    start = arb(0) if low is None and high is None else (low if low is not None else high)
    assert start is not None
    if low is None:
        low, reach = start.mid() - width, width
        while beyond(low):
            reach *= 2
            low = low - reach
    if high is None:
        high, reach = start.mid() + width, width
        while not beyond(high):
            reach *= 2
            high = high + reach
    low, high = low.mid(), high.mid()
    with precision(bits):
        for _ in range(2 * bits):
            width, found = high - low, False
            for part in (0.5, 0.25, 0.75):  # more than one point, since the root itself decides nothing
                middle = (low + part * width).mid()
                value = _value(piece, gap, middle) * up
                if value > 0 and middle < high:
                    high, found = middle, True
                elif value < 0 and middle > low:
                    low, found = middle, True
                if found:
                    break
            if not found:
                break
        return low.union(high)


def moment(piece: Piece, s: int, low: arb | None, high: arb | None) -> arb:
    """The integral of w e^{s x/scale} between two ends."""
    if piece.variance is None:
        assert low is not None
        assert high is not None
        rate = s / piece.scale
        return ((rate * high).exp() - (rate * low).exp()) / rate
    root = (2 * piece.variance).sqrt()
    front = (exact(s) ** 2 / (2 * piece.variance)).exp() * root * arb.pi().sqrt() / 2
    if high is None:
        return front * (arb(2) if low is None else ((low - s) / root).erfc())
    if low is None:
        return front * ((s - high) / root).erfc()
    return front * (((low - s) / root).erfc() - ((high - s) / root).erfc())


def _sum(piece: Piece, gap: Mapping[int, arb], bits: int) -> arb:
    """Over the integers; what lies beyond the window is bounded by P's tails."""
    low, high = piece.window(0.0, 0.7 * bits)
    first, last = int(low) - 2, int(high) + 2
    tails = piece.beyond(arb(first), arb(0), right=False) + piece.beyond(arb(last), arb(0), right=True)
    total = arb(0)
    for k in range(first, last + 1):
        x = arb(k)
        total += _positive(_value(piece, gap, x)) * piece.log_weight(x).exp()
    return total + tails.abs_upper().union(arb(0))


def ends(law: Law) -> tuple[float, float]:
    """(least, largest) finite loss, roughly; infinite where there is none."""
    found = [rough((p / q).log()) for p, q in law.finite]
    for piece in law.pieces:
        for end, outermost in ((piece.low, min), (piece.high, max)):
            if end is not None:
                log_p, log_q = piece.logs(end)
                found.append(rough(log_p - log_q))
                continue
            a, b = outermost(piece.p), outermost(piece.q)
            right = outermost is max
            if a == b:
                found.append(rough((piece.p[a] / piece.q[b]).log()))
            else:
                found.append(float("inf") if (a > b) == right else float("-inf"))
    return min(found, default=0.0), max(found, default=0.0)
