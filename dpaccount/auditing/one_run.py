"""From one run: m canaries, each in or out by a fair coin, r guesses of which v are right."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from scipy.optimize import brentq
from scipy.special import betainc, betaincc, betaln, log_expit, logit, ndtr, ndtri

from dpaccount import _check
from dpaccount.adjacency import Adjacency, parse
from dpaccount.auditing.family import Family, family_of, gdp_at_least
from dpaccount.auditing.intervals import rate_lower
from dpaccount.auditing.members import Excess, ranked_excess, rejected_epsilon, tangents
from dpaccount.auditing.outcome import AuditResult, Kind, level, small_delta
from dpaccount.auditing.ranked import ranked_mu
from dpaccount.auditing.works import WORKS

OWNER = "audit_one_run"
METHODS = ("steinke", "fdp", "order")
COINS = "each canary was put in or left out by its own fair coin, and guesses use the algorithm's outputs, never the coins"

STATED = "r was stated beforehand: delta's term of the theorem is for a stated number of guesses"


def audit_one_run(
    m: int, r: int, v: int, delta: float, alpha: float = 0.05, method: str = "steinke", *, rules: int = 1,
    family: Callable[[Any], Any] | None = None, adjacency: str | Adjacency = Adjacency.ADD_OR_REMOVE,
) -> AuditResult:
    """A lower bound on epsilon from one run with `m` canaries and `r` guesses, `v` of them right.

    Parameters
    ----------
    m, r, v : int
        0 <= v <= r <= m, m >= 1.
    delta : float
        In [0, 1].
    alpha : float
        Probability of a false alarm, in (0, 1).
    method : {"steinke", "fdp", "order"}
        ``steinke``, for any (eps, delta) algorithm: the largest eps at which
        ``P[Bin(r, q) >= v] + 2 m delta max_{1<=i<=v} P[v - i <= Bin(r, q) < v]/i < alpha``, q = e^eps/(1 + e^eps).
        ``fdp``, for an algorithm whose trade-off function is that of a Gaussian, or of a member of `family`: the largest mu, or
        the member that leaks most, that the recursion of MMC24 rejects.
        ``order``, for m independent copies of a Gaussian channel, or of one step of `family`, of which the r most telling were
        guessed: the largest mu at which ``E BinCDF(r - v; r, g(W))``, W ~ Beta(m - r, r + 1), is below alpha.
    rules : int
        How many ways of guessing were looked at, this one included; alpha is divided by it.
    family, adjacency : optional, for ``fdp`` and ``order``
        One number, such as a noise multiplier, to a guarantee, as in `audit_counts`; single steps for ``order``.

    Guarantee
    ---------
    The bound exceeds the true epsilon with probability at most alpha, for ``steinke`` whatever the algorithm (at delta > 0 if r
    was stated beforehand), for the other two inside their model.

    References
    ----------
    Steinke, Nasr, Jagielski (2023), Theorem 5.2; Mahloujifar, Melis, Chaudhuri (2024), Algorithm 3; Xiang et al. (2025).

    Examples
    --------
    >>> from dpaccount.auditing import audit_one_run
    >>> for method in ("steinke", "fdp", "order"):
    ...     found = audit_one_run(1000, 100, 90, delta=1e-5, method=method)
    ...     print(method, round(found.lower, 6), found.kind)
    steinke 1.626143 confidence
    fdp 2.456405 model-based
    order 3.164458 model-based
    >>> from dpaccount import Laplace
    >>> round(audit_one_run(1000, 100, 90, delta=1e-5, method="fdp", family=Laplace).lower, 3)
    1.615
    """
    m = _check.count(OWNER, "m", m)
    r = _check.count(OWNER, "r", r, minimum=0)
    v = _check.count(OWNER, "v", v, minimum=0)
    if r > m:
        _check.refuse(OWNER, "r", f"at most m = {m}", r, f"r = {r} guesses are made about m = {m} canaries.")
    if v > r:
        _check.refuse(OWNER, "v", f"at most r = {r}", v, f"v = {v} counts the right ones among r = {r} guesses.")
    delta, alpha = small_delta(OWNER, delta), level(OWNER, alpha)
    _check.choice(OWNER, "method", method, METHODS)
    number = _check.count(OWNER, "rules", rules, hint="Count every way of guessing that was looked at, this one included.")
    chosen = "fixed: one rule, stated beforehand" if number == 1 else f"Bonferroni: the best of {number} rules, each at alpha/{number}"
    notes = (COINS, STATED) if method == "steinke" and delta > 0.0 else (COINS,)
    if family is not None:
        members = _members(method, family, adjacency)
        return _inside(members, m, r, v, delta, alpha, method, chosen, number, notes)
    return from_guesses(m, r, v, delta, alpha, method, chosen, number, notes)


def from_guesses(
    m: int, r: int, v: int, delta: float, alpha: float, method: str, selection: str, rules: float, assumptions: tuple[str, ...],
    **details: Any,
) -> AuditResult:
    """`audit_one_run` after its checks."""
    low, mu = _STATISTICS[method](m, r, v, delta, alpha / rules)
    kind, name, model = _STATEMENTS[method]
    extra = {} if mu is None else {"mu": mu}
    return AuditResult(
        f"epsilon at delta = {delta:g}", low, None, alpha, kind, selection, (*assumptions, *model), name, details | extra,
        works=WORKS[method],
    )


def _members(method: str, family: Any, adjacency: Any) -> Family:
    if method == "steinke":
        _check.refuse(OWNER, "method", "'fdp' or 'order' where a family is given", method, "Only those statistics read it.")
    relation = parse(OWNER, adjacency)
    if relation is Adjacency.AS_WRITTEN:
        _check.refuse(OWNER, "adjacency", "a relation between data sets", str(relation), "Canaries are in or out: both directions count.")
    return family_of(OWNER, family, relation)


def _inside(
    members: Family, m: int, r: int, v: int, delta: float, alpha: float, method: str, selection: str, rules: int,
    assumptions: tuple[str, ...],
) -> AuditResult:
    """The bound of a family's members."""
    share, relation = alpha / rules, f"of the given family under {members.adjacency} adjacency; epsilon is extrapolated along it"
    if method == "fdp":
        excess = _fdp_of(members, m, r, v, share)
        model = f"the algorithm's trade-off function, for all canaries at once, is that of a member {relation}"
        name = "one run, any f-DP algorithm, with f of a family (Mahloujifar, Melis, Chaudhuri 2024)"
    else:
        excess = ranked_excess(OWNER, members, m, r, r - v, share)
        model = f"the canaries are independent copies of one step, a member {relation}; the r most telling ones were guessed"
        name = "one run, order statistics of a family's channel (Xiang et al. 2025)"
    low, parameter = (0.0, None) if v == 0 else rejected_epsilon(OWNER, members, excess, delta)
    if math.isinf(low):  # every member is rejected
        kept = (*assumptions, STATED) if delta > 0.0 else assumptions
        note = "no member of the family fits the guesses, so the family says nothing and this bound is model-free"
        return from_guesses(m, r, v, delta, alpha, "steinke", selection, rules, kept, family=note)
    return AuditResult(
        f"epsilon at delta = {delta:g}", low, None, alpha, "model-based", selection, (*assumptions, model), name,
        {"parameter": parameter}, works=WORKS[method],
    )


_STATEMENTS: dict[str, tuple[Kind, str, tuple[str, ...]]] = {
    "steinke": ("confidence", "one run, any (epsilon, delta) algorithm (Steinke, Nasr, Jagielski 2023)", ()),
    "fdp": (
        "model-based", "one run, any f-DP algorithm, with Gaussian f (Mahloujifar, Melis, Chaudhuri 2024)",
        (
            "the algorithm's trade-off function, for all canaries at once, is that of a Gaussian mechanism (mu-GDP); epsilon is "
            "extrapolated by it",
        ),
    ),
    "order": (
        "model-based", "one run, order statistics of a Gaussian channel (Xiang et al. 2025)",
        ("the canaries are exchangeable and independent copies of one Gaussian channel, and the r most telling ones were guessed",),
    ),
}


# any (eps, delta) algorithm


def one_run_p_value(m: int, r: int, v: int, epsilon: float, delta: float) -> float:
    """The p-value of (eps, delta)-DP against v right guesses of r; rises with eps as long as it is below 1/2.

    P[v - i <= X < v]/i is the mean of i probabilities, which rise from v down to the mode and then fall. So the mean rises
    until the mode is in it, and from there until the next probability is no larger, which is bisected.
    """
    log_q, log_rest = float(log_expit(epsilon)), float(log_expit(-epsilon))
    right, wrong = math.exp(log_q), math.exp(log_rest)

    def at_least(k: int) -> float:
        """P[Bin(r, q) >= k], each end without cancellation."""
        if k <= 0:
            return 1.0
        return float(betainc(k, r - k + 1, right)) if right < 0.5 else float(betaincc(r - k + 1, k, wrong))

    def exactly(k: int) -> float:
        """P[Bin(r, q) = k]."""
        return math.exp(k * log_q + (r - k) * log_rest - float(betaln(k + 1, r - k + 1)) - math.log1p(r))

    tail = at_least(v)
    if delta == 0.0 or v == 0 or r == 0:
        return tail
    mode = math.floor((r + 1) * right)
    if v - 1 <= mode:
        return min(tail + 2.0 * m * delta * exactly(v - 1), 1.0)
    low, high = v - max(mode, 0), v
    while low < high:
        middle = (low + high) // 2
        if exactly(v - middle - 1) > (at_least(v - middle) - tail) / middle:
            low = middle + 1
        else:
            high = middle
    return min(tail + 2.0 * m * delta * (at_least(v - low) - tail) / low, 1.0)


def _steinke(m: int, r: int, v: int, delta: float, alpha: float) -> tuple[float, None]:
    if delta > 0.0:
        alpha = min(alpha, 0.5)  # up to there the p-value rises with eps, so that its root is the least one
    share = rate_lower(v, r, alpha) if r else 0.0  # where the tail alone reaches alpha: the bound at delta = 0
    if share <= 0.5:
        return 0.0, None
    # logit from the complement where it is near 1
    high = float(logit(share)) if share < 0.9 else math.log(share / (-math.expm1(math.log(alpha) / r) if v == r else 1.0 - share))
    high = min(high, 700.0)
    if delta == 0.0:
        return high, None
    if one_run_p_value(m, r, v, 0.0, delta) >= alpha:
        return 0.0, None
    return float(brentq(lambda e: one_run_p_value(m, r, v, e, delta) - alpha, 0.0, high * (1 + 1e-12), xtol=1e-13)), None


# any f-DP algorithm


def fdp_excess(m: int, r: int, v: int, mu: float, alpha: float) -> float:
    """Positive where mu-GDP is rejected."""
    return tail_excess(m, r, v, alpha, lambda x: float(ndtr(ndtri(x) - mu)))


def tail_excess(m: int, r: int, v: int, alpha: float, inverse: Callable[[float], float]) -> float:
    """Positive where f is rejected: the tail masses of right and wrong guesses outgrow r/m; `inverse` is that of 1 - f."""
    right, wrong = alpha * v / m, alpha * (r - v) / m
    for i in range(v - 1, -1, -1):
        needed = max(wrong, inverse(right))
        if needed == wrong:
            break
        right = min(right + i / (r - i) * (needed - wrong), 1.0)
        wrong = needed
    return right + wrong - r / m


def _fdp_of(members: Family, m: int, r: int, v: int, alpha: float) -> Excess:
    """Positive where a member of a family is rejected."""

    def excess(value: float) -> float:
        return tail_excess(m, r, v, alpha, tangents(members.profile(value)).inverse_of_rest)

    return excess


def _fdp(m: int, r: int, v: int, delta: float, alpha: float) -> tuple[float, float]:
    if v == 0 or fdp_excess(m, r, v, 0.0, alpha) <= 0.0:
        return 0.0, 0.0
    high = 1.0
    while fdp_excess(m, r, v, high, alpha) > 0.0:
        high *= 2.0
        if high > 1e3:
            return math.inf, math.inf
    mu = float(brentq(lambda x: fdp_excess(m, r, v, x, alpha), high / 2 if high > 1.0 else 0.0, high, xtol=1e-13))
    return gdp_at_least(mu, delta), mu


# order statistics of a Gaussian channel


def _order(m: int, r: int, v: int, delta: float, alpha: float) -> tuple[float, float]:
    mu = ranked_mu(m, r, r - v, alpha) if v else 0.0
    return gdp_at_least(mu, delta), mu


_STATISTICS: dict[str, Callable[..., tuple[float, float | None]]] = {"steinke": _steinke, "fdp": _fdp, "order": _order}
