"""``dpaccount calibrate``."""

from __future__ import annotations

import itertools
import math
import re
from functools import reduce
from operator import add
from typing import Any

import click

from dpaccount.calibration import calibrate, refuse_if_spent
from dpaccount.cli.options import run_options
from dpaccount.cli.show import Line, bounds_record, print_found, print_json, print_lines, warn
from dpaccount.cli.stated import Stated, flag
from dpaccount.curves.profile import PrivacyProfile
from dpaccount.results import Calibration, Status
from dpaccount.statement import bracket, certainty, method_text, shown, shown_down, shown_up
from dpaccount.training import steps_of

FREE = ("noise-multiplier", "mechanism-epsilon", "sampling-probability", "steps", "epochs", "batch-size")
_INTEGER = ("steps", "batch_size")
_TARGETS = (("epsilon", "delta"), ("false_positive_rate", "false_negative_rate"), ("advantage",))


@click.command("calibrate", short_help="Least noise for a budget, or most steps, epochs or batch.")
@run_options("epsilon", "delta", "advantage", "false_positive_rate", "false_negative_rate")
@click.option("--solve", type=click.Choice(FREE), help="The number to find (default: the one that is missing).")
@click.pass_context
def calibrate_command(ctx: click.Context, /, as_json: bool, solve: str | None, **options: Any) -> None:
    """The least noise for a budget, or the most steps, epochs, batch or sampling probability.

    The number that is missing is found: noise first, then length, then batch.

    \b
    dpaccount calibrate --dataset-size 60000 --batch-size 256 --epochs 60 --epsilon 2 --delta 1e-5
    dpaccount calibrate --dataset-size 60000 --batch-size 256 --noise-multiplier 1.1 --epsilon 2 --delta 1e-5
    dpaccount calibrate --sampling-probability 0.01 --steps 1000 --advantage 0.1
    """
    stated = Stated.of(ctx)
    targets = _targets(stated)
    if solve is not None and "solve" not in stated.typed and solve.replace("-", "_") in stated.typed:
        solve = None  # the command line gives what the run file would solve for
    free = solve.replace("-", "_") if solve else _missing(stated)
    _check_free(stated, free)
    solved = [_solve(stated, free, target) for target in targets]
    notes = [n for target, (_, found) in zip(targets, solved, strict=True) for n in (*found.notes, *_notes(stated, target))]
    if as_json:
        rows = [_record(free, target, filled, found) for target, (filled, found) in zip(targets, solved, strict=True)]
        print_json("calibrate", solved_for=free, answers=rows, notes=list(dict.fromkeys(notes)))
        return
    if len(solved) == 1:
        _print_one(free, *solved[0])
    else:
        _print_several(free, solved)
    warn(notes)


def _check_free(stated: Stated, free: str) -> None:
    """Refuse to solve for a number that is given, or that the run does not depend on."""
    _refuse_loaded(stated)
    if free in ("epochs", "batch_size") and not stated.trained:
        raise click.UsageError(f"{flag(free)} needs --dataset-size and the other numbers of a training run.")
    if free == "sampling_probability" and stated.trained:
        raise click.UsageError("Of a run with --dataset-size solve for batch-size, which sets its sampling probability.")
    if free in ("noise_multiplier", "mechanism_epsilon") and free != _size(stated):
        raise click.UsageError(f"{flag(free)} does not belong to --mechanism {stated.mechanism}.")
    for name in ("epochs", "steps") if free in ("epochs", "steps") else (free,):
        if name in stated.typed:
            raise click.UsageError(f"{flag(name)} cannot be given if {free.replace('_', '-')} is to be found.")


def _refuse_loaded(stated: Stated) -> None:
    if stated.loaded is not None:
        raise click.UsageError("The run file holds a whole composition: nothing is left to solve for.")


def _size(stated: Stated) -> str:
    """The parameter of the mechanism that sets its noise."""
    noisy = stated.mechanism in ("gaussian", "laplace", "discrete-gaussian", "discrete-laplace")
    return "noise_multiplier" if noisy else "mechanism_epsilon"


def _notes(stated: Stated, target: dict[str, float]) -> tuple[str, ...]:
    if "delta" not in target or not stated.trained or target["delta"] < 1.0 / stated.values["dataset_size"]:
        return ()
    return stated.with_values(batch_size=1, accumulation=None, epochs=None, steps=1).notes(target["delta"])


def _targets(stated: Stated) -> list[dict[str, float]]:
    """Every combination of the values of the one kind of target that is given."""
    given = [names for names in _TARGETS if any(stated.values.get(name) is not None for name in names)]
    if len(given) != 1:
        raise click.UsageError("Give one target: --epsilon with --delta, or --fpr with --fnr, or --advantage.")
    lists = [stated.need(name) for name in given[0]]
    return [dict(zip(given[0], values, strict=True)) for values in itertools.product(*lists)]


def _missing(stated: Stated) -> str:
    """The number that the options leave free."""
    values = stated.values
    _refuse_loaded(stated)
    order = [_size(stated), "steps"] + (["batch_size"] if stated.trained else ["sampling_probability"])
    for name in order:
        if values.get(name) is None and not (name == "steps" and values.get("epochs") is not None):
            return "epochs" if name == "steps" and stated.trained else name
    raise click.UsageError("Nothing is left free: leave one number out, or name it with --solve.")


_LEFT = {
    "steps": ", so 0 steps are left", "epochs": ", so 0 epochs are left, that is 0 steps", "noise_multiplier": ", so no noise is enough",
    "mechanism_epsilon": ", so no --mechanism-epsilon is small enough", "batch_size": ", so no batch is small enough",
    "sampling_probability": ", so no sampling probability is small enough",
}


def _solve(stated: Stated, free: str, target: dict[str, Any]) -> tuple[Stated, Calibration]:
    """The run with the found value filled in, and the calibration."""
    search = "steps" if free == "epochs" else free

    def fill(value: Any) -> Stated:
        if search == "steps":
            return stated.with_values(epochs=None, steps=value)
        return stated.with_values(**{search: value})

    top = stated.values["dataset_size"] // (stated.values.get("accumulation") or 1) if search == "batch_size" else None
    bracket = (1, 1e9) if search == "steps" else None if top is None or top < 2 else (1, top)
    fill(0.5 if search == "sampling_probability" else 1).guarantee  # noqa: B018  # refuses what else is missing or wrong
    if stated.before:
        v = stated.values
        before = PrivacyProfile(reduce(add, stated.spent), v["adjacency"], method=v["method"], conversion=v["conversion"])
        refuse_if_spent(before, _LEFT.get(free, ""), **target)
    found = calibrate(lambda value: fill(value).profile, integer=search in _INTEGER, bracket=bracket, **target)
    value: Any = found.value
    if search not in _INTEGER:  # what is printed is what was checked, or safer
        value = float(_shown(search, value))
    return fill(value), found


def _shown(name: str, value: float) -> str:
    """Ten digits, rounded to the safe side: noise up, anything else down; whole numbers as they are."""
    if isinstance(value, int):
        return str(value)
    return shown_up(value, 10) if name == "noise_multiplier" else shown_down(value, 10)


def _epochs(filled: Stated, steps: int) -> float:
    return filled.training.epochs_of(steps)


def _answer(free: str, filled: Stated) -> str:
    """The found number as it is printed."""
    if free != "epochs":
        return _shown(free, filled.values[free])
    epochs = _epochs(filled, filled.values["steps"])
    run, whole = filled.training, math.floor(epochs)
    paid = steps_of(whole, run.dataset_size, run.logical_batch_size) if whole else 0
    return f"{shown_down(epochs, 10)}  ({run.steps} steps; {whole} whole epochs are {paid})"


_EDGE = {
    "noise_multiplier": "the least that meets",
    "mechanism_epsilon": "the largest that meets",
    "sampling_probability": "the largest that meets",
    "steps": "the most that meet",
    "epochs": "the most that meet",
    "batch_size": "the largest that meets",
}


def _print_one(free: str, filled: Stated, found: Calibration) -> None:
    label = free.replace("_", " ")
    edge = f"{_EDGE[free]} {found.target}"
    if found.status is Status.NO_NOISE_NEEDED:
        edge = f"{found.target} holds here and everywhere in the search range"
    name = found.target.split(" ", maxsplit=1)[0] if not found.target.startswith("false") else "false negative rate"
    print_lines([
        (label, _answer(free, filled)),
        ("target", edge),
        ("achieved", f"{name} in {bracket(found.achieved)}, {certainty(found.achieved)}"),
        *filled.lines(),
        ("method", method_text(found.achieved.method)),
    ])


def _print_several(free: str, solved: list[tuple[Stated, Calibration]]) -> None:
    rows = [(_answer(free, filled), found.target, bracket(found.achieved)) for filled, found in solved]
    print_found(
        (free.replace("_", " "), "target", "achieved"), rows, [found.achieved for _, found in solved],
        [_facts(free, filled) for filled, _ in solved],
    )


def _facts(free: str, filled: Stated) -> list[Line]:
    """The run without the number that was found, which has a column of its own."""
    value = re.escape("" if free == "epochs" else shown(filled.values[free]))
    found = []
    for name, text in filled.lines():
        if name == "steps" and free in ("steps", "epochs"):
            continue
        if name in ("mechanism", "sampling") and value:
            text = re.sub(rf"(noise multiplier|range|epsilon|q =) {value}(?=$|[ ,])", r"\1 as above", text)
        found.append((name, text))
    return found


def _record(free: str, target: dict[str, float], filled: Stated, found: Calibration) -> dict[str, Any]:
    value = _epochs(filled, filled.values["steps"]) if free == "epochs" else filled.values[free]
    return {
        **target, free: value, "infeasible": found.infeasible, "target": found.target, "status": found.status.name.lower(),
        "evaluations": found.evaluations, "achieved": bounds_record(found.achieved), "run": filled.record(),
    }
