"""Lower bounds on epsilon by one event, in ball arithmetic: outputs that exceed a threshold. Needs python-flint (extra ``certify``)."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dpaccount.results import NumericalFailure

if TYPE_CHECKING:
    from flint import arb

LONGEST = 40_000  # of the law of a sum of scores


def scored_sums(
    sigma: float, batches: int, share: Fraction, other: int, epochs: int, cuts: Sequence[float], scores: Sequence[int], bits: int
) -> tuple[list[arb], list[arb]]:
    """P and Q of every sum of the epochs' scores: the largest batch sum of an epoch scores ``scores[i]`` between cuts i - 1 and i.

    The largest sum is at most c with probability ``Phi(c/s)^{T-1} (share Phi((c-2)/s) + (1 - share) Phi(c/s))`` under P, and with
    the mean `other` instead of 2 under Q (Chua et al. 2024).
    """
    from flint import arb_poly

    if max(scores) * epochs > LONGEST:
        raise NumericalFailure(f"`certificate` has no proof here: sums of scores up to {max(scores) * epochs}.")
    laws = []
    with _precision(bits):
        for shift in (2, other):
            below = [_exact(0), *(_below(c, sigma) ** (batches - 1) * _mixed(c, sigma, shift, share) for c in cuts), _exact(1)]
            mass = [_exact(0)] * (max(scores) + 1)
            for score, low, high in zip(scores, below[:-1], below[1:], strict=True):
                mass[score] += high - low
            law = (arb_poly(mass) ** epochs).coeffs()
            laws.append(law + [_exact(0)] * (max(scores) * epochs + 1 - len(law)))
    return laws[0], laws[1]


def at_least(law: list[arb], least: int, bits: int) -> arb:
    """P[sum >= least]."""
    with _precision(bits):
        return sum(law[least:], _exact(0))


def best_sum(p: list[arb], q: list[arb], delta: Fraction, bits: int) -> tuple[float, int]:
    """(epsilon, sum) of the event "the sum is at least so large" that shows most."""
    best, at = 0.0, 0
    with _precision(bits):
        seen, other, less = _exact(0), _exact(0), _exact(delta)
        for least in range(len(p) - 1, 0, -1):
            seen, other = seen + p[least], other + q[least]
            if seen > less and other > 0:
                value = float(((seen - less) / other).log().mid())
                best, at = max((best, at), (value, least))
    return best, at


def one_output(sigma: float, rate: float, steps: int, other: int, cut: float, bits: int) -> tuple[arb, arb]:
    """(P, Q) of "one of the outputs of Poisson-sampled Gaussians exceeds `cut`"; without the record its mean is `other`, not 1."""
    with _precision(bits):
        p, q = (1 - _mixed(cut, sigma, shift, Fraction(rate)) ** steps for shift in (1, other))
        return p, q


def log_ratio(p: arb, q: arb, delta: Fraction, bits: int) -> arb:
    """ln((P - delta)/Q)."""
    with _precision(bits):
        more = p - _exact(delta)
        if not (more > 0 and q > 0):
            raise NumericalFailure("`certificate` has no proof here: the event's probabilities are not told from nothing.")
        return (more / q).log()


def _precision(bits: int) -> Any:
    from dpaccount.engines.balls.numbers import precision

    return precision(bits)


def _exact(x: float | Fraction) -> arb:
    from dpaccount.engines.balls.numbers import exact

    return exact(x)


def _below(cut: float, sigma: float, shift: int = 0) -> arb:
    """Phi((cut - shift)/sigma)."""
    return (-(_exact(cut) - shift) / (_exact(sigma) * _exact(2).sqrt())).erfc() / 2


def _mixed(cut: float, sigma: float, shift: int, share: Fraction) -> arb:
    return _exact(share) * _below(cut, sigma, shift) + _exact(1 - share) * _below(cut, sigma)
