"""Many small tasks, in order: in this process or through joblib, in batches, with a bar on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Self

from dpaccount import _check

BATCHES = 8  # a worker's share comes in so many batches, so that slow ones even out
LARGEST = 32  # cells in a batch: enough that sending it costs little beside it


def spread(owner: str, function: Callable[[Any], Any], tasks: Sequence[Any], n_jobs: int | None, progress: bool | None) -> list[Any]:
    """``[function(task) for task in tasks]``, whoever computes it; the order and the batches do not show in the answers."""
    n_jobs = jobs(owner, n_jobs)
    with Bar(owner, len(tasks), progress) as bar:
        if n_jobs == 1:
            return _collected(([function(task)] for task in tasks), bar)
        return _collected(_through_joblib(owner, function, tasks, n_jobs), bar)


def stream(owner: str, function: Callable[[Any], Any], tasks: Sequence[Any], n_jobs: int | None) -> Iterator[Any]:
    """``function(task)`` of each task as soon as it is there, in any order: for tasks that are long, one a batch."""
    if n_jobs == 1:
        return (function(task) for task in tasks)
    return (found for batch in _through_joblib(owner, function, tasks, n_jobs, largest=1, ordered=False) for found in batch)


def workers(n_jobs: int | None) -> int:
    """How many tasks run at a time."""
    if n_jobs == 1 or "joblib" not in sys.modules:
        return 1
    import joblib

    return max(1, int(joblib.effective_n_jobs(n_jobs)))


def jobs(owner: str, n_jobs: int | None) -> int | None:
    """None is joblib's own choice; without a joblib that somebody imported nobody can have chosen, so it is 1."""
    if n_jobs is None:
        return None if "joblib" in sys.modules else 1
    known = _check.count(owner, "n_jobs", n_jobs, minimum=-(10**6), hint="-1 is every core, 1 is this process alone.")
    if known == 0:
        _check.refuse(owner, "n_jobs", "a whole number other than 0", n_jobs, "-1 is every core, 1 is this process alone.")
    return known


def _through_joblib(
    owner: str, function: Callable[[Any], Any], tasks: Sequence[Any], n_jobs: int | None, largest: int | None = None, ordered: bool = True,
) -> Iterator[list[Any]]:
    try:
        import joblib
    except ImportError as error:
        _check.refuse(
            owner, "n_jobs", "1 where joblib is not installed", n_jobs, f"pip install 'dpaccount[parallel]' adds it ({error}).", ImportError
        )
    size = min(largest or LARGEST, -(-len(tasks) // (BATCHES * max(1, joblib.effective_n_jobs(n_jobs)))))
    batches = [tasks[start : start + size] for start in range(0, len(tasks), max(size, 1))]
    backend, _ = joblib.parallel.get_active_backend()
    streams = "generator" if ordered else "generator_unordered"
    returned = streams if getattr(backend, "supports_return_generator", False) else "list"
    run = joblib.Parallel(n_jobs=n_jobs, return_as=returned, batch_size=1)
    return iter(run(joblib.delayed(_batch)(function, batch) for batch in batches))


def _batch(function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
    return [function(task) for task in tasks]


def _collected(batches: Iterable[list[Any]], bar: Bar) -> list[Any]:
    found: list[Any] = []
    for batch in batches:
        found += batch
        bar.show(len(found))
    return found


class Bar:
    """``sweep [#####     ] 120/240, 3 s left`` on one line, drawn ten times a second; on a terminal alone unless asked for."""

    WIDTH = 30

    def __init__(self, name: str, total: int, shown: bool | None, before: int = 0) -> None:
        shown = None if shown is None else _check.flag(name, "progress", shown)
        self.name, self.total = name, total
        self.before = before  # what was done already when the clock started
        self.asked = shown is True
        self.shown = shown if shown is not None else sys.stderr is not None and sys.stderr.isatty()
        self.start = self.last = time.monotonic()
        self.drawn = 0  # characters

    def __enter__(self) -> Self:
        if self.asked:
            self._draw(self.before)
        return self

    def __exit__(self, *_: object) -> None:
        if self.drawn:
            sys.stderr.write("\n")
            sys.stderr.flush()

    def show(self, done: int) -> None:
        """Draw, if there is something new to see; a sweep that is over at once shows nothing unless it was asked."""
        now = time.monotonic()
        over = done >= self.total and self.drawn > 0
        if self.shown and (over or now - self.last > (0.1 if self.drawn else 0.5)):
            self.last = now
            self._draw(done)

    def _draw(self, done: int) -> None:
        taken = time.monotonic() - self.start
        new = done - self.before
        left = f"{taken:.0f} s" if done >= self.total else f"{taken / new * (self.total - done):.0f} s left" if new > 0 else "..."
        full = self.WIDTH * done // self.total if self.total else self.WIDTH
        text = f"{self.name} [{'#' * full:<{self.WIDTH}}] {done}/{self.total}, {left}"
        sys.stderr.write(f"\r{text:<{self.drawn}}")
        sys.stderr.flush()
        self.drawn = len(text)
