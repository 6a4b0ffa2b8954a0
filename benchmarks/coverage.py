"""How often each audit's lower bound exceeds the truth, and how much it finds, on seeded simulations.

Run ``python -m benchmarks.coverage``: ``--runs 200`` for a quick look, ``--jobs 2`` for two processes, ``--new`` for rows that are
not there yet. It writes ``benchmarks/coverage.json``. Every row is one statistic, one selection rule and one mechanism; ``limit`` is
the nominal 5 % plus three standard errors. Beside ours stands what a peer does: the threshold with the best accuracy on the same
coins, uncorrected; and looking again and again at all of alpha.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from itertools import repeat, takewhile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import dpaccount.auditing.selection as rules
from dpaccount import Gaussian, Laplace, PoissonSampled, PrivacyProfile, RandomizedResponse
from dpaccount.auditing import audit_counts, audit_one_run, audit_samples
from dpaccount.auditing.criterion import criterion_of
from dpaccount.auditing.family import family_of
from dpaccount.auditing.game.looks import Look, open_ended, planned
from dpaccount.auditing.intervals import rates
from dpaccount.auditing.members import Tangents, ranked_excess, tangents
from dpaccount.auditing.one_run import tail_excess
from dpaccount.auditing.region import Posterior, mass

RESULTS = Path(__file__).with_name("coverage.json")
ALPHA, DELTA, SIZE = 0.05, 1e-5, 200  # SIZE runs of each kind, or twice as many canaries
CREDIBLE = "bayes"  # promises no frequency; its rates are reported, not judged
Array = npt.NDArray[np.float64]


class Mechanism(NamedTuple):
    """Scores without and with the record, a threshold to state beforehand, and the profile."""

    name: str
    draw: Callable[[np.random.Generator, int, bool], Array]
    threshold: float
    profile: PrivacyProfile | None

    def truth(self, quantity: str) -> float:
        """What no valid bound may exceed in more than 5 % of audits; 0 without a leak."""
        return _truth(self.name, quantity)


SIGMA, RATE, STEPS = 1.0, 0.2, 5


def _gaussian(rng: np.random.Generator, size: int, inside: bool) -> Array:
    return rng.normal(float(inside), 1.0, size)


def _laplace(rng: np.random.Generator, size: int, inside: bool) -> Array:
    return rng.laplace(float(inside), 1.0, size)


def _response(rng: np.random.Generator, size: int, inside: bool) -> Array:
    return (rng.random(size) < (math.e if inside else 1.0) / (1.0 + math.e)).astype(float)


def _sampled(rng: np.random.Generator, size: int, inside: bool) -> Array:
    """The log-likelihood ratio of five sampled steps."""
    present = rng.random((size, STEPS)) < RATE if inside else np.zeros((size, STEPS))
    x = rng.normal(0.0, SIGMA, (size, STEPS)) + present
    return np.asarray(np.log1p(RATE * np.expm1((2 * x - 1) / (2 * SIGMA**2))).sum(axis=1))


def _once(rng: np.random.Generator, size: int, inside: bool) -> Array:
    """One step, sampled with probability one half."""
    x = rng.normal(0.0, SIGMA, size) + (rng.random(size) < 0.5) * float(inside)
    return np.asarray(np.log1p(0.5 * np.expm1((2 * x - 1) / (2 * SIGMA**2))))


def _nothing(rng: np.random.Generator, size: int, inside: bool) -> Array:
    return rng.normal(0.0, 1.0, size)


MECHANISMS = {
    m.name: m for m in (
        Mechanism("gaussian", _gaussian, 1.0, PrivacyProfile(Gaussian(1.0))),
        Mechanism("laplace", _laplace, 0.5, PrivacyProfile(Laplace(1.0))),
        Mechanism("randomised response", _response, 0.5, PrivacyProfile(RandomizedResponse(1.0), "replace-one")),
        Mechanism("subsampled gaussian", _sampled, 0.3, PrivacyProfile(STEPS * PoissonSampled(Gaussian(SIGMA), RATE))),
        Mechanism("one sampled step", _once, 0.28, PrivacyProfile(PoissonSampled(Gaussian(SIGMA), 0.5))),
        Mechanism("no leak", _nothing, 0.0, None),
    )
}
ORDER, HOCKEY = 2.0, 0.5


@lru_cache(maxsize=64)
def _truth(name: str, quantity: str) -> float:
    profile = MECHANISMS[name].profile
    if profile is None:
        return 0.0
    if quantity == "epsilon":
        return float(profile.epsilon(delta=DELTA).upper)
    if quantity == "delta":
        return float(profile.delta(epsilon=HOCKEY).upper)
    return float((profile.total_variation() if quantity == "total variation" else profile.renyi(ORDER)).upper)


QUANTITY = {"hockey-stick": "delta", "total-variation": "total variation", "renyi": "renyi"}
ONE_RUN = ("steinke", "fdp")
FAMILY = ("fdp, family", "order, family")  # one run, inside a family other than the Gaussians
REJECTION = ("bayes", "curve", *FAMILY)  # judged by whether they reject the truth
LOOKS = ("looks", "looks without end", "uncorrected looks")  # counted again and again, every time with the chance to exceed
CHUNK = 10
FAMILIES = {  # the mechanisms that a model-based statistic is true for
    "gdp": ("gaussian", "no leak"), "fdp": ("gaussian", "no leak"), "order": ("gaussian",),
    "curve": ("gaussian", "laplace", "randomised response", "one sampled step", "no leak"),  # each inside its own family
    "bayes": ("gaussian", "laplace", "randomised response", "no leak"),
    "fdp, family": ("laplace", "randomised response", "one sampled step"),
    "order, family": ("laplace", "randomised response", "one sampled step"),
}


def settings() -> Iterator[tuple[str, str, str]]:
    """Every (statistic, rule, mechanism) that has a promise to keep, or is reported beside."""
    every = tuple(name for name in MECHANISMS if name != "one sampled step")  # which is there for its family's curve
    for method in ("cp", "gdp", "total-variation", "renyi", "steinke", "fdp"):
        for rule in ("fixed", "split", "bonferroni", "hull", *(["band"] if method not in ONE_RUN else [])):
            for name in FAMILIES.get(method, every):
                if name != "subsampled gaussian" or method in ("cp", "steinke"):  # one statistic of each kind
                    yield method, rule, name
    for rule in ("fixed", "split", "bonferroni"):
        for name in every:
            yield "hockey-stick", rule, name
    for rule in ("looks", "looks without end"):
        for name in every:
            yield "cp", rule, name
    yield "cp", "uncorrected looks", "no leak"
    for method in ("bayes", "curve"):
        for rule in ("fixed", "split", "bonferroni", "hull", *(["band"] if method == "curve" else [])):
            for name in FAMILIES[method]:
                if name != "one sampled step" or rule == "fixed":
                    yield method, rule, name
    for method in ("order", *FAMILY):
        for name in FAMILIES.get(method, ("gaussian", "no leak")):
            yield method, "fixed", name
    yield "steinke", "uncorrected", "no leak"


def simulate(method: str, rule: str, name: str, runs: int, seed: int = 0) -> dict[str, Any]:
    """Audit `runs` simulated experiments of one setting."""
    mechanism = MECHANISMS[name]
    truth = mechanism.truth(QUANTITY.get(method, "epsilon"))
    bounds = []
    for i in range(runs):
        rng = np.random.default_rng([seed, i])
        bounds.append(one(method, rule, mechanism, rng))
    found = np.array(bounds)
    exceed = int((found > truth + 1e-12).sum())
    return {
        "statistic": method, "selection": rule, "mechanism": name, "runs": runs, "truth": truth, "exceed": exceed,
        "rate": exceed / runs, "limit": limit(runs), "mean_lower": None if method in REJECTION else float(found.mean()),
        "promised": method != CREDIBLE and not rule.startswith("uncorrected"),
    }


def limit(runs: int) -> float:
    """The nominal level and three standard errors."""
    return ALPHA + 3 * math.sqrt(ALPHA * (1 - ALPHA) / runs)


def one(method: str, rule: str, mechanism: Mechanism, rng: np.random.Generator) -> float:
    """One experiment, audited."""
    if method == "order":
        return _ordered(rng)
    if method in FAMILY:
        return math.inf if _members_rejected(method, mechanism, rng) else -math.inf
    if rule in LOOKS:
        return _looked_at(rule, mechanism, rng)
    inside = int(rng.binomial(2 * SIZE, 0.5)) if method in ONE_RUN else SIZE
    x0, x1 = mechanism.draw(rng, 2 * SIZE - inside, False), mechanism.draw(rng, inside, True)
    if rule == "uncorrected":
        return _best_accuracy(x0, x1)
    if method in REJECTION:
        return math.inf if _rejects(method, mechanism.name, *_chosen(method, rule, x0, x1, mechanism, rng)) else -math.inf
    options: dict[str, Any] = {"method": method, "alpha": ALPHA, "delta": DELTA, "rng": rng}
    if method == "hockey-stick":
        options["epsilon"] = HOCKEY
    if method == "renyi":
        options["order"] = ORDER
    if rule == "fixed":
        options["threshold"] = mechanism.threshold
    elif rule == "bonferroni" and method == "hockey-stick":
        options["threshold"] = [mechanism.threshold - 0.5, mechanism.threshold, mechanism.threshold + 0.5]
    else:
        options["selection"] = rule
    return audit_samples(x0, x1, **options).lower


def _chosen(
    method: str, rule: str, x0: Array, x1: Array, mechanism: Mechanism, rng: np.random.Generator
) -> tuple[int, int, int, int, float]:
    """TP, P, FP, N and the level of what `audit_samples` counts under a rule."""
    criterion = criterion_of(method, ALPHA, DELTA, 0.0)
    if rule == "split":
        (a0, b0), (a1, b1) = rules.halves(x0, rng), rules.halves(x1, rng)
        table = rules.one(b0, b1, rules.best_threshold(a0, a1, criterion), "")
    elif rule == "fixed":
        table = rules.one(x0, x1, mechanism.threshold, "")
    elif rule == "band":
        table = rules.band(x0, x1, ALPHA)
    else:
        table = rules.hull(x0, x1) if rule == "hull" else rules.ranked_outside(x0, x1)
    best = int(np.argmax(criterion(table)))
    return int(table.tp[best]), table.p, int(table.fp[best]), table.n, ALPHA / table.rules


@lru_cache(maxsize=100_000)
def _rejects(method: str, name: str, tp: int, p: int, fp: int, n: int, alpha: float) -> bool:
    """Whether the truth itself is rejected, which is what a bound above it means; a bound each would take hours.

    ``bayes``: the true region holds less than alpha; ``curve``: the true trade-off function lies above both rate limits.
    """
    mechanism = MECHANISMS[name]
    if method == "bayes":
        misses, alarms = Posterior(0.5 + p - tp, 0.5 + tp), Posterior(0.5 + fp, 0.5 + n - fp)
        return mass(mechanism.truth("epsilon"), DELTA, misses, alarms) < alpha
    found = rates(tp, p, fp, n, alpha)
    if mechanism.profile is None:  # the least member of the family has no leak at all
        return found.fpr_upper + found.fnr_upper < 1.0
    return _least(name, found.fpr_upper) > found.fnr_upper


@lru_cache(maxsize=100_000)
def _least(name: str, rate: float) -> float:
    """The true trade-off function at a false positive rate."""
    return float(_function(name)(rate).lower)


@lru_cache(maxsize=8)
def _function(name: str) -> Any:
    profile = MECHANISMS[name].profile
    assert profile is not None
    return profile.trade_off()


def _ordered(rng: np.random.Generator) -> float:
    """Canaries of a Gaussian channel, ranked by their log-likelihood ratio."""
    m, r = 2 * SIZE, 100
    coin = rng.random(m) < 0.5
    ratio = rng.normal(coin.astype(float), 1.0) - 0.5
    guessed = np.argsort(-np.abs(ratio))[:r]
    return _released(m, r, int((coin[guessed] == (ratio[guessed] > 0)).sum()))


@lru_cache(maxsize=1000)
def _released(m: int, r: int, v: int) -> float:
    return audit_one_run(m, r, v, DELTA, ALPHA, "order").lower


RELEASED = 100  # of the canaries, the most telling ones
MEMBERS: dict[str, tuple[Callable[[float], Any], str, Callable[[Array], Array]]] = {  # the family, its relation, a score's loss
    "laplace": (Laplace, "add-or-remove", lambda x: np.abs(x) - np.abs(x - 1.0)),
    "randomised response": (RandomizedResponse, "replace-one", lambda x: 2.0 * x - 1.0),
    "one sampled step": (lambda s: PoissonSampled(Gaussian(s), 0.5), "add-or-remove", lambda x: x),
}


def _members_rejected(method: str, mechanism: Mechanism, rng: np.random.Generator) -> bool:
    """Whether the true member is rejected by one run's guesses: all of them, or the most telling, with ties broken by chance."""
    m = 2 * SIZE
    coin = rng.random(m) < 0.5
    score = np.where(coin, mechanism.draw(rng, m, True), mechanism.draw(rng, m, False))
    loss = MEMBERS[mechanism.name][2](score)
    r = RELEASED if method == "order, family" else m
    told = np.lexsort((rng.random(m), -np.abs(loss)))[:r]
    return _member_rejected(method, mechanism.name, m, r, int((coin[told] == (loss[told] > 0)).sum()))


@lru_cache(maxsize=2000)
def _member_rejected(method: str, name: str, m: int, r: int, v: int) -> bool:
    make, relation, _ = MEMBERS[name]
    family = family_of("coverage", make, relation)
    if method == "order, family":
        return ranked_excess("coverage", family, m, r, r - v, ALPHA)(1.0) > 0.0
    return tail_excess(m, r, v, ALPHA, _tangents(name).inverse_of_rest) > 0.0


@lru_cache(maxsize=8)
def _tangents(name: str) -> Tangents:
    make, relation, _ = MEMBERS[name]
    return tangents(family_of("coverage", make, relation).profile(1.0))


def _looked_at(rule: str, mechanism: Mechanism, rng: np.random.Generator) -> float:
    """The largest bound of all looks at one growing sample: what someone finds who stops at the luckiest moment."""
    x0, x1 = (mechanism.draw(rng, SIZE, inside) >= mechanism.threshold for inside in (False, True))
    if rule == "looks":
        stated: Iterator[Look] = planned(SIZE, CHUNK, True)
    elif rule == "looks without end":
        stated = takewhile(lambda look: look.runs <= SIZE, open_ended(CHUNK))
    else:
        stated = (Look(n, 1.0) for n in range(CHUNK, SIZE + 1, CHUNK))
    return max(_counted(int(x1[:n].sum()), int(x0[:n].sum()), n, ALPHA * share) for n, share in stated)


@lru_cache(maxsize=100_000)
def _counted(tp: int, fp: int, n: int, alpha: float) -> float:
    return audit_counts(tp, n, fp, n, DELTA, alpha).lower


def _best_accuracy(x0: Array, x1: Array) -> float:
    """A peer's default: the threshold with the best accuracy on the same coins, then the one-run bound as if it were fixed."""
    at = np.union1d(x0, x1)
    tp = (x1[:, None] >= at).sum(axis=0)
    fp = (x0[:, None] >= at).sum(axis=0)
    i = int(np.argmax(tp - fp))
    right = int(tp[i] + x0.size - fp[i])
    m = x0.size + x1.size
    return audit_one_run(m, m, right, DELTA, ALPHA).lower


def main() -> None:
    """Simulate every setting and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--new", action="store_true")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = json.loads(RESULTS.read_text(encoding="utf-8"))["rows"] if options.new else []
    known = {(row["statistic"], row["selection"], row["mechanism"]) for row in rows}
    missing = [setting for setting in settings() if setting not in known]
    with ProcessPoolExecutor(options.jobs) as pool:
        for row in pool.map(_row, missing, repeat(options.runs)):
            mark = "" if not row["promised"] or row["rate"] <= row["limit"] else "  ABOVE THE LIMIT"
            print(f"{row['statistic']:16s} {row['selection']:12s} {row['mechanism']:20s} {row['rate']:.4f} (limit {row['limit']:.4f}) "
                  f"mean {row['mean_lower']} of {row['truth']:.4f}{mark}", flush=True)
            rows.append(row)
            found = {"alpha": ALPHA, "delta": DELTA, "samples_of_each_kind": SIZE, "rows": rows}
            RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def _row(setting: tuple[str, str, str], runs: int) -> dict[str, Any]:
    return simulate(*setting, runs)


if __name__ == "__main__":
    main()
