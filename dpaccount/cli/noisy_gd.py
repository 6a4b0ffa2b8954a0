"""``dpaccount noisy-gd``."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from dpaccount.adjacency import Adjacency, parse
from dpaccount.cli.curve import EPSILONS
from dpaccount.cli.hidden import Seen, curvature, least_noise
from dpaccount.cli.options import AS_JSON, Number, Numbers, Whole
from dpaccount.cli.picture import check_plot, write_picture
from dpaccount.cli.show import assumes, bounds_record, print_answers, print_json, print_noise, warn
from dpaccount.iteration.noisy_gd import CONTRACTION, MIXED, SHIFTED, NoisyGD
from dpaccount.results import Bounds
from dpaccount.statement import RELATIONS, shown_up

METHODS = (SHIFTED, CONTRACTION, MIXED, "composition", "best")
AGAINST = ("epsilon", "steps")
# Okabe and Ito's colours, which also differ in grey, and lines that differ without colour
STYLES = (("#0072B2", "-"), ("#D55E00", (0, (3, 1, 1, 1))), ("#009E73", (0, (5, 1.5))), ("#000000", ":"))


class Steps(Whole):
    """A whole number, or inf for the limit."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return math.inf if str(value).strip() == "inf" else super().convert(value, param, ctx)


@click.command("noisy-gd", short_help="Noisy gradient descent of which only the last iterate is released.")
@click.option("--num-records", type=Whole(), required=True, help="Records; means divide by this fixed number.")
@click.option("--lipschitz", type=Number(), required=True, help="Bound on the gradient norm of one record's loss.")
@click.option("--smoothness", type=Number(), required=True, help="Lipschitz constant of the gradients.")
@click.option("--strong-convexity", type=Number(), default=0.0, show_default=True, help="0 is convex; below 0 is not convex.")
@click.option("--step-size", type=Number(), required=True, help="Of every step.")
@click.option("--noise-scale", type=Number(), help="Noise on the mean gradient; left out, it is found for --epsilon and --delta.")
@click.option("--steps", type=Steps(), required=True, help="How many; inf for the limit.")
@click.option("--diameter", type=Number(), default=math.inf, help="Of the set that every step projects onto (default: no projection).")
@click.option("--batches", type=Whole(), default=1, show_default=True, help="Batches of a fixed partition, used in turn.")
@click.option("--batch", type=Whole(), help="Whose records are meant, from 1 (default: the worst).")
@click.option(
    "--adjacency", type=click.Choice([str(a) for a in Adjacency if a is not Adjacency.AS_WRITTEN]),
    default=str(Adjacency.ZERO_OUT), show_default=True,
    help="Which data sets are neighbours; add-or-remove is for one batch.",
)
@click.option("--method", type=click.Choice(METHODS), default="best", show_default=True, help="The bound.")
@click.option("--epsilon", type=Numbers(), help="Find delta there, or a comma list.")
@click.option("--delta", type=Numbers(), help="Find epsilon there, or a comma list.")
@click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Draw it (.png, .pdf, .svg).")
@click.option(
    "--against", type=click.Choice(AGAINST), default="epsilon", show_default=True,
    help="Plot delta against epsilon, or epsilon (at --delta) against steps.",
)
@AS_JSON
def noisy_gd_command(
    epsilon: tuple[float, ...] | None, delta: tuple[float, ...] | None, method: str, batch: int | None, plot: Path | None,
    against: str, as_json: bool, **fields: Any,
) -> None:
    """What noisy gradient descent costs if nobody ever sees an iterate but the last.

    \b
    dpaccount noisy-gd --num-records 1000 --lipschitz 1 --smoothness 1 --strong-convexity 0.1 --step-size 0.5 \\
        --noise-scale 0.02 --steps 10000 --delta 1e-6
    """
    if plot is not None:
        check_plot(plot)
        if against == "steps" and (delta is None or len(delta) != 1):
            raise click.UsageError("--against steps draws epsilon at one --delta.")
    if fields["noise_scale"] is None:
        noise, target = least_noise(
            lambda noise: Seen(NoisyGD(**{**fields, "noise_scale": noise}), batch, {"method": method}), epsilon, delta
        )
        run, epsilon = NoisyGD(**{**fields, "noise_scale": noise}), None
    else:
        run, target = NoisyGD(**fields), None
    if (epsilon is None) == (delta is None):
        raise click.UsageError("Give --epsilon or --delta: the other one is found. Both are for a run without --noise-scale.")
    asked, given, points = ("delta", "epsilon", epsilon) if delta is None else ("epsilon", "delta", delta)
    assert points is not None
    answers: list[Bounds] = [getattr(run, asked)(x, batch, method=method) for x in points]
    notes = list(dict.fromkeys(note for found in answers for note in found.notes))
    if as_json:
        rows = [{given: x, asked: float(b), **bounds_record(b)} for x, b in zip(points, answers, strict=True)]
        print_json(
            "noisy-gd", run={**asdict(run), "batch": batch}, adjacency=str(run.adjacency), target=target, theorem=run.theorem(method),
            answers=rows, notes=notes,
        )
    elif target is not None:
        print_noise(run.noise_scale, target, asked, answers[0], _facts(run, batch, answers, points, asked))
    else:
        print_answers(given, points, asked, answers, _facts(run, batch, answers, points, asked))
    if plot is not None:
        _draw(run, batch, against, None if delta is None else delta[0], plot)
        click.echo(f"plot written to {plot}", err=True)
    warn(notes)


def _facts(run: NoisyGD, batch: int | None, answers: list[Bounds], points: tuple[float, ...], asked: str) -> list[tuple[str, str]]:
    """The run, what stands behind the figure, and what it would be were every iterate seen."""
    inside = "no projection" if run.diameter == math.inf else f"projected onto a set of diameter {run.diameter:g}"
    order = "every record in every step" if run.batches == 1 else (
        f"{run.batches} batches of {run.num_records // run.batches} in turn; " + ("worst batch" if batch is None else f"batch {batch}")
    )
    everywhere = getattr(run, asked)(points[0], batch, method="composition")
    step = f"step size {run.step_size:g}, noise {shown_up(run.noise_scale, 12)} on the mean gradient, contraction {1.0 - run.gap:.6g}"
    relation = parse("noisy-gd", run.adjacency)
    return [
        ("losses", f"{run.lipschitz:g}-Lipschitz, {run.smoothness:g}-smooth, {curvature(run.strong_convexity)}; {run.num_records} records"),
        ("steps", f"{run.steps:g}, {order}" if run.steps == math.inf else f"{run.steps}, {order}"),
        ("step", f"{step}; {inside}"),
        ("adjacency", f"{relation}: {RELATIONS[relation]}; means divide by {run.num_records // run.batches} in both data sets"),
        assumes(answers, run.strong_convexity >= 0.0),
        ("theorem", "; ".join(dict.fromkeys(_theorem(run, name) for b in answers for name in b.methods))),
        ("every iterate released", f"{asked} = {shown_up(float(everywhere.upper))} at the first point"),
    ]


def _theorem(run: NoisyGD, name: str) -> str:
    return "; ".join(run.theorem(part) for part in name.split(" / "))


def _draw(run: NoisyGD, batch: int | None, against: str, delta: float | None, path: Path) -> None:
    """Matplotlib is imported here and nowhere else, and without a window."""
    from matplotlib.figure import Figure

    figure = Figure(layout="constrained", figsize=(7.2, 5.2))
    axes = figure.subplots()
    if against == "steps":
        run = replace(run, steps=max(run.steps, 2))
    idle = run.uses(batch).idle or (batch is not None and against == "steps")  # another number of steps ends elsewhere in a pass
    shown = [name for name in run.methods[:-1] if name != MIXED or idle]
    end = float(run.epsilon(1e-12, batch).upper)
    grid = np.linspace(0.0, end if 0.0 < end < math.inf else EPSILONS[-1], 121)
    last = 10**5 if run.steps == math.inf else int(run.steps)
    times = np.unique(np.round(np.geomspace(1, last, 40)).astype(int))
    for name, (color, line) in zip(METHODS, STYLES, strict=False):
        if name in shown and against == "epsilon":
            logs = np.asarray(run.log_delta(grid, batch, method=name).upper)
            axes.plot(grid, np.exp(np.maximum(logs, -690.0)), color=color, linestyle=line, label=name)
        elif name in shown:
            values = [float(replace(run, steps=int(t)).epsilon(delta, batch, method=name)) for t in times]
            axes.plot(times, values, color=color, linestyle=line, label=name)
    if against == "epsilon":
        axes.set(yscale="log", ylim=(1e-12, 2.0), xlabel="epsilon", ylabel="delta (upper bound)")
    else:
        limit = float(run.limit().epsilon(delta, batch).upper)
        if limit < math.inf:
            many = "steps" if batch is None else "whole passes"
            axes.axhline(limit, color="black", linewidth=1.0, label=f"shifted, infinitely many {many}")
        axes.set(xscale="log", yscale="log", xlabel="steps", ylabel=f"epsilon at delta = {delta:g} (upper bound)")
    axes.set_title(f"noisy gradient descent, {'the worst records' if batch is None else f'records of batch {batch}'}", loc="left")
    figure.legend(loc="outside lower center", ncols=2)
    write_picture(figure, path)
