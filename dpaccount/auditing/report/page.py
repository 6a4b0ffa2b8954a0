"""The page: verdict first, then the bound, the errors, the readings, the changes, the curves, the sources."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import Any

import numpy as np

from dpaccount import _check
from dpaccount._bibliography import BIBLIOGRAPHY
from dpaccount.auditing.outcome import HOLDS
from dpaccount.auditing.printed import beside
from dpaccount.auditing.report.curves import AT_LEAST, AT_MOST, SMALLEST, Curve, corner, profiles, trade_off
from dpaccount.auditing.report.style import STYLE
from dpaccount.auditing.report.svg import Axes, chart, even, legend, powers
from dpaccount.auditing.runs import Reading
from dpaccount.auditing.sheet import CHECKED, FOUND, Finding
from dpaccount.auditing.verdict import ClaimVerdict
from dpaccount.statement import shown, shown_down, shown_up, version

SIGNS = {"holds": "\u2713", "refuted": "\u2717", "undecided": "?"}
MEANS = {
    "holds": "A theorem proves the claim for the run as it is stated.",
    "refuted": "The claim is false for the run as it is stated.",
    "undecided": "Neither is shown: facts are missing, or no theorem decides.",
}
STATES = {FOUND: ("found", "\u2717 found"), CHECKED: ("checked", "\u2713 checked")}
OPEN = ("open", "? can\u2019t be checked")
POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def claim_report(verdicts: Any, *, title: str = "Privacy claims, checked on paper") -> str:
    """One HTML page for one verdict of `check_claim` or several; it fetches nothing, and prints.

    Parameters
    ----------
    verdicts : ClaimVerdict, or a list of them
    title : str

    Returns
    -------
    str
        HTML with inline styles and charts, without scripts.

    Examples
    --------
    >>> from dpaccount.auditing import check_claim, claim_report
    >>> page = claim_report(check_claim(dict(noise_multiplier=20.0, dataset_size=500, steps=100, epsilon=2.0, delta=1e-5,
    ...                                      sampler="full-batch", adjacency="add-or-remove")))
    >>> page.startswith("<!DOCTYPE html>"), "http-equiv" in page, "<script" in page
    (True, True, False)
    """
    found = [verdicts] if isinstance(verdicts, ClaimVerdict) else list(verdicts)
    for verdict in found:
        _check.instance("claim_report", "verdicts", verdict, ClaimVerdict, "a verdict of check_claim, or a list of them")
    if not found:
        _check.refuse("claim_report", "verdicts", "at least one verdict", found)
    names = [verdict.claim.name or f"Claim {i}" for i, verdict in enumerate(found, 1)]
    articles = "".join(_article(f"c{i}", name, verdict) for i, (name, verdict) in enumerate(zip(names, found, strict=True), 1))
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}"><title>{escape(_heading(title, names, found))}</title>'
        f"<style>{STYLE}</style></head>\n<body><main><h1>{escape(title)}</h1>{_overview(names, found)}{articles}{_footer()}</main>"
        "</body></html>\n"
    )


def _heading(title: str, names: Sequence[str], found: Sequence[ClaimVerdict]) -> str:
    return f"{names[0]}: {found[0].verdict} \u2013 {title}" if len(found) == 1 else title


def _overview(names: Sequence[str], found: Sequence[ClaimVerdict]) -> str:
    if len(found) == 1:
        return ""
    rows = "".join(
        f'<tr><th scope="row"><a href="#c{i}">{escape(name)}</a></th><td>{_badge(v.verdict)}</td><td>{escape(v.reason)}</td></tr>'
        for i, (name, v) in enumerate(zip(names, found, strict=True), 1)
    )
    return _table(f"{len(found)} claims", ("Claim", "Verdict", "Because"), rows)


def _table(caption: str, heads: Iterable[str], rows: str, kind: str = "wide") -> str:
    """A table that becomes blocks on a phone; the roles keep it a table for those who hear it."""
    head = "".join(f'<th scope="col" role="columnheader">{escape(h)}</th>' for h in heads)
    rows = rows.replace("<tr", '<tr role="row"').replace("<td", '<td role="cell"').replace("<th scope", '<th role="rowheader" scope')
    return (
        f'<table class="{kind}" role="table"><caption>{escape(caption)}</caption><thead role="rowgroup"><tr role="row">{head}</tr></thead>'
        f'<tbody role="rowgroup">{rows}</tbody></table>'
    )


def _badge(verdict: str) -> str:
    return f'<span class="badge {verdict}"><span aria-hidden="true">{SIGNS[verdict]} </span>{verdict.upper()}</span>'


def _article(key: str, name: str, verdict: ClaimVerdict) -> str:
    parts = (
        f'<article id="{key}" aria-labelledby="{key}-h"><h2 id="{key}-h">{escape(name)}</h2>', _verdict(verdict), _charts(key, verdict),
        _changes(verdict), _errors(verdict), _readings(verdict), _fields(verdict), _sources(verdict), "</article>",
    )
    return "".join(parts)


def _verdict(verdict: ClaimVerdict) -> str:
    claim = verdict.claim
    said = "epsilon not stated" if claim.epsilon is None else f"epsilon = {shown(claim.epsilon)}"
    at = "delta not stated" if claim.delta is None else f"delta = {claim.delta:g}"
    facts = [("Claimed", f"{said}, {at}")]
    if verdict.theorem:
        facts += [("Bound", f"epsilon: {Reading('', verdict.lower, verdict.upper, '').text}"), ("By", verdict.theorem)]
    facts += [("Assumes", text) for text in verdict.assumptions]
    facts += [("Missing", ", ".join(verdict.missing))] if verdict.missing else []
    return (
        f'<div class="verdict is-{verdict.verdict}"><p>{_badge(verdict.verdict)} {MEANS[verdict.verdict]}</p>'
        f'<p class="reason">{escape(_sentence(verdict.reason))}</p></div>{_list(facts)}'
    )


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _list(facts: Iterable[tuple[str, str]]) -> str:
    return "<dl>" + "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in facts) + "</dl>"


def _errors(verdict: ClaimVerdict) -> str:
    rows = "".join(_row(f) for f in verdict.findings)
    count = f"{len(verdict.found)} found, {len(verdict.unchecked)} can\u2019t be checked for want of a fact"
    return "<h3>The twelve usual errors</h3>" + _table(count, ("Error", "State", "What was seen"), rows)


def _row(f: Finding) -> str:
    style, state = STATES.get(f.status, OPEN)
    effect = f" ({f.effect} the claim)" if f.effect else ""
    return (
        f'<tr><th scope="row">{f.number}. {escape(f.title)}</th><td class="state {style}">{state}{effect}</td>'
        f"<td>{escape(f.text)}</td></tr>"
    )


def _readings(verdict: ClaimVerdict) -> str:
    if not verdict.readings:
        return ""
    claim = verdict.claim
    own = f"{claim.sampler}, {claim.adjacency}"
    rows = "".join(
        f'<tr{" class=own" if r.name == own else ""}><th scope="row">{escape(r.name)}{" (as stated)" if r.name == own else ""}</th>'
        f"<td>{escape(r.text)}</td><td>{beside(r, claim.epsilon)}</td><td>{escape(r.theorem)}</td></tr>"
        for r in verdict.readings
    )
    return "<h3>Epsilon under each reading</h3>" + _table(
        f"The same numbers at delta = {claim.delta:g}, by how batches are drawn and which data sets are neighbours: "
        "above the claimed epsilon, within it, or open",
        ("Reading", "Epsilon", "Place", "By"), rows, "wide readings",
    )


def _changes(verdict: ClaimVerdict) -> str:
    if not verdict.changes:
        return ""
    head = "What it could spare" if verdict.verdict == HOLDS else "The smallest change that would make it true"
    return f"<h3>{head}</h3><ul>" + "".join(f"<li>{escape(text)}</li>" for text in verdict.changes) + "</ul>"


def _fields(verdict: ClaimVerdict) -> str:
    stated = [(name, _value(value)) for name, value in vars(verdict.claim).items() if value is not None and name != "name"]
    return "<h3>The claim as it was stated</h3>" + _list(stated)


def _value(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(_value, value)) or "none"
    return shown(value) if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else str(value)


def _sources(verdict: ClaimVerdict) -> str:
    if not verdict.works:
        return ""
    rows = "".join(f"<li>{escape(_reference(BIBLIOGRAPHY[key]))} <em>For: {escape(reason)}.</em></li>" for key, reason in verdict.works)
    return f"<h3>Sources</h3><ol>{rows}</ol>"


def _reference(entry: str) -> str:
    """Authors, title, place and year of a BibTeX entry, as plain text."""
    parts = re.split(r"^\s*(\w+)\s*=\s*", entry, flags=re.MULTILINE)[1:]
    found = {key: _untexed(value) for key, value in zip(parts[::2], parts[1::2], strict=True)}
    found["author"] = found.get("author", "").replace(" and ", "; ")
    return ". ".join(found[key].rstrip(".") for key in ("author", "title", "booktitle", "journal", "year") if found.get(key)) + "."


def _untexed(value: str) -> str:
    return re.sub(r"\\[\"'`^~]|[{}\\$]", "", " ".join(value.split())).strip(" ,")


def _footer() -> str:
    return (
        f"<footer><p>Made by dpaccount {escape(version())}. A verdict is about the run as it was stated; whether the code did that is "
        "not decided on paper.</p></footer>"
    )


# charts


def _charts(key: str, verdict: ClaimVerdict) -> str:
    figures = list(_figures(key, verdict))
    return f'<h3>Curves</h3><div class="charts">{"".join(figures)}</div>' if figures else ""


def _figures(key: str, verdict: ClaimVerdict) -> Iterator[str]:
    curves, left = profiles(verdict)
    claim = verdict.claim
    if not curves or claim.delta is None:
        return
    foot, right = math.floor(math.log10(claim.delta)) - 3.0, float(max(c.x[-1] for c in curves))
    axes = Axes((0.0, right), (foot, 0.0), even(0.0, right), powers(foot, 0.0), "epsilon", "delta")
    point = None if claim.epsilon is None else (claim.epsilon, math.log10(claim.delta), "claim")
    title = "Privacy profile: delta by epsilon under each reading"
    omitted = f" Left out, since they take long or nothing is known: {', '.join(left)}." if left else ""
    below = " A claim holds where its point lies on or above the curve of the run." if point else ""
    yield _figure(chart(f"{key}p", title, _described(curves, claim), axes, curves, point), curves, f"{title}.{below}{omitted}")
    pair = trade_off(verdict)
    if len(pair) > 1:
        equal = corner(claim.epsilon, claim.delta)
        axes = Axes((SMALLEST, 0.0), (0.0, 1.0), powers(SMALLEST, 0.0), even(0.0, 1.0), "false positive rate", "false negative rate")
        title = "Trade-off: the two errors of the best attack"
        text = f"At equal error rates the claim promises {shown(equal, 4)} each; {_at_equal(pair[1:])}"
        caption = f"{title}. A claim holds where the run\u2019s curve lies on or above the claim\u2019s. {text}"
        point = (math.log10(max(equal, 10.0**SMALLEST)), equal, "claim")
        yield _figure(chart(f"{key}t", title, text, axes, pair, point), pair, caption)


def _figure(svg: str, curves: Sequence[Curve], caption: str) -> str:
    return f"<figure>{svg}{legend(curves)}<figcaption>{escape(caption)}</figcaption></figure>"


def _described(curves: Sequence[Curve], claim: Any) -> str:
    """What the chart shows, in words: each curve's epsilon at the claimed delta."""
    parts = []
    for curve in curves:
        inside = np.flatnonzero(curve.y <= math.log10(claim.delta))
        where = f"delta falls to {claim.delta:g} near epsilon {shown(float(curve.x[inside[0]]), 3)}" if inside.size else (
            f"delta is above {claim.delta:g} in the whole picture"
        )
        parts.append(f"{curve.name} ({curve.kind}): {where}")
    said = "" if claim.epsilon is None else f"; the claim is the point epsilon {shown(claim.epsilon)}, delta {claim.delta:g}"
    return "; ".join(parts) + said + "."


def _at_equal(curves: Sequence[Curve]) -> str:
    texts = []
    for curve in curves:
        i = int(np.argmax(10.0**curve.x >= curve.y))
        sign = curve.kind if curve.kind in (AT_LEAST, AT_MOST) else "about"
        rate = float(curve.y[max(i - 1, 0)] if sign == AT_MOST else curve.y[i])
        texts.append(f"the run ({curve.name}) has {sign} {shown_up(rate, 3) if sign == AT_MOST else shown_down(rate, 3)}")
    return "; ".join(texts) + "."
