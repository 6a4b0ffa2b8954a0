"""``dpaccount epsilon``."""

from __future__ import annotations

from typing import Any

import click

from dpaccount.cli.options import run_options
from dpaccount.cli.show import bounds_record, print_answers, print_json, print_lines, print_table, warn
from dpaccount.cli.stated import Stated
from dpaccount.results import Bounds
from dpaccount.statement import bracket, certainty, method_text, shown_up


@click.command("epsilon")
@run_options("delta")
@click.option("--per-epoch", is_flag=True, help="epsilon after every epoch of a training run.")
@click.pass_context
def epsilon_command(ctx: click.Context, /, as_json: bool, per_epoch: bool, **options: Any) -> None:
    """The epsilon of a run at each --delta.

    \b
    dpaccount epsilon --dataset-size 60000 --batch-size 256 --epochs 60 --noise-multiplier 1.1 --delta 1e-5
    dpaccount epsilon --noise-multiplier 1 --sampling-probability 0.01 --steps 1000 --delta 1e-5,1e-6
    """
    stated = Stated.of(ctx)
    deltas = stated.need("delta")
    if per_epoch:
        return _per_epoch(stated, deltas, as_json)
    profile = stated.profile
    answers = [profile.epsilon(delta=d) for d in deltas]
    notes = [note for d, found in zip(deltas, answers, strict=True) for note in (*found.notes, *stated.notes(d))]
    if as_json:
        rows = [{"delta": d, "epsilon": float(found), **bounds_record(found)} for d, found in zip(deltas, answers, strict=True)]
        return print_json("epsilon", run=stated.record(), answers=rows, notes=list(dict.fromkeys(notes)))
    print_answers("delta", deltas, "epsilon", answers, stated.lines())
    return warn(notes)


def _per_epoch(stated: Stated, deltas: tuple[float, ...], as_json: bool) -> None:
    if not stated.trained or stated.before or len(deltas) != 1:
        raise click.UsageError("--per-epoch needs a run stated by --dataset-size, one --delta and no --after.")
    stated.need("noise_multiplier")
    run = stated.training
    found = run.per_epoch(deltas[0], method=stated.values["method"])
    rows = list(zip(run.epoch_steps.tolist(), found, strict=True))
    if as_json:
        answers = [{"epoch": i, "steps": t, **bounds_record(b)} for i, (t, b) in enumerate(rows, 1)]
        return print_json("epsilon", run=stated.record(), delta=deltas[0], answers=answers, notes=list(found.notes))
    print_table(("epoch", "steps", "epsilon", "bracket"), [_row(i, t, b) for i, (t, b) in enumerate(rows, 1)])
    print_lines([
        ("delta", f"{deltas[0]:g}"), *stated.lines(), ("method", method_text(found.method)), ("digits", certainty(found)),
    ])
    return warn(found.notes)


def _row(epoch: int, steps: int, found: Bounds) -> tuple[str, ...]:
    return str(epoch), str(steps), shown_up(float(found.upper)), bracket(found)
