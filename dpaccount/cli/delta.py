"""``dpaccount delta``."""

from __future__ import annotations

from typing import Any

import click

from dpaccount.cli.options import run_options
from dpaccount.cli.show import bounds_record, print_answers, print_json, warn
from dpaccount.cli.stated import Stated


@click.command("delta")
@run_options("epsilon")
@click.pass_context
def delta_command(ctx: click.Context, /, as_json: bool, **options: Any) -> None:
    """The delta of a run at each --epsilon.

    \b
    dpaccount delta --noise-multiplier 1 --sampling-probability 0.01 --steps 1000 --epsilon 1,2,4
    """
    stated = Stated.of(ctx)
    epsilons = stated.need("epsilon")
    profile = stated.profile
    answers = [profile.delta(epsilon=e) for e in epsilons]
    notes = [note for found in answers for note in found.notes]
    if len(answers) == 1:
        notes += stated.notes(answers[0].upper)
    if as_json:
        rows = [{"epsilon": e, "delta": float(found), **bounds_record(found)} for e, found in zip(epsilons, answers, strict=True)]
        return print_json("delta", run=stated.record(), answers=rows, notes=list(dict.fromkeys(notes)))
    print_answers("epsilon", epsilons, "delta", answers, stated.lines())
    return warn(notes)
