"""Claims from a line of plain text: every word is understood, or named; nothing is guessed."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from dpaccount import _check
from dpaccount.auditing.claims import Claim
from dpaccount.auditing.readers.phases import merged
from dpaccount.auditing.readers.statements import is_statement, statement_claims

OWNER = "read_text"
LONGEST = 10_000  # characters
N = r"(10\^\{?-?\d+\}?|1/\d+|(?:\d{1,3}(?:,\d{3})+(?![\d,])|\d+)(?:\.\d+)?(?:e[+-]?\d+)?[km]?|\.\d+(?:e[+-]?\d+)?)(?![\w.]*\d)"
IS = r"\s*(?:=|:|of|is|was|<=|≤)?\s*"
EPS, DELTA = r"(?:epsilon|eps|ε)", r"(?:delta|δ)"
DP = r"(?:\s*[-‑]?\s*(?:differential(?:ly)?\s+priva(?:te|cy)|dp)\b)?"
RDP = r"(?:rdp|r[ée]nyi(?:\s*-?\s*dp| differential(?:ly)? priva\w+)?)\b"
RECORDS = r"(?:examples|records|samples|rows|images|points)"

Number = Callable[[str], Any]


def _real(text: str) -> float:
    """A number as it is written: 60,000, 1e-5, 10^-5, 1/60000, 60k."""
    text = text.lower().replace(",", "")
    if text.startswith("10^"):
        return float(f"1e{text[3:].strip('{}')}")
    if "/" in text:
        above, below = text.split("/")
        return float(above) / float(below)
    scale = {"k": 1e3, "m": 1e6}.get(text[-1], 1.0)
    return float(text.rstrip("km")) * scale


def _whole(text: str) -> Any:
    value = _real(text)
    return int(value) if value == int(value) else value


# (pattern, fields of its groups); a field with a value needs no group. Earlier patterns are tried first.
PATTERNS: tuple[tuple[str, dict[str, Any]], ...] = (
    (rf"\(\s*{EPS}\s*,\s*{DELTA}\s*\){DP}\s*(?:=|with|of|:)?\s*(?=\()", {}),
    (rf"\(\s*(?:{EPS}\s*=\s*)?{N}\s*,\s*(?:{DELTA}\s*=\s*)?{N}\s*\){DP}", {"epsilon": _real, "delta": _real}),
    (rf"\(\s*{EPS}\s*,\s*{DELTA}\s*\){DP}", {}),
    (rf"{EPS}{IS}{N}", {"epsilon": _real}),
    (rf"{DELTA}{IS}{N}", {"delta": _real}),
    (rf"{N}\s*-\s*dp\b", {"epsilon": _real}),
    (rf"(?:noise[ _-]multiplier|sigma|σ){IS}{N}", {"noise_multiplier": _real}),
    (rf"(?:noise[ _-](?:std|standard deviation)){IS}{N}", {"noise_std": _real}),
    (rf"(?:max[ _-]grad[ _-]norm|clip(?:ping)?[ _-](?:norm|threshold|bound)|clipped (?:to|at)){IS}{N}", {"clipping_norm": _real}),
    (rf"(?:gradient )?accumulation(?:[ _-]steps)?{IS}{N}|{N}\s+accumulation steps", {"accumulation": _whole}),
    (rf"(?:batch(?:es)?(?:[ _-]size)?|lot(?:[ _-]size)?){IS}{N}\s*(?:of|from|out of|/)\s*{N}(?:\s+(?:training\s+)?{RECORDS})?",
     {"batch_size": _whole, "dataset_size": _whole}),
    (rf"(?:batch(?:es)?(?:[ _-]size)?|lot(?:[ _-]size)?){IS}{N}", {"batch_size": _whole}),
    (rf"(?:at most|up to)\s+{N}\s+{RECORDS}\s+(?:per|of a|of each|a)\s+user", {"records_per_user": _whole, "unit": "user"}),
    (rf"(?:n|data[ _-]?set(?:[ _-]size)?|training set(?: size)?)\s*(?:=|:|of)\s*{N}(?:\s+{RECORDS})?", {"dataset_size": _whole}),
    (rf"{N}\s+(?:training\s+)?{RECORDS}", {"dataset_size": _whole}),
    (rf"(?:q|sampl(?:e|ing)[ _-](?:rate|probability)){IS}{N}", {"sampling_probability": _real}),
    (rf"best of\s+{N}(?:\s+(?:runs|trainings|trials|seeds))?", {"tuning_runs": _whole}),
    (rf"{N}\s+epochs?\b|epochs{IS}{N}", {"epochs": _whole}),
    (rf"{N}\s+(?:steps|iterations|updates)\b|(?:steps|iterations|updates){IS}{N}", {"steps": _whole}),
    (r"poisson(?:[ -](?:sub)?sampl(?:ed|ing)|[ -]batches)?", {"sampler": "poisson"}),
    (r"(?:re)?shuffl(?:ed|ing|e)(?: (?:every|each) epoch)?", {"sampler": "shuffled"}),
    (r"fixed[ -]order", {"sampler": "fixed-order"}),
    (r"(?:each|every) (?:example|record|sample)(?: \w+)? once (?:per|an|every|in every) epoch", {"sampler": "once-per-epoch"}),
    (r"fixed[ -]size (?:samples|sampling|batches drawn anew)", {"sampler": "fixed-size"}),
    (r"full[ -]batch(?:es)?", {"sampler": "full-batch"}),
    (r"add(?:[ -]?(?:or|and|/)[ -]?|[ -])remove(?:[ -]one)?", {"adjacency": "add-or-remove"}),
    (r"replace[ -](?:one|record)|substitution", {"adjacency": "replace-one"}),
    (r"zero[ -]out", {"adjacency": "zero-out"}),
    (r"(?:record|example|sample|instance)[ -]level", {"unit": "record"}),
    (r"user[ -]level", {"unit": "user"}),
    (r"(?:rdp|r[ée]nyi)(?: (?:accountant|accounting))?", {"accountant": "rdp"}),
    (r"(?:pld|prv)(?: (?:accountant|accounting))?", {"accountant": "pld"}),
    (r"moments accountant", {"accountant": "moments"}),
    (r"(?:gdp|clt)(?: (?:accountant|accounting))?", {"accountant": "gdp"}),
    (r"per[ -](?:example|sample) (?:gradient )?clipping", {"clipping": "per-example"}),
    (r"(?:only )?(?:the )?final model(?: only)?(?: (?:is|was) released)?", {"released": "final-model"}),
    (r"all (?:checkpoints|iterates)(?: (?:are|were) released)?", {"released": "all-iterates"}),
)
FILLERS = re.compile(
    r"\b(?:dp-?sgd|dp|differential(?:ly)? priva(?:te|cy)|adjacency|neighbou?rs|accountant|accounting|batches|with|and|for|the|a|an|is|was|"
    r"were|at|we|trained|training|train|on|by|using|under|in|over|to|of|claims?|claimed|guarantee|satisfies|private|model|run|has)\b|[-–—,;()\s]+|[.:](?!\d)",
    re.IGNORECASE,
)
UNCLEAR = {
    rf"\)\s*-?\s*{RDP}|{RDP}\s+(?:with\s+)?(?:order|alpha|{EPS})":
        "a claim is about (epsilon, delta)-DP, and Renyi DP has an order; convert it first, with `dpaccount convert`",
    r"epochs?\s+of\s+\d+\s+(?:steps|iterations|updates)": "say the epochs, or the steps of the whole run",
    r"[\d.]+\s*%": "write a share as a number, such as 1e-5 for 0.001%",
    rf"{EPS}\s*(?:>=|≥|>)": "a claim is an upper bound on epsilon",
}
AMBIGUOUS = {
    "without replacement": "say 'shuffled' (each epoch) or 'fixed-size samples' (drawn anew every step)",
    "unbounded": "say 'add-or-remove'", "bounded": "say 'replace-one'",
    "last iterate": "say 'final model' if only that was released",
    "noise": "say 'noise multiplier' (over the clipping norm) or 'noise std'",
}


def read_text(text: str, **fields: Any) -> list[Claim]:
    """Claims from a line such as "sigma=1.1, batch 256 of 60000, 60 epochs, shuffled, (2.9, 1e-5)-DP".

    A line gives one claim. The privacy statement of TensorFlow Privacy gives one for each epsilon that it prints, under the
    assumption beside it: each example once per epoch, in an order that is not said, or Poisson sampling. Told a `sampler`,
    all of them are claims about that one. What the text does
    not say stays missing, and `check_claim` asks for it.

    Parameters
    ----------
    text : str
    **fields
        More fields of `Claim`.

    Raises
    ------
    ValueError
        If a word is not understood, which is named, or if the text contradicts itself.

    Examples
    --------
    >>> from dpaccount.auditing import check_claim, read_text
    >>> [claim] = read_text("sigma=1.1, batch 256 of 60000, 60 epochs, shuffled, (2.9, 1e-5)-DP")
    >>> claim.noise_multiplier, claim.batch_size, claim.sampler, claim.epsilon
    (1.1, 256, 'shuffled', 2.9)
    >>> check_claim(claim).missing
    ('adjacency',)
    """
    if not isinstance(text, str):
        _check.refuse(OWNER, "text", "text", text, kind=TypeError)
    if len(text) > LONGEST:
        raise ValueError(f"`{OWNER}` reads at most {LONGEST} characters; got {len(text)}.")
    if is_statement(text):
        drawn = {key: value for key, value in fields.items() if key == "sampler"}  # what a statement says of batches is assumed, not seen
        return [merged(OWNER, {**found, **drawn}, fields) for found in statement_claims(text)]
    return [merged(OWNER, _line(text), fields)]


def _line(text: str) -> dict[str, Any]:
    """The fields of a line, every word used."""
    for pattern, hint in UNCLEAR.items():
        unclear = re.search(pattern, text, re.IGNORECASE)
        if unclear:
            raise ValueError(f"`{OWNER}` does not understand {unclear[0]!r}: {hint}.")
    found: dict[str, Any] = {}
    said: dict[str, str] = {}
    rest = text
    for pattern, names in PATTERNS:
        rest = re.sub(rf"(?<![\w.]){pattern}(?!\w)", _taker(names, found, said), rest, flags=re.IGNORECASE)
    left = [word for word in FILLERS.sub(" ", rest.replace(TAKEN, " ; ")).split() if word.strip(TAKEN)]
    if left:
        words = " ".join(left)
        hints = [f"{word!r}: {hint}" for word, hint in AMBIGUOUS.items() if re.search(rf"\b{word}\b", rest, re.IGNORECASE)]
        hint = f" {'; '.join(hints)}." if hints else " Say it in the words of `dpaccount audit init`, or leave it out."
        raise ValueError(f"`{OWNER}` does not understand {words!r}.{hint}")
    if not found:
        raise ValueError(f"`{OWNER}` found nothing of a claim in {text[:80]!r}.")
    return found


TAKEN = "\x00"


def _taker(names: dict[str, Any], found: dict[str, Any], said: dict[str, str]) -> Callable[[re.Match[str]], str]:
    def take(match: re.Match[str]) -> str:
        groups = iter([group for group in match.groups() if group is not None])
        for name, how in names.items():
            value = how(next(groups)) if callable(how) else how
            if name in found and found[name] != value:
                raise ValueError(
                    f"`{OWNER}` read {name} = {found[name]!r} in {said[name]!r} and {name} = {value!r} in {match[0].strip()!r}, "
                    "which contradict each other."
                )
            found[name], said[name] = value, match[0].strip()
        return f" {TAKEN} "

    return take
