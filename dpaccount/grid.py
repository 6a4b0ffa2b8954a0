"""The answers of a sweep: arrays in the shape of its grid, a table to read, rows to export."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from typing import Any, NamedTuple, final

import numpy as np
import numpy.typing as npt

from dpaccount import _check
from dpaccount.results import Bounds, Status, certain_digits

FAILED = "FAILED"
SHOWN = 20  # rows of a table at the prompt; a notebook has room for ten times as many
BOUNDS = ("lower", "estimate", "upper")
WORDS = ("method", "status", "reason", "adjacency")


class Answer(NamedTuple):
    """What one cell has to say; plain values, which travel well."""

    value: float
    lower: float
    estimate: float
    upper: float
    certified: bool
    method: str
    status: str
    reason: str
    adjacency: str
    notes: tuple[str, ...]


@final
@dataclass(frozen=True, eq=False)
class Sweep:
    """The answers of a sweep, as arrays with one entry a cell, in the shape of `axes`.

    `lower` <= `estimate` <= `upper` bracket what is found: for a calibration, the edge of the budget, as `Calibration` has it. `value` is
    the safe one of the two ends; `certified`, `method` and `adjacency` are those of the answer (for a calibration, of what the value
    achieves); `status` is the name of its `Status`, and `reason` says it in words. A cell that failed has the status ``FAILED``, the
    error as its reason, and NaN in its numbers, so that a comparison with a budget is false.

    Parameters
    ----------
    quantity : str
        What was found.
    axes : dict of str to tuple
        Names and values, the family's first.
    fixed : dict
        What was the same in all cells.
    """

    quantity: str
    axes: dict[str, tuple[Any, ...]]
    fixed: dict[str, Any]
    value: npt.NDArray[np.float64]
    lower: npt.NDArray[np.float64]
    estimate: npt.NDArray[np.float64]
    upper: npt.NDArray[np.float64]
    certified: npt.NDArray[np.bool_]
    method: npt.NDArray[np.object_]
    status: npt.NDArray[np.object_]
    reason: npt.NDArray[np.object_]
    adjacency: npt.NDArray[np.object_]
    notes: tuple[str, ...] = field(default=())

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of values on each axis."""
        return self.value.shape

    @property
    def failed(self) -> npt.NDArray[np.bool_]:
        """Where there is no answer."""
        return np.asarray(self.status == FAILED)

    def __getitem__(self, index: Any) -> Bounds:
        """One cell as a `Bounds`; of a cell that failed, a ValueError with its reason."""
        if np.ndim(self.value[index]):
            hint = f"The shape is {self.shape}; arrays are in .value, .lower, .upper."
            _check.refuse("Sweep", "index", "that of one cell", index, hint, TypeError)
        if self.failed[index]:
            raise ValueError(f"`Sweep[{index}]` has no answer: {self.reason[index]}")
        lower, middle, upper = (float(side[index]) for side in (self.lower, self.estimate, self.upper))
        return Bounds(
            lower, middle, upper, bool(self.certified[index]), str(self.method[index]), Status[self.status[index]],
            "upper" if self.value[index] == upper else "lower", notes=self.notes,
        )

    def rows(self) -> Iterator[dict[str, Any]]:
        """One dictionary a cell: its place on every axis, then `value` under the quantity's name, the bounds and the rest."""
        for index, point in zip(np.ndindex(self.shape), itertools.product(*self.axes.values()), strict=True):
            place = dict(zip(self.axes, point, strict=True)) | self.fixed
            found = {self.quantity: float(self.value[index])} | {name: float(getattr(self, name)[index]) for name in BOUNDS}
            words = {name: str(getattr(self, name)[index]) for name in WORDS if name not in place}
            yield place | found | {"certified": bool(self.certified[index])} | words

    def to_dict(self) -> dict[str, list[Any]]:
        """The rows as equal columns: ``pandas.DataFrame(sweep.to_dict())``."""
        rows = list(self.rows())
        return {name: [row[name] for row in rows] for name in rows[0]}

    def __repr__(self) -> str:
        header, rows = self._table()
        table = [header, *rows[:SHOWN]]
        widths = [max(len(row[i]) for row in table) for i in range(len(header))]
        lines = ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]
        more = [f"... {len(rows) - SHOWN} more rows"] if len(rows) > SHOWN else []
        return "\n".join([self._summary(), *lines, *more])

    def _repr_html_(self) -> str:
        header, rows = self._table()
        head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
        body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows[: 10 * SHOWN])
        return f"<table><caption>{escape(self._summary())}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def _summary(self) -> str:
        axes = " x ".join(f"{name} ({len(values)})" for name, values in self.axes.items()) or "one cell"
        lost = int(self.failed.sum())
        proved = int(self.certified.sum())
        parts = [
            f"Sweep of {self.quantity}: {axes}", ", ".join(f"{name} = {_text(value)}" for name, value in self.fixed.items()),
            ", ".join(dict.fromkeys(str(name) for name in self.adjacency.flat if name)),
            "all certified" if proved == self.value.size else f"{proved} of {self.value.size} certified",
            f"{lost} failed, the first because {self.reason[self.failed][0]}" if lost else "",
        ]
        return "; ".join(part for part in parts if part)

    def _table(self) -> tuple[list[str], list[list[str]]]:
        """Two long axes make a table of rows and columns, anything else a row for each cell."""
        long = {name: values for name, values in self.axes.items() if len(values) > 1}
        shown = np.array([self._shown(index) for index in np.ndindex(self.shape)], dtype=object)
        if len(long) == 2:
            (row, down), (column, across) = long.items()
            cells = shown.reshape(len(down), len(across))
            return [row, *(f"{column} = {_text(v)}" for v in across)], [[_text(v), *cells[i]] for i, v in enumerate(down)]
        points = itertools.product(*(self.axes[name] for name in long))
        return [*long, self.quantity], [[*map(_text, point), text] for point, text in zip(points, shown, strict=True)]

    def _shown(self, index: tuple[int, ...]) -> str:
        if self.failed[index]:
            return "failed"
        safe = "upper" if self.value[index] == self.upper[index] else "lower"
        return certain_digits(self.lower[index], self.estimate[index], self.upper[index], safe)


def answered(
    found: Bounds, value: float, sides: tuple[float, float, float], status: Status, profile: Any, notes: tuple[str, ...]
) -> Answer:
    status = found.status if status is Status.OK else status
    reason = "" if status is Status.OK else status.value
    lower, middle, upper = map(float, sides)
    adjacency = str(getattr(profile, "adjacency", ""))
    return Answer(float(value), lower, middle, upper, bool(found.certified), found.method, status.name, reason, adjacency, notes)


def failed(error: Exception) -> Answer:
    text = str(error)
    reason = text if text.startswith("`") else f"{type(error).__name__}: {text}"
    return Answer(math.nan, math.nan, math.nan, math.nan, False, "", FAILED, reason, "", ())


def assembled(find: str, axes: dict[str, tuple[Any, ...]], fixed: dict[str, Any], answers: list[Answer]) -> Sweep:
    shape = tuple(len(values) for values in axes.values())
    kinds = {"certified": bool, **dict.fromkeys(("value", *BOUNDS), float)}
    arrays: dict[str, Any] = {}
    for name, column in zip(Answer._fields[:-1], zip(*(answer[:-1] for answer in answers), strict=True), strict=True):
        arrays[name] = np.empty(len(answers), dtype=kinds.get(name, object))
        arrays[name][:] = column
    notes = tuple(dict.fromkeys(note for answer in answers for note in answer.notes))
    return Sweep(find, axes, fixed, **{name: array.reshape(shape) for name, array in arrays.items()}, notes=notes)


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
