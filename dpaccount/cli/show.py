"""What commands print: the safe figure first, then aligned facts; or JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

import click
import numpy as np

from dpaccount.iteration.face import HIDDEN
from dpaccount.results import Bounds, Status
from dpaccount.statement import bracket, certainty, method_text, shown_up, version

Line = tuple[str, str]
NOISE_DIGITS = 10  # of a noise that was found; rounded up, it is the noise that was checked


def print_lines(lines: Iterable[Line]) -> None:
    """Label and text, aligned."""
    rows = list(lines)
    width = max(len(name) for name, _ in rows) + 2
    for name, text in rows:
        click.echo(f"{name:<{width}}{text}".rstrip())


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Columns, aligned to the left; a blank line follows."""
    table = [tuple(header), *(tuple(row) for row in rows)]
    widths = [max(len(row[i]) for row in table) for i in range(len(header))]
    for row in table:
        click.echo("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())
    click.echo()


def print_json(command: str, **content: Any) -> None:
    """One object; infinities are the strings "inf" and "-inf", which JSON has no numbers for."""
    click.echo(json.dumps(plain({"dpaccount": version(), "command": command, **content}), indent=2, allow_nan=False))


def plain(value: Any) -> Any:
    """The same as JSON can hold it."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def bounds_record(found: Bounds) -> dict[str, Any]:
    """A scalar `Bounds` for --json."""
    return {
        "lower": float(found.lower), "estimate": float(found.estimate), "upper": float(found.upper),
        "certified": found.certified, "method": found.method, "status": found.status.name.lower(),
        "reason": None if found.status is Status.OK else found.status.value, "notes": list(found.notes),
    }


def print_answers(given: str, points: Sequence[float], asked: str, answers: Sequence[Bounds], facts: list[Line]) -> None:
    """One answer as lines, several as a table, then the facts; the first column of a table is what was given."""
    if len(answers) == 1:
        found = answers[0]
        head = [
            (asked, f"{shown_up(float(found.upper))}  at {given} = {points[0]:g} (upper bound)"),
            ("bracket", f"{ends(found)}, {certainty(found)}"),
        ]
        print_lines([*head, *facts, ("method", method_text(found.method))])
        return
    rows = [(f"{x:g}", shown_up(float(f.upper)), ends(f)) for x, f in zip(points, answers, strict=True)]
    print_found((given, asked, "bracket"), rows, answers, [facts] * len(rows))


def print_noise(noise: float, target: str, asked: str, found: Bounds, facts: list[Line]) -> None:
    """The noise that was found, for what, and what it achieves; then the facts."""
    head = [
        ("noise scale", shown_up(noise, NOISE_DIGITS)), ("target", f"the least that meets {target}"),
        ("achieved", f"{asked} {'' if _one_sided(found) else 'in '}{ends(found)}, {certainty(found)}"),
    ]
    print_lines([*head, *facts, ("method", method_text(found.method))])


def ends(found: Bounds) -> str:
    """The bracket, or what is known where its lower end says nothing."""
    return f"at most {shown_up(float(found.upper))} (upper bound; no lower bound)" if _one_sided(found) else bracket(found)


def _one_sided(found: Bounds) -> bool:
    return found.safe == "upper" and float(found.lower) == 0.0 < float(found.upper)


def assumes(answers: Sequence[Bounds], convex: bool) -> Line:
    """What bounds on a last iterate rest on, beyond what was stated."""
    hidden = any(HIDDEN in found.notes for found in answers)
    losses = f"every record's loss is {'convex, ' if convex else ''}Lipschitz and smooth as stated, and no gradient is clipped"
    return ("assumes", f"{'the last iterate is all that anyone ever sees; ' if hidden else ''}{losses}")


def print_found(
    header: Sequence[str], rows: Sequence[Sequence[str]], answers: Sequence[Bounds | None], facts: Sequence[Sequence[Line]]
) -> None:
    """A table of answers, with the facts of each row: those that differ are columns, those in common are lines below it.

    A row without an answer has no facts.
    """
    every = [
        [*lines, ("method", method_text(found.method)), ("digits", certainty(found))]
        for lines, found in zip(facts, answers, strict=True)
        if found is not None
    ]
    common, columns = [], []
    for lines in zip(*every, strict=True):
        if len(set(lines)) == 1:
            common.append(lines[0])
        else:
            told = iter(lines)
            columns.append([("", "-") if found is None else next(told) for found in answers])
    names = [next(name for name, _ in column if name) for column in columns]
    print_table((*header, *names), [(*row, *(column[i][1] for column in columns)) for i, row in enumerate(rows)])
    print_lines(common)


def warn(notes: Iterable[str]) -> None:
    """Notes to standard error, each once."""
    for note in dict.fromkeys(notes):
        click.echo(f"warning: {note}", err=True)
