"""What a refusal and a bar tell: of records nothing but that something is wrong with one."""

from __future__ import annotations

import sys
import traceback

import numpy as np
import pytest
from scipy import sparse
from solver_probes import Recorder, seeded
from solver_problems import two_classes

from solvers.algorithms import frank_wolfe, gradient_descent, objective_perturbation, projected_noisy_sgd
from solvers.estimators import PrivateLinearRegression, PrivateLogisticRegression, PrivateSparseLogisticRegression
from solvers.losses import ClippedSquared, HuberHinge, Logistic, Multinomial, PerExampleLoss, Quantile, Squared
from solvers.problem import Problem
from solvers.sets import L1Ball, L2Ball

SECRET = "7777"  # in every private value below
SEVEN = 7777.25
X = np.full((6, 2), 0.5)
Y = np.array([1.0, -1.0, 1.0, -1.0, 1.0, -1.0])


def spoiled(array, value):
    out = np.array(array, dtype=object)
    out[2] = value
    return out


def own(**options):
    functions = {"value": lambda theta, rows, y: rows @ theta, "gradient": lambda theta, rows, y: rows, "gradient_bound": 1.0}
    return PerExampleLoss(**{**functions, **options})


def fit(face, x, y):
    return lambda: face().fit(x, y)


DATES = np.array(["7777-01-01"] * 6, dtype="datetime64[D]")
WRONG = {
    "complex": [0.5, 7777.0 + 1j], "text": [0.5, "x7777"], "bytes": [0.5, b"x7777"], "a dictionary": [0.5, {"x7777": 7777}],
    "a date": [0.5, DATES[0]], "a huge integer": [0.5, int(SECRET) * 10**400], "a list": [0.5, [7777.0]], "nothing": [0.5, None],
}  # fmt: skip
FACES = (PrivateLinearRegression, PrivateLogisticRegression, PrivateSparseLogisticRegression)
FACED = {
    **{f"{kind} in {face.__name__}": fit(face, spoiled(X, row), Y) for face in FACES for kind, row in WRONG.items()},
    **{f"{kind} as a target of {face.__name__}": fit(face, X, spoiled(Y, row[1])) for face in FACES for kind, row in WRONG.items()},
    **{f"complex X, {face.__name__}": fit(face, X + 7777j, Y) for face in FACES},
    **{f"complex y, {face.__name__}": fit(face, X, Y + 7777j) for face in FACES},
    **{f"dates as X, {face.__name__}": fit(face, np.column_stack([DATES, DATES]), Y) for face in FACES},
    **{f"dates as y, {face.__name__}": fit(face, X, DATES) for face in FACES[:1]},
    **{f"other lengths, {face.__name__}": fit(face, X, np.ones(7777)) for face in FACES},
    **{f"no columns, {face.__name__}": fit(face, np.zeros((7777, 0)), np.ones(7777)) for face in FACES},
    **{f"one row alone, {face.__name__}": fit(face, np.full(6, SEVEN), Y) for face in FACES},
    **{f"a table of targets, {face.__name__}": fit(face, X, np.full((6, 7777), 1.0)) for face in FACES},
    **{f"a real target of classes, {face.__name__}": fit(face, X, np.linspace(SEVEN, 7778.0, 6)) for face in FACES[1:]},
}
CASES = {
    **FACED,
    "label of no class": lambda: Problem(X, spoiled(Y, SEVEN).astype(float), Logistic()),
    "label of no class, hinge": lambda: Problem(X, spoiled(Y, SEVEN).astype(float), HuberHinge()),
    "code of no class": lambda: Problem(X, spoiled(np.abs(Y), 7777.0).astype(float), Multinomial(3)),
    "text as a label": lambda: Problem(X, spoiled(Y, "x7777"), Squared()),
    "text as labels": lambda: Problem(X, np.array(["7777"] * 6), Quantile()),
    "a label too large for a double": lambda: Problem(X, spoiled(Y, int(SECRET) * 10**400), ClippedSquared()),
    "labels in a table": lambda: Problem(X, np.full((6, 7777), 1.0), Squared()),
    "labels of other rows": lambda: Problem(X, np.full(7777, 1.0), Squared()),
    "an infinite entry": lambda: Problem(spoiled(X, [np.inf, SEVEN]).astype(float), Y, Logistic()),
    "text as a feature": lambda: Problem(spoiled(X, ["x7777", 1.0]), Y, Logistic()),
    "text as features": lambda: Problem(np.array([["7777"] * 2] * 6), Y, Logistic()),
    "no columns": lambda: Problem(np.zeros((7777, 0)), Y, Logistic()),
    "features in a row": lambda: Problem(np.zeros(7777), Y, Logistic()),
    "ragged features": lambda: Problem([[1.0, 2.0], [SEVEN]], [1, -1], Logistic()),
    "sparse infinities": lambda: Problem(sparse.csr_array(np.array([[np.inf, SEVEN]] * 6)), Y, Logistic()),
    "labels that a loss of one's own refuses": lambda: Problem(
        X, spoiled(Y, SEVEN).astype(float), own(check_label=lambda y: np.abs(y) == 1.0)
    ),
    "values that are none": lambda: Problem(X, Y, own(value=lambda t, x, y: np.append(np.full(5, SEVEN), np.nan))).values(np.zeros(2)),
    "gradients that are none": lambda: Problem(
        X, Y, own(gradient=lambda t, x, y: np.vstack([np.full((5, 2), SEVEN), [[np.inf, 7777.0]]]))
    ).data_gradient(np.zeros(2)),
    "gradients of other shapes": lambda: Problem(X, Y, own(gradient=lambda t, x, y: np.ones((7777, 2)))).data_gradient(np.zeros(2)),
    "a minimum that is not reached": lambda: objective_perturbation(
        two_classes(n=30), epsilon=1.0, gradient_tolerance=1e-16, random=seeded(0)
    ),
    "one class": lambda: PrivateLogisticRegression().fit(X, np.full(6, 7777)),
    "a class that is not public": lambda: PrivateLogisticRegression(classes=[-1, 1]).fit(X, spoiled(Y, SEVEN).astype(int)),
    "text in a face": lambda: PrivateLinearRegression().fit(spoiled(X, ["x7777", 1.0]), Y),
    "text as a target": lambda: PrivateLinearRegression().fit(X, spoiled(Y, "x7777")),
    "text in a sparse face": lambda: PrivateSparseLogisticRegression().fit(spoiled(X, ["x7777", 1.0]), Y > 0),
    "a face of nothing known": lambda: PrivateLogisticRegression().fit(spoiled(X, [np.inf, SEVEN]).astype(float), Y),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_no_refusal_shows_a_value_of_a_record(name):
    with pytest.raises((ValueError, TypeError)) as refused:
        CASES[name]()
    said = [str(refused.value)]
    while (cause := (refused.value.__cause__ or refused.value.__context__)) is not None and len(said) < 9:
        said.append(str(cause))
        refused.value.__cause__ = refused.value.__context__ = None
    assert not any(SECRET in text for text in said), said
    assert SECRET not in "".join(traceback.format_exception_only(refused.value))


@pytest.mark.parametrize("name", [name for name in FACED if " as a target of PrivateLinear" in name or name.startswith("text in")])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_is_wrong_with_y_is_not_blamed_on_x(name):
    with pytest.raises((ValueError, TypeError)) as refused:
        FACED[name]()
    assert ("(y=" if "target" in name else "(X=") in str(refused.value) or "NaN" in str(refused.value)


def test_that_the_classes_were_read_from_the_records_is_recorded():
    for face in (PrivateLogisticRegression, PrivateSparseLogisticRegression):
        options = {"epsilon": 1.0, "random_state": seeded(0), "steps": 12}
        assert face(**options).fit(X, Y).release_.diagnostics["public_classes"] is False
        assert face(classes=[-1, 1], **options).fit(X, Y).release_.diagnostics["public_classes"] is True
    assert "public_classes=False" in repr(PrivateLogisticRegression(**options).fit(X, Y).release_)


def runs(progress):
    problem = two_classes(n=30, d=2, constraint=L2Ball(2.0))
    gradient_descent(problem, noise_multiplier=1.0, steps=30, learning_rate=0.1, random=seeded(0), progress=progress)
    wolfe = two_classes(n=30, d=2, constraint=L1Ball(2.0))
    frank_wolfe(wolfe, selection_epsilon=1.0, steps=30, random=seeded(0), progress=progress)
    projected_noisy_sgd(problem, noise_multiplier=1.0, step_size=0.1, random=seeded(0), progress=progress)


def test_bars_are_silent_off_a_terminal_and_shown_where_they_are_asked_for(capsys):
    for progress in (None, False):
        runs(progress)
        assert capsys.readouterr() == ("", "")
    runs(True)
    shown = capsys.readouterr()
    assert shown.out == ""
    for name in ("gradient_descent", "frank_wolfe", "projected_noisy_sgd"):
        assert f"{name} [" in shown.err


def test_no_bar_tells_when_a_run_stops(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    problem, lengths = two_classes(n=40, d=1, constraint=L2Ball(1.0)), set()
    for progress in (True, None):
        for seed in range(3):
            gate = Recorder(seed=seed)
            options = {"noise_multiplier": 1.0, "step_size": 0.1, "order": "random stopping", "method": "contraction"}
            projected_noisy_sgd(problem, random=gate, progress=progress, **options)
            lengths.add(len(gate.queries))
            assert capsys.readouterr().err == ""
    assert len(lengths) > 1
