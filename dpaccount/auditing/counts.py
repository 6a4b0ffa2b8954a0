"""From counts: two runs' worth of rates, read without a model, by Bayes, or inside a family."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dpaccount import _check
from dpaccount.adjacency import Adjacency, parse
from dpaccount.auditing.family import family_of, gdp_at_least, gdp_at_most, gdp_mu
from dpaccount.auditing.intervals import Rates, model_free, rates
from dpaccount.auditing.outcome import AuditResult, Kind, level, small_delta
from dpaccount.auditing.region import Posterior, quantile
from dpaccount.auditing.works import WORKS

OWNER = "audit_counts"
METHODS = ("cp", "bayes", "gdp", "curve")
INDEPENDENT = "the runs are independent: P with the record, N without it, otherwise alike"
RULE = "the decision rule was fixed before these runs were seen"


def audit_counts(
    tp: int, p: int, fp: int, n: int, delta: float, alpha: float = 0.05, method: str = "cp", *,
    family: Callable[[Any], Any] | None = None, adjacency: str | Adjacency = Adjacency.ADD_OR_REMOVE, rules: int = 1,
) -> AuditResult:
    """A lower bound on epsilon from a distinguisher that said "in" in `tp` of `p` runs with the record and `fp` of `n` without.

    Parameters
    ----------
    tp, p, fp, n : int
        0 <= tp <= p, 0 <= fp <= n, p and n >= 1.
    delta : float
        In [0, 1].
    alpha : float
        Probability of a false alarm, in (0, 1); each error rate gets half of it.
    method : {"cp", "bayes", "gdp", "curve"}
        ``cp``: ``max(0, ln((TPR_lo - delta)/FPR_hi), ln((TNR_lo - delta)/FNR_hi))``, Clopper-Pearson limits.
        ``bayes``: the least eps whose (eps, delta) region has posterior mass alpha, Jeffreys priors.
        ``gdp``: ``mu >= Phi^-1(1 - FPR_hi) - Phi^-1(FNR_hi)``, then epsilon of mu-GDP at delta.
        ``curve``: the member of `family` whose trade-off function passes through (FPR_hi, FNR_hi), then its epsilon.
    family : callable, for ``curve``
        One number to a guarantee, e.g. ``lambda s: 1000 * PoissonSampled(Gaussian(s), 0.01)``.
    adjacency : str, for ``curve``
        The relation under which the two kinds of runs differ.
    rules : int
        How many decision rules were looked at on these runs, this one included; alpha is divided by it.

    Returns
    -------
    AuditResult
        `upper` is the same statistic's other end, for this attack only.

    Guarantee
    ---------
    ``cp`` exceeds the true epsilon with probability at most alpha for every algorithm; ``gdp`` and ``curve`` for every
    algorithm of their family; ``bayes`` is a credible bound and promises no frequency.

    References
    ----------
    Clopper, Pearson (1934); Jagielski, Ullman, Oprea (2020); Zanella-Beguelin et al. (2023); Nasr et al. (2023).

    Examples
    --------
    >>> from dpaccount.auditing import audit_counts
    >>> found = audit_counts(950, 1000, 0, 1000, delta=1e-5)
    >>> round(found.lower, 8), found.kind
    (5.53663924, 'confidence')
    >>> model = audit_counts(950, 1000, 0, 1000, delta=1e-5, method="gdp")
    >>> round(model.lower, 8), model.kind
    (25.96877242, 'model-based')
    """
    tp, p, fp, n = checked_counts(OWNER, tp, p, fp, n)
    delta, alpha = small_delta(OWNER, delta), level(OWNER, alpha)
    _check.choice(OWNER, "method", method, METHODS)
    number = _check.count(OWNER, "rules", rules, hint="Count every rule that was looked at on these runs, this one included.")
    relation = parse(OWNER, adjacency)
    if (family is not None) != (method == "curve"):
        family_of(OWNER, family, relation)
        _check.refuse(OWNER, "method", "'curve' where a family is given", method, "Only that statistic reads it.")
    chosen = "fixed: one rule, stated beforehand" if number == 1 else f"Bonferroni: the best of {number} rules, each at alpha/{number}"
    return from_counts(tp, p, fp, n, delta, alpha, method, family, relation, chosen, number, (INDEPENDENT, RULE))


def from_counts(
    tp: float, p: float, fp: float, n: float, delta: float, alpha: float, method: str, family: Any, relation: Adjacency,
    selection: str, rules: float, assumptions: tuple[str, ...], both_ends: bool = True, **details: Any,
) -> AuditResult:
    """`audit_counts` after its checks; the other end is left out where the counts are not those of one plain rule."""
    share = alpha / rules
    found = rates(tp, p, fp, n, share)
    if not both_ends:  # nothing is known from that side, so that no time is spent on it
        found = found._replace(fpr_lower=0.0, fnr_lower=0.0)
    low, top, kind, name, more, extra = _STATISTICS[method](found, (tp, p, fp, n), delta, share, family, relation)
    details |= {"fpr_upper": found.fpr_upper, "fnr_upper": found.fnr_upper, "tpr_lower": found.tpr_lower, **extra}
    return AuditResult(
        f"epsilon at delta = {delta:g}", low, top if both_ends else None, alpha, kind, selection, (*assumptions, *more), name, details,
        works=WORKS[method if kind != "confidence" else "cp"],
    )


Answer = tuple[float, float, Kind, str, tuple[str, ...], dict[str, Any]]


def _cp(found: Rates, counts: Any, delta: float, alpha: float, family: Any, relation: Adjacency) -> Answer:
    low, top = model_free(found, delta)
    return low, top, "confidence", "two binomials, Clopper-Pearson limits (Jagielski et al. 2020)", (), {}


def _bayes(found: Rates, counts: Any, delta: float, alpha: float, family: Any, relation: Adjacency) -> Answer:
    tp, p, fp, n = counts
    misses, alarms = Posterior(0.5 + p - tp, 0.5 + tp), Posterior(0.5 + fp, 0.5 + n - fp)
    low, top = (0.0, 0.0) if delta >= 1.0 else (quantile(level, delta, misses, alarms) for level in (alpha, 1.0 - alpha))
    prior = "Jeffreys priors on both error rates, which are taken as independent"
    return low, top, "credible", "joint posterior region of both error rates (Zanella-Beguelin et al. 2023)", (prior,), {}


def _gdp(found: Rates, counts: Any, delta: float, alpha: float, family: Any, relation: Adjacency) -> Answer:
    mu = gdp_mu(found.fpr_upper, found.fnr_upper)
    top = gdp_mu(found.fpr_lower, found.fnr_lower)
    model = "the algorithm's trade-off function is that of a Gaussian mechanism; beyond the counts, epsilon is extrapolated by it"
    return (
        gdp_at_least(mu, delta), gdp_at_most(top, delta), "model-based",
        "Gaussian DP through both rate limits (Nasr et al. 2023)", (model,), {"mu": mu},
    )


def _curve(found: Rates, counts: Any, delta: float, alpha: float, family: Any, relation: Adjacency) -> Answer:
    members = family_of(OWNER, family, relation)
    edge = members.at_least(found.fpr_upper, found.fnr_upper, delta)
    if edge is None:
        low, top, _, name, _, _ = _cp(found, counts, delta, alpha, family, relation)
        note = "no member of the family passes through the rate limits, so the family says nothing and this bound is model-free"
        return low, top, "confidence", name, (), {"family": note}
    top = members.at_most(found.fpr_lower, found.fnr_lower, delta)
    model = f"the algorithm is a member of the given family under {relation} adjacency; epsilon is extrapolated along it"
    return (
        edge[0], max(top, edge[0]), "model-based", "trade-off curve of a family through both rate limits (Nasr et al. 2023)",
        (model,), {"parameter": edge[1]},
    )


_STATISTICS: dict[str, Callable[..., Answer]] = {"cp": _cp, "bayes": _bayes, "gdp": _gdp, "curve": _curve}


def checked_counts(owner: str, tp: Any, p: Any, fp: Any, n: Any) -> tuple[int, int, int, int]:
    """Four counts that fit together; a message names both of those that do not."""
    runs = _check.count(owner, "p", p, hint="There are no positive trials: the true-positive rate is undefined." if p == 0 else "")
    others = _check.count(owner, "n", n, hint="There are no negative trials: the false-positive rate is undefined." if n == 0 else "")
    hits = _check.count(owner, "tp", tp, minimum=0)
    alarms = _check.count(owner, "fp", fp, minimum=0)
    if hits > runs:
        _check.refuse(owner, "tp", f"at most p = {runs}", hits, f"tp = {hits} counts the runs of p = {runs} in which the attack said in.")
    if alarms > others:
        _check.refuse(owner, "fp", f"at most n = {others}", alarms, f"fp = {alarms} counts the runs of n = {others} without the record.")
    return hits, runs, alarms, others
