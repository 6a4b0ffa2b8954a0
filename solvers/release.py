"""What a solver hands out: a value, and the guarantee that its run earned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, final

import numpy as np

from dpaccount import _check
from dpaccount.adjacency import Adjacency, parse
from dpaccount.bestof import BestOf
from dpaccount.curves.profile import PrivacyProfile
from dpaccount.pair import DominatingPair, Guarantee
from dpaccount.renyi import RenyiBound
from dpaccount.results import Bounds


@final
@dataclass(frozen=True, eq=False, repr=False)
class Release:
    """A released value with its guarantee under a relation; `guarantee` composes, plots and audits like any other.

    Parameters
    ----------
    value : object
        What may be published; for the optimisers the flat vector theta, which ``Problem.split`` takes apart.
    guarantee : DominatingPair, RenyiBound or BestOf
        About `value` and `diagnostics` together.
    adjacency : str
        The relation for which the guarantee was derived; asking under another one takes a new derivation, so it is not offered.
    diagnostics : mapping
        Only what is public, or follows from released numbers: safe to publish with the value.
    unprotected : mapping, optional
        Looks at the data without noise, and is not covered. There only if the caller asked for ``reveal_unprotected=True``.

    Examples
    --------
    >>> from dpaccount import Gaussian
    >>> from solvers.release import Release
    >>> release = Release(0.25, 4 * Gaussian(5.0), "add-or-remove", {"steps": 4})
    >>> round(float(release.epsilon(delta=1e-5)), 4)
    1.555
    >>> release
    Release(0.25, 4 * Gaussian(noise_multiplier=5.0), adjacency='add-or-remove', steps=4)
    """

    value: Any
    guarantee: Guarantee
    adjacency: Adjacency | str
    diagnostics: Mapping[str, Any] = field(default_factory=dict)
    unprotected: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        kinds = (DominatingPair, RenyiBound, BestOf)
        _check.instance("Release", "guarantee", self.guarantee, kinds, "a dominating pair, a RenyiBound or a BestOf")
        object.__setattr__(self, "adjacency", parse("Release", self.adjacency))
        object.__setattr__(self, "diagnostics", MappingProxyType(dict(self.diagnostics)))
        if self.unprotected is not None:
            object.__setattr__(self, "unprotected", MappingProxyType(dict(self.unprotected)))
        if isinstance(self.value, np.ndarray):
            value = self.value.copy()
            value.setflags(write=False)
            object.__setattr__(self, "value", value)

    def __getstate__(self) -> dict[str, Any]:
        """Mappings as plain ones, which can be pickled; curves are worked out anew."""
        state = {name: getattr(self, name) for name in ("value", "guarantee", "adjacency", "diagnostics", "unprotected")}
        return {name: dict(found) if isinstance(found, MappingProxyType) else found for name, found in state.items()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, found in state.items():
            object.__setattr__(self, name, found)
        self.__post_init__()

    @cached_property
    def profile(self) -> PrivacyProfile:
        """Every curve of the guarantee."""
        return PrivacyProfile(self.guarantee, self.adjacency)

    @property
    def proved(self) -> bool:
        """False where the guarantee rests on a pair that is the worst known, but not proved to dominate; no answer is certified then."""
        return self.profile.proved

    def epsilon(self, delta: Any) -> Bounds:
        """epsilon at delta, in [0, 1], under the release's own relation."""
        return self.profile.epsilon(delta=delta)

    def delta(self, epsilon: Any) -> Bounds:
        """delta at epsilon under the release's own relation."""
        return self.profile.delta(epsilon=epsilon)

    def __repr__(self) -> str:
        value = self.value
        shown = f"<array of shape {value.shape}>" if isinstance(value, np.ndarray) and value.size > 4 else repr(value)
        facts = "".join(f", {key}={_short(found)}" for key, found in self.diagnostics.items())
        loud = ", UNPROTECTED DIAGNOSTICS INSIDE: do not publish this object" if self.unprotected is not None else ""
        return f"Release({shown}, {self.guarantee!r}, adjacency={str(self.adjacency)!r}{facts}{loud})"


def _short(found: Any) -> str:
    if isinstance(found, np.ndarray):
        return f"<array of shape {found.shape}>"
    return f"{found:.6g}" if isinstance(found, float) else repr(found)
