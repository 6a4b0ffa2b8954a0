"""The verdict on a claim: holds, refuted, or undecided because these facts are missing."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from dpaccount.auditing.changes import changes
from dpaccount.auditing.claims import Claim
from dpaccount.auditing.errors import twelve
from dpaccount.auditing.outcome import HOLDS, REFUTED, UNDECIDED
from dpaccount.auditing.passes import LAST_TAKES_ITS_PLACE
from dpaccount.auditing.printed import lines
from dpaccount.auditing.readers import read_claims
from dpaccount.auditing.readings import PASSES, reading
from dpaccount.auditing.runs import Reading, Run
from dpaccount.auditing.sheet import FOUND, NOT_CHECKED, Finding, Sheet, short
from dpaccount.auditing.works import WORKS
from dpaccount.statement import shown, shown_down, shown_up

STATED = "the run as stated: noise, sizes, sampler and relation are taken from the claim"
SEEN = "lower ends assume that every noisy update is seen, or a loss whose last iterate tells as much"
BATCHES = "a pass has n/B batches, rounded down or up, and the order does not depend on what the records hold"
SECRET = "the order is uniformly random, and neither it nor its seed is released"
READINGS = (
    ("poisson", "add-or-remove"), ("poisson", "replace-one"), ("shuffled", "zero-out"), ("shuffled", "replace-one"),
    ("fixed-order", "zero-out"), ("fixed-size", "replace-one"), ("full-batch", "add-or-remove"),
)


@dataclass(frozen=True)
class ClaimVerdict:
    """What became of a claim, with the bound, the theorem and the assumption behind it.

    Parameters
    ----------
    claim : Claim
    verdict : {"holds", "refuted", "undecided"}
    reason : str
        One sentence: which bound decided, or what is missing.
    lower, upper : float
        epsilon that the stated run needs at least (0 if nothing is known), and what is proved (inf if nothing is).
    theorem : str
        Where both come from.
    assumptions : tuple of str
    findings : tuple of Finding
        The twelve usual errors.
    missing : tuple of str
        Fields without which nothing can be decided.
    sheet : Sheet
        The run and its own reading, from which `readings` and `changes` are made.
    """

    claim: Claim
    verdict: str
    reason: str
    lower: float
    upper: float
    theorem: str
    assumptions: tuple[str, ...]
    findings: tuple[Finding, ...]
    missing: tuple[str, ...]
    sheet: Sheet = field(repr=False)

    @cached_property
    def readings(self) -> tuple[Reading, ...]:
        """epsilon of the same numbers under each sampler and relation; computed when asked for."""
        return tuple(_readings(self.claim, self.sheet.run, self.sheet.haste))

    @cached_property
    def changes(self) -> tuple[str, ...]:
        """The smallest changes that would make the claim true, or how much it could spare; computed when asked for."""
        return tuple(changes(self.sheet, self.verdict))

    @property
    def found(self) -> tuple[Finding, ...]:
        """The errors that were found."""
        return tuple(f for f in self.findings if f.status == FOUND)

    @property
    def unchecked(self) -> tuple[Finding, ...]:
        """The errors that could not be looked for."""
        return tuple(f for f in self.findings if f.status == NOT_CHECKED)

    # as an audit's result
    level = 0.0
    kind = "computed"
    selection = "none: nothing was sampled"

    @property
    def works(self) -> tuple[tuple[str, str], ...]:
        """Keys of the works behind the bound, for `dpaccount.citations`."""
        sampler = () if self.claim.sampler is None else WORKS[self.claim.sampler]
        tuned = WORKS["tuning"] if self.claim.tuning_runs and self.claim.tuning_runs > 1 else ()
        return (*sampler, *tuned)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; an infinite bound is None."""
        return {
            "verdict": self.verdict, "reason": self.reason,
            "claim": {k: v for k, v in vars(self.claim).items() if v is not None},
            "lower": _finite(self.lower), "upper": _finite(self.upper), "theorem": self.theorem,
            "kind": self.kind, "assumptions": list(self.assumptions), "missing": list(self.missing),
            "findings": [
                {"number": f.number, "title": f.title, "status": f.status, "effect": f.effect or None, "text": f.text,
                 "needs": list(f.needs)} for f in self.findings
            ],
            "readings": [
                {"name": r.name, "lower": _finite(r.lower), "upper": _finite(r.upper), "figure": r.figure, "theorem": r.theorem}
                for r in self.readings
            ],
            "changes": list(self.changes),
        }

    def __str__(self) -> str:
        return "\n".join(lines(self))


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def check_claim(spec: Any) -> Any:
    """Check a claimed guarantee on paper: *holds*, *refuted*, or *undecided* for want of facts.

    Parameters
    ----------
    spec : dict, `Claim`, str or Path, or a list of them
        The fields of `Claim`; TOML or JSON text; a path that ends in .toml or .json. A file may hold several claims,
        as ``[[claim]]`` tables or a JSON list.

    Returns
    -------
    ClaimVerdict, or a list of them
        A list if the spec may hold several claims.

    Raises
    ------
    ValueError
        For unknown fields, with the nearest valid name, and for fields that contradict each other, naming both.

    Guarantee
    ---------
    *refuted*: a data set is known on which the stated run, or the step or epoch that the claim is about, needs more than the
    claimed epsilon for what was released, or an error that was found makes it so. *holds*: a theorem proves the claimed
    (epsilon, delta) for the run as stated, and none of the errors that could be
    looked for voids it; what could not be looked for is listed. Otherwise *undecided*.

    Examples
    --------
    >>> from dpaccount.auditing import check_claim
    >>> run = dict(noise_multiplier=1.1, dataset_size=60000, batch_size=256, epochs=60, epsilon=2.9, delta=1e-5,
    ...            adjacency="add-or-remove")
    >>> check_claim(dict(run, sampler="poisson")).verdict
    'holds'
    >>> shuffled = check_claim(dict(run, sampler="shuffled"))
    >>> shuffled.verdict, round(shuffled.lower, 2)
    ('refuted', 10.86)
    >>> check_claim(run).missing
    ('sampler',)
    """
    claims, several = read_claims(spec)
    verdicts = [_judged(claim) for claim in claims]
    return verdicts if several else verdicts[0]


def _judged(claim: Claim) -> ClaimVerdict:
    whole = _run(claim)
    sheet = Sheet(claim, None if whole is None else _part(whole, claim.epsilon_of), None, whole)
    own = sheet.under()
    if own is not None and own.rough and claim.epsilon is not None and own.lower <= claim.epsilon < own.upper:
        own = sheet.under(haste="none")
    sheet = replace(sheet, own=own)
    findings = twelve(sheet)
    verdict, reason = _decided(sheet, findings, whole is not None)
    by_updates = sheet.too_small or next((f.number < 12 for f in findings if f.effect == "refutes"), False)
    if verdict == REFUTED and by_updates and claim.released is None and sheet.hidden:
        reason += "; released is not stated, and this takes every noisy update as seen"
    voided = any(f.effect == "voids" and f.number > 1 for f in findings)  # then no fact about batches decides
    secret = (SECRET,) if own is not None and LAST_TAKES_ITS_PLACE in own.theorem else ()
    return ClaimVerdict(
        claim, verdict, reason, own.lower if own else 0.0, own.upper if own else math.inf, own.theorem if own else "",
        (STATED, SEEN, *((BATCHES,) if claim.sampler in PASSES else ()), *secret),
        findings, claim.missing or (sheet.wanted[0] if verdict == UNDECIDED and not voided else ()), sheet,
    )


def _run(claim: Claim) -> Run | None:
    if claim.phases is not None and claim.delta is not None:
        least, largest = min(sigma for sigma, *_ in claim.phases), max(q for _, q, _ in claim.phases)
        return Run(least, largest, claim.updates or 0, claim.delta, dataset_size=claim.dataset_size, phases=claim.phases)
    if claim.noise_multiplier is None or claim.rate is None or claim.updates is None or claim.delta is None:
        return None
    public = claim.batch_count == "public" and claim.normaliser == "public"
    return Run(
        claim.noise_multiplier, claim.rate, claim.updates, claim.delta, claim.passes, claim.dataset_size, claim.logical_batch,
        public=public, order=claim.order or "", whole=claim.whole_passes, rounded=claim.steps is None,
    )


def _what(claim: Claim) -> str:
    return f"one {claim.epsilon_of}" if claim.epsilon_of in ("step", "epoch") else "the run"


def _part(run: Run, part: str | None) -> Run:
    """The step or the epoch that the claim is about, else the run; a started batch is paid."""
    if part not in ("step", "epoch"):
        return run
    steps = 1 if part == "step" else min(math.ceil(1.0 / run.rate - 1e-9), run.steps)
    whole = None if run.whole is None else min(run.whole, 1)
    return replace(run, steps=steps, passes=None if run.passes is None else 1, whole=whole, rounded=run.rounded and part == "epoch")


def _decided(sheet: Sheet, findings: tuple[Finding, ...], told: bool) -> tuple[str, str]:
    claim, own = sheet.claim, sheet.own
    refuting = [f for f in findings if f.effect == "refutes"]
    if own is not None and claim.epsilon is not None and own.lower > claim.epsilon:
        if math.isinf(own.lower):
            return REFUTED, f"{_what(claim)} as stated has no finite epsilon at delta = {claim.delta:g}: {own.theorem}"
        return REFUTED, (
            f"{_what(claim)} as stated needs epsilon >= {shown_down(own.lower, 7)} at delta = {claim.delta:g}, more than the claimed "
            f"{shown(claim.epsilon)}" + _named(refuting)
        )
    if refuting:
        return REFUTED, f"error {refuting[0].number}, {refuting[0].title}: {refuting[0].text}"
    if claim.missing:
        return UNDECIDED, f"missing: {', '.join(claim.missing)}" + (
            "; the figures below show what each answer would mean" if told else ""
        )
    assert own is not None
    voiding = [f for f in findings if f.effect == "voids"]
    if own.upper <= claim.epsilon and not voiding and sheet.changed:
        real = sheet.under(**sheet.changed)
        if real is None or real.upper > claim.epsilon:
            text = "more" if real is None else short(real)
            return UNDECIDED, f"what was found, taken together, makes it a run that needs {text}, not {shown(claim.epsilon)}"
    if own.upper <= claim.epsilon and not voiding:
        rest = _rest(findings)
        return HOLDS, f"epsilon <= {shown_up(own.upper, 7)} at delta = {claim.delta:g} is proved for {_what(claim)} as stated{rest}"
    if voiding:
        return UNDECIDED, f"error {voiding[0].number}, {voiding[0].title}: {voiding[0].text}"
    names, best = sheet.wanted
    if names:
        kept = ' with order="random"' if "order" in names else ""
        kind = "" if best is None else f"{best.name.split(',')[0]} batches{kept}"
        would = "" if best is None else f" (then epsilon <= {shown_up(best.upper, 7)} is proved for {kind})"
        public = [name for name in names if name in ("batch_count", "normaliser")]
        return UNDECIDED, f"missing: {', '.join(names)}" + (f"; are these public constants{would}?" if public else would)
    return UNDECIDED, f"the claimed {shown(claim.epsilon)} lies between what is needed and what is proved: {own.text}"


def _rest(findings: tuple[Finding, ...]) -> str:
    """What a claim that holds must still hear about the twelve errors."""
    left = sum(f.status == NOT_CHECKED for f in findings)
    weak = sum(f.status == FOUND for f in findings)
    parts = [f"{weak} of the twelve usual errors {'were' if weak > 1 else 'was'} found, which does not make it false"] if weak else []
    if left:
        parts.append(f"{left} {'more' if weak else 'of the twelve usual errors'} could not be looked for")
    return "".join(f"; {part}" for part in parts) or "; none of the twelve usual errors was found"


def _named(found: list[Finding]) -> str:
    return f" (error {found[0].number}, {found[0].title})" if found else ""


def _readings(claim: Claim, run: Run | None, haste: str) -> Iterator[Reading]:
    """epsilon under each reading of the same numbers, the stated one among them."""
    if run is None:
        return
    own = (claim.sampler, claim.adjacency)
    for sampler, adjacency in READINGS if None in own or own in READINGS else (own, *READINGS):
        if sampler == "full-batch" and run.rate != 1.0:
            continue
        if run.rate == 1.0 and sampler != "full-batch":
            continue
        yield reading(run, sampler, adjacency, haste=haste)
