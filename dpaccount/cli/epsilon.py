"""``dpaccount epsilon``."""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import Any

import click

from dpaccount.cli.options import run_options
from dpaccount.cli.show import bounds_record, print_answers, print_found, print_json, warn
from dpaccount.cli.stated import Stated
from dpaccount.results import Bounds
from dpaccount.statement import bracket, shown_up


@click.command("epsilon")
@run_options("delta")
@click.option("--per-epoch", is_flag=True, help="epsilon after every epoch of a training run; what came before is counted.")
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
    """epsilon of what came before and every prefix of the run, at each delta."""
    if not stated.trained:
        raise click.UsageError("--per-epoch needs a run stated by --dataset-size, --batch-size and --epochs or --steps.")
    stated.need("noise_multiplier")
    run = stated.training
    rows: list[tuple[int, int, float, Bounds]] = []
    for epoch, steps in enumerate(run.epoch_steps.tolist(), 1):
        profile = stated.profile_of(reduce(add, (*stated.spent, steps * run.step)))
        rows += [(epoch, steps, d, profile.epsilon(delta=d)) for d in deltas]
    notes = list(dict.fromkeys(note for _, _, d, found in rows for note in (*found.notes, *run.notes(d))))
    if as_json:
        answers = [{"epoch": i, "steps": t, "delta": d, **bounds_record(b)} for i, t, d, b in rows]
        return print_json("epsilon", run=stated.record(), delta=deltas[0] if len(deltas) == 1 else deltas, answers=answers, notes=notes)
    one = len(deltas) == 1
    print_found(
        ("epoch", "steps", *([] if one else ["delta"]), "epsilon", "bracket"),
        [(str(i), str(t), *([] if one else [f"{d:g}"]), shown_up(float(b.upper)), bracket(b)) for i, t, d, b in rows],
        [b for *_, b in rows],
        [[*([("delta", f"{deltas[0]:g}")] if one else []), *stated.lines()]] * len(rows),
    )
    return warn(notes)
