"""``dpaccount pnsgd``."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import click
import numpy as np

from dpaccount.adjacency import Adjacency
from dpaccount.cli.hidden import Seen, curvature, least_noise
from dpaccount.cli.options import AS_JSON, CONVERSION, Number, Numbers, Whole
from dpaccount.cli.picture import check_plot, write_picture
from dpaccount.cli.show import assumes, bounds_record, print_answers, print_json, print_noise, warn
from dpaccount.iteration.face import METHODS, LastIterate
from dpaccount.iteration.kernels import NOISES
from dpaccount.iteration.pnsgd import PNSGD, STEPS
from dpaccount.results import Bounds
from dpaccount.statement import shown_up

ORDERS = {
    "fixed": "record i is used at step i",
    "random-stopping": "record i is used at step i, stopped after a uniformly random step",
    "random-permutation": "in a uniformly random order",
}
AGAINST = ("epsilon", "index")
POINTS = 121
# Okabe and Ito's colours, which also differ in grey, and lines that differ without colour
STYLES = {
    "contraction": ("#0072B2", "-"), "rdp": ("#D55E00", (0, (3, 1, 1, 1))), "shifted": ("#009E73", (0, (5, 1.5))),
    "composed": ("#E69F00", (0, (1, 1))), "composition": ("#000000", ":"), "nonlinear": ("#CC79A7", (0, (3, 1))),
}  # fmt: skip


@click.command("pnsgd", short_help="One pass of projected noisy SGD of which only the last iterate is released.")
@click.option("--num-records", type=Whole(), required=True, help="Records, one a step.")
@click.option("--lipschitz", type=Number(), required=True, help="Bound on the norm of every gradient.")
@click.option("--smoothness", type=Number(), required=True, help="Lipschitz constant of the gradients (inf: none).")
@click.option("--strong-convexity", type=Number(), default=0.0, show_default=True, help="0 is convex; below 0 need not be.")
@click.option("--step-size", type=Number(), required=True, help="Of the gradient and of the noise.")
@click.option("--diameter", type=Number(), default=math.inf, help="Of the set projected onto (default: no projection).")
@click.option("--noise", type=click.Choice(NOISES), default="gaussian", show_default=True, help="Laplace noise is for one dimension.")
@click.option("--noise-scale", type=Number(), help="Before the step size; left out, it is found for --epsilon and --delta.")
@click.option("--gradient-step", type=click.Choice(STEPS), default=STEPS[0], show_default=True, help="Which Lipschitz constant of a step.")
@click.option("--index", type=Whole(), help="Which record, from 1 (default: the worst).")
@click.option("--order", type=click.Choice(list(ORDERS)), default="fixed", show_default=True, help="How records and stopping are drawn.")
@click.option("--passes", type=Whole(), default=1, show_default=True, help="Passes over the same fixed order.")
@click.option("--method", type=click.Choice(METHODS), default="best", show_default=True, help="The bound.")
@CONVERSION
@click.option("--epsilon", type=Numbers(), help="Find delta there, or a comma list.")
@click.option("--delta", type=Numbers(), help="Find epsilon there, or a comma list.")
@click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Draw delta (.png, .pdf, .svg).")
@click.option(
    "--against", type=click.Choice(AGAINST), default="epsilon", show_default=True,
    help="Plot delta against epsilon, or (at one --epsilon) against the record's index.",
)
@AS_JSON
def pnsgd_command(
    index: int | None, order: str, passes: int, method: str, conversion: str, epsilon: tuple[float, ...] | None,
    delta: tuple[float, ...] | None, plot: Path | None, against: str, as_json: bool, **fields: Any,
) -> None:
    """What one pass of noisy SGD costs a record if nobody ever sees an iterate but the last.

    \b
    dpaccount pnsgd --num-records 40 --lipschitz 1 --smoothness 1 --step-size 0.5 --diameter 1 \\
        --noise-scale 2 --index 39 --epsilon 0.5,1
    """
    if plot is not None:
        check_plot(plot)
        if against == "index" and (epsilon is None or len(epsilon) != 1):
            raise click.UsageError("--against index draws delta at one --epsilon.")
    if passes > 1 and order != "fixed":
        raise click.UsageError(f"--passes goes with a fixed order: nothing is proved for several passes under --order {order}.")
    chosen = {"method": method, "conversion": conversion}
    levels, target = epsilon, None
    if fields["noise_scale"] is None:
        fields["noise_scale"], target = least_noise(
            lambda noise: Seen(_run({**fields, "noise_scale": noise}, order, passes), index, chosen), epsilon, delta
        )
        epsilon = None
    if (epsilon is None) == (delta is None):
        raise click.UsageError("Give --epsilon or --delta: the other one is found. Both are for a run without --noise-scale.")
    run = _run(fields, order, passes)
    asked, given, points = ("delta", "epsilon", epsilon) if delta is None else ("epsilon", "delta", delta)
    assert points is not None
    answers: list[Bounds] = [getattr(run, asked)(x, index, **chosen) for x in points]
    notes = list(dict.fromkeys(note for found in answers for note in found.notes))
    if as_json:
        stated = {**fields, "order": order, "passes": passes, "index": index}
        rows = [
            {given: x, asked: float(b), **bounds_record(b), "theorem": run.theorem(b.method)}
            for x, b in zip(points, answers, strict=True)
        ]
        print_json("pnsgd", run=stated, adjacency=str(Adjacency.REPLACE_ONE), target=target, answers=rows, notes=notes)
    elif target is not None:
        print_noise(fields["noise_scale"], target, asked, answers[0], _facts(fields, order, passes, index, run, answers, points[0], asked))
    else:
        print_answers(given, points, asked, answers, _facts(fields, order, passes, index, run, answers, points[0], asked))
    if plot is not None:
        _draw(run, index, against, None if levels is None else levels[0], conversion, plot)
        click.echo(f"plot written to {plot}", err=True)
    warn(notes)


def _run(fields: dict[str, Any], order: str, passes: int) -> LastIterate:
    run = PNSGD(**fields)
    if order == "random-stopping":
        return run.random_stopping()
    if order == "random-permutation":
        return run.random_permutation()
    return run if passes == 1 else run.several_passes(passes)


def _facts(
    fields: dict[str, Any], order: str, passes: int, index: int | None, run: LastIterate, answers: list[Bounds],
    point: float, asked: str,
) -> list[tuple[str, str]]:
    """The run, whose guarantee it is, and what stands behind it."""
    one = PNSGD(**fields)
    everywhere: list[tuple[str, str]] = []
    if "composition" in run.methods:
        seen = getattr(run, asked)(point, index, method="composition")
        where = " at the first point" if len(answers) > 1 else ""
        everywhere.append(("every iterate released", f"{asked} = {shown_up(float(seen.upper))}{where}"))
    inside = "no projection" if one.diameter == math.inf else f"projected onto a set of diameter {one.diameter:g}"
    noise = f"{one.noise} noise {shown_up(one.noise_scale, 12)}"
    steps = f"{one.num_records}, {ORDERS[order]}" if passes == 1 else f"{passes} passes of {one.num_records}, {ORDERS[order]} of each"
    return [
        ("losses", f"{one.lipschitz:g}-Lipschitz, {one.smoothness:g}-smooth, {curvature(one.strong_convexity)}"),
        ("steps", steps),
        ("step", f"step size {one.step_size:g}, {noise}, Lipschitz constant of a step {one.contraction:.6g}; {inside}"),
        ("record", f"number {index}" if index is not None else "any" if order != "fixed" else f"the worst, number {run.worst_index}"),
        ("adjacency", "replace-one: one record is exchanged for another"),
        assumes(answers, one.strong_convexity >= 0.0),
        ("theorem", "; ".join(dict.fromkeys(run.theorem(name) for b in answers for name in b.methods))),
        *everywhere,
    ]


def _draw(run: LastIterate, index: int | None, against: str, level: float | None, conversion: str, path: Path) -> None:
    """Matplotlib is imported here and nowhere else, and without a window."""
    from matplotlib.figure import Figure

    figure = Figure(layout="constrained", figsize=(7.2, 5.2))
    axes = figure.subplots()
    if against == "index":
        grid = np.unique(np.linspace(1, run.records, min(run.records, POINTS)).astype(int))
        arguments: tuple[Any, Any] = (level, grid)
        axes.set(xlabel="record's index", ylabel=f"delta at epsilon = {level:g} (upper bound)")
        title = "every record"
    else:
        end = float(run.epsilon(1e-12, index).upper)
        grid = np.linspace(0.0, end if 0.0 < end < math.inf else 8.0, POINTS)
        arguments = (grid, index)
        axes.set(xlabel="epsilon", ylabel="delta (upper bound)", ylim=(1e-12, 2.0))
        title = f"record {run.worst_index if index is None else index}"
    for name, _ in run.theorems():
        color, line = STYLES[name]
        values = np.asarray(run.log_delta(*arguments, method=name, conversion=conversion).upper)
        axes.plot(grid, np.exp(np.maximum(values, -690.0)), color=color, linestyle=line, label=name)
    axes.set_yscale("log")
    axes.set_title(f"last iterate of noisy SGD, {title}", loc="left")
    figure.legend(loc="outside lower center", ncols=3)
    write_picture(figure, path)
