"""``dpaccount explain``."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import click

from dpaccount.adjacency import Adjacency
from dpaccount.certified import MOST_DIGITS, Enclosure, certified_delta, certified_epsilon
from dpaccount.cli.options import Whole, run_options
from dpaccount.cli.rivals import Figure, grid_figure, rdp_figures
from dpaccount.cli.show import Line, bounds_record, print_json, print_lines, print_table, warn
from dpaccount.cli.stated import Stated
from dpaccount.curves.profile import PrivacyProfile
from dpaccount.engines.auto import select
from dpaccount.engines.balls import face
from dpaccount.pair import DominatingPair
from dpaccount.results import Bounds, NumericalFailure
from dpaccount.statement import bracket, certainty, method_text, shown_up

WHY = (
    "RDP keeps one moment of the privacy loss and bounds its tail by it (Markov), so it is above the truth at every order.",
    "A grid moves every loss upwards, once a step, so its excess grows with the number of steps; without a tilt its rounding",
    "noise is about 1e-16 of the whole distribution, so a delta near or below it is out of reach.",
)
NO_PAIR = "none: what is known is a bound or several; Renyi bounds add up and are converted, the best option answers"


REFUTED, UNDECIDED = 1, 2


@click.command("explain", short_help="Which engine and bound, how certain, and what others would print.")
@run_options("epsilon", "delta")
@click.option("--verify", is_flag=True, help="Enclose each direction's answer in ball arithmetic as well, and compare.")
@click.option("--digits", type=Whole(), default=20, show_default=True, help="Of --verify.")
@click.pass_context
def explain_command(ctx: click.Context, /, as_json: bool, verify: bool, digits: int, **options: Any) -> int | None:
    """Which engine answers and why, how certain its digits are, and what other accountants would print.

    With --verify the exit code is 1 if a bracket is missed, and 2 if ball arithmetic has no proof.

    \b
    dpaccount explain --noise-multiplier 1 --sampling-probability 0.01 --steps 1000 --delta 1e-5 --verify
    """
    if not 1 <= digits <= MOST_DIGITS:
        raise click.BadParameter(f"must be in 1..{MOST_DIGITS}; got {digits}", param_hint="--digits")
    if verify:
        face.require("--verify")
    stated = Stated.of(ctx)
    profile = stated.profile
    delta, epsilon, found, asked = _answer(stated, profile)
    directions = profile.directions if isinstance(profile.guarantee, DominatingPair) else ()
    sides = [_side(stated, profile, i, delta, epsilon) for i in range(len(directions))]
    figures = _rivals(profile, delta) if 0.0 < delta < 1.0 else []
    truth = float(found) if epsilon is None else epsilon
    notes = (*found.notes, *stated.notes(delta))
    code = None
    if verify:
        for side, pair in zip(sides, directions, strict=True):
            side["verified"] = _verified(pair, side["answer"], delta, epsilon, digits)
        code = _code(sides)
    if as_json:
        print_json(
            "explain", run=stated.record(), delta=delta, answer=bounds_record(found), condition=found.condition,
            directions=[{**side, "answer": bounds_record(side["answer"])} for side in sides],
            others=[{**figure._asdict(), "excess": _excess(figure, truth)} for figure in figures], notes=list(notes),
        )
        return code
    print_lines(_head(asked, found, stated))
    click.echo()
    for side in sides:
        print_lines(_side_lines(side))
        click.echo()
    if figures:
        _print_rivals(figures, truth, delta)
    if verify and not sides:
        click.echo("verified  no: what is known is not a pair, so there is nothing to enclose")
    warn(notes)
    return code


def _answer(stated: Stated, profile: PrivacyProfile) -> tuple[float, float | None, Bounds, str]:
    """delta, epsilon if that was given, the answer, and the question in words."""
    ((name, value),) = stated.one_target("explain").items()
    if name == "delta":
        return value, None, profile.epsilon(delta=value), f"epsilon at delta = {value:g}"
    found = profile.delta(epsilon=value)
    return float(found), value, found, f"delta at epsilon = {value:g}"


def _head(asked: str, found: Bounds, stated: Stated) -> list[Line]:
    return [
        (asked.split(" ", maxsplit=1)[0], f"{shown_up(float(found))}  {asked[asked.index(' at') + 1 :]} (upper bound)"),
        ("bracket", f"{bracket(found)}, {certainty(found)}"),
        *_condition(found),
        ("answered by", method_text(found.method)),
        *([] if isinstance(stated.guarantee, DominatingPair) else [("engine", NO_PAIR)]),
        *stated.lines(),
    ]


def _condition(found: Bounds) -> list[Line]:
    """How many digits cancellation may have cost, which is not how wide the bracket is; theorems that convert have none."""
    if found.method.startswith("RDP") or not 0.0 < found.condition < math.inf:
        return []
    lost = round(math.log10(max(found.condition, 1.0)))
    cost = "no digits" if lost < 1 else f"about {lost} of a double's 16 digits" if lost < 16 else "all of a double's 16 digits"
    return [("condition", f"{found.condition:.3g}: cancellation costs {cost}")]


def _side(stated: Stated, profile: PrivacyProfile, i: int, delta: float, epsilon: float | None) -> dict[str, Any]:
    """One direction, answered on its own."""
    pair = profile.directions[i]
    alone = PrivacyProfile(pair, Adjacency.AS_WRITTEN, method=stated.values["method"])
    chosen = select(pair)
    forced = stated.values["method"] != "auto"
    names = ("remove", "add") if len(profile.directions) == 2 else ("both orders alike",)
    answer = alone.epsilon(delta=delta) if epsilon is None else alone.delta(epsilon=epsilon)
    engine, reason = (stated.values["method"], "forced by --method") if forced else (chosen.engine, chosen.reason)
    if answer.method.startswith("RDP"):
        engine, reason = answer.method, f"a Renyi bound of the same steps beats their pair, which {engine} would answer"
    return {"direction": names[i], "engine": engine, "reason": reason, "answer": answer}


def _verified(pair: DominatingPair, answer: Bounds, delta: float, epsilon: float | None, digits: int) -> dict[str, Any]:
    """The enclosure of one direction's answer in ball arithmetic, and whether it meets the bracket."""
    ask, at = (certified_epsilon, delta) if epsilon is None else (certified_delta, epsilon)
    try:
        found: Enclosure = ask(pair, at, adjacency=Adjacency.AS_WRITTEN, digits=digits)
    except (NumericalFailure, ValueError) as error:
        return {"lower": None, "upper": None, "meets": None, "reason": str(error).partition(" here: ")[2] or str(error)}
    lower, upper = float(answer.lower), float(answer.upper)
    if not found.lower.is_finite() or not math.isfinite(upper):
        meets = math.isinf(upper) and (not found.upper.is_finite() or lower <= found.upper)
    else:
        meets = Fraction(lower) <= Fraction(found.upper) and Fraction(found.lower) <= Fraction(upper)
    return {"lower": str(found.lower), "upper": str(found.upper), "meets": meets, "reason": None}


def _code(sides: list[dict[str, Any]]) -> int:
    """0 if every direction's bracket is met, 1 if one is missed, 2 if one could not be enclosed."""
    found = [side["verified"]["meets"] for side in sides]
    return REFUTED if False in found else UNDECIDED if None in found or not found else 0


def _verdict(verified: dict[str, Any]) -> str:
    if verified["meets"] is None:
        return f"no proof in ball arithmetic: {verified['reason']}"
    verdict = "which meets the bracket" if verified["meets"] else "which MISSES the bracket: please report it"
    return f"[{verified['lower']}, {verified['upper']}] by ball arithmetic, {verdict}"


def _side_lines(side: dict[str, Any]) -> list[Line]:
    found: Bounds = side["answer"]
    return [
        ("direction", side["direction"]),
        ("engine", f"{side['engine']}: {side['reason']}"),
        ("bracket", f"{bracket(found)}, {certainty(found)}"),
        *_condition(found),
        *([("answered by", method_text(found.method))] if found.method != side["engine"] else []),
        *([("verified", _verdict(side["verified"]))] if "verified" in side else []),
    ]


def _rivals(profile: PrivacyProfile, delta: float) -> list[Figure]:
    """Knowledge that is not a pair has no losses to put on a grid."""
    figures = rdp_figures(profile, delta)
    if not isinstance(profile.guarantee, DominatingPair):
        return figures
    return [*figures, grid_figure(profile.directions, delta)]


def _excess(figure: Figure, truth: float) -> float | None:
    return None if figure.value is None or math.isinf(truth) else figure.value - truth


def _print_rivals(figures: list[Figure], truth: float, delta: float) -> None:
    click.echo(f"Others would print, for epsilon at delta = {delta:.6g}:")
    rows = []
    for figure in figures:
        excess = _excess(figure, truth)
        value = "-" if figure.value is None else f"{figure.value:.9g}"
        if excess is not None and abs(excess) < 1e-11 * truth:
            excess = 0.0
        rows.append((figure.name, value, "" if excess is None else f"{excess:+.3g}", figure.why))
    print_table(("accountant", "epsilon", "excess", "why"), rows)
    for line in WHY:
        click.echo(line)
