"""``dpaccount curve``."""

from __future__ import annotations

import csv
import sys
import textwrap
from pathlib import Path
from typing import Any, NamedTuple

import click

from dpaccount.cli.options import Numbers, run_options
from dpaccount.cli.picture import check_plot, write_picture
from dpaccount.cli.show import print_found, print_json, warn
from dpaccount.cli.stated import Stated
from dpaccount.curves.profile import PrivacyProfile
from dpaccount.results import Bounds, Status
from dpaccount.statement import bracket, shown_down, shown_up


class _Kind(NamedTuple):
    """A curve: its argument and value, where it is read by default, and the method and plot that give it."""

    argument: str
    value: str
    points: tuple[float, ...]
    read: str
    plot: str


EPSILONS = (0, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
SMALLEST = 1e-10  # a curve that is not told where to be read ends where delta falls below this
KINDS = {
    "delta": _Kind("epsilon", "delta", EPSILONS, "delta", "plot_profile"),
    "trade-off": _Kind(
        "false positive rate", "false negative rate", (1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75), "trade_off",
        "plot_trade_off",
    ),
    "renyi": _Kind("order", "divergence", (1.25, 1.5, 2, 3, 4, 6, 8, 16, 32, 64), "renyi", "plot_renyi"),
}


@click.command("curve", short_help="The delta, trade-off or Renyi curve: table, CSV, JSON or plot.")
@run_options()
@click.option("--kind", type=click.Choice(list(KINDS)), default="delta", show_default=True, help="Which curve.")
@click.option("--at", type=Numbers(), help="Where to read it: a comma list of epsilons, false positive rates or orders.")
@click.option(
    "--plot", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="Draw it (.png, .pdf, .svg), where --at says; left out, delta is drawn down to 1e-10.",
)
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV instead of text.")
@click.pass_context
def curve_command(
    ctx: click.Context, /, as_json: bool, kind: str, at: tuple[float, ...] | None, plot: Path | None, as_csv: bool, **options: Any
) -> None:
    """The privacy curve delta(epsilon), the trade-off function, or the Renyi divergence of a run.

    \b
    dpaccount curve --noise-multiplier 1 --sampling-probability 0.01 --steps 1000
    dpaccount curve --run run.toml --kind trade-off --at 1e-4,0.01,0.1 --csv
    dpaccount curve --run run.toml --plot curve.pdf
    """
    if as_json and as_csv:
        raise click.UsageError("Give --json or --csv, not both.")
    stated = Stated.of(ctx)
    ignored = {"method", "conversion"} & stated.typed if kind == "renyi" else set()
    if ignored:
        raise click.UsageError(f"--{min(ignored)} has no effect on --kind renyi, which is read off K on the real line.")
    if plot is not None:
        check_plot(plot)
    chosen, profile = KINDS[kind], stated.profile
    points = at or _points(profile, chosen)
    read = profile.delta if kind == "delta" else getattr(profile, chosen.read)()
    found: list[Bounds] = [read(x) for x in points]
    notes = list(dict.fromkeys(note for b in found for note in b.notes))
    if as_json:
        status = next((b.status for b in found if b.status is not Status.OK), Status.OK)
        print_json(
            "curve", kind=kind, run=stated.record(), answers=[_record(chosen, x, b) for x, b in zip(points, found, strict=True)],
            certified=all(b.certified for b in found), method=", ".join(dict.fromkeys(b.method for b in found)),
            status=status.name.lower(), notes=notes,
        )
    elif as_csv:
        _print_csv(chosen, points, found)
    else:
        _print_text(chosen, points, found, stated)
    if plot is not None:
        _draw(profile, chosen, at, plot, _title(stated))
        click.echo(f"plot written to {plot}", err=True)
    warn(notes)


def _points(profile: PrivacyProfile, kind: _Kind) -> tuple[float, ...]:
    """Where a curve is read by default: for delta, up to the first epsilon at which little is left."""
    if kind.argument != "epsilon":
        return kind.points
    top = profile.epsilon(delta=SMALLEST).upper
    return kind.points[: sum(x < top for x in kind.points) + 1]


def _safe(found: Bounds) -> str:
    return shown_down(float(found)) if found.safe == "lower" else shown_up(float(found))


def _record(kind: _Kind, x: float, found: Bounds) -> dict[str, Any]:
    return {
        kind.argument.replace(" ", "_"): x, kind.value.replace(" ", "_"): float(found),
        "lower": float(found.lower), "estimate": float(found.estimate), "upper": float(found.upper),
        "certified": found.certified, "method": found.method,
    }


def _print_csv(kind: _Kind, points: tuple[float, ...], found: list[Bounds]) -> None:
    rows = [_record(kind, x, b) for x, b in zip(points, found, strict=True)]
    writer = csv.DictWriter(sys.stdout, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)


def _print_text(kind: _Kind, points: tuple[float, ...], found: list[Bounds], stated: Stated) -> None:
    side = "lower bound" if found[0].safe == "lower" else "upper bound"
    print_found(
        (kind.argument, f"{kind.value} ({side})", "bracket"),
        [(f"{x:.10g}", _safe(b), bracket(b)) for x, b in zip(points, found, strict=True)],
        found, [stated.lines()] * len(found),
    )


def _title(stated: Stated) -> str:
    """The run and the adjacency, as the text has them, in lines that fit a picture."""
    said = [text if name == "mechanism" else f"{name} {text.partition(':')[0]}" for name, text in stated.lines()]
    return "\n".join(textwrap.wrap("; ".join(said), 80))


def _draw(profile: PrivacyProfile, kind: _Kind, at: tuple[float, ...] | None, path: Path, title: str) -> None:
    """Matplotlib is imported here and nowhere else, and without a window."""
    from matplotlib.figure import Figure

    from dpaccount import plotting

    figure = Figure(layout="constrained")
    axes = getattr(plotting, kind.plot)(profile, None if at is None else list(at), ax=figure.subplots())
    axes.set_title(title, loc="left", fontsize="small")
    write_picture(figure, path)
