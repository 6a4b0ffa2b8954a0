"""``dpaccount convert``."""

from __future__ import annotations

from typing import Any, NamedTuple

import click
import numpy as np
from scipy.special import ndtri_exp

from dpaccount import _check
from dpaccount.adjacency import Adjacency
from dpaccount.cli.options import AS_JSON, Number, Numbers
from dpaccount.cli.show import print_json, print_lines, print_table
from dpaccount.conversions import CONVERSIONS
from dpaccount.curves.profile import PrivacyProfile
from dpaccount.mechanisms.gaussian import Gaussian
from dpaccount.mechanisms.pure import ApproximateDP, PureDP
from dpaccount.pair import Guarantee
from dpaccount.renyi import OrderTable, RenyiBound
from dpaccount.results import Status
from dpaccount.statement import shown, shown_up

KINDS = ("gdp", "zcdp", "rdp", "epsilon", "delta")
ORDERS = (1.5, 2.0, 4.0, 8.0, 16.0, 32.0)
NAMES = {"gdp": "Gaussian DP", "zcdp": "zCDP", "rdp": "Renyi DP"}
INFINITE = "with probability delta the privacy loss may be infinite, and then every Renyi divergence is, which no Gaussian's is."
PAPERS = {
    "improved": "Canonne, Kamath, Steinke 2020, Prop. 12",
    "mironov": "Mironov 2017, Prop. 3",
    "optimal": "Asoodeh et al. 2021",
}


class Row(NamedTuple):
    """One implied statement: what it is, its value as text and number, and the theorem."""

    kind: str
    text: str
    value: float | None
    how: str
    at: float | None = None


class Source(NamedTuple):
    """A stated guarantee, as knowledge and in words; `size` is mu, rho or epsilon."""

    kind: str
    text: str
    guarantee: Guarantee
    size: float = 0.0
    delta: float = 0.0


class Table(click.ParamType[Any]):
    """ORDER:VALUE,ORDER:VALUE,..."""

    name = "order:value[,...]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            pairs = [tuple(float(x) for x in item.split(":")) for item in value.split(",")]
        except (ValueError, AttributeError):
            pairs = [()]
        if any(len(pair) != 2 for pair in pairs):
            self.fail(f"{value!r} is not a list such as 2:0.1,4:0.25,8:0.6", param, ctx)
        return sorted(pairs)


@click.command("convert", short_help="Between Gaussian DP, zCDP, RDP, pure and (epsilon, delta).")
@click.option("--gdp", type=Number(), metavar="MU", help="From mu-Gaussian DP (a Gaussian of noise multiplier 1/mu).")
@click.option("--zcdp", type=Number(), metavar="RHO", help="From rho-zCDP.")
@click.option("--rdp", type=Table(), help="From Renyi bounds at some orders.")
@click.option("--dp", type=Numbers(), metavar="EPSILON[,DELTA]", help="From (epsilon, delta)-DP; delta 0 if left out.")
@click.option("--delta", type=Numbers(), help="Ask for epsilon at these deltas.")
@click.option("--epsilon", type=Numbers(), help="Ask for delta at these epsilons.")
@click.option("--order", "orders", type=Numbers(), help="Ask for Renyi bounds at these orders.")
@click.option("--conversion", type=click.Choice(CONVERSIONS), help="Only this conversion from Renyi bounds (default: all three).")
@click.option("--to", type=click.Choice(KINDS), help="Only this kind of statement (default: all that follow).")
@AS_JSON
def convert_command(
    gdp: float | None, zcdp: float | None, rdp: list[tuple[float, float]] | None, dp: tuple[float, ...] | None,
    delta: tuple[float, ...] | None, epsilon: tuple[float, ...] | None, orders: tuple[float, ...] | None,
    conversion: str | None, to: str | None, as_json: bool,
) -> None:
    """What one guarantee implies in another language, and by which theorem.

    Each line follows from the stated guarantee alone, under the relation it was stated for.

    \b
    dpaccount convert --gdp 1 --delta 1e-5
    dpaccount convert --zcdp 0.5 --delta 1e-5 --conversion optimal
    dpaccount convert --rdp 2:0.1,4:0.25,8:0.6 --delta 1e-6
    dpaccount convert --dp 1 --to zcdp
    """
    source = _source(gdp, zcdp, rdp, dp)
    _check_used(source, to, delta=delta, epsilon=epsilon, order=orders, conversion=conversion)
    if source.kind == "approximate" and delta is epsilon is None:  # what it says, and what it says of the advantage
        delta, epsilon = (source.delta,), (0.0,)
    rows, missing = _rows(source, delta, epsilon, orders, conversion)
    if to is not None:
        if to in missing:
            raise click.UsageError(f"{source.text} does not imply {NAMES[to]}: {missing[to]}")
        rows = [row for row in rows if row.kind == to]
        if not rows:
            raise click.UsageError(f"--to {to} needs {'--delta' if to == 'epsilon' else '--epsilon'}.")
        missing = {}
    if as_json:
        return print_json("convert", source=source.text, implied=[row._asdict() for row in rows], not_implied=missing)
    print_lines([("from", source.text)])
    click.echo()
    if rows:
        print_table(("implies", "value", "by"), [(row.kind, row.text, row.how) for row in rows])
    for reason in dict.fromkeys(missing.values()):
        *names, last = [NAMES[kind] for kind, why in missing.items() if why == reason]
        click.echo(f"{source.text} does not imply {', '.join(names) + ' or ' if names else ''}{last}: {reason}")


def _check_used(source: Source, to: str | None, **asked: Any) -> None:
    """Refuse questions that would not be answered."""
    given = {name for name, value in asked.items() if value is not None}
    renyi = isinstance(source.guarantee, RenyiBound)
    curve = {"delta", "epsilon"} & given if to in (None, "epsilon", "delta") else set()
    if "conversion" in given and (not renyi or not curve):
        raise click.UsageError(
            "--conversion has no effect: it turns --zcdp or --rdp into epsilon at a --delta, or delta at an --epsilon."
        )
    if "order" in given and source.kind == "approximate":
        raise click.UsageError(f"--order has no effect: {source.text} does not imply {NAMES['rdp']}: {INFINITE}")
    used = {"epsilon": {"delta"}, "delta": {"epsilon"}, "rdp": {"order"}}.get(to or "", set()) if to else given
    for name in sorted(given - used - {"conversion"}):
        raise click.UsageError(f"--{name} has no effect with --to {to}.")


def _source(
    gdp: float | None, zcdp: float | None, rdp: list[tuple[float, float]] | None, dp: tuple[float, ...] | None
) -> Source:
    if sum(given is not None for given in (gdp, zcdp, rdp, dp)) != 1:
        raise click.UsageError("Give one guarantee: --gdp, --zcdp, --rdp or --dp.")
    if gdp is not None:
        mu = _check.real("convert", "gdp", gdp, low=0.0, open_low=True)
        return Source("gdp", f"{shown(mu)}-GDP", Gaussian(1.0 / mu), mu)
    if zcdp is not None:
        return Source("zcdp", f"{shown(zcdp)}-zCDP", RenyiBound.zcdp(zcdp), zcdp)
    if rdp is not None:
        bound = RenyiBound.from_table([a for a, _ in rdp], [v for _, v in rdp])
        return Source("rdp", f"RDP at {len(rdp)} orders up to {max(a for a, _ in rdp):g}", bound)
    assert dp is not None
    if len(dp) > 2:
        raise click.UsageError("--dp takes EPSILON or EPSILON,DELTA.")
    if len(dp) == 1 or dp[1] == 0.0:
        return Source("pure", f"{shown(dp[0])}-DP", PureDP(dp[0]), dp[0])
    return Source("approximate", f"({shown(dp[0])}, {shown(dp[1])})-DP", ApproximateDP(dp[0], dp[1]), dp[0], dp[1])


def _rows(
    source: Source, delta: tuple[float, ...] | None, epsilon: tuple[float, ...] | None, orders: tuple[float, ...] | None,
    conversion: str | None,
) -> tuple[list[Row], dict[str, str]]:
    """What follows, and what does not with the reason."""
    rows: list[Row] = []
    missing: dict[str, str] = {}
    for kind, found in (("gdp", _to_gdp(source)), ("zcdp", _to_zcdp(source))):
        if isinstance(found, Row):
            rows.append(found)
        else:
            missing[kind] = found
    if source.kind == "approximate":
        missing["rdp"] = INFINITE
    else:
        rows += _to_rdp(source, orders)
    rows += _to_curve(source, delta or (), epsilon or (), conversion)
    return rows, missing


def _to_gdp(source: Source) -> Row | str:
    if source.kind == "gdp":
        return Row("gdp", f"mu = {shown(source.size)}", source.size, "as stated")
    if source.kind == "pure":
        mu = float(-2.0 * ndtri_exp(-np.logaddexp(0.0, source.size)))
        return Row("gdp", f"mu = {shown_up(mu)}", mu, "2 Phi^-1(e^eps/(1 + e^eps)): G_mu meets the kink of f_eps, and is convex")
    if source.kind == "approximate":
        return INFINITE
    return "Renyi bounds do not bound the trade-off function by a Gaussian's."


def _to_zcdp(source: Source) -> Row | str:
    if source.kind == "gdp":
        return Row("zcdp", f"rho = {shown_up(source.size**2 / 2)}", source.size**2 / 2, "mu^2/2, exact")
    if source.kind == "zcdp":
        return Row("zcdp", f"rho = {shown(source.size)}", source.size, "as stated")
    if source.kind == "pure":
        rho = source.size**2 / 2
        return Row("zcdp", f"rho = {shown_up(rho)}", rho, "eps^2/2 (Bun, Steinke 2016, Prop. 1.4)")
    if source.kind == "rdp":
        return "zCDP speaks of every order, a table only of its own."
    return INFINITE


def _to_rdp(source: Source, orders: tuple[float, ...] | None) -> list[Row]:
    how = {
        "gdp": "a mu^2/2, exact", "zcdp": "a rho", "pure": "randomised response, exact (Mironov 2017)",
        "rdp": "stated orders and chords of (a - 1) D_a between them",
    }[source.kind]
    curve = PrivacyProfile(source.guarantee, Adjacency.AS_WRITTEN).renyi()
    values = [(a, float(curve(a).estimate)) for a in orders or _orders(source)]
    return [Row("rdp", f"D_a <= {shown_up(value)} at a = {a:g}", value, how, a) for a, value in values]


def _orders(source: Source) -> tuple[float, ...]:
    """Where Renyi bounds are shown: a table's own orders, or a few."""
    if isinstance(source.guarantee, RenyiBound) and isinstance(source.guarantee.sources[0][0], OrderTable):
        return source.guarantee.sources[0][0].orders
    return ORDERS


def _to_curve(
    source: Source, deltas: tuple[float, ...], epsilons: tuple[float, ...], conversion: str | None
) -> list[Row]:
    renyi = isinstance(source.guarantee, RenyiBound)
    names = CONVERSIONS if conversion is None else (conversion,)
    exact = "exact (Balle, Wang 2018)" if source.kind == "gdp" else "exact (Kairouz, Oh, Viswanath 2015)"
    rows = []
    for name in names if renyi else ("improved",):
        profile = PrivacyProfile(source.guarantee, Adjacency.AS_WRITTEN, conversion=name)
        how = f"{name} ({PAPERS[name]})" if renyi else exact
        for d in deltas:
            found = profile.epsilon(delta=d)
            note = "" if found.status in (Status.OK, Status.PERFECT) else f"; {found.status.value}"
            rows.append(Row("epsilon", f"{shown_up(float(found))} at delta = {d:g}", float(found), how + note, d))
        for e in epsilons:
            value = float(profile.delta(epsilon=e))
            rows.append(Row("delta", f"{shown_up(value)} at epsilon = {e:g}", value, how, e))
    return rows
