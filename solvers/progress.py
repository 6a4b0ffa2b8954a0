"""A bar for what takes more than a moment: on a terminal, on standard error, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dpaccount import _check
from dpaccount._parallel import Bar


def steps(name: str, total: int, progress: bool | None) -> Iterator[int]:
    """0 .. total - 1 with a bar: None shows one on a terminal alone, True always, False never."""
    yield from tracked(name, range(total), total, progress)


def tracked(name: str, items: Iterable[int], total: int, progress: bool | None) -> Iterator[int]:
    """The items, with a bar beside them."""
    shown = None if progress is None else _check.flag(name, "progress", progress)
    with Bar(name, total, shown) as bar:
        for done, item in enumerate(items, 1):
            yield item
            bar.show(done)
