"""When a game may be looked at, and what each look may spend of alpha.

Before the game, looks n_1 < n_2 < ... (counted runs of each kind) and shares w_1, w_2, ... with sum at most 1 are stated. Look k
uses exact limits at level w_k alpha. All of them hold at once with probability at least 1 - alpha by the union bound, and so does
the one at which the game stops, whatever made it stop (Bonferroni; the idea of spending alpha is Lan and DeMets, 1983).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import NamedTuple

LAST = 0.5  # of alpha, kept for the planned end: stopping early costs the full budget little
MOST = 8  # looks of a planned game, each at half the runs of the next


class Look(NamedTuple):
    """Runs of each kind that are counted, and the share of alpha."""

    runs: int
    share: float


def planned(runs: int, chunk: int, several: bool) -> Iterator[Look]:
    """Looks at runs, runs/2, runs/4, ... (whole chunks); the last has half of alpha, the others share the rest.

    Examples
    --------
    >>> from dpaccount.auditing.game.looks import planned
    >>> [(look.runs, round(look.share, 3)) for look in planned(1000, 100, True)]
    [(100, 0.125), (200, 0.125), (300, 0.125), (500, 0.125), (1000, 0.5)]
    """
    early = {-(-runs // (chunk * 2**j)) * chunk for j in range(1, MOST)} if several else set()
    early = {n for n in early if n < runs}
    yield from (Look(n, (1.0 - LAST) / len(early)) for n in sorted(early))
    yield Look(runs, LAST if early else 1.0)


def open_ended(chunk: int) -> Iterator[Look]:
    """Looks without end, each at about one and a half times the runs of the last, with shares 1/(k (k + 1)), which sum to 1.

    Examples
    --------
    >>> from itertools import islice
    >>> from dpaccount.auditing.game.looks import open_ended
    >>> [(look.runs, round(look.share, 3)) for look in islice(open_ended(100), 6)]
    [(100, 0.5), (200, 0.167), (300, 0.083), (500, 0.05), (800, 0.033), (1200, 0.024)]
    """
    chunks = 1
    for k in count(1):
        yield Look(chunks * chunk, 1.0 / (k * (k + 1)))
        chunks += -(-chunks // 2)
