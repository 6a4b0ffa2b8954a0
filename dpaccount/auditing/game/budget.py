"""Playing chunks within a budget: through joblib or here, with a bar, each one kept as soon as it is there."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

from dpaccount import _check
from dpaccount._parallel import Bar, stream, workers
from dpaccount.auditing.game.protocol import OWNER, Chunk, Game
from dpaccount.auditing.game.store import Store

SHARE = 0.1  # of the time that is left, for chunks that are sent out together: so much may be overrun


class Clock:
    """Seconds that are left, and how long a chunk takes."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self.start = time.monotonic()
        self.played = 0
        self.spent = 0.0

    @property
    def taken(self) -> float:
        return time.monotonic() - self.start

    def together(self, missing: int, hands: int) -> int:
        """How many chunks to send out at once; 0 when the time is over."""
        if self.seconds is None:
            return missing
        left = self.seconds - self.taken
        wave = self.spent / self.played * hands if self.played else 0.0  # all hands, one chunk each
        if left <= wave or left <= 0.0:
            return 0
        waves = max(1, math.floor(SHARE * left / wave)) if wave else 1
        return min(missing, waves * hands)

    def count(self, chunks: int, since: float) -> None:
        self.played += chunks
        self.spent += time.monotonic() - since


class Player:
    """Plays chunks of a game until they are all known or the time is over."""

    def __init__(
        self, sizes: Callable[[int], Chunk], store: Store, n_jobs: int | None, progress: bool | None, clock: Clock, runs: int | None
    ) -> None:
        self.sizes, self.store, self.n_jobs, self.clock, self.runs = sizes, store, n_jobs, clock, runs
        for played in store.known.values():
            if played.chunk != sizes(played.chunk.number):
                _check.refuse(
                    OWNER, "store", f"a file of this game, chunk {played.chunk.number} of {sizes(played.chunk.number).size} runs",
                    played.chunk.size, "Its chunks have another size: the file was changed.",
                )
        before = self.done if runs is not None else 0
        self.bar = Bar(OWNER, runs if runs is not None else math.ceil(clock.seconds or 0.0), progress, before)

    @property
    def done(self) -> int:
        """Runs of each kind that are known."""
        return sum(played.chunk.size for played in self.store.known.values())

    def play(self, game: Game, indices: Sequence[int]) -> bool:
        """Whether all these chunks are known now; false when the time was over before."""
        missing = [self.sizes(index) for index in indices if index not in self.store.known]
        while missing:
            number = self.clock.together(len(missing), workers(self.n_jobs))
            if number == 0:
                return False
            since = time.monotonic()
            self._send(game, missing[:number])
            self.clock.count(number, since)
            missing = missing[number:]
        return True

    def _send(self, game: Any, chunks: list[Chunk]) -> None:
        for played in stream(OWNER, game, chunks, self.n_jobs):
            self.store.add(played)
            self.bar.show(self.done if self.runs is not None else min(int(self.clock.taken), self.bar.total))
