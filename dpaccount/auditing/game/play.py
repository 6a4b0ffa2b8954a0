"""A game from its first run to its answer: the pilot, the looks, and why it ended."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dpaccount import _check
from dpaccount.auditing.game.budget import Player
from dpaccount.auditing.game.judge import better
from dpaccount.auditing.game.looks import Look
from dpaccount.auditing.game.protocol import OWNER, Game, Score
from dpaccount.auditing.game.question import Question
from dpaccount.auditing.outcome import REFUTED, AuditResult
from dpaccount.auditing.selection import Table
from dpaccount.auditing.works import WORKS, Works

Array = npt.NDArray[np.float64]
HOPELESS = "no outcome of the remaining runs could refute the claim at this threshold"
TOO_SHORT = "the budget ended before the first look"
SETTLED, WITHOUT_HOPE, RUNS, SECONDS = "settled", "hopeless", "runs", "seconds"


def played(question: Question, player: Player) -> AuditResult:
    """Look after look, until one settles the verdict or the budget is spent."""
    plan, judge = question.plan, question.judge
    game, threshold = question.game, None
    if plan.pilot:
        if not player.play(question.opening, range(plan.pilot)):
            return _answer(question, player, None, 0, SECONDS)
        game, threshold = _piloted(question, player)
    best: AuditResult | None = None
    number, ended = 0, RUNS
    for look in plan.looks():
        if not player.play(game, plan.chunks(look)):
            ended = SECONDS
            break
        number += 1
        table = judge.table(*_scores(player, plan.chunks(look)), threshold, plan.pilot * plan.chunk)
        found = judge.bound(table, look, plan.spending)
        best = found if better(found, best) else best
        ending = _settled(question, found, table, look)
        if ending:
            ended = ending
            break
    return _answer(question, player, best, number, ended)


def _settled(question: Question, found: AuditResult, table: Table, look: Look) -> str:
    """Why the game is over at this look, if it is."""
    plan, judge = question.plan, question.judge
    if not (plan.stops and judge.can_settle):
        return ""
    if found.verdict == REFUTED:
        return SETTLED
    last = plan.last
    return WITHOUT_HOPE if last is not None and look != last and judge.hopeless(table, last) else ""


def _answer(question: Question, player: Player, best: AuditResult | None, looks: int, ended: str) -> AuditResult:
    if best is None:
        best = question.judge.nothing(TOO_SHORT)
    elif ended == WITHOUT_HOPE and not best.reason:
        best = replace(best, reason=HOPELESS)
    facts: dict[str, Any] = {"runs": player.done, "looks": looks, "ended": ended, "seed": question.game.seed}
    return replace(best, details={**best.details, **facts}, works=(*best.works, *_works(question)))


def _works(question: Question) -> Works:
    used = {"game": True, "looks": bool(question.plan.spending), "classifier": question.trainer is not None}
    return tuple(work for name, needed in used.items() if needed for work in WORKS[name])


def _piloted(question: Question, player: Player) -> tuple[Game, float]:
    """The game that is counted, and its threshold, both from the pilot runs alone."""
    plan, game = question.plan, question.game
    without, within = _scores(player, range(plan.pilot))
    if question.trainer is not None:
        score = question.trainer(without, within)
        without, within = (_check.reals(OWNER, "classifier", score(x), infinite=True) for x in (without, within))
        game = replace(game, score=_Trained(score, game.batch))
    return game, question.judge.chosen(without, within, plan.aimed)


@dataclass(frozen=True)
class _Trained:
    """A classifier's score of outputs as they come from the mechanism."""

    score: Score
    batch: bool

    def __call__(self, output: Any) -> Any:
        rows = np.asarray(output, dtype=float)
        if not self.batch:
            return float(self.score(rows.reshape(1, -1))[0])
        return self.score(rows.reshape(len(rows), -1))


def _scores(player: Player, chunks: range) -> tuple[Array, Array]:
    found = [player.store.known[index] for index in chunks]
    return np.concatenate([p.without for p in found]), np.concatenate([p.within for p in found])
