"""``dpaccount sweep``."""

from __future__ import annotations

import csv
import math
import re
import sys
from dataclasses import dataclass
from typing import Any

import click
import numpy as np

from dpaccount.cli.errors import translated
from dpaccount.cli.options import RUN, Number, Numbers, Whole, run_options
from dpaccount.cli.show import Line, print_found, print_json, warn
from dpaccount.cli.stated import Stated, flag
from dpaccount.curves.profile import PrivacyProfile
from dpaccount.grid import BOUNDS, FAILED, Sweep
from dpaccount.statement import bracket, shown, shown_down, shown_up
from dpaccount.sweep import sweep

SWEPT = ("noise_multiplier", "mechanism_epsilon", "sampling_probability", "batch_size", "epochs", "steps")
QUESTION = ("epsilon", "delta", "false_positive_rate", "false_negative_rate", "advantage")
ASKED = ("epsilon", "delta", "log_delta", "false_negative_rate", "advantage")
WHOLE = ("steps", "batch_size")
TARGETS = ({"epsilon", "delta"}, {"false_positive_rate", "false_negative_rate"}, {"advantage"})
NOISY = ("gaussian", "laplace", "discrete-gaussian", "discrete-laplace")
LARGEST = 10**6  # points of one range


class Grid(Number):
    """A number, a comma list, or low:high:count with equal steps, or equal ratios if :log follows; one or a tuple of them."""

    name = "grid"

    def __init__(self, item: Any) -> None:
        self.item = item

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        parts = value if isinstance(value, (list, tuple)) else value.split(",") if isinstance(value, str) else [value]
        numbers = [number for part in parts for number in self._part(part, param, ctx)]
        if not numbers:
            self.fail("the list is empty", param, ctx)
        return numbers[0] if len(numbers) == 1 else tuple(dict.fromkeys(numbers))

    def _part(self, text: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[Any]:
        if not isinstance(text, str) or ":" not in text:
            return [self.item.convert(text, param, ctx)]
        if text.count(":") not in (2, 3):
            self.fail(f"{text!r} is not low:high:count", param, ctx)
        low, high, count, *scale = text.split(":")
        ends = [float(super(Grid, self).convert(end, param, ctx)) for end in (low, high)]
        points = Whole().convert(count, param, ctx)
        if scale not in ([], ["log"]) or not 2 <= points <= LARGEST or not all(map(math.isfinite, ends)) or (scale and min(ends) <= 0):
            self.fail(f"{text!r} is not low:high:count with a count of at least 2, or low:high:count:log above 0", param, ctx)
        spaced = np.geomspace(ends[0], ends[1], points) if scale else np.linspace(ends[0], ends[1], points)
        tidy = [float(f"{x:.12g}") for x in spaced]  # 0.9 rather than 0.9000000000000001
        return [self.item.convert(round(x) if isinstance(self.item, Whole) else x, param, ctx) for x in tidy]


@click.command("sweep", short_help="A question of every combination of parameters, as a table.")
@run_options(*QUESTION)
@click.option("--find", help="What is found: epsilon, delta, advantage, ...; with a whole target, the option to calibrate.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV instead of text.")
@click.option("--jobs", type=Whole(), help="Processes; -1 is every core. More than 1 needs dpaccount[parallel].")
@click.option("--progress/--no-progress", default=None, help="A bar on standard error (default: on a terminal).")
@click.pass_context
def sweep_command(
    ctx: click.Context, /, as_json: bool, as_csv: bool, find: str | None, jobs: int | None, progress: bool | None, **options: Any
) -> None:
    """One question of every combination of parameters.

    The numbers of a run and the targets take a comma list, low:high:count, or low:high:count:log.

    \b
    dpaccount sweep --noise-multiplier 0.8:1.2:5 --sampling-probability 0.01 --steps 500,1000 --delta 1e-5
    dpaccount sweep --sampling-probability 1e-3:1e-2:4:log --steps 1000 --epsilon 1,2 --delta 1e-5 --find noise-multiplier
    """
    if as_json and as_csv:
        raise click.UsageError("Give --json or --csv, not both.")
    stated = Stated.of(ctx)
    grid, question = ({n: stated.values[n] for n in names if stated.values.get(n) is not None} for names in (SWEPT, QUESTION))
    wanted = _wanted(stated, find, set(question))
    limits: dict[str, Any] = {"integer": True, "bracket": (1, 1e9)} if wanted in WHOLE else {}
    try:
        found = sweep(_Run(stated), grid, find=wanted, n_jobs=1 if jobs is None else jobs, progress=progress, **question, **limits)
    except ImportError as error:
        raise click.UsageError(translated(error, "sweep")) from error
    if found.failed.all():
        raise click.UsageError(f"No cell has an answer; the first: {_words(str(found.reason.flat[0]))}")
    notes = [*found.notes, *_notes(stated, question)]
    if as_json:
        run = {name: value for name, value in stated.values.items() if name in RUN and name not in (*SWEPT, "after") and value is not None}
        axes = {name: [_plain(name, value) for value in values] for name, values in found.axes.items()}
        print_json("sweep", find=found.quantity, axes=axes, run=run, answers=_records(found, None), notes=notes)
    elif as_csv:
        rows = _records(found, "")
        writer = csv.DictWriter(sys.stdout, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    else:
        _print_text(found, stated)
    warn([*notes, *(f"{_place(row, found)}: {_words(row['reason'])}" for row in found.rows() if row["status"] == FAILED)])


@dataclass(frozen=True)
class _Run:
    """The run of one cell: what was stated, with the cell's numbers filled in."""

    stated: Stated

    def __call__(self, **cell: Any) -> PrivacyProfile:
        return self.stated.with_values(**cell).profile


def _notes(stated: Stated, question: dict[str, Any]) -> tuple[str, ...]:
    """What a reader must hear of the largest delta, where the size of the data is known."""
    if not stated.trained or "delta" not in question:
        return ()
    return stated.with_values(batch_size=1, accumulation=None, epochs=None, steps=1, noise_multiplier=None).notes(question["delta"])


def _wanted(stated: Stated, find: str | None, question: set[str]) -> str | None:
    """What is found, as the library names it; for a whole target the noise, if it is not given."""
    wanted = None if find is None else find.replace("-", "_")
    if wanted is None and question in TARGETS and stated.values.get("noise_multiplier") is None and stated.mechanism in NOISY:
        wanted = "noise_multiplier"
    if wanted in SWEPT and stated.values.get(wanted) is not None:
        raise click.UsageError(f"{flag(wanted)} cannot be given if it is to be found.")
    if wanted in SWEPT and question not in TARGETS:
        raise click.UsageError(f"To find {flag(wanted)} give --epsilon with --delta, or --fpr with --fnr, or --advantage.")
    return wanted


def _records(found: Sweep, nothing: Any) -> list[dict[str, Any]]:
    """The rows, with `nothing` for the numbers of a cell that failed, and reasons in the words of the command line."""
    numbers = (found.quantity, *BOUNDS)

    def entry(row: dict[str, Any], name: str) -> Any:
        if name in numbers:
            return nothing if row["status"] == FAILED else _plain(found.quantity, row[name])
        return _plain(name, row[name])

    return [{name: entry(row, name) for name in row} for row in found.rows()]


def _plain(name: str, value: Any) -> Any:
    """As a file holds it: whole numbers without a point, epochs as a decimal, reasons with options for parameters."""
    if name == "reason":
        return _words(value)
    if name in WHOLE and math.isfinite(value):
        return int(value)
    return float(value) if name == "epochs" else value


def _words(reason: str) -> str:
    return translated(ValueError(reason), "sweep")


def _place(row: dict[str, Any], found: Sweep) -> str:
    return ", ".join(f"{flag(name)} {shown(float(row[name]))}" for name, values in found.axes.items() if len(values) > 1) or "the one cell"


def _print_text(found: Sweep, stated: Stated) -> None:
    """A row for each cell: its place, what was found, the bracket; what rows have in common stands below."""
    places = list(found.axes)
    cells = [None if found.failed[index] else found[index] for index in np.ndindex(found.shape)]
    rows, facts = [], []
    for row, cell in zip(found.rows(), cells, strict=True):
        number = "failed" if cell is None else shown_up(float(cell)) if cell.safe == "upper" else shown_down(float(cell))
        rows.append((*(shown(float(row[name])) for name in places), number, "-" if cell is None else bracket(cell)))
        facts.append([] if cell is None else _facts(found, stated, row))
    sides = {cell.safe for cell in cells if cell is not None}
    bound = f" ({sides.pop()} bound)" if found.quantity in ASKED else ""
    words = [name.replace("_", " ") for name in (*places, found.quantity)]
    print_found((*words[:-1], words[-1] + bound, "bracket"), rows, cells, facts)


def _facts(found: Sweep, stated: Stated, row: dict[str, Any]) -> list[Line]:
    """The run of a row in words, without the numbers that are columns of the table, and with what was asked of all rows."""
    columns = {name: row[name] for name in (*found.axes, found.quantity) if name in SWEPT}
    values = {name: int(row[name]) if name in WHOLE else row[name] for name in SWEPT if name in row}
    lines = [(name.replace("_", " "), shown(row[name])) for name in found.fixed if name in QUESTION]
    for name, text in stated.with_values(**values).lines():
        if name == "steps" and {"steps", "epochs", "batch_size"} & set(columns):
            continue
        for column in {"noise_multiplier", "mechanism_epsilon", "sampling_probability"} & set(columns):
            pattern = rf"(noise multiplier|range|epsilon|q =) {re.escape(shown(columns[column]))}(?=$|[ ,-])"
            text = re.sub(pattern, r"\1 as above", text)
        if name == "sampling" and "batch_size" in columns:
            text = "Poisson, q = batch size / dataset size"
        lines.append((name, text))
    return lines


def _taking_grids(command: click.Command) -> None:
    """What is a number in the other commands is a grid here."""
    for param in command.params:
        if param.name in (*SWEPT, *QUESTION):
            param.type = Grid(Number() if isinstance(param.type, Numbers) else param.type)


_taking_grids(sweep_command)
