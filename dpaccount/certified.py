"""More certain digits than a double holds: delta and epsilon enclosed by decimals, in ball arithmetic."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

from dpaccount import _check
from dpaccount.adjacency import Adjacency, parse
from dpaccount.engines.balls import face
from dpaccount.pair import DominatingPair
from dpaccount.results import NumericalFailure

MOST_DIGITS = 400


class Enclosure(NamedTuple):
    """Two decimals with the exact number between them.

    `proved` is False if a pair of the guarantee is not proved to dominate its mechanism: the number is then the pair's, as it is
    of a step that is an upper bound only (`CurvePair.upper_bound`).
    """

    lower: Decimal
    upper: Decimal
    proved: bool = True

    @property
    def width(self) -> Decimal:
        """upper - lower."""
        return self.upper - self.lower


def certified_delta(
    guarantee: DominatingPair, epsilon: Any, *, adjacency: str | Adjacency = Adjacency.ADD_OR_REMOVE, digits: int = 30
) -> Enclosure:
    """delta(epsilon) between two decimals, 10^-digits of it apart or nearer: every error is bounded in ball arithmetic.

    It shares no table, node or rounding estimate with the engines of `PrivacyProfile`: K of every step is
    evaluated from the mechanism's parameters. Needs the extra ``dpaccount[certify]``.

    Parameters
    ----------
    guarantee : DominatingPair
        Parameters of mechanisms are the exact values of their doubles. Renyi bounds, also those that some steps carry as an
        alternative, are left out.
    epsilon : float, int, str, Decimal or Fraction
        A string, Decimal or Fraction is taken exactly: "0.1" is one tenth.
    adjacency : {"add-or-remove", "replace-one", "zero-out", "as-written"}
    digits : int
        In 1..400.

    Returns
    -------
    Enclosure
        Raises `NumericalFailure` where there is no proof: a few sampled steps, or atoms off a lattice.

    Examples
    --------
    >>> from dpaccount import Gaussian, PoissonSampled, certified_delta
    >>> run = 1000 * PoissonSampled(Gaussian(1.0), 0.01)
    >>> found = certified_delta(run, 1, digits=25)
    >>> found.lower <= found.upper, f"{found.lower:.24e}"[:26]
    (True, '2.612420578626924193976301')
    """
    owner = "certified_delta"
    sides, value, number = _asked(owner, guarantee, "epsilon", epsilon, adjacency, digits)
    from dpaccount.engines.balls.answer import Question
    from dpaccount.engines.balls.numbers import NotHere, decimals

    try:
        found = [decimals(Question(side, value).delta(number + 1.0), number + 3) for side in sides]
    except NotHere as error:
        raise NumericalFailure(f"`{owner}` has no proof here: {error}.") from error
    return _largest(found, sides)


def certified_epsilon(
    guarantee: DominatingPair, delta: Any, *, adjacency: str | Adjacency = Adjacency.ADD_OR_REMOVE, digits: int = 30
) -> Enclosure:
    """The least epsilon >= 0 with delta(epsilon) <= delta, between two decimals; as `certified_delta`.

    Parameters
    ----------
    guarantee, adjacency, digits
        As in `certified_delta`.
    delta : float, int, str, Decimal or Fraction
        In (0, 1); "1e-5" is one hundred thousandth, 1e-5 the double next to it.

    Returns
    -------
    Enclosure
        Infinite if no epsilon reaches delta: the mass at an infinite loss is larger.

    Examples
    --------
    >>> from dpaccount import Gaussian, certified_epsilon
    >>> f"{certified_epsilon(Gaussian(1.0), '1e-5', digits=20).upper:.16f}"
    '4.3771780956812246'
    """
    owner = "certified_epsilon"
    sides, value, number = _asked(owner, guarantee, "delta", delta, adjacency, digits)
    if not 0 < value < 1:
        _check.refuse(owner, "delta", "in (0, 1)", delta)
    from dpaccount.engines.balls.numbers import NotHere, decimals, exact, precision
    from dpaccount.engines.balls.roots import epsilon

    found = []
    try:
        for side in sides:
            root = epsilon(side, value, number + 1)
            if root is None:
                return Enclosure(Decimal("Infinity"), Decimal("Infinity"), all(s.proved for s in sides))
            with precision(64 + 5 * number):
                found.append(decimals(exact(root[0]).union(exact(root[1])), number + 3))
    except NotHere as error:
        raise NumericalFailure(f"`{owner}` has no proof here: {error}.") from error
    return _largest(found, sides)


def _asked(
    owner: str, guarantee: object, name: str, value: object, adjacency: str | Adjacency, digits: object
) -> tuple[tuple[DominatingPair, ...], Fraction, int]:
    """The directed pairs, the exact number, and the digits."""
    _check.instance(
        owner, "guarantee", guarantee, DominatingPair, "a dominating pair", "Build one from a mechanism, such as Gaussian(2.0)."
    )
    assert isinstance(guarantee, DominatingPair)
    number = _check.count(owner, "digits", digits, maximum=MOST_DIGITS)
    exact = _fraction(owner, name, value)
    sides = tuple(dict.fromkeys(guarantee.under(parse(owner, adjacency))))
    face.require(owner)
    return sides, exact, number


def _fraction(owner: str, name: str, value: object) -> Fraction:
    if isinstance(value, str | Decimal | Fraction):
        try:
            return Fraction(value)
        except (ValueError, OverflowError, ZeroDivisionError):
            _check.refuse(owner, name, "a finite number", value)
    return Fraction(_check.real(owner, name, value))


def _largest(found: list[tuple[Decimal, Decimal]], sides: tuple[DominatingPair, ...]) -> Enclosure:
    return Enclosure(max(low for low, _ in found), max(high for _, high in found), all(side.proved for side in sides))
