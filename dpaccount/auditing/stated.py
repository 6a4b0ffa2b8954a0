"""What is claimed, in the forms an attack can be held against, and the verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from dpaccount import _check
from dpaccount.auditing.family import gdp_mu
from dpaccount.auditing.outcome import REFUTED, UNDECIDED, AuditResult, small_delta
from dpaccount.curves.profile import PrivacyProfile
from dpaccount.mechanisms.gaussian import Gaussian
from dpaccount.mechanisms.pure import ApproximateDP
from dpaccount.pair import DominatingPair, Guarantee
from dpaccount.statement import shown_up
from dpaccount.training import TrainingRun


@dataclass(frozen=True)
class Stated:
    """A claim as one point (eps, delta), as a whole curve, or not at all; `delta` is where an epsilon is read."""

    delta: float | None
    epsilon: float | None = None
    profile: PrivacyProfile | None = None

    def judged(self, found: AuditResult) -> AuditResult:
        """The result with its verdict, if anything was claimed."""
        limit = self._limit(found)
        if limit is None:
            return found
        by_curve = found.lower <= limit and self._curve_refuted(found)
        above = found.lower > limit or by_curve
        details = {**found.details, "claimed": limit}
        if above and found.kind == "confidence":
            return replace(found, verdict=REFUTED, details=details, reason=_below(found) if by_curve else "")
        return replace(found, verdict=UNDECIDED, details=details, reason=_OPEN.get(found.kind, "") if above else "")

    def _limit(self, found: AuditResult) -> float | None:
        """The largest value of the bounded quantity that the claim allows."""
        if found.quantity.startswith("delta at"):
            return self.delta
        if self.epsilon is None and self.profile is None:
            return None
        profile = self.profile
        if found.quantity.startswith("epsilon"):
            return self.epsilon if profile is None else float(profile.epsilon(delta=self.delta).upper)
        if found.quantity == "total variation":
            if profile is None:
                assert self.epsilon is not None
                assert self.delta is not None
                profile = PrivacyProfile(ApproximateDP(self.epsilon, self.delta), "as-written")
            return float(profile.total_variation().upper)
        if profile is None:  # (eps, delta) with delta > 0 allows any Renyi divergence
            return math.inf if self.delta else self.epsilon
        return float(profile.renyi(found.details["order"]).upper)

    def _curve_refuted(self, found: AuditResult) -> bool:
        """Whether both rate limits lie below the claimed trade-off function: no one point of the curve need be chosen."""
        if self.profile is None or "fnr_upper" not in found.details:
            return False
        fpr, fnr = found.details["fpr_upper"], found.details["fnr_upper"]
        if fpr + fnr >= 1.0:
            return False
        sides = self.profile.directions if isinstance(self.profile.guarantee, DominatingPair) else ()
        if len(sides) == 1 and isinstance(sides[0], Gaussian):  # under the claim's own relation: replace-one doubles mu
            return bool(gdp_mu(fpr, fnr) > sides[0].mu)
        return bool(float(self.profile.trade_off(fpr).lower) > fnr)


def _below(found: AuditResult) -> str:
    fpr, fnr = found.details["fpr_upper"], found.details["fnr_upper"]
    return (
        f"the attack's error rates, a false-positive rate of at most {shown_up(fpr, 4)} and a false-negative rate of at most "
        f"{shown_up(fnr, 4)}, lie below the claimed trade-off function"
    )


_OPEN = {
    "model-based": "refuted if the model holds, which nothing here shows",
    "credible": "the posterior is against the claim, and promises no frequency",
    "unproved": "the bound is above the claim, and no theorem covers how it was found",
}


def stated_claim(owner: str, epsilon: Any, mu: Any, claim: Any, delta: Any) -> Stated:
    """Validate what is claimed; at most one of `epsilon`, `mu` and `claim`."""
    given = [name for name, value in (("epsilon", epsilon), ("mu", mu), ("claim", claim)) if value is not None]
    if len(given) > 1:
        _check.refuse(owner, given[1], f"left out where {given[0]} is given", (epsilon, mu, claim), "Claim one thing at a time.", TypeError)
    at = None if delta is None else small_delta(owner, delta)
    if epsilon is not None:
        return Stated(at, _check.real(owner, "epsilon", epsilon, low=0.0))
    if mu is not None:
        return Stated(at, None, PrivacyProfile(Gaussian(1.0 / _check.real(owner, "mu", mu, low=0.0, open_low=True))))
    if claim is None:
        return Stated(at)
    if isinstance(claim, Mapping):
        return _of_table(owner, claim, at)
    if isinstance(claim, TrainingRun):
        return Stated(at, None, claim.profile())
    if isinstance(claim, Guarantee):
        return Stated(at, None, PrivacyProfile(claim))
    _check.instance(
        owner, "claim", claim, PrivacyProfile, "a guarantee, a PrivacyProfile, a TrainingRun, or a table with epsilon and delta"
    )
    return Stated(at, None, claim)


def _of_table(owner: str, claim: Mapping[str, Any], delta: float | None) -> Stated:
    for name in ("epsilon", "delta"):
        if claim.get(name) is None:
            _check.refuse(owner, "claim", "a table with epsilon and delta", dict(claim), f"{name} is missing.")
    own = small_delta(owner, claim["delta"])
    if delta is not None and delta != own:
        _check.refuse(owner, "delta", f"the claim's own delta = {own:g}, or left out", delta, "delta and claim disagree.")
    return Stated(own, _check.real(owner, "claim", claim["epsilon"], low=0.0))
