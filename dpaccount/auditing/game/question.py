"""What is asked of a game: every argument checked, and what a store must agree with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

import dpaccount.auditing.selection as rules
from dpaccount import _check
from dpaccount.adjacency import parse
from dpaccount.auditing.events import classifier_of
from dpaccount.auditing.family import family_of
from dpaccount.auditing.game.fingerprint import digest, unseen
from dpaccount.auditing.game.judge import METHODS, SELECTIONS, Judge
from dpaccount.auditing.game.plan import Plan, planned_budget
from dpaccount.auditing.game.protocol import OWNER, Game
from dpaccount.auditing.game.store import seed_of
from dpaccount.auditing.outcome import level
from dpaccount.auditing.stated import stated_claim

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Question:
    """Budget, game and judge; the trainer of a classifier, where one makes the scores."""

    plan: Plan
    game: Game
    judge: Judge
    trainer: Callable[[Array, Array], Callable[[Array], Array]] | None
    trainer_name: str | None

    @property
    def opening(self) -> Game:
        """The game as its first chunks are played: outputs are kept where they train a classifier."""
        return self.game if self.trainer is None else replace(self.game, outputs=True)

    @property
    def settings(self) -> dict[str, Any]:
        """Everything but the claim, the time and who computes: what is refuted does not change what was seen."""
        judge, threshold = self.judge, self.judge.threshold
        return {
            **self.game.names, "pair": digest(self.game.pair), "batch": self.game.batch, "seed": self.game.seed, **self.plan.settings,
            "alpha": judge.alpha, "delta": judge.delta, "method": judge.method, "selection": judge.selection, "aim": judge.aim,
            "classifier": self.trainer_name, "threshold": None if threshold is None else np.asarray(threshold, dtype=float).tolist(),
            "reproducible": judge.reproducible,
        }


def checked(
    mechanism: Any, pair: Any, delta: Any, runs: Any, seconds: Any, batch: Any, score: Any, step_score: Any, combine: Any,
    classifier: Any, epsilon: Any, mu: Any, claim: Any, alpha: Any, method: Any, family: Any, adjacency: Any, selection: Any,
    threshold: Any, pilot: Any, stop: Any, seed: Any, chunk: Any, store: Any, reproducible: Any,
) -> Question:
    """The question, or its refusal."""
    relation = parse(OWNER, adjacency)
    _check.choice(OWNER, "method", method, METHODS)
    if (family is not None) != (method == "curve"):
        family_of(OWNER, family, relation)
        _check.refuse(OWNER, "method", "'curve' where a family is given", method, "Only that statistic reads it.")
    target = stated_claim(OWNER, epsilon, mu, claim, delta)
    if target.delta is None:
        _check.refuse(OWNER, "delta", "given, since an epsilon is asked for", None, "It is never guessed.", TypeError)
    rule = _rule(selection, threshold, classifier is not None)
    judge = Judge(target, level(OWNER, alpha), method, rule, threshold, family, relation, _check.flag(OWNER, "reproducible", reproducible))
    batch, stop = _check.flag(OWNER, "batch", batch), _check.flag(OWNER, "stop", stop)
    game = Game(mechanism, _pair(pair), _seed(seed, store), batch, *_scorers(mechanism, score, step_score, combine, classifier))
    if store is not None and not judge.reproducible and (hidden := unseen((mechanism, game.pair, score, step_score, combine))):
        _check.refuse(
            OWNER, "store", "left out for objects whose content no fingerprint shows, where reproducible=False", hidden,
            "Nothing would tell this game's runs from another's.",
        )
    trainer = None if classifier is None else classifier_of(OWNER, classifier)
    name = None if classifier is None else classifier if isinstance(classifier, str) else getattr(classifier, "__qualname__", "own")
    plan = planned_budget(runs, seconds, chunk, batch, pilot, rule, stop and judge.can_settle)
    return Question(plan, game, judge, trainer, name)


def _rule(selection: Any, threshold: Any, trained: bool) -> str:
    if selection is None and threshold is None:
        return "split"
    if selection is not None:
        _check.choice(OWNER, "selection", selection, SELECTIONS)
    name = rules.stated(OWNER, selection, threshold, scores=not trained)
    if threshold is not None and not _check.reals(OWNER, "threshold", threshold, infinite=True).size:
        _check.refuse(OWNER, "threshold", "at least one number", threshold)
    return name


def _pair(pair: Any) -> tuple[Any, Any]:
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        _check.refuse(OWNER, "pair", "two data sets: without the record and with it", pair, kind=TypeError)
    return pair[0], pair[1]


def _seed(seed: Any, store: Any) -> int:
    if seed is None:
        known = seed_of(store)
        return int(np.random.SeedSequence().entropy) if known is None else known  # type: ignore[arg-type]
    return _check.count(OWNER, "seed", seed, minimum=0, maximum=2**128 - 1)


def _scorers(mechanism: Any, score: Any, step_score: Any, combine: Any, classifier: Any) -> tuple[Any, Any, Any]:
    given = {"mechanism": mechanism, "score": score, "step_score": step_score, "combine": combine}
    for name, function in given.items():
        if not callable(function) and (function is not None or name == "mechanism"):
            _check.refuse(OWNER, name, "a callable", function, kind=TypeError)
    makers = {"score": score, "step_score": step_score, "classifier": classifier}
    several = [name for name, maker in makers.items() if maker is not None]
    if len(several) > 1:
        first, second = several[:2]
        _check.refuse(OWNER, second, f"left out where {first} is given", makers[second], "Each of them makes the scores.", TypeError)
    if combine is not None and step_score is None:
        _check.refuse(OWNER, "combine", "left out where step_score is", combine, "It combines the scores of steps.", TypeError)
    return score, step_score, combine
