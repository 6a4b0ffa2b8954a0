"""What all optimisers share in their arguments is refused by all in the same words, and before anything is drawn."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from solver_probes import Recorder
from solver_problems import two_classes

import solvers.algorithms as algorithms
from solvers.gate import Gate
from solvers.random import RandomSource
from solvers.sets import L1Ball, L2Ball

BUDGET = {"epsilon": 1.0, "delta": 1e-5}
SMALL = partial(two_classes, n=20, d=2, constraint=L2Ball(1.0))
CALLS = {
    "exponential_mechanism": {"epsilon": 1.0},
    "frank_wolfe": {"epsilon": 1.0},  # steps left out, so that a count would be drawn
    "ftrl": {**BUDGET, "batches": 2, "public_size": 20},
    "gradient_descent": BUDGET,
    "localisation": {**BUDGET, "public_size": 20},
    "objective_perturbation": BUDGET,
    "projected_noisy_sgd": {**BUDGET, "adjacency": "replace-one"},
    "regularized_exponential": {**BUDGET, "adjacency": "replace-one"},
}
NOISY = ("ftrl", "gradient_descent", "localisation", "projected_noisy_sgd")


class Untouched(RandomSource):
    """Fails on the first random bit."""

    def __new__(cls):
        source = RandomSource()
        source._bytes = cls.refused
        return source

    @staticmethod
    def refused(size):
        raise AssertionError("something was drawn")


def posed(name, **options):
    return SMALL(constraint=L1Ball(1.0), **options) if name == "frank_wolfe" else SMALL(**options)


def call(name, problem=None, **options):
    return getattr(algorithms, name)(posed(name) if problem is None else problem, **{**CALLS[name], **options})


def test_every_algorithm_is_here():
    assert set(CALLS) == set(algorithms.__all__)
    for name in CALLS:
        with pytest.raises(AssertionError, match="something was drawn"):
            call(name, random=Untouched())


BAD = [
    ({"adjacency": "neighbours"}, ValueError, "adjacency"),
    ({"adjacency": None}, TypeError, "adjacency"),
    ({"adjacency": "as-written"}, ValueError, "adjacency"),
    ({"reveal_unprotected": 1}, TypeError, "reveal_unprotected"),
    ({"reveal_unprotected": None}, TypeError, "reveal_unprotected"),
    ({"epsilon": 0.0}, ValueError, "zero budget"),
    ({"epsilon": -1.0}, ValueError, "epsilon"),
    ({"epsilon": np.nan}, ValueError, "epsilon"),
    ({"epsilon": np.inf}, ValueError, "epsilon"),
    ({"epsilon": "1"}, TypeError, "epsilon"),
    ({"epsilon": [1.0, 2.0]}, TypeError, "epsilon"),
    ({"delta": 1.0}, ValueError, "delta"),
    ({"delta": -1e-9}, ValueError, "delta"),
    ({"delta": "1e-5"}, TypeError, "delta"),
    ({"delta": np.nan}, ValueError, "delta"),
]


@pytest.mark.parametrize("name", CALLS)
def test_bad_arguments_are_refused_before_anything_is_drawn(name):
    for options, kind, message in BAD:
        with pytest.raises(kind, match=message):
            call(name, **{"random": Untouched(), **options})
    for random in (3, np.random.default_rng(0), "seed"):
        with pytest.raises(TypeError, match="protects nobody"):
            call(name, random=random)
    for problem in ("problem", np.eye(2), None):
        with pytest.raises(TypeError, match=rf"`{name}\(problem=...\)` must be a Problem"):
            getattr(algorithms, name)(problem, **{**CALLS[name], "random": Untouched()})


@pytest.mark.parametrize("name", [name for name in CALLS if name not in ("exponential_mechanism", "objective_perturbation")])
def test_a_bar_is_asked_for_before_anything_is_drawn(name):
    for progress in (1, "yes"):
        with pytest.raises(TypeError, match="progress"):
            call(name, random=Untouched(), progress=progress)


@pytest.mark.parametrize("name", NOISY)
def test_noise_or_a_budget_and_what_goes_with_it(name):
    for options, kind, message in [
        ({"noise_multiplier": 1.0}, TypeError, "instead of both"),
        ({"epsilon": None}, TypeError, "epsilon"),
        ({"epsilon": None, "delta": None}, TypeError, "instead of both"),
        ({"epsilon": None, "delta": None, "noise_multiplier": -1.0}, ValueError, "noise_multiplier"),
        ({"epsilon": None, "delta": None, "noise_multiplier": np.inf}, ValueError, "noise_multiplier"),
        ({"epsilon": None, "delta": None, "noise_multiplier": "1"}, TypeError, "noise_multiplier"),
        ({"start": [9.0, 9.0]}, ValueError, "a point of L2Ball"),
        ({"start": [0.0]}, ValueError, "start"),
        ({"start": [np.nan, 0.0]}, ValueError, "start"),
        ({"step_size" if name == "projected_noisy_sgd" else "learning_rate": 0.0}, ValueError, "(step_size|learning_rate)"),
    ]:
        with pytest.raises(kind, match=message):
            call(name, random=Untouched(), **options)


@pytest.mark.parametrize("name", ["ftrl", "gradient_descent", "localisation"])
def test_clipping_and_sizes(name):
    for options, kind, message in [
        ({"clipping_norm": 0.0}, ValueError, "clipping_norm"),
        ({"clipping_norm": np.inf}, ValueError, "clipping_norm"),
        ({"learning_rate": 1e308}, ValueError, "learning_rate"),  # theta would leave the doubles
        ({"clipping_norm": None, "public_size": 0}, ValueError, "public_size"),
        ({"public_size": 1.5}, ValueError, "public_size"),
    ]:
        with pytest.raises(kind, match=message):
            call(name, random=Untouched(), **options)


@pytest.mark.parametrize("bound", ["1", None, [1.0, 2.0], 0.0, np.nan, np.inf, -1.0, 1e101])
def test_a_bound_of_rows_is_one_number(bound):
    for intercept in (False, True):
        with pytest.raises((ValueError, TypeError), match=r"`RowRule\(bound=...\)`"):
            SMALL(row_norm_bound=bound, intercept=intercept)


@pytest.mark.parametrize("options", [
    {"output": "best"}, {"start": [9.0, 9.0]}, {"steps": 0}, {"before": 3.0}, {"stable": 1}, {"reach": 1.0, "learning_rate": 1.0},
    {"sampling_probability": 0.0}, {"sampling_probability": 20},
])
def test_gradient_descent_counts_nobody_for_a_call_that_it_refuses(options):
    with pytest.raises((ValueError, TypeError), match=next(iter(options))):
        call("gradient_descent", random=Untouched(), **options)


def test_frank_wolfe_counts_nobody_for_a_call_that_it_refuses():
    for options, message in [({"scores": "fast"}, "scores"), ({"public_size": -1}, "public_size"), ({"steps": 1.5}, "steps")]:
        with pytest.raises((ValueError, TypeError), match=message):
            call("frank_wolfe", random=Untouched(), **options)


def test_a_count_is_drawn_where_it_is_needed_alone():
    for name in ("frank_wolfe", "gradient_descent"):
        gate = Recorder()
        call(name, random=gate)
        assert len(gate.queries[0].value) == 1
        assert gate.queries[0].value[0] == 20.0, "the number of records"
        gate = Recorder()
        assert call(name, random=gate, public_size=30).diagnostics["size"] == 30.0
        assert all(np.size(query.value) > 1 for query in gate.queries)
    assert isinstance(Gate().source, RandomSource)
