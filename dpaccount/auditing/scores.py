"""From scores or outputs of both kinds of runs: a stated rule makes counts of them, and counts make bounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

import dpaccount.auditing.selection as rules
from dpaccount import _check
from dpaccount.adjacency import Adjacency, parse
from dpaccount.auditing.counts import INDEPENDENT, from_counts
from dpaccount.auditing.counts import METHODS as FROM_COUNTS
from dpaccount.auditing.criterion import ONE_RUN, Criterion, criterion_of
from dpaccount.auditing.divergences import hockey_stick_at_least, labelled, renyi_at_least
from dpaccount.auditing.events import Score, classifier_of
from dpaccount.auditing.family import family_of
from dpaccount.auditing.intervals import rates
from dpaccount.auditing.one_run import COINS, fdp_excess, from_guesses, one_run_p_value
from dpaccount.auditing.outcome import REFUTED, UNDECIDED, AuditResult, level
from dpaccount.auditing.selection import Table
from dpaccount.auditing.stated import Stated, stated_claim
from dpaccount.auditing.swapped import exchanged
from dpaccount.auditing.works import WORKS
from dpaccount.statement import shown_up

OWNER = "audit_samples"
DIVERGENCES = ("hockey-stick", "total-variation", "renyi")
METHODS = (*FROM_COUNTS, *ONE_RUN, *DIVERGENCES)
DRAWN = (
    "the number of guesses follows from the scores, and delta's term of the theorem is for a stated number; stated ranks "
    "(selection='bonferroni' without thresholds) have one"
)
Array = npt.NDArray[np.float64]


def audit_samples(
    x0: Any, x1: Any, *, epsilon: float | None = None, mu: float | None = None, claim: Any = None, delta: float | None = None,
    alpha: float = 0.05, method: str = "cp", selection: str | None = None, threshold: Any = None, classifier: Any = None,
    family: Callable[[Any], Any] | None = None, adjacency: str | Adjacency = Adjacency.ADD_OR_REMOVE, order: float | None = None,
    rng: Any = None,
) -> AuditResult:
    """A lower bound on the leak from scores (or outputs) without the record, `x0`, and with it, `x1`.

    Parameters
    ----------
    x0, x1 : arrays
        One-dimensional scores, larger where the record seems to be in; or two-dimensional outputs, one row a run,
        of which a classifier makes scores.
    epsilon, mu, claim : optional, at most one
        What is claimed: epsilon at `delta`; mu-GDP; or a guarantee, a `PrivacyProfile`, a `TrainingRun`, or a table with
        ``epsilon`` and ``delta``. The result then carries a verdict, *refuted* or *undecided*.
    delta : float
        In [0, 1]; needed wherever an epsilon is asked for.
    alpha : float
        Probability of a false alarm, in (0, 1).
    method : str
        ``cp``, ``bayes``, ``gdp``, ``curve`` as in `audit_counts`; ``steinke``, ``fdp`` as in `audit_one_run`, where scores
        are those of the canaries of one run; ``hockey-stick``, a lower bound on delta at `epsilon`, by one exact binomial
        limit on the accuracy of labels drawn with odds e^eps; ``total-variation``, TPR_lo - FPR_hi; ``renyi``, the
        divergence of order `order` between two coins with these rates.
    selection : {"fixed", "split", "bonferroni", "band", "hull"}
        How the threshold is chosen; see `dpaccount.auditing.selection`. Leaving both it and `threshold` out is refused.
    threshold : float or list of float
        For ``fixed`` and ``bonferroni``.
    classifier : callable or "logistic"
        ``classifier(x0, x1)`` returns a function from outputs to scores; trained on one half. Default for outputs.
    family, adjacency
        For ``curve``, as in `audit_counts`.
    order : float
        > 1, for ``renyi``.
    rng : int or numpy Generator, optional
        Splits the sample and draws labels; None takes the operating system's entropy.

    Guarantee
    ---------
    As the statistic's own, given that the selection is what it is said to be. ``hull`` is not proved, nor is ``steinke`` at
    delta > 0 where thresholds leave the number of guesses to the scores: their kind is "unproved", and refutes no claim.

    References
    ----------
    Bichsel et al. (2021) for the search of events by a classifier; Gilbert, McMillan (2018) and Kong et al. (2024) for
    divergences; Mironov (2017) for the Renyi divergence of an event.

    Examples
    --------
    >>> import numpy as np
    >>> from dpaccount.auditing import audit_samples
    >>> rng = np.random.default_rng(0)
    >>> found = audit_samples(rng.normal(0, 1, 2000), rng.normal(2, 1, 2000), epsilon=1.0, delta=1e-5, selection="bonferroni")
    >>> found.verdict, found.kind
    ('refuted', 'confidence')
    """
    alpha = level(OWNER, alpha)
    _check.choice(OWNER, "method", method, METHODS)
    relation = parse(OWNER, adjacency)
    outside, inside = _samples("x0", x0), _samples("x1", x1)
    if outside.shape[1:] != inside.shape[1:]:
        _check.refuse(OWNER, "x1", f"of the same width as x0, {outside.shape[1:]}", inside.shape[1:], "x0 and x1 are outputs alike.")
    if (family is not None) != (method == "curve"):
        family_of(OWNER, family, relation)
        _check.refuse(OWNER, "method", "'curve' where a family is given", method, "Only that statistic reads it.")
    if (order is not None) != (method == "renyi"):
        _check.refuse(OWNER, "order", "a number > 1 where method='renyi', and left out elsewhere", order, kind=TypeError)
    target = stated_claim(OWNER, epsilon, mu, claim, delta)
    if method == "hockey-stick" and epsilon is None:
        _check.refuse(OWNER, "epsilon", "given where method='hockey-stick'", None, "delta is bounded at one epsilon.", TypeError)
    if method not in DIVERGENCES and target.delta is None:
        _check.refuse(OWNER, "delta", "given where an epsilon is asked for", None, "It is never guessed.", TypeError)
    if method in ("total-variation", "renyi") and epsilon is not None and target.delta is None:
        _check.refuse(OWNER, "delta", "given where an epsilon is claimed", None, "It is never guessed.", TypeError)
    generator = np.random.default_rng(rng)
    makes_scores = classifier is not None or outside.ndim == 2
    rule = rules.stated(OWNER, selection, threshold, scores=not makes_scores)
    if method == "hockey-stick" and (rule == "hull" or (rule == "bonferroni" and threshold is None)):
        _check.refuse(
            OWNER, "selection", "'fixed', 'split', or 'bonferroni' with stated thresholds, where method='hockey-stick'", rule,
            "Labels are drawn anew, so ranks of the scores are not those of the labelled ones.",
        )
    if rule == "band" and method not in rules.BANDED:
        _check.refuse(
            OWNER, "selection", "'fixed', 'split' or 'bonferroni'" + f" where method={method!r}", rule,
            f"A band limits both error rates; the statistics of these are {', '.join(rules.BANDED)}.",
        )
    criterion = criterion_of(method, alpha, target.delta or 0.0, epsilon or 0.0)
    text, chosen = "", threshold
    if rule == "split":
        outside, inside, chosen, text = _split(
            outside, inside, generator, criterion, classifier_of(OWNER, classifier) if makes_scores else None
        )
    labels = 0
    if method == "hockey-stick":
        outside, inside, labels = labelled(outside, inside, epsilon or 0.0, generator)
    table = _table(rule, outside, inside, chosen, text, method in ONE_RUN, alpha)
    notes: tuple[str, ...] = (COINS,) if method in ONE_RUN else (INDEPENDENT,)
    drawn = method == "steinke" and target.delta != 0.0 and not (
        rule == "bonferroni" and threshold is None and bool(np.isin(table.tp + table.fp, rules.ranks(table.p + table.n)).all())
    )
    notes = (*notes, *((rules.UNPROVED,) if rule == "hull" else ()), *((DRAWN,) if drawn else ()))
    if method in ONE_RUN:
        found = _one_run(table, target, alpha, method, notes)
    elif method == "hockey-stick":
        found = _hockey_stick(table, labels, epsilon or 0.0, alpha, notes)
    else:
        found = _from_table(table, target, alpha, method, notes, criterion, family, relation, order)
    if makes_scores:
        found = replace(found, works=(*found.works, *WORKS["classifier"]))
    found = target.judged(replace(found, kind="unproved") if rule == "hull" or drawn else found)
    said = [] if makes_scores or found.lower > 0.0 else exchanged(outside, inside)
    few = [] if method != "cp" or rule in ("band", "hull") else _ceiling(table, target, found, alpha)
    return replace(found, notes=(*said, *few))


def _ceiling(table: Table, target: Stated, found: AuditResult, alpha: float) -> list[str]:
    """What a perfect attack could have shown with these counts, where even that would not refute the claim."""
    if found.verdict != UNDECIDED or target.delta is None:
        return []
    best = from_counts(table.p, table.p, 0.0, table.n, target.delta, alpha, "cp", None, Adjacency.ADD_OR_REMOVE, "", table.rules, ())
    if target.judged(best).verdict == REFUTED:
        return []
    return [
        f"with {table.n:.0f} counted runs without the record and {table.p:.0f} with it, even an attack that never errs shows at most "
        f"epsilon = {shown_up(best.lower, 4)}: take more runs"
    ]


def _split(
    x0: Array, x1: Array, rng: np.random.Generator, criterion: Criterion, train: Callable[[Array, Array], Score] | None
) -> tuple[Array, Array, float, str]:
    """The scores to be counted, the threshold that the other half chose, and the rule in words."""
    for name, x in (("x0", x0), ("x1", x1)):
        if len(x) < 2:
            _check.refuse(OWNER, name, "at least two samples where selection='split'", len(x))
    (a0, b0), (a1, b1) = rules.halves(x0, rng), rules.halves(x1, rng)
    text = f"split: chosen on {len(a0)} + {len(a1)} samples, counted on the other {len(b0)} + {len(b1)}"
    if train is not None:
        score = train(a0, a1)
        a0, a1, b0, b1 = (_check.reals(OWNER, "classifier", score(part), infinite=True) for part in (a0, a1, b0, b1))
        text += ", scored by a classifier trained on the first half"
    return b0, b1, rules.best_threshold(a0, a1, criterion), text


def _table(rule: str, x0: Array, x1: Array, threshold: Any, text: str, together: bool, alpha: float) -> Table:
    if rule == "split":
        return rules.one(x0, x1, threshold, text)
    if rule == "fixed":
        value = _check.real(OWNER, "threshold", threshold, infinite=True)
        return rules.one(x0, x1, value, f"fixed: threshold {value:g}, stated beforehand")
    if rule == "hull":
        return rules.hull(x0, x1)
    if rule == "band":
        return rules.band(x0, x1, alpha)
    if threshold is not None:
        return rules.listed(OWNER, x0, x1, threshold)
    return rules.ranked_together(x0, x1) if together else rules.ranked_outside(x0, x1)


def _samples(name: str, value: Any) -> Array:
    array = _check.reals(OWNER, name, value, infinite=True)
    if array.ndim not in (1, 2) or not array.size:
        _check.refuse(OWNER, name, "one-dimensional scores or two-dimensional outputs, at least one", np.shape(array))
    return array


def _from_table(
    table: Table, target: Stated, alpha: float, method: str, notes: tuple[str, ...], criterion: Criterion, family: Any,
    relation: Adjacency, order: float | None,
) -> AuditResult:
    """The bound at the best row, at alpha over the number of rows."""
    best = int(np.argmax(criterion(table)))
    counts = float(table.tp[best]), table.p, float(table.fp[best]), table.n
    at: dict[str, Any] = {"threshold": float(table.threshold[best]), "counts": tuple(int(c) for c in counts)}
    if method in FROM_COUNTS:
        assert target.delta is not None
        return from_counts(
            *counts, target.delta, alpha, method, family, relation, table.text, table.rules, notes, table.single, **at
        )
    limit = rates(*counts, alpha / table.rules)
    details = at | {"fpr_upper": limit.fpr_upper, "fnr_upper": limit.fnr_upper, "tpr_lower": limit.tpr_lower}
    if method == "total-variation":
        value = max(limit.tpr_lower - limit.fpr_upper, 0.0)
        top = min(limit.tpr_upper - limit.fpr_lower, 1.0) if table.single else None
        name, quantity = "total variation of one event, Clopper-Pearson limits", "total variation"
    else:
        a = _check.real(OWNER, "order", order, low=1.0, open_low=True)
        value, top = renyi_at_least(limit, a), None
        name, quantity = "Renyi divergence of one event, Clopper-Pearson limits (data processing)", f"Renyi divergence of order {a:g}"
        details |= {"order": a}
    return AuditResult(quantity, value, top, alpha, "confidence", table.text, notes, name, details, works=WORKS[method])


def _one_run(table: Table, target: Stated, alpha: float, method: str, notes: tuple[str, ...]) -> AuditResult:
    """The best row; the bound at delta = 0 says which rows can still beat the best so far."""
    assert target.delta is not None
    m, share = table.p + table.n, alpha / table.rules
    promise = criterion_of(method, alpha, 0.0, 0.0)(table)
    best: AuditResult | None = None
    for i in np.argsort(-promise, kind="stable"):
        v, r = int(table.tp[i]), int(table.tp[i] + table.fp[i])
        if best is not None and _cannot_beat(best, m, r, v, target.delta, share, method):
            continue
        found = from_guesses(
            m, r, v, target.delta, alpha, method, table.text, table.rules, notes,
            threshold=float(table.threshold[i]), guesses=(m, r, v),
        )
        if best is None or found.lower > best.lower:
            best = found
    assert best is not None
    return best


def _cannot_beat(best: AuditResult, m: int, r: int, v: int, delta: float, share: float, method: str) -> bool:
    """Whether a row does not even reject what the best one rejected."""
    if method == "steinke":
        return one_run_p_value(m, r, v, best.lower, delta) >= share
    return v == 0 or fdp_excess(m, r, v, best.mu or 0.0, share) <= 0.0


def _hockey_stick(table: Table, labels: int, epsilon: float, alpha: float, notes: tuple[str, ...]) -> AuditResult:
    """delta at epsilon, at the row with the most correct labels; missing ones are wrong."""
    correct = table.tp + (table.n - table.fp)
    best = int(np.argmax(correct))
    return AuditResult(
        f"delta at epsilon = {epsilon:g}", hockey_stick_at_least(int(correct[best]), labels, epsilon, alpha / table.rules), None,
        alpha, "confidence", table.text, notes, "hockey-stick divergence of one event, exact binomial limit on an accuracy",
        {"threshold": float(table.threshold[best]), "correct": int(correct[best]), "labels": labels},
        works=WORKS["hockey-stick"],
    )
