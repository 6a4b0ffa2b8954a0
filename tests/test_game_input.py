"""Games that make no sense, and what a player sees meanwhile."""

from __future__ import annotations

import io
import math
import sys

import numpy as np
import pytest
from games import game

from dpaccount import Gaussian
from dpaccount.auditing.game import plan

# bad input, the bar


BAD = [
    ({"runs": None}, TypeError, "`audit_game(runs=...)` must be given, or seconds"),
    ({"runs": 0}, ValueError, "`audit_game(runs=...)` must be a whole number >= 1; got 0"),
    ({"seconds": 0.0}, ValueError, "`audit_game(seconds=...)` must be a finite number > 0"),
    ({"delta": None}, TypeError, "`audit_game(delta=...)` must be given"),
    ({"pair": 3}, TypeError, "`audit_game(pair=...)` must be two data sets"),
    ({"pair": (1, 2, 3)}, TypeError, "`audit_game(pair=...)`"),
    ({"mechanism": 3}, TypeError, "`audit_game(mechanism=...)` must be a callable"),
    ({"score": 3}, TypeError, "`audit_game(score=...)` must be a callable"),
    ({"score": abs, "step_score": abs}, TypeError, "must be left out where score is given"),
    ({"score": abs, "classifier": "logistic"}, TypeError, "`audit_game(classifier=...)` must be left out where score is given"),
    ({"combine": max}, TypeError, "`audit_game(combine=...)` must be left out where step_score is"),
    ({"selection": "hull"}, ValueError, "must be one of 'fixed', 'split', 'bonferroni'"),
    ({"selection": "fixed"}, TypeError, "`audit_game(threshold=...)` must be one number"),
    ({"selection": "fixed", "threshold": 1.0, "classifier": "logistic"}, ValueError, "must be 'split' where a classifier"),
    ({"threshold": math.nan}, ValueError, "`audit_game(threshold=...)` must be a number; got nan"),
    ({"threshold": "high"}, TypeError, "`audit_game(threshold=...)`"),
    ({"threshold": []}, ValueError, "`audit_game(threshold=...)` must be at least one number"),
    ({"threshold": 1.0, "pilot": 100}, ValueError, "`audit_game(pilot=...)` must be left out where selection is not 'split'"),
    ({"pilot": 4000}, ValueError, "`audit_game(pilot=...)` must be fewer than runs = 4000"),
    ({"method": "bayes"}, ValueError, "`audit_game(method=...)` must be one of 'cp', 'gdp', 'curve'"),
    ({"method": "curve"}, TypeError, "`audit_game(family=...)` must be a callable"),
    ({"family": Gaussian}, ValueError, "`audit_game(method=...)` must be 'curve'"),
    ({"epsilon": 1.0, "mu": 1.0}, TypeError, "must be left out where epsilon is given"),
    ({"alpha": 1.0}, ValueError, "`audit_game(alpha=...)`"),
    ({"batch": "yes"}, TypeError, "`audit_game(batch=...)` must be True or False"),
    ({"stop": 1}, TypeError, "`audit_game(stop=...)` must be True or False"),
    ({"seed": -1}, ValueError, "`audit_game(seed=...)`"),
    ({"chunk": 0}, ValueError, "`audit_game(chunk=...)`"),
    ({"reproducible": "no"}, TypeError, "`audit_game(reproducible=...)` must be True or False"),
    ({"n_jobs": 0}, ValueError, "`audit_game(n_jobs=...)`"),
    ({"progress": "yes"}, TypeError, "`audit_game(progress=...)` must be True or False"),
    ({"mechanism": lambda data, rng, size: np.full(size, np.nan)}, ValueError, "`audit_game(mechanism=...)` must be a number"),
    ({"mechanism": lambda data, rng, size: rng.normal(size=(size, 2))}, ValueError, "one number a run, 250 of them; got 'shape (250, 2)'"),
    ({"score": lambda x: x[:10]}, ValueError, "`audit_game(score=...)` must be one number a run"),
    ({"mechanism": lambda data, rng, size: None}, TypeError, "`audit_game(mechanism=...)`"),
]


@pytest.mark.parametrize(("arguments", "kind", "message"), BAD)
def test_games_that_make_no_sense_are_refused(arguments, kind, message):
    with pytest.raises(kind) as refused:
        game(**arguments)
    assert message in str(refused.value)
    assert str(refused.value).startswith("`audit_game(")


def test_what_a_mechanism_raises_is_seen():
    def broken(data, rng, size):
        raise ZeroDivisionError("of my own")

    with pytest.raises(ZeroDivisionError, match="of my own"):
        game(broken)


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("progress", "stream", "drawn"), [(None, io.StringIO, False), (True, io.StringIO, True), (False, Terminal, False)])
def test_the_bar_counts_runs_and_is_drawn_if_asked_for(monkeypatch, progress, stream, drawn, tmp_path):
    monkeypatch.setattr(sys, "stderr", stream())
    game(progress=progress, store=tmp_path / "game")
    text = sys.stderr.getvalue()
    assert bool(text) == drawn
    if drawn:
        assert text.startswith("\raudit_game [")
        assert f"[{'#' * 30}] 4000/4000" in text
        assert text.endswith("\n")


def test_chunks_follow_from_the_budget():
    assert plan.planned_budget(8, None, None, True, None, "split", True).chunk == 2
    assert plan.planned_budget(10_000, None, None, True, None, "split", True).pilot == 3
    assert plan.planned_budget(None, 1.0, None, False, None, "split", True).pilot == plan.PILOT
    with pytest.raises(ValueError, match="fewer than runs = 1"):
        plan.planned_budget(1, None, None, True, None, "split", True)
