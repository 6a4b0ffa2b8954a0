"""The budget of a game, in chunks, and the looks that are stated with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dpaccount import _check
from dpaccount.auditing.game.looks import Look, open_ended, planned
from dpaccount.auditing.game.protocol import OWNER, Chunk

BATCHED, SINGLE = 1000, 20  # runs of each kind in a chunk
PILOT = 8  # chunks, where the number of runs is not known beforehand


@dataclass(frozen=True)
class Plan:
    """What is stated before the first run. Chunks below `pilot` choose the threshold and are not counted."""

    chunk: int
    runs: int | None
    seconds: float | None
    pilot: int  # chunks
    stops: bool  # as soon as the verdict is settled

    def size(self, index: int) -> Chunk:
        """The chunk with this index; the last of a budget may be smaller."""
        return Chunk(index, self.chunk if self.runs is None else min(self.chunk, self.runs - index * self.chunk))

    def chunks(self, look: Look) -> range:
        """Those that a look counts."""
        return range(self.pilot, self.pilot - (-look.runs // self.chunk))

    @property
    def several(self) -> bool:
        """Whether there are looks before the end: where the end may come early."""
        return self.stops or self.seconds is not None

    @property
    def counted(self) -> int | None:
        return None if self.runs is None else self.runs - self.pilot * self.chunk

    def looks(self) -> Iterator[Look]:
        return open_ended(self.chunk) if self.counted is None else planned(self.counted, self.chunk, self.several)

    @property
    def last(self) -> Look | None:
        """The planned end."""
        return None if self.counted is None else list(self.looks())[-1]

    @property
    def aimed(self) -> Look:
        """The look that a threshold is chosen for."""
        return self.last or Look(PILOT * self.pilot * self.chunk, 0.05)

    @property
    def settings(self) -> dict[str, Any]:
        """What a store must agree with. Time is not in it: looks without end are valid whenever they stop."""
        return {"chunk": self.chunk, "runs": self.runs, "pilot": self.pilot * self.chunk, "several_looks": self.several}

    @property
    def spending(self) -> str:
        """How alpha is spent, in words."""
        if self.counted is None:
            return "; looked at again and again, the k-th time at alpha/(k (k + 1))"
        number = len(list(self.looks()))
        return f"; looked at up to {number} times, at shares of alpha" if number > 1 else ""


def planned_budget(runs: Any, seconds: Any, chunk: Any, batch: bool, pilot: Any, rule: str, settles: bool) -> Plan:
    """A budget, checked; several looks where one of them may end the game."""
    if runs is None and seconds is None:
        _check.refuse(OWNER, "runs", "given, or seconds", None, "A game needs a budget.", TypeError)
    size = (BATCHED if batch else SINGLE) if chunk is None else _check.count(OWNER, "chunk", chunk)
    total = None if runs is None else _check.count(OWNER, "runs", runs)
    limit = None if seconds is None else _check.real(OWNER, "seconds", seconds, low=0.0, open_low=True)
    if rule != "split":
        if pilot is not None:
            _check.refuse(OWNER, "pilot", "left out where selection is not 'split'", pilot, "No run is needed to choose the threshold.")
        return Plan(size, total, limit, 0, settles)
    if chunk is None and total is not None:
        size = max(1, min(size, total // 4))  # so that a pilot of whole chunks leaves something to count
    wanted = _check.count(OWNER, "pilot", pilot) if pilot is not None else PILOT * size if total is None else max(total // 4, 1)
    pilots = -(-wanted // size)
    if total is not None and pilots * size >= total:
        _check.refuse(
            OWNER, "pilot", f"fewer than runs = {total}, in whole chunks of {size}", pilots * size,
            "The runs that choose the threshold are not counted.",
        )
    return Plan(size, total, limit, pilots, settles)
