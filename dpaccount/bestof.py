"""Several valid guarantees for one mechanism: each is composed, and the best answers."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import final

from dpaccount import _check
from dpaccount.pair import DominatingPair, Guarantee, Step, compose
from dpaccount.renyi import RenyiBound

MAX_OPTIONS = 64


@final
@dataclass(frozen=True, init=False)
class BestOf(Guarantee):
    """Any of several guarantees holds for the same release, so at each epsilon the least delta does.

    ``count * BestOf`` repeats every option; a sum combines every option of one with every option of the other.

    Parameters
    ----------
    *options : DominatingPair, RenyiBound or BestOf
        At least one; nested options are flattened.

    Examples
    --------
    >>> from dpaccount import BestOf, PrivacyProfile, PureDP, RenyiBound
    >>> many = 1000 * BestOf(PureDP(0.01), RenyiBound.zcdp(0.01**2 / 2))
    >>> PrivacyProfile(many).epsilon(delta=1e-6).upper < 3
    True
    """

    options: tuple[DominatingPair | RenyiBound, ...]

    def __init__(self, *options: Guarantee) -> None:
        flat: list[DominatingPair | RenyiBound] = []
        for option in options:
            _check.instance(
                "BestOf", "options", option, (DominatingPair, RenyiBound, BestOf), "pairs, Renyi bounds or BestOf"
            )
            flat.extend(option.options if isinstance(option, BestOf) else [option])  # type: ignore[list-item]
        if not flat:
            _check.refuse("BestOf", "options", "at least one guarantee", options)
        unique = tuple(dict.fromkeys(flat))
        if len(unique) > MAX_OPTIONS:
            _check.refuse(
                "BestOf", "options", f"at most {MAX_OPTIONS} combinations", len(unique), "Compose equal steps with a count first."
            )
        object.__setattr__(self, "options", unique)

    def __add__(self, other: object) -> BestOf:
        if not isinstance(other, Guarantee):
            return NotImplemented
        others = other.options if isinstance(other, BestOf) else (other,)
        return BestOf(*(a + b for a, b in itertools.product(self.options, others)))

    __radd__ = __add__

    def __mul__(self, times: object) -> BestOf:
        if isinstance(times, Guarantee):
            return NotImplemented
        return BestOf(*(option * times for option in self.options))

    __rmul__ = __mul__


def options_of(guarantee: Guarantee) -> tuple[DominatingPair | RenyiBound, ...]:
    """Every guarantee a profile should try: the options themselves, and their steps' alternatives."""
    chosen = guarantee.options if isinstance(guarantee, BestOf) else (guarantee,)
    found: list[DominatingPair | RenyiBound] = []
    for option in chosen:
        found.append(option)  # type: ignore[arg-type]
        other = _with_alternatives(option)
        if other is not None:
            found.append(other)
    return tuple(dict.fromkeys(found)) if len(found) > 1 else tuple(found)


def _with_alternatives(option: Guarantee) -> RenyiBound | None:
    """The option with every step that has one replaced by its Renyi alternative; None if no step has."""
    pair = option.pair if isinstance(option, RenyiBound) else option
    if not isinstance(pair, DominatingPair) or not any(step.alternatives for step in pair.kinds):
        return None
    bound: RenyiBound | None = None
    rest: list[tuple[Step, int]] = []
    for step, count in pair.terms:
        known = [a for a in step.alternatives if isinstance(a, RenyiBound)]
        if known:
            bound = count * known[0] if bound is None else bound + count * known[0]
        else:
            rest.append((step, count))
    if bound is None:
        return None
    if rest:
        bound = bound + compose(rest)
    return bound + RenyiBound(option.sources) if isinstance(option, RenyiBound) else bound
