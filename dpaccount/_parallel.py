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
    n_jobs = _jobs(owner, n_jobs)
    progress = None if progress is None else _check.flag(owner, "progress", progress)
    with Bar(owner, len(tasks), progress) as bar:
        if n_jobs == 1:
            return _collected(([function(task)] for task in tasks), bar)
        return _collected(_through_joblib(owner, function, tasks, n_jobs), bar)


def _jobs(owner: str, n_jobs: int | None) -> int | None:
    """None is joblib's own choice; without a joblib that somebody imported nobody can have chosen, so it is 1."""
    if n_jobs is None:
        return None if "joblib" in sys.modules else 1
    known = _check.count(owner, "n_jobs", n_jobs, minimum=-(10**6), hint="-1 is every core, 1 is this process alone.")
    if known == 0:
        _check.refuse(owner, "n_jobs", "a whole number other than 0", n_jobs, "-1 is every core, 1 is this process alone.")
    return known


def _through_joblib(owner: str, function: Callable[[Any], Any], tasks: Sequence[Any], n_jobs: int | None) -> Iterator[list[Any]]:
    try:
        import joblib
    except ImportError as error:
        _check.refuse(
            owner, "n_jobs", "1 where joblib is not installed", n_jobs, f"pip install 'dpaccount[parallel]' adds it ({error}).", ImportError
        )
    size = min(LARGEST, -(-len(tasks) // (BATCHES * max(1, joblib.effective_n_jobs(n_jobs)))))
    batches = [tasks[start : start + size] for start in range(0, len(tasks), max(size, 1))]
    backend, _ = joblib.parallel.get_active_backend()
    ordered = "generator" if getattr(backend, "supports_return_generator", False) else "list"
    run = joblib.Parallel(n_jobs=n_jobs, return_as=ordered, batch_size=1)
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

    def __init__(self, name: str, total: int, shown: bool | None) -> None:
        self.name, self.total = name, total
        self.asked = shown is True
        self.shown = shown if shown is not None else sys.stderr is not None and sys.stderr.isatty()
        self.start = self.last = time.monotonic()
        self.drawn = 0  # characters

    def __enter__(self) -> Self:
        if self.asked:
            self._draw(0)
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
        left = f"{taken:.0f} s" if done >= self.total else f"{taken / done * (self.total - done):.0f} s left" if done else "..."
        full = self.WIDTH * done // self.total if self.total else self.WIDTH
        text = f"{self.name} [{'#' * full:<{self.WIDTH}}] {done}/{self.total}, {left}"
        sys.stderr.write(f"\r{text:<{self.drawn}}")
        sys.stderr.flush()
        self.drawn = len(text)
