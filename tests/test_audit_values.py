"""Audits against published and recomputed values: counts, one run, scores, divergences, shuffled epochs."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from mpmath import mpf
from references import make_auditing
from scipy.special import gammaln, ndtri

from dpaccount import ApproximateDP, Gaussian, PrivacyProfile
from dpaccount.auditing import audit_counts, audit_one_run, audit_samples, shuffle_lower_bound
from dpaccount.auditing.divergences import coin_divergence, hockey_stick_at_least
from dpaccount.auditing.family import gdp_mu
from dpaccount.auditing.intervals import model_free, rate_lower, rate_upper, rates
from dpaccount.auditing.one_run import fdp_excess, one_run_p_value
from dpaccount.auditing.ranked import ranked_p_value
from dpaccount.auditing.region import Posterior, mass
from dpaccount.auditing.thinning import thinned_p_value

REFERENCES = json.loads((Path(__file__).parent / "references" / "auditing.json").read_text(encoding="utf-8"))
CLOSE = {"rel": 0.0, "abs": 1e-7}
A, B, C = (950, 1000, 0, 1000), (900, 1000, 100, 1000), (4922, 100000, 174, 100000)


def rows(name: str) -> list[list[object]]:
    return REFERENCES[name]


# recomputed by mpmath from definitions


@pytest.mark.parametrize(("count", "trials", "level", "value"), rows("upper_limit"))
def test_binomial_limits_are_exact_at_zero_and_at_a_billion_runs(count, trials, level, value):
    assert rate_upper(count, trials, float(level)) == pytest.approx(value, rel=1e-11)
    assert rate_lower(trials - count, trials, float(level)) == pytest.approx(1 - value, rel=1e-11)


@pytest.mark.parametrize(("tp", "p", "fp", "n", "epsilon", "value"), rows("region_mass"))
def test_posterior_mass_of_the_joint_region(tp, p, fp, n, epsilon, value):
    misses, alarms = Posterior(0.5 + p - tp, 0.5 + tp), Posterior(0.5 + fp, 0.5 + n - fp)
    assert mass(float(epsilon), 1e-5, misses, alarms) == pytest.approx(value, rel=1e-9)
    assert mass(float(epsilon), 1e-5, alarms, misses) == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize(("m", "r", "v", "value"), rows("steinke"))
def test_one_run_bound_is_the_theorem_summed_term_by_term(m, r, v, value):
    assert audit_one_run(m, r, v, 1e-5).lower == pytest.approx(value, abs=1e-10)


def summed(m, r, v, epsilon, delta):
    """The theorem's p-value, every term and every i."""
    k, log_q = np.arange(r + 1.0), -math.log1p(math.exp(-epsilon))
    chosen = gammaln(r + 1.0) - gammaln(k + 1.0) - gammaln(r - k + 1.0)
    mass = np.exp(chosen + k * log_q + (r - k) * (log_q - epsilon))
    means = np.cumsum(mass[:v][::-1]) / np.arange(1, v + 1)
    return min(float(mass[v:].sum() + 2.0 * m * delta * means.max(initial=0.0)), 1.0)


LARGE_DELTAS = [
    (10**5, 10**4, 10**4, 1e-3, 0.466183725), (10**4, 10**4, 9500, 1e-2, 0.260296385), (10**6, 10**4, 9990, 1e-4, 0.461989468),
    (10**6, 5000, 4950, 3e-5, 1.187515546), (3000, 3000, 2970, 1e-2, 0.466255690), (5000, 5000, 4500, 5e-3, 0.928351731),
]


@pytest.mark.parametrize(("m", "r", "v", "delta", "value"), LARGE_DELTAS)
def test_one_run_keeps_the_delta_term_far_above_the_mode(m, r, v, delta, value):
    found = audit_one_run(m, r, v, delta).lower
    assert found == pytest.approx(value, abs=1e-8)
    assert summed(m, r, v, found, delta) == pytest.approx(0.05, rel=1e-9)
    least = next(e for e in np.linspace(0.0, 2 * value, 81) if summed(m, r, v, e, delta) >= 0.05)
    assert found <= least  # the least root, not a later one


@pytest.mark.parametrize(
    ("m", "r", "v", "delta"),
    [(1000, 1000, 900, 1e-2), (1000, 100, 90, 1e-3), (300, 300, 300, 0.1), (5000, 5000, 2600, 1e-3), (40, 20, 18, 0.05),
     (10**4, 3000, 2970, 1e-4), (20, 5, 1, 0.1)],
)
def test_one_run_p_values_are_the_sum_and_rise_with_epsilon(m, r, v, delta):
    last = 0.0
    for epsilon in np.linspace(0.0, 6.0, 121):
        found = one_run_p_value(m, r, v, epsilon, delta)
        assert found == pytest.approx(summed(m, r, v, epsilon, delta), rel=1e-10)
        assert last >= 0.5 or found >= last * (1 - 1e-12)
        last = found


@pytest.mark.parametrize(("m", "r", "v", "mu", "value"), rows("recursion"))
def test_f_dp_recursion(m, r, v, mu, value):
    found = fdp_excess(m, r, v, float(mu), 0.05)
    if value > 0.5:  # the masses have outgrown one, and are followed no further
        assert found > 0.5
    else:
        assert found == pytest.approx(value, abs=1e-11)


@pytest.mark.parametrize(("m", "r", "errors", "mu", "value"), rows("ranked"))
def test_order_statistics_p_value(m, r, errors, mu, value):
    assert ranked_p_value(m, r, errors, float(mu)) == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize(("sigma", "batches", "delta", "other", "value"), rows("epoch"))
def test_one_shuffled_epoch(sigma, batches, delta, other, value):
    adjacency = "zero-out" if other == 1 else "replace-one"
    found = shuffle_lower_bound(float(sigma), batches, 1, float(delta), adjacency=adjacency)
    assert found.lower == pytest.approx(value, abs=1e-9)
    assert found.lower <= value + 1e-12  # every threshold is valid, the best is approached from below
    assert found.lower <= found.upper


def test_the_copied_references_are_what_their_script_says():
    assert make_auditing.steinke_p_value(40, 20, 18, mpf("0.9308716130042608")) == pytest.approx(0.05, rel=1e-12)
    assert float(make_auditing.recursion(40, 20, 18, mpf("0.2"))) == pytest.approx(rows("recursion")[3][-1], rel=1e-14)
    assert float(make_auditing.upper_limit(1, 50, "0.025")) == pytest.approx(rows("upper_limit")[4][-1], rel=1e-14)


# values of the literature and of peers' own tests, at delta = 1e-5 and alpha = .05 unless said


@pytest.mark.parametrize(("counts", "value"), [(A, 5.53663924), (B, 1.98969495), (C, 3.16636852)])
def test_two_binomials(counts, value):
    assert audit_counts(*counts, 1e-5).lower == pytest.approx(value, **CLOSE)


@pytest.mark.parametrize(("counts", "value"), [(A, 5.74712717), (B, 2.02122191), (C, 3.19355894)])
def test_a_level_not_shared_between_the_rates_would_claim_more(counts, value):
    assert audit_counts(*counts, 1e-5, alpha=0.1).lower == pytest.approx(value, **CLOSE)


def test_two_binomials_refute_the_published_claim_at_a_level_of_1e_minus_10():
    """A claimed (0.21, 1e-5): eps > 2.79 (Tramer et al. 2022)."""
    assert audit_counts(*C, 1e-5, alpha=1e-10).lower == pytest.approx(2.79499955, **CLOSE)


def test_limits_of_both_rates():
    details = audit_counts(*A, 1e-5).details
    assert details["tpr_lower"] == pytest.approx(0.9346095121, abs=1e-10)
    assert details["fpr_upper"] == pytest.approx(0.0036820839, abs=1e-10)


@pytest.mark.parametrize(
    ("runs", "alpha", "value"),
    [(500, 0.05, 4.90559421), (1000, 0.05, 5.60058753), (10**4, 0.05, 7.90483318), (10**5, 0.05, 10.20758428), (500, 0.01, 4.54191581)],
)
def test_ceiling_of_a_perfect_attack(runs, alpha, value):
    assert audit_counts(runs, runs, 0, runs, 0.0, alpha).lower == pytest.approx(value, **CLOSE)


@pytest.mark.parametrize(
    ("counts", "lower", "upper"), [(A, 6.20441882, 13.08793444), (B, 2.10951926, 2.38797808), (C, 3.21714550, 3.47043340)]
)
def test_bayesian_joint_region(counts, lower, upper):
    found = audit_counts(*counts, 1e-5, method="bayes")
    assert found.lower == pytest.approx(lower, **CLOSE)
    assert found.upper == pytest.approx(upper, **CLOSE)
    assert found.kind == "credible"


@pytest.mark.parametrize(
    ("counts", "mu", "epsilon"), [(A, 4.19094061, 25.96877242), (B, 2.34709723, 12.19756275), (C, 1.20958895, 5.46430283)]
)
def test_gaussian_dp_from_counts(counts, mu, epsilon):
    found = audit_counts(*counts, 1e-5, method="gdp")
    assert found.mu == pytest.approx(mu, **CLOSE)
    assert found.lower == pytest.approx(epsilon, **CLOSE)
    assert found.kind == "model-based"


POWER = [
    (1.0, 1000, 1.443531, 3.562248), (1.0, 10000, 2.195020, 4.117814), (1.0, 100000, 2.811531, 4.294709),
    (2.0, 1000, 3.205913, 8.840453), (2.0, 10000, 4.456261, 9.630332), (2.0, 100000, 5.517216, 9.881784),
]


@pytest.mark.parametrize(("mu", "runs", "cp", "gdp"), POWER)
def test_power_on_a_gaussian_at_expected_counts(mu, runs, cp, gdp):
    """Best threshold on a grid of .05 in [-1, 6], counts rounded."""
    counts = []
    for t in np.arange(-20, 121) / 20:
        counts.append([round(runs * 0.5 * math.erfc((t - shift) / math.sqrt(2))) for shift in (mu, 0.0)])
    found = [rates(tp, runs, fp, runs, 0.05) for tp, fp in counts]
    tp, fp = counts[int(np.argmax([gdp_mu(r.fpr_upper, r.fnr_upper) for r in found]))]
    assert max(model_free(r, 1e-5)[0] for r in found) == pytest.approx(cp, abs=6e-7)
    assert audit_counts(tp, runs, fp, runs, 1e-5, method="gdp").lower == pytest.approx(gdp, abs=6e-7)


@pytest.mark.parametrize(
    ("guesses", "value"),
    [
        ((1000, 100, 100), 3.46537635), ((1000, 100, 95), 2.16517580), ((1000, 100, 90), 1.62614348),
        ((1000, 1000, 1000), 5.78228314), ((1000, 1000, 600), 0.29722695), ((1000, 1000, 700), 0.73174045),
        ((1000, 500, 450), 1.94601194),
    ],
)
def test_one_run_for_any_algorithm(guesses, value):
    assert audit_one_run(*guesses, 1e-5).lower == pytest.approx(value, **CLOSE)


@pytest.mark.parametrize(("guesses", "value"), [((1000, 100, 100), 3.49296543), ((1000, 1000, 1000), 5.80906834)])
def test_one_run_at_delta_zero_is_a_binomial_limit(guesses, value):
    assert audit_one_run(*guesses, 0.0).lower == pytest.approx(value, **CLOSE)
    _, r, _ = guesses
    share = 0.05 ** (1 / r)
    assert audit_one_run(*guesses, 0.0).lower == pytest.approx(math.log(share / (1 - share)), rel=1e-12)


@pytest.mark.parametrize(
    ("guesses", "mu", "epsilon"),
    [
        ((1000, 100, 90), 0.60250361, 2.45640489), ((1000, 100, 100), 1.22553345, 5.54902790),
        ((1000, 1000, 600), 0.16384981, 0.58354047), ((1000, 500, 450), 0.80015144, 3.38766508),
    ],
)
def test_one_run_f_dp(guesses, mu, epsilon):
    found = audit_one_run(*guesses, 1e-5, method="fdp")
    assert found.mu == pytest.approx(mu, **CLOSE)
    assert found.lower == pytest.approx(epsilon, **CLOSE)


@pytest.mark.parametrize(
    ("m", "r", "errors", "value"),
    [(1000, 100, 10, 3.16445774), (1000, 500, 103, 3.75573807), (1000, 1000, 309, 3.67004551), (10000, 1000, 97, 4.01406820)],
)
def test_one_run_order_statistics(m, r, errors, value):
    assert audit_one_run(m, r, r - errors, 1e-5, method="order").lower == pytest.approx(value, **CLOSE)


@pytest.mark.parametrize(("r", "errors", "value"), [(500, 80, 0.01191188), (500, 90, 0.13362038), (2000, 620, 0.00056640)])
def test_order_statistics_tails_of_the_authors_table(r, errors, value):
    assert ranked_p_value(2000, r, errors, 0.8) == pytest.approx(value, abs=6e-9)


@pytest.mark.parametrize(
    ("shift", "steinke", "fdp"), [(0, 0.0, 0.0), (1, 1.13346, 2.164749), (2, 2.311945, 4.7218075), (4, 4.395568, 9.133752)]
)
def test_jax_privacys_own_test_values_by_the_hull(shift, steinke, fdp):
    """Ten thousand canaries of each kind at normal quantiles, delta 1e-6; its tolerance is 1e-5."""
    scores = ndtri((np.arange(10000) + 0.5) / 10000)
    for method, value in (("steinke", steinke), ("fdp", fdp)):
        found = audit_samples(scores, scores + shift, delta=1e-6, method=method, selection="hull")
        assert found.lower == pytest.approx(value, rel=1e-6)
        assert any("no proof" in text for text in found.assumptions)


def test_dp_snipers_stored_laplace_log():
    """Two limits at .05 each, of 2e8 runs; ten digits are published."""
    p1, p2 = 0.011047356628959277, 0.010005449079359555
    assert math.log(p1 / p2) == pytest.approx(0.0990613277, abs=1e-10)
    for runs, value in ((2e8, 0.0968037349), (1.07e7, 0.0892899064)):
        lower = math.log(rate_lower(int(p1 * runs), runs, 0.05) / rate_upper(int(p2 * runs), runs, 0.05))
        assert lower == pytest.approx(value, abs=1e-10)


@pytest.mark.parametrize(("epsilon", "value"), [(1.0, 2.53347368e-02), (1.05, 1.74336386e-01)])
def test_thinned_hypergeometric_p_value_is_twice_the_exact_mean(epsilon, value):
    assert thinned_p_value(3000, 1000, 100000, epsilon) == pytest.approx(2 * value, rel=1e-7)


@pytest.mark.parametrize(("p1", "p2", "mu", "delta"), [(0.30, 0.10, 0.75715105, 0.13512787), (0.05, 0.005, 0.93097568, 0.04175639)])
def test_a_witness_and_the_gaussian_curve_through_it(p1, p2, mu, delta):
    """delta at eps .5 is the witness's own; the curve through it is larger there."""
    found = gdp_mu(p2, 1 - p1)
    assert found == pytest.approx(mu, **CLOSE)
    if p1 == 0.30:
        assert 1 / found == pytest.approx(1.32074042, **CLOSE)
    assert p1 - math.exp(0.5) * p2 == pytest.approx(delta, **CLOSE)
    assert PrivacyProfile(Gaussian(1 / found)).delta(epsilon=0.5).lower > delta


def test_hockey_stick_by_an_exact_accuracy():
    assert hockey_stick_at_least(8000, 10000, 1.0, 0.05) == pytest.approx(0.23145455, **CLOSE)
    hoeffding = (0.8 - math.sqrt(math.log(1 / 0.05) / 2e4)) * (1 + math.e) - math.e
    assert hoeffding == pytest.approx(0.21083657, **CLOSE)
    assert hockey_stick_at_least(8000, 10000, 1.0, 0.05) > hoeffding


@pytest.mark.parametrize(
    ("mu", "variation", "epsilon"), [(0.5, 0.19741265, 1.99309140), (1, 0.38292492, 4.37717810), (2, 0.68268949, 9.99725615)]
)
def test_total_variation_of_a_gaussian_and_its_epsilon(mu, variation, epsilon):
    profile = PrivacyProfile(Gaussian(1 / mu))
    assert profile.total_variation().estimate == pytest.approx(variation, **CLOSE)
    assert profile.epsilon(delta=1e-5).estimate == pytest.approx(epsilon, **CLOSE)


def test_membership_advantage_allowed_by_epsilon():
    assert PrivacyProfile(ApproximateDP(1.0, 1e-5)).advantage().upper == pytest.approx(0.46212254, **CLOSE)
    scores = np.repeat([0.0, 1.0], [300, 700])
    found = audit_samples(scores, scores, epsilon=1.0, delta=1e-5, method="total-variation", threshold=0.5)
    assert found.details["claimed"] == pytest.approx(0.46212254, **CLOSE)


def test_renyi_divergence_of_two_coins():
    assert coin_divergence(0.8, 0.3, 2.0) == pytest.approx(math.log(0.8**2 / 0.3 + 0.2**2 / 0.7), rel=1e-14)
    assert coin_divergence(0.3, 0.8, 2.0) == 0.0
    assert coin_divergence(0.5, 0.0, 2.0) == math.inf


SHUFFLED = [(1.1, 234, 1, 2.98078354, 2e-8), (0.5, 1000, 1, 9.99662480, 2e-8), (1.1, 234, 2, 3.3854, 4e-4), (1.1, 234, 10, 5.2126, 2e-3),
            (1.1, 234, 60, 10.869, 1.2e-2)]


@pytest.mark.parametrize(("sigma", "batches", "epochs", "value", "room"), SHUFFLED)
def test_shuffled_epochs_reach_the_published_lower_bounds(sigma, batches, epochs, value, room):
    """Those of several epochs were rounded down on a grid of 2e-4 for each epoch: ours are above by at most that."""
    found = shuffle_lower_bound(sigma, batches, epochs, 1e-5)
    assert value - 1e-8 - 5e-5 * (epochs > 1) <= found.lower <= value + room
    assert found.kind == "computed"
    assert found.level == 0.0


def test_one_fixed_batch_is_the_upper_end_of_a_shuffled_epoch():
    assert shuffle_lower_bound(1.1, 234, 1, 1e-5).upper == pytest.approx(3.92125025, **CLOSE)
    assert shuffle_lower_bound(0.5, 1000, 1, 1e-5).upper == pytest.approx(9.99725615, **CLOSE)
    alone = shuffle_lower_bound(1.1, 1, 10, 1e-5)  # a single batch: nothing is shuffled
    assert alone.lower == pytest.approx(alone.upper, rel=1e-5)


@pytest.mark.parametrize(
    ("sigma", "batches", "value", "poisson"), [(0.4, 10000, 14.4507693572, 5.34446515), (0.5, 1000, 10.9969147845, 4.2350683027)]
)
def test_shuffled_runs_reported_with_poissons_figure(sigma, batches, value, poisson):
    """BR-115: at least this much, and never the Poisson value."""
    found = shuffle_lower_bound(sigma, batches, 1, 1e-6)
    assert value - 1e-6 <= found.lower <= found.upper <= value * 1.005
    assert poisson < 0.5 * found.lower


# public failures, as cases


@pytest.mark.parametrize(("alpha", "value"), [(0.1, 3.4929551269936), (0.05, 3.2813359732687)])
def test_perfect_attacks_have_a_finite_lower_end(alpha, value):
    """BR-118, microsoft/responsible-ai-toolbox-privacy #7."""
    found = audit_counts(100, 100, 0, 100, 1e-5, alpha)
    assert found.lower == pytest.approx(value, abs=1e-9)
    assert found.upper == math.inf
    assert math.isfinite(audit_counts(100, 100, 0, 100, 1e-5, alpha, method="bayes").lower)


def test_one_sided_limit_without_a_single_error():
    assert rate_upper(0, 100, 0.05) == pytest.approx(0.02951304960704, abs=1e-9)


@pytest.mark.parametrize(("counts", "delta"), [((1, 1000, 0, 1000), 0.01), ((50, 100, 50, 100), 1e-5)])
def test_attacks_that_show_nothing_give_exactly_zero(counts, delta):
    assert audit_counts(*counts, delta).lower == 0.0


def test_no_positive_trials_is_an_error():
    with pytest.raises(ValueError, match="no positive trials: the true-positive rate is undefined"):
        audit_counts(0, 0, 0, 100, 1e-5)
    with pytest.raises(ValueError, match="no negative trials: the false-positive rate is undefined"):
        audit_counts(0, 100, 0, 0, 1e-5)


@pytest.mark.parametrize("counts", [(10, 20, 10, 20), (50, 100, 50, 100), (500, 1000, 500, 1000)])
def test_null_scores_give_zero_and_never_an_absolute_value(counts):
    """BR-119, google-deepmind/jax_privacy PR 270."""
    found = audit_counts(*counts, 1e-5, method="gdp")
    assert found.lower == 0.0 == found.mu


def test_the_model_free_and_the_gaussian_reading_of_the_same_counts():
    counts = (900, 1000, 1, 1000)
    model = audit_counts(*counts, 1e-5, method="gdp")
    assert model.lower == pytest.approx(22.061850144288, rel=1e-7)
    assert model.mu == pytest.approx(3.7125213562621, rel=1e-7)
    assert "Gaussian" in " ".join(model.assumptions)
    assert audit_counts(*counts, 1e-5, method="gdp", rules=2).lower == pytest.approx(21.5690098619, rel=1e-7)
    free = audit_counts(*counts, 1e-5)
    assert free.lower == pytest.approx(5.0641786712282, rel=1e-7)
    assert free.kind == "confidence"
