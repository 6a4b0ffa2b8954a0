"""Several passes over the same order of records."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
from iteration_runs import FIG_2, LAPLACE
from numpy.testing import assert_allclose


def test_one_pass_is_several_passes_of_one():
    for run in (FIG_2, LAPLACE):
        once = run.several_passes(1)
        for method in ("contraction", *(m for m in ("rdp", "shifted") if m in run.methods)):
            assert_allclose(
                once.log_delta([0.2, 0.9], [[20], [40]], method=method).upper,
                run.log_delta([0.2, 0.9], [[20], [40]], method=method).upper, rtol=1e-12,
            )


def test_more_passes_cost_more_and_less_than_releasing_all():
    for run in (replace(FIG_2, num_records=5), replace(LAPLACE, num_records=5)):
        answers = [run.several_passes(k).delta([0.1, 0.5, 1.0], [[2], [5]]).upper for k in (1, 2, 4)]
        assert (answers[0] <= answers[1] * (1 + 1e-12)).all()
        assert (answers[1] <= answers[2] * (1 + 1e-12)).all()
        released = run.several_passes(4).delta([0.1, 0.5, 1.0], [[2], [5]], method="composition").upper
        assert (answers[2] <= released * (1 + 1e-12)).all()


def test_every_bound_on_several_laplace_passes_reaches_zero():
    run = replace(LAPLACE, num_records=5, diameter=0.6).several_passes(3)
    for method, most in (("composition", 3.0), ("composed", 1.0 + 2 * 0.6), ("contraction", 3.0), ("best", 1.0 + 2 * 0.6)):
        zero = run.epsilon(delta=0.0, method=method).upper
        assert run.delta(epsilon=zero, method=method).upper == 0.0
        assert zero <= most * 1.01
        small = run.epsilon(delta=1e-3, index=[2, 5], method=method).upper
        assert (small < zero).all()
        assert (run.delta(epsilon=small, index=[2, 5], method=method).upper <= 1e-3 * (1 + 1e-14)).all()
    assert replace(LAPLACE, num_records=5).random_stopping().epsilon(delta=0.0).upper == 1.0


def test_the_joint_bound_beats_composition_where_the_last_steps_are_many():
    run = replace(FIG_2, num_records=6).several_passes(3)
    joint, composed = (float(run.delta(epsilon=0.3, index=1, method=m)) for m in ("contraction", "composed"))
    assert joint < 0.4 * composed
    many = replace(FIG_2, num_records=1, diameter=50.0).several_passes(12)
    joint, composed = (float(many.delta(epsilon=2.0, method=m)) for m in ("contraction", "composed"))
    assert composed < joint


def test_several_passes_answer_each_epsilon_for_itself_and_thousands_in_seconds():
    run = replace(FIG_2, num_records=6).several_passes(3)
    level = np.linspace(0.0, 5.0, 2000)
    start = time.process_time()
    together = run.log_delta(level, 5, method="contraction").upper
    assert time.process_time() - start < 15.0
    alone = [run.log_delta(x, 5, method="contraction").upper for x in level[::250]]
    assert_allclose(together[::250], alone, rtol=1e-14)
    assert (np.diff(together) < 0.0).all()
    mixed = run.log_delta([0.3, 1e-9, 100.0], 5, method="contraction").upper
    assert_allclose(mixed[0], run.log_delta(0.3, 5, method="contraction").upper, rtol=1e-14)
