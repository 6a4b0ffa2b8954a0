"""The scikit-learn faces: scikit-learn's own checks, what they say about privacy, and how well they do on real data."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn import datasets
from sklearn.base import clone
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from solver_probes import Recorder, moved, seeded

from dpaccount import ExponentialMechanism, Gaussian, PrivacyProfile
from dpaccount.adjacency import Adjacency
from solvers.budget import Budget, least_gaussian
from solvers.estimators import PrivateLinearRegression, PrivateLogisticRegression, PrivateSparseLogisticRegression
from solvers.estimators.label_range import SCALES, RangeQuery, held, histogram
from solvers.gate import Gate
from solvers.random import InsecureRandomnessWarning

FACES = [
    PrivateLogisticRegression(steps=5), PrivateLinearRegression(steps=5), PrivateSparseLogisticRegression(steps=12),
    PrivateLogisticRegression(delta=0.0), PrivateLinearRegression(delta=0.0),
    PrivateLogisticRegression(algorithm="objective_perturbation"), PrivateLinearRegression(algorithm="objective_perturbation"),
]  # fmt: skip


def name_of(face):
    return f"{type(face).__name__}, {'pure' if face.delta == 0.0 else face.algorithm}"


# Checks that a face may fail, each with its reason; a check that is listed and passes fails here. Nothing is listed: accuracy on
# small sets, which noise can cost, is waived by scikit-learn's own tag `poor_score`, and every check sets random_state.
EXPECTED: dict[str, dict[str, str]] = {}


@parametrize_with_checks(FACES, expected_failed_checks=lambda face: EXPECTED.get(type(face).__name__, {}), xfail_strict=True)
@pytest.mark.filterwarnings("ignore::solvers.random.InsecureRandomnessWarning")
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def test_the_only_tag_that_waives_a_check_is_that_of_scores():
    for face in FACES:
        kind = "regressor_tags" if isinstance(face, PrivateLinearRegression) else "classifier_tags"
        tags = face.__sklearn_tags__()
        assert getattr(tags, kind).poor_score
        assert not tags.non_deterministic
        assert not tags.no_validation
        assert tags.input_tags.sparse


def blobs(n=300, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    return 3.0 * np.eye(4)[y] + rng.standard_normal((n, 4)), np.array(["ant", "bee", "cat"])[y]


@pytest.mark.parametrize("adjacency", ["add-or-remove", "replace-one", "zero-out"])
@pytest.mark.parametrize("face", FACES, ids=name_of)
def test_a_fit_spends_its_budget_and_says_so(face, adjacency):
    x, y = blobs()
    target = y if isinstance(face, PrivateLogisticRegression) else x[:, 0]
    model = clone(face).set_params(epsilon=1.5, delta=min(face.delta, 1e-6), adjacency=adjacency, random_state=seeded(0)).fit(x, target)
    assert model.adjacency_ == adjacency == model.release_.adjacency
    assert model.guarantee_ is model.release_.guarantee
    added = isinstance(face, PrivateLinearRegression) and face.algorithm == "objective_perturbation"  # epsilons of what came before add up
    assert 1.5 * (0.9 if added else 1 - 1e-6) <= model.release_.epsilon(min(face.delta, 1e-6)).upper <= 1.5
    again = pickle.loads(pickle.dumps(model))
    assert_allclose(again.predict(x) == model.predict(x), True)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix, sparse.csc_array], ids=["dense", "matrix", "array"])
def test_classes_are_told_apart(classes, kind):
    x, y = blobs(classes=classes)
    model = PrivateLogisticRegression(epsilon=4.0, random_state=seeded(1)).fit(kind(x), y)
    assert model.score(kind(x), y) > 0.8
    assert model.coef_.shape == ((1, 4) if classes == 2 else (3, 4))
    shares = model.predict_proba(kind(x))
    assert_allclose(shares.sum(axis=1), 1.0)
    assert_allclose(np.exp(model.predict_log_proba(kind(x))), shares)
    assert np.all(model.classes_[shares.argmax(axis=1)] == model.predict(kind(x)))


def test_public_classes_need_not_occur():
    x, y = blobs()
    model = PrivateLogisticRegression(classes=("cat", "ant", "bee"), random_state=seeded(0)).fit(x, y)
    assert model.classes_.tolist() == ["ant", "bee", "cat"]
    assert model.coef_.shape[0] == 3
    with pytest.raises(ValueError, match="public classes"):
        PrivateLogisticRegression(classes=("ant", "cat")).fit(x, y)
    with pytest.raises(ValueError, match="only one class"):
        PrivateLogisticRegression().fit(x, np.zeros(len(x)))


@pytest.mark.parametrize("face", FACES, ids=name_of)
def test_a_seed_warns_and_repeats_and_none_does_neither(face):
    x, y = blobs()
    target = y if isinstance(face, PrivateLogisticRegression) else x[:, 0]
    with pytest.warns(InsecureRandomnessWarning):
        one = clone(face).set_params(random_state=3).fit(x, target)
    with pytest.warns(InsecureRandomnessWarning):
        two = clone(face).set_params(random_state=3).fit(x, target)
    assert_allclose(one.coef_, two.coef_, rtol=0)
    assert not one.release_.diagnostics["secure_noise"]
    free, other = (clone(face).fit(x, target) for _ in range(2))
    assert free.release_.diagnostics["secure_noise"]
    assert not np.array_equal(free.coef_, other.coef_)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epsilon": 0.0}, "zero budget"), ({"delta": 1.0}, "delta"), ({"adjacency": "as-written"}, "data sets"),
        ({"algorithm": "newton"}, "one of"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("face", FACES, ids=name_of)
def test_bad_parameters_are_refused_at_the_fit(face, options, message):
    x, _ = blobs(50)
    with pytest.raises(ValueError, match=message):
        clone(face).set_params(**options).fit(x, (x[:, 0] > 0).astype(int))


@pytest.mark.parametrize(("options", "message"), [({"row_norm_bound": -1.0}, "bound"), ({"row_treatment": "drop"}, "one of")])
def test_rows_are_treated_in_one_of_the_known_ways(options, message):
    for face in FACES[:2]:
        with pytest.raises(ValueError, match=message):
            clone(face).set_params(**options).fit(np.eye(4), [0, 1, 0, 1])


def test_sparse_regression_keeps_few_coefficients_and_sparse_rows(monkeypatch):
    rng = np.random.default_rng(0)
    x = sparse.random_array((800, 3000), density=0.01, rng=rng, format="csr", data_sampler=lambda size: np.ones(size))
    word = rng.random(800) < 0.5
    x = sparse.csr_array(sparse.hstack([x, sparse.csr_array(word[:, None].astype(float))]))
    monkeypatch.setattr(sparse.csr_array, "toarray", None)
    model = PrivateSparseLogisticRegression(epsilon=4.0, steps=12, random_state=seeded(0)).fit(x, word)
    assert np.count_nonzero(model.coef_) <= 12
    assert model.score(x, word) > 0.9


@pytest.mark.parametrize("algorithm", ["gradient_descent", "objective_perturbation"])
@pytest.mark.parametrize("face", [PrivateLogisticRegression, PrivateLinearRegression])
def test_a_budget_without_delta_is_pure_or_refused(face, algorithm):
    x, y = blobs()
    y = (y == "ant").astype(float)
    if algorithm == "gradient_descent":
        with pytest.raises(ValueError, match="no pure guarantee"):
            face(delta=0.0, algorithm=algorithm).fit(x, y)
        return
    named, auto = (face(2.0, 0.0, algorithm=way, random_state=seeded(5)).fit(x, y) for way in (algorithm, "auto"))
    assert_allclose(named.coef_, auto.coef_, rtol=0)
    assert float(named.release_.epsilon(delta=0.0)) <= 2.0
    assert named.score(x, y) > (0.8 if face is PrivateLogisticRegression else 0.4)


def test_many_classes_under_a_pure_budget():
    x, y = blobs(900, classes=3)
    model = PrivateLogisticRegression(4.0, 0.0, random_state=seeded(0)).fit(x, y)
    assert model.score(x, y) > 0.8
    assert model.coef_.shape == (3, 4)


def test_probabilities_of_a_loss_with_a_margin_are_by_its_own_link():
    """Two labels at one place: where theta is free, the probability is the share of the label there."""
    x = np.ones((4000, 1))
    y = np.arange(4000) % 10 < 7
    model = PrivateLogisticRegression(50.0, 0.0, random_state=seeded(0)).fit(x, y)
    assert_allclose(model.predict_proba(x[:1])[0], [0.3, 0.7], atol=0.02)


def test_a_pure_budget_needs_its_radius_and_steps():
    x, y = blobs()
    pure = PrivateSparseLogisticRegression(epsilon=2.0, delta=0.0, l1_radius=5.0, steps=4, random_state=seeded(0)).fit(x, y)
    assert float(pure.release_.epsilon(delta=0.0)) <= 2.0
    with pytest.raises(ValueError, match="Gaussian budget"):
        PrivateSparseLogisticRegression(epsilon=2.0, delta=0.0).fit(x, y)
    with pytest.raises(ValueError, match="Only binary"):
        PrivateSparseLogisticRegression().fit(*blobs(classes=3))


@pytest.mark.parametrize("wrong", [(1.0, 1.0), (2.0, 1.0), (1.0,), (0.0, np.inf)])
def test_a_range_that_is_none_is_refused(wrong):
    with pytest.raises(ValueError, match="label_range"):
        PrivateLinearRegression(label_range=wrong).fit(np.eye(5), np.arange(5.0))


# the range of labels


def query(noise, rate=0.05, pure=False):
    return RangeQuery(rate, noise, pure, Adjacency.ADD_OR_REMOVE)


@pytest.mark.parametrize("pure", [True, False])
def test_a_range_is_found_by_powers_of_two(pure):
    rng = np.random.default_rng(0)
    for labels, low, high in (
        (rng.uniform(20.0, 200.0, 2000), 16.0, 256.0), (rng.uniform(-3.0, -1.0, 2000), -4.0, -1.0),
        (rng.choice([-5.0, 0.0, 70.0], 2000), -8.0, 128.0), (np.zeros(2000), -(2.0**-30), 2.0**-30),
        (rng.choice([1e300, -1e300], 2000), -(2.0**61), 2.0**61),
    ):  # fmt: skip
        assert query(3.0, pure=pure).find(labels, Recorder()) == (low, high)
        assert low < high


def test_a_scale_is_found_where_noise_hides_every_bin():
    """Noise of 100 hides the bins of 300 records: the scale is right in at least 54 of 60 draws, neighbours not counted."""
    rng = np.random.default_rng(0)
    for labels, expected in (
        (rng.uniform(70.0, 250.0, 300), (64.0, 256.0)), (-rng.uniform(0.3, 0.9, 300), (-1.0, -0.25)),
        (rng.standard_normal(700), (-2.0, 2.0)),
    ):
        found = [query(100.0, 0.046).find(labels, Gate(seeded(seed))) for seed in range(60)]
        assert sum(ends == expected for ends in found) >= 54, expected


def test_scales_count_a_label_once_and_hold_what_they_count():
    rng = np.random.default_rng(1)
    places = np.concatenate([-(2.0 ** rng.uniform(-40, 70, 60)), [0.0, 1e300, -1e300], 2.0 ** rng.uniform(-40, 70, 60)])
    for label in places:
        counts = held(histogram(np.array([label])))
        assert set(counts.tolist()) <= {0.0, 1.0}
        for (low, high), count in zip(SCALES, counts, strict=True):
            inside = low <= np.clip(label, -(2.0**61), 2.0**61) <= high
            assert inside or not count
    assert all(low < high for low, high in SCALES)


def test_too_few_records_are_given_a_range_all_the_same():
    for seed in range(20):
        low, high = query(100.0, 1e-6).find(np.full(30, 1e6), Gate(seeded(seed)))
        assert low < high


def test_little_is_spent_on_a_range_where_little_is_enough():
    costs = {}
    for epsilon in (0.1, 1.0, 8.0):
        noise = least_gaussian(epsilon, 1e-5, Adjacency.ADD_OR_REMOVE)
        made = RangeQuery.of(Budget(epsilon, 1e-5, Adjacency.ADD_OR_REMOVE))
        assert made.rate <= 0.1
        costs[epsilon] = made.rate**2 / 4 * noise**2
        assert_allclose(noise**2 / made.noise_multiplier**2, 0.1, rtol=1e-12)
        pure = RangeQuery.of(Budget(epsilon, 0.0, Adjacency.REPLACE_ONE))
        assert PrivacyProfile(pure.guarantee, "replace-one").epsilon(delta=0.0).upper <= 0.6 * epsilon * (1 + 1e-9)
    assert costs[8.0] < costs[1.0] < costs[0.1] <= 0.5 * (1 + 1e-12)


def test_a_range_is_part_of_the_guarantee():
    x, _ = blobs()
    gate = Recorder()
    model = PrivateLinearRegression(random_state=gate).fit(x, x[:, 0])
    scale, bins = gate.queries[:2]
    assert bins.value.sum() == 300
    terms = dict(model.guarantee_.terms)
    assert terms[Gaussian(bins.noise)] == terms[ExponentialMechanism(scale.noise)] == 1


REFUSALS = [
    {"row_norm_bound": -1.0}, {"row_norm_bound": 1e300}, {"row_treatment": "drop"}, {"steps": 0}, {"steps": 2.5}, {"public_size": 0},
    {"delta": 0.0, "algorithm": "gradient_descent"}, {"epsilon": 1e-13, "delta": 1e-15},
    {"algorithm": "objective_perturbation", "epsilon": 1e4},
]  # fmt: skip


@pytest.mark.parametrize("options", REFUSALS, ids=str)
def test_a_fit_that_is_refused_has_drawn_nothing_and_leaves_the_model_as_it_was(options):
    x, _ = blobs()
    model = PrivateLinearRegression(random_state=seeded(1)).fit(x, x[:, 0])
    before = dict(vars(model))
    model.set_params(random_state=(gate := Recorder()), **options)
    with pytest.raises((ValueError, TypeError)):
        model.fit(x, 1e6 + x[:, 0])
    assert gate.queries == []
    for name in ("label_range_", "guarantee_", "release_", "coef_", "intercept_", "adjacency_"):
        assert getattr(model, name) is before[name]
    fresh = PrivateLinearRegression(**options)
    with pytest.raises((ValueError, TypeError)):
        fresh.fit(x, x[:, 0])
    assert not [name for name in vars(fresh) if name.endswith("_")]


def test_classes_of_a_refused_fit_do_not_stay():
    x, y = blobs()
    model = PrivateLogisticRegression(random_state=seeded(1)).fit(x, y)
    with pytest.raises(ValueError, match="steps"):
        model.set_params(steps=0).fit(x, np.arange(300) % 5)
    assert model.classes_.tolist() == ["ant", "bee"]


@pytest.mark.parametrize("adjacency", ["add-or-remove", "replace-one", "zero-out"])
@pytest.mark.parametrize(
    ("epsilon", "delta"), [(1e-9, 1e-5), (1e-4, 1e-3), (1e-6, 1e-10), (1e-3, 1e-5), (1e-3, 0.0), (1e-2, 1e-9), (50.0, 1e-5), (50.0, 0.0)]
)  # fmt: skip
@pytest.mark.parametrize("algorithm", ["gradient_descent", "objective_perturbation"])
def test_a_default_is_never_refused_and_never_beyond_its_budget(algorithm, epsilon, delta, adjacency):
    if delta == 0.0 and algorithm == "gradient_descent":
        pytest.skip("not pure")
    epsilon = max(epsilon, 1e-6) if algorithm == "objective_perturbation" else epsilon  # below, doubles end: refused in words
    x, _ = blobs(100)
    options = {"epsilon": epsilon, "delta": delta, "adjacency": adjacency, "algorithm": algorithm, "random_state": seeded(0), "steps": 3}
    model = PrivateLinearRegression(**options).fit(x, x[:, 0])
    assert 0.0 <= model.release_.epsilon(delta=delta).upper <= epsilon


def test_under_zero_out_the_absent_record_is_not_among_the_rows():
    """n is public and stated, or the rows are counted with noise: the same questions for neighbours, that move as is claimed."""
    x, _ = blobs()
    for stated in (None, 300):
        first, second = Recorder(), None
        for rows in (x, x[:-1]):
            gate = first if second is None else Recorder(replay=first.answers)
            model = PrivateLinearRegression(adjacency="zero-out", public_size=stated, steps=3, random_state=gate).fit(rows, rows[:, 0])
            second = gate
        assert moved(first.queries, second.queries) <= 1.0
        assert len(first.queries) == 5 + (stated is None)
        assert (model.release_.diagnostics["size"] == 300.0) == (stated is not None)


# real data: the bars are what a plain solver reached with its steps chosen on the test part, less two standard errors and 0.005


def split(name, labels=None):
    x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    parts = train_test_split(x, y, test_size=0.2, random_state=0, stratify=y if labels is None else None)
    scaler = StandardScaler().fit(parts[0])
    return scaler.transform(parts[0]), scaler.transform(parts[1]), parts[2], parts[3]


def scores(face, data, seeds, **options):
    x, x_test, y, y_test = data
    return np.array([clone(face).set_params(random_state=seeded(k), **options).fit(x, y).score(x_test, y_test) for k in range(seeds)])


@pytest.mark.parametrize(
    ("name", "epsilon", "bar", "spread", "seeds"),
    [
        ("breast_cancer", 0.1, 0.8167, 0.071, 20), ("breast_cancer", 1.0, 0.9382, 0.018, 8), ("breast_cancer", 8.0, 0.9649, 0.006, 4),
        ("digits", 0.1, 0.2657, 0.057, 4), ("digits", 1.0, 0.8546, 0.017, 2), ("digits", 8.0, 0.9368, 0.009, 2),
    ],
)  # fmt: skip
def test_accuracy_with_one_default_keeps_the_bar_of_a_tuned_solver(name, epsilon, bar, spread, seeds):
    found = scores(PrivateLogisticRegression(), split(name), seeds, epsilon=epsilon)
    assert found.mean() >= bar - 2 * spread / np.sqrt(20) - 0.005


@pytest.mark.parametrize(("name", "epsilon", "bar", "seeds"), [
    ("breast_cancer", 0.1, 0.6491, 12), ("breast_cancer", 1.0, 0.9009, 8), ("digits", 1.0, 0.1222, 2),
])  # fmt: skip
def test_pure_accuracy_is_above_a_pure_peer_with_its_regulariser_chosen_on_the_test_part(name, epsilon, bar, seeds):
    assert scores(PrivateLogisticRegression(), split(name), seeds, epsilon=epsilon, delta=0.0).mean() > bar


def test_regression_beats_the_mean():
    data = split("diabetes", labels=False)
    for epsilon, bar, seeds in ((0.1, 0.0, 20), (1.0, 0.2, 4), (8.0, 0.25, 2)):
        assert scores(PrivateLinearRegression(), data, seeds, epsilon=epsilon, label_range=(0.0, 400.0)).mean() > bar
        assert scores(PrivateLinearRegression(), data, seeds, epsilon=epsilon).mean() > bar
    for epsilon in (1.0, 8.0):
        assert scores(PrivateLinearRegression(), data, 3, epsilon=epsilon, delta=0.0).mean() > 0.2
