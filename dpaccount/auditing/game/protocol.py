"""What one chunk of a game computes: runs with and without the record, each reduced to one score.

A chunk has a fixed number of runs of each kind and two generators of its own, made from the seed, its index and the kind. So a
game is the same whoever computes its chunks, in whatever order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dpaccount import _check
from dpaccount.auditing.game.fingerprint import name_of

OWNER = "audit_game"
Array = npt.NDArray[np.float64]
Score = Callable[[Array], Array]
NAN = "A score that is not a number cannot be counted; return -inf or inf where a run says nothing or everything."


class Chunk(NamedTuple):
    """Runs of each kind; all chunks but the last of a budget have one size."""

    number: int
    size: int


class Played(NamedTuple):
    """A chunk's scores (or outputs, where a classifier will make scores) without the record and with it."""

    chunk: Chunk
    without: Array
    within: Array


@dataclass(frozen=True)
class Game:
    """The mechanism, both data sets, and what makes a score of an output; called with a chunk it plays that chunk."""

    mechanism: Callable[..., Any]
    pair: tuple[Any, Any]
    seed: int
    batch: bool = False
    score: Callable[..., Any] | None = None
    step_score: Callable[..., Any] | None = None
    combine: Callable[..., Any] | None = None
    outputs: bool = False  # kept as they are, one row a run

    def __call__(self, chunk: Chunk) -> Played:
        return Played(chunk, self.world(chunk, 0), self.world(chunk, 1))

    def world(self, chunk: Chunk, kind: int) -> Array:
        """Scores of one kind of runs."""
        rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(chunk.number, kind)))
        data = self.pair[kind]
        if self.batch:
            return self._checked(self._score(self.mechanism(data, rng, chunk.size)), chunk.size)
        return self._checked([self._score(self.mechanism(data, rng)) for _ in range(chunk.size)], chunk.size)

    def _score(self, output: Any) -> Any:
        if self.step_score is not None:
            steps = np.array([self.step_score(seen, t) for t, seen in enumerate(output)], dtype=float)
            return steps.sum(axis=0) if self.combine is None else self.combine(steps)
        return output if self.score is None else self.score(output)

    def _checked(self, values: Any, size: int) -> Array:
        name = "mechanism" if self.score is self.step_score is None else "score" if self.step_score is None else "step_score"
        array = _check.reals(OWNER, name, values, infinite=True, hint=NAN)
        if self.outputs:
            array = array.reshape(len(array), -1) if array.ndim > 1 else array[:, None] if array.ndim else array
        if array.shape[:1] != (size,) or array.ndim != (2 if self.outputs else 1):
            per = "one row a run" if self.outputs else "one number a run"
            hint = "Outputs that are not scores need score=, step_score= or classifier=." if self.score is self.step_score is None else ""
            _check.refuse(OWNER, name, f"{per}, {size} of them", f"shape {array.shape}", hint)
        return array

    @property
    def names(self) -> dict[str, str | None]:
        """What the callables are called: part of what tells one game from another."""
        parts = ("mechanism", "score", "step_score", "combine")
        return {part: name_of(getattr(self, part)) for part in parts}
