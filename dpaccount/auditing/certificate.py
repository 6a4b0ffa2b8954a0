"""Certificates: a claim, the bracket, the theorems and the digits as a small JSON document, checked again by ball arithmetic."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from dpaccount import _check
from dpaccount.adjacency import Adjacency
from dpaccount.auditing.claims import Claim, claim_of
from dpaccount.auditing.outcome import HOLDS, REFUTED, UNDECIDED
from dpaccount.auditing.proofs import LOWER, SENTENCES, SIDES, End, ends, proved, sound, theorems
from dpaccount.auditing.sheet import FOUND, NOT_CHECKED
from dpaccount.auditing.verdict import ClaimVerdict, check_claim
from dpaccount.engines.balls import face
from dpaccount.results import NumericalFailure
from dpaccount.statement import version

FORMAT, VERSION = "dpaccount-certificate", 1
DIGITS, FEWEST, MOST = 15, 6, 100
VERIFIED = "verified"
FIELDS: dict[str, type] = {
    "format": str, "version": int, "claim": dict, "digits": int, "bounds": list, "verdict": str, "because": str, "errors": dict,
    "assumptions": list, "written_by": str, "digest": str,
}
TRUST = (
    "that the run was as the claim states it: noise, sizes, sampler, relation, what was released",
    "that the theorems named are true, and that python-flint encloses what it says",
    "the digest is no signature: it finds damage, not an author",
)
LEAST_NOISE, NO_NOISE = 1e-3, "without noise, or with hardly any, no theorem gives an end"
CONDUCT = 7  # errors from here on are about what was done; the bracket says what follows from the others


def certificate(claim: Any, *, digits: int = DIGITS) -> dict[str, Any]:
    """What is proved of a claimed run, as plain values for JSON: each end of the bracket, its theorem and its digits.

    Every end is rounded outward from an enclosure in ball arithmetic, so that its decimal is the one and only; `verify_certificate`
    computes it again. Needs the extra ``dpaccount[certify]``.

    Parameters
    ----------
    claim : dict, `Claim` or `ClaimVerdict`
        One claim, with all that `check_claim` needs.
    digits : int
        Significant digits of each end, in 6..100. The upper end for an exchange under Poisson sampling has at most 8.

    Returns
    -------
    dict
        The document of `docs/json.md`: format, version, claim, digits, bounds, verdict, because, errors, assumptions, written_by, digest.

    Guarantee
    ---------
    ``verdict`` is "holds" or "refuted" only where the ends prove it, or where an error that was found does; it can be "undecided"
    where `check_claim` decides, since fewer theorems are within reach of ball arithmetic.

    Raises
    ------
    ValueError
        If facts are missing without which nothing can be computed, or there is hardly any noise.

    Examples
    --------
    >>> from dpaccount.auditing import certificate, verify_certificate
    >>> found = certificate(dict(noise_multiplier=20.0, dataset_size=500, steps=100, epsilon=2.0, delta=1e-5,
    ...                          sampler="full-batch", adjacency="add-or-remove"))
    >>> found["verdict"], [(end["side"], end["epsilon"]) for end in found["bounds"]]
    ('holds', [('lower', '1.99309140441511'), ('upper', '1.99309140441512')])
    >>> verify_certificate(found).verdict
    'verified'
    """
    _check.count("certificate", "digits", digits, minimum=FEWEST, maximum=MOST)
    judged = claim if isinstance(claim, ClaimVerdict) else check_claim(claim_of(claim))
    if judged.claim.missing or judged.sheet.run is None:
        raise ValueError(f"`certificate` needs the whole claim; missing: {', '.join(judged.claim.missing)}.")
    if judged.sheet.run.sigma < LEAST_NOISE:
        raise ValueError(f"`certificate` has nothing to compute: {NO_NOISE}.")
    face.require("certificate")
    return _sealed(judged, ends(judged.sheet, digits), digits)


def _sealed(judged: ClaimVerdict, found: list[End], digits: int) -> dict[str, Any]:
    verdict, because = _decided(judged, found)
    content: dict[str, Any] = {
        "format": FORMAT, "version": VERSION, "claim": _plain(judged.claim), "digits": digits,
        "bounds": [
            {"side": end.side, "theorem": end.theorem, "says": SENTENCES[end.theorem], "epsilon": end.epsilon}
            | ({"event": end.event} if end.event else {})
            for end in found
        ],
        "verdict": verdict, "because": because, "errors": _errors(judged), "assumptions": list(judged.assumptions),
        "written_by": f"dpaccount {version()}",
    }
    return {**content, "digest": digest(content)}


def digest(content: dict[str, Any]) -> str:
    """SHA-256 of everything but the digest itself, as JSON with sorted keys and no spaces."""
    rest = {key: value for key, value in content.items() if key != "digest"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return "sha256:" + hashlib.sha256(text.encode("utf-8")).hexdigest()


def _plain(claim: Claim) -> dict[str, Any]:
    table = {key: value for key, value in vars(claim).items() if value is not None}
    return json.loads(json.dumps(table, default=float))  # type: ignore[no-any-return]  # tuples become lists, fractions numbers


def _errors(judged: ClaimVerdict) -> dict[str, list[int]]:
    return {
        "found": [f.number for f in judged.findings if f.status == FOUND],
        "not_checked": [f.number for f in judged.findings if f.status == NOT_CHECKED],
    }


def _decided(judged: ClaimVerdict, found: list[End]) -> tuple[str, str]:
    """What the ends, and the errors that were found, show."""
    claimed = Fraction(judged.claim.epsilon)
    for end in found:
        value = Decimal(end.epsilon)
        above = value.is_infinite() or Fraction(value) > claimed
        if end.side == LOWER and above:
            return REFUTED, "the lower end is above the claimed epsilon"
        if end.side != LOWER and not above and judged.verdict == HOLDS:
            return HOLDS, "the upper end is not above the claimed epsilon, and no error that was found voids the claim"
    for f in judged.findings:
        if f.number >= CONDUCT and f.effect == "refutes":
            return REFUTED, f"error {f.number}, {f.title}"
        if f.effect == "voids":
            return UNDECIDED, f"error {f.number}, {f.title}"
    return UNDECIDED, "neither end decides"


@dataclass(frozen=True)
class Verification:
    """What became of checking a certificate: "verified", "refuted" or "undecided", with what was checked, and what is taken on trust."""

    verdict: str
    claim: Claim | None
    says: str
    verified: tuple[str, ...]
    wrong: tuple[str, ...]
    unproved: tuple[str, ...]
    trusted: tuple[str, ...]
    decided: str = ""  # what the certificate says of its claim

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "verdict": self.verdict, "says": self.says, "verified": list(self.verified), "wrong": list(self.wrong),
            "unproved": list(self.unproved), "trusted": list(self.trusted), "decided": self.decided or None,
        }

    def lines(self) -> Iterator[tuple[str, str]]:
        """Label and text."""
        open_claim = self.verdict == VERIFIED and self.decided == UNDECIDED
        yield self.verdict.upper() + (" (undecided)" if open_claim else ""), _printable(self.says)
        for label, texts in (("wrong", self.wrong), ("unproved", self.unproved), ("verified", self.verified), ("on trust", self.trusted)):
            yield from ((label, _printable(text)) for text in texts)

    def __str__(self) -> str:
        return "\n".join(f"{label:<11}{text}" if len(label) < 11 else f"{label}  {text}" for label, text in self.lines())


def _printable(text: str) -> str:
    """What a document says, on one line of a terminal and nowhere else."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def verify_certificate(document: Any) -> Verification:
    """Check a certificate from scratch: every end again in ball arithmetic, every field against the claim.

    Parameters
    ----------
    document : dict, JSON text, or a path to it
        As `certificate` makes it.

    Returns
    -------
    Verification
        "refuted" if anything in it is not so, "undecided" where ball arithmetic has no proof, or a later version wrote it.

    Raises
    ------
    ValueError
        If it is no certificate: no JSON, fields missing, unknown, or of another type.
    ImportError
        Without the extra ``dpaccount[certify]``.
    """
    content = _read(document)
    face.require("verify_certificate")
    if content["version"] != VERSION:
        later = f"it is of version {content['version']}, and this dpaccount knows version {VERSION}"
        return Verification(UNDECIDED, None, later, (), (), (later,), TRUST)
    right: list[str] = []
    wrong: list[str] = []
    unproved: list[str] = []
    if content["digest"] == digest(content):
        right.append("the digest fits the fields")
    else:
        wrong.append("the digest is another's: a field was changed")
    try:
        claim = claim_of(content["claim"])
        judged = check_claim(claim)
    except (ValueError, TypeError) as error:
        wrong.append(f"the claim is none: {error}")
        return Verification(REFUTED, None, "its claim cannot be read", tuple(right), tuple(wrong), (), TRUST)
    if judged.sheet.run is not None and judged.sheet.run.sigma < LEAST_NOISE:
        wrong.append(NO_NOISE)
        return Verification(REFUTED, claim, "its claim cannot be computed", tuple(right), tuple(wrong), (), TRUST)
    if claim.missing or not FEWEST <= content["digits"] <= MOST:
        wrong.append(f"the claim lacks {', '.join(claim.missing)}" if claim.missing else f"digits = {content['digits']}")
        return Verification(REFUTED, claim, "its claim cannot be computed", tuple(right), tuple(wrong), (), TRUST)
    found = []
    for row in content["bounds"]:
        kind, text, end = _checked(judged, row, content["digits"])
        {"right": right, "wrong": wrong, "unproved": unproved}[kind].append(text)
        if end is not None:
            found.append(end)
    _compare(content, judged, found, right, wrong)
    verdict = REFUTED if wrong else UNDECIDED if unproved else VERIFIED
    return Verification(
        verdict, claim, _says(content, judged), tuple(right), tuple(wrong), tuple(unproved), _trusted(judged),
        content["verdict"],
    )


def _says(content: dict[str, Any], judged: ClaimVerdict) -> str:
    name = f"{judged.claim.name}: " if judged.claim.name else ""
    claim = f"{name}epsilon = {judged.claim.epsilon:g} at delta = {judged.claim.delta:g}"
    return f"the certificate of the claim {claim}, which says: {content['verdict']}, since {content['because']}"


def _checked(judged: ClaimVerdict, row: Any, digits: int) -> tuple[str, str, End | None]:
    """One end: "right", "wrong" or "unproved", in words, and the end if it is right."""
    extra = {"event"} if isinstance(row, dict) and "event" in row else set()
    if not isinstance(row, dict) or set(row) != {"side", "theorem", "says", "epsilon"} | extra:
        return "wrong", f"an end has other fields: {row!r}", None
    side, theorem, stated, event = row["side"], row["theorem"], row["epsilon"], row.get("event", {})
    if not all(isinstance(text, str) for text in (side, theorem, stated, row["says"])) or not isinstance(event, dict):
        return "wrong", f"an end has fields of other types: {row!r}", None
    run, relation = judged.sheet.run, Adjacency(judged.claim.adjacency)
    assert run is not None
    known = dict(theorems(str(judged.claim.sampler), relation, run))
    what = f"{side} end {stated}, by {theorem!r}"
    if side not in SIDES or theorem not in known.get(side, ()) or (side == LOWER and judged.sheet.unseen):
        return "wrong", f"{what}: that is no theorem for this end of this claim", None
    if row["says"] != SENTENCES[theorem]:
        return "wrong", f"{what}: the theorem says otherwise", None
    if not sound(theorem, event):
        return "wrong", f"{what}: the event is none", None
    try:
        value = proved(theorem, side, run, relation, event, digits)
    except NumericalFailure as error:
        return "unproved", f"{what}: {error}", None
    if value != stated:
        return "wrong", f"{what}: ball arithmetic gives {value}", None
    sign = ">=" if side == LOWER else "<="
    return "right", f"epsilon {sign} {value}, by ball arithmetic: {SENTENCES[theorem]}", End(side, theorem, value, event)


def _compare(content: dict[str, Any], judged: ClaimVerdict, found: list[End], right: list[str], wrong: list[str]) -> None:
    """The rest of the document against what follows from the claim and the ends that were verified."""
    verdict, because = _decided(judged, found)
    told = (content["verdict"], content["because"])
    if told == (verdict, because):
        right.append(f"the verdict: {verdict}, since {because}")
    else:
        wrong.append(f"the verdict: it says {told[0]}, {told[1]}; what follows is {verdict}, {because}")
    if len({str(row["side"]) for row in content["bounds"] if isinstance(row, dict) and "side" in row}) < len(content["bounds"]):
        wrong.append("an end is stated twice")
    if content["errors"] == _errors(judged):
        right.append("which of the twelve usual errors were found and which could not be looked for, from the claim (no ball arithmetic)")
    else:
        wrong.append(f"the usual errors: it says {content['errors']}; what follows is {_errors(judged)}")
    if content["assumptions"] != list(judged.assumptions):
        wrong.append("the assumptions are others")
    if content["claim"] != _plain(judged.claim):
        wrong.append("the claim is not written as it is read")


def _trusted(judged: ClaimVerdict) -> tuple[str, ...]:
    left = [f"{f.number} ({f.title})" for f in judged.unchecked]
    return (*TRUST, *([f"usual errors that could not be looked for: {', '.join(left)}"] if left else []))


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose names are all different: readers disagree about which of two counts."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(f"a name stands twice among {', '.join(dict.fromkeys(name for name, _ in pairs))}")
    return found


def _read(document: Any) -> dict[str, Any]:
    """The fields of a certificate, each of its type; anything else is refused."""
    if isinstance(document, Path) or (isinstance(document, str) and not document.lstrip().startswith("{")):
        document = Path(document).read_text(encoding="utf-8")
    if isinstance(document, (str, bytes)):
        try:
            document = json.loads(document, object_pairs_hook=_once)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"`verify_certificate` found no JSON: {error}.") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ValueError(f"`verify_certificate` reads what `certificate` writes, a JSON object with format = {FORMAT!r}.")
    if type(document.get("version")) is int and document["version"] > VERSION:
        return document
    for name in dict.fromkeys((*document, *FIELDS)):
        if name not in FIELDS or type(document.get(name)) is not FIELDS[name]:
            state = "missing" if name not in document else "unknown" if name not in FIELDS else f"no {FIELDS[name].__name__}"
            raise ValueError(f"`verify_certificate` found the field {name!r} {state}: a certificate has {', '.join(FIELDS)}.")
    return document
