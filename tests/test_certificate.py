"""Certificates: the digits against other arithmetic, every field tampered with, and what can't be certified."""

from __future__ import annotations

import copy
import json
import math
import sys
from dataclasses import replace
from decimal import Decimal

import mpmath
import numpy as np
import pytest
from worked_claim import WORKED, changed

from dpaccount.adjacency import Adjacency
from dpaccount.auditing import certificate, check_claim, verify_certificate
from dpaccount.auditing.certificate import _sealed, digest
from dpaccount.auditing.proofs import SENTENCES, End, proved, theorems
from dpaccount.auditing.shuffled import Largest
from dpaccount.cli.main import run
from dpaccount.results import NumericalFailure

FULL = {"noise_multiplier": 20.0, "dataset_size": 500, "steps": 100, "epsilon": 2.0, "delta": 1e-5, "sampler": "full-batch",
        "adjacency": "add-or-remove", "name": "full"}
SHUFFLED = {**WORKED, "sampler": "shuffled", "epochs": 3, "dataset_size": 2560, "adjacency": "zero-out"}


def ends(document):
    return {row["side"]: row for row in document["bounds"]}


# the digits


def test_full_batches_have_the_digits_of_the_closed_form():
    found = ends(certificate(FULL, digits=20))
    with mpmath.workdps(40):
        mu, delta = mpmath.mpf(10) / 20, mpmath.mpf(1e-5)
        root = mpmath.findroot(lambda e: mpmath.ncdf(mu / 2 - e / mu) - mpmath.exp(e) * mpmath.ncdf(-mu / 2 - e / mu) - delta, 2)
        assert mpmath.mpf(found["lower"]["epsilon"]) <= root <= mpmath.mpf(found["upper"]["epsilon"])
    assert Decimal(found["upper"]["epsilon"]) - Decimal(found["lower"]["epsilon"]) == Decimal("1e-19")


def test_the_worked_claim_under_poisson():
    found = ends(certificate({**WORKED, "steps": 14062}))
    assert float(found["lower"]["epsilon"]) == pytest.approx(2.3815969214, abs=1e-7)
    assert found["upper"]["theorem"] == "composition"


def test_one_shuffled_epoch_is_the_event_of_one_threshold():
    found = certificate({**WORKED, "sampler": "shuffled", "epochs": 1, "dataset_size": 59904, "adjacency": "zero-out"})
    event, value = ends(found)["lower"]["event"], ends(found)["lower"]["epsilon"]
    assert (event["scores"], event["least"]) == ([0, 1], 1)
    with mpmath.workdps(40):
        c, s = mpmath.mpf(event["cuts"][0]), mpmath.mpf(1.1)
        p, q = (1 - mpmath.ncdf((c - shift) / s) * mpmath.ncdf(c / s) ** 233 for shift in (2, 1))
        assert abs(mpmath.mpf(value) - mpmath.log((p - mpmath.mpf(1e-5)) / q)) < mpmath.mpf("1e-13")
    assert float(value) == pytest.approx(2.98078354, abs=1e-5)  # the threshold is rounded, so a little less


def test_scores_of_several_epochs_by_plain_convolution():
    found = certificate(SHUFFLED)
    row = ends(found)["lower"]
    cuts, scores, least = (row["event"][name] for name in ("cuts", "scores", "least"))
    tails = []
    for shift in (2.0, 1.0):
        below = np.exp(Largest(shift, 1.1, 10).log_below(np.array(cuts)))
        mass = np.zeros(max(scores) + 1)
        np.add.at(mass, scores, np.diff([0.0, *below, 1.0]))
        tails.append(np.convolve(np.convolve(mass, mass), mass)[least:].sum())
    assert float(row["epsilon"]) == pytest.approx(math.log((tails[0] - 1e-5) / tails[1]), rel=1e-9)
    shown = check_claim(SHUFFLED).lower
    assert 0.98 * shown < float(row["epsilon"]) <= shown


@pytest.mark.parametrize(
    ("changes", "verdict", "theorems"),
    [
        ({"adjacency": "replace-one"}, "refuted", {"opposite-records", "removal-and-addition"}),
        ({"sampler": "shuffled"}, "refuted", {"largest-sums"}),
        ({"sampler": "fixed-order", "adjacency": "zero-out", "epsilon": 55.0}, "holds", {"passes-seen", "each-pass"}),
        ({"epochs": 0.01, "epsilon": 0.07}, "holds", {"largest-output", "connected-dots"}),
        ({"epochs": 0.01, "epsilon": 25.0, "adjacency": "replace-one"}, "holds", {"largest-output", "every-record"}),
        ({**FULL, "tuning_runs": 10}, "undecided", {"composition"}),
        ({**FULL, "noise_seed_bits": 8}, "refuted", {"composition"}),
        ({"released": "final-model", "epsilon": 1.0}, "undecided", {"composition"}),
    ],
)
def test_every_verdict_is_verified(changes, verdict, theorems):
    claim = changes if changes.get("name") else changed(**changes)
    document = json.loads(json.dumps(certificate(claim, digits=12)))
    assert document["verdict"] == verdict
    assert {row["theorem"] for row in document["bounds"]} == theorems
    if changes.get("released"):
        assert "lower" not in ends(document)
    found = verify_certificate(document)
    assert found.verdict == "verified", str(found)
    assert any("on trust" in line for line in str(found).splitlines())


def test_ends_lie_within_those_of_check_claim():
    for changes in ({"sampler": "shuffled", "adjacency": "replace-one", "epochs": 4}, {"sampler": "fixed-order", "adjacency": "zero-out"}):
        judged, found = check_claim(changed(**changes)), ends(certificate(changed(**changes), digits=10))
        assert float(found["lower"]["epsilon"]) <= judged.lower + 1e-6
        assert float(found["upper"]["epsilon"]) == pytest.approx(judged.upper, rel=1e-6)


# tampering


def leaves(value, path=()):
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, (*path, key))
    elif isinstance(value, list) and value:
        for i, item in enumerate(value):
            yield from leaves(item, (*path, i))
    else:
        yield path, value


def other(value):
    if isinstance(value, str):
        return value[:-1] + ("x" if value[-1] != "x" else "y")
    return [99] if value == [] else value + 1 if isinstance(value, int) else value * 1.5


def put(document, path, value):
    changed = copy.deepcopy(document)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return changed


def outcome(document):
    try:
        return verify_certificate(document).verdict
    except ValueError:
        return "refused"


def test_every_field_that_is_changed_is_found():
    document = json.loads(json.dumps(certificate(FULL, digits=8)))
    assert outcome(document) == "verified"
    for path, value in leaves(document):
        found = outcome(put(document, path, other(value)))
        assert found in (("refused", "undecided") if path == ("version",) else ("refused", "refuted")), path


def test_changes_under_a_new_digest_are_found_by_arithmetic():
    document = json.loads(json.dumps(certificate(FULL, digits=10)))
    free = {("written_by",), ("digest",), ("format",), ("version",), ("claim", "name"), ("claim", "dataset_size")}
    for path, value in leaves(document):
        if path in free:
            continue
        changed = put(document, path, other(value))
        changed["digest"] = digest(changed)
        if path == ("claim", "epsilon"):  # a claim of 3 is another one, which holds too
            assert outcome(changed) == "verified"
            changed = put(document, path, 1.5)
            changed["digest"] = digest(changed)
        assert outcome(changed) in ("refused", "refuted"), path
    for row in (0, 1):
        digits = document["bounds"][row]["epsilon"]
        for i, sign in enumerate(digits):
            if sign != ".":
                text = digits[:i] + str((int(sign) + 1) % 10) + digits[i + 1:]
                changed = put(document, ("bounds", row, "epsilon"), text)
                changed["digest"] = digest(changed)
                assert outcome(changed) == "refuted"


def test_events_that_prove_nothing_are_found():
    document = json.loads(json.dumps(certificate(SHUFFLED, digits=8)))
    event = document["bounds"][0]["event"]
    for broken in (
        {**event, "scores": event["scores"][::-1]}, {**event, "cuts": event["cuts"][::-1]}, {**event, "least": 0},
        {**event, "cuts": [*event["cuts"], "9"]}, {"threshold": 3.0}, {},
    ):
        changed = put(document, ("bounds", 0, "event"), broken)
        changed["digest"] = digest(changed)
        assert outcome(changed) == "refuted"


def test_no_event_of_one_phase_is_taken_for_the_whole_run():
    """The least noise at the largest rate for all steps is another run: by its largest output this claim would be refuted."""
    claim = {"phases": [[0.09, 0.001, 1], [5.0, 0.001, 1000]], "epsilon": 4.0, "delta": 0.01, "adjacency": "add-or-remove",
             "sampler": "poisson", "unit": "record", "released": "all-iterates"}
    judged, relation = check_claim(claim), Adjacency.ADD_OR_REMOVE
    assert judged.lower < 1.0
    as_if_one = replace(judged.sheet.run, phases=())
    for theorem, event in (("largest-output", {"threshold": 0.6}), ("connected-dots", {})):
        assert theorem in dict(theorems("poisson", relation, as_if_one))["lower" if event else "upper"]
        with pytest.raises(NumericalFailure, match="phases"):
            proved(theorem, "lower" if event else "upper", judged.sheet.run, relation, event, 8)
    low = proved("largest-output", "lower", as_if_one, relation, {"threshold": 0.6}, 8)
    assert float(low) > claim["epsilon"]
    forged = _sealed(judged, [End("lower", "largest-output", low, {"threshold": 0.6})], 8)
    assert forged["verdict"] == "refuted"
    found = verify_certificate(forged)
    assert found.verdict == "refuted"
    assert "that is no theorem for this end of this claim" in found.wrong[0]
    honest = certificate(claim, digits=8)
    assert {row["theorem"] for row in honest["bounds"]} == {"every-record"}
    assert verify_certificate(honest).verdict == "verified"


def test_full_batches_in_phases_have_every_record():
    """A sampling probability below 1 beside them would be an end by sampling, which a full batch has none of."""
    claim = {"phases": [[2.0, 0.5, 10], [3.0, 1.0, 5]], "epsilon": 8.0, "delta": 1e-5, "adjacency": "add-or-remove",
             "sampler": "full-batch"}
    with pytest.raises(ValueError, match=r"phases\[0\] = .* sampler = 'full-batch'.* probability 1"):
        check_claim(claim)
    upper = certificate({**claim, "phases": [[2.0, 1.0, 10], [3.0, 1.0, 5]]}, digits=8)["bounds"][1]["epsilon"]
    assert upper == "8.4793137"


def test_another_theorem_or_end_is_found():
    document = json.loads(json.dumps(certificate(FULL, digits=8)))
    for theorem in SENTENCES:
        if theorem != "composition":
            changed = put(put(document, ("bounds", 1, "theorem"), theorem), ("bounds", 1, "says"), SENTENCES[theorem])
            changed["digest"] = digest(changed)
            assert outcome(changed) == "refuted"
    twice = copy.deepcopy(document)
    twice["bounds"].append(twice["bounds"][0])
    twice["digest"] = digest(twice)
    assert outcome(twice) == "refuted"


def test_a_later_version_is_not_judged():
    found = verify_certificate({"format": "dpaccount-certificate", "version": 2, "whatever": 1})
    assert found.verdict == "undecided"
    assert "version 2" in found.says


# what is refused


@pytest.mark.parametrize(
    ("claim", "words"),
    [
        ({k: v for k, v in WORKED.items() if k != "sampler"}, "missing: sampler"),
        ({**WORKED, "noise_multiplier": 0.0}, "without noise"),
        ({**WORKED, "samplr": "poisson"}, "did you mean 'sampler'"),
    ],
)
def test_what_cannot_be_certified(claim, words):
    with pytest.raises(ValueError, match=words):
        certificate(claim)
    with pytest.raises(ValueError, match="digits"):
        certificate(WORKED, digits=3)


def test_what_is_no_certificate():
    whole = certificate(FULL, digits=6)
    for bad in ({}, "{", "[]", 3, {**whole, "more": 1}, {k: v for k, v in whole.items() if k != "bounds"}, {**whole, "digits": "6"}):
        with pytest.raises((ValueError, OSError, TypeError)):
            verify_certificate(bad)


def test_without_the_extra_it_says_so(monkeypatch, capsys):
    document = certificate(FULL, digits=6)
    monkeypatch.setitem(sys.modules, "flint", None)
    for call in (lambda: certificate(FULL), lambda: verify_certificate(document)):
        with pytest.raises(ImportError, match=r"dpaccount\[certify\]"):
            call()
    assert run(["verify", "none.json"]) == 64
    assert "dpaccount[certify]" in capsys.readouterr().err


def test_a_name_that_stands_twice_is_refused():
    text = json.dumps(certificate(FULL))
    for forged in ('"verdict": "refuted"', '"claim": {}'):
        with pytest.raises(ValueError, match="stands twice"):
            verify_certificate("{" + forged + ", " + text[1:])
    with pytest.raises(ValueError, match="stands twice"):
        verify_certificate(text.replace('"claim": {', '"claim": {"epsilon": 1.0, '))


@pytest.mark.parametrize("change", [
    {"side": ["lower"]}, {"side": None}, {"theorem": 3}, {"says": []}, {"epsilon": 2.0}, {"event": []},
    {"event": {"threshold": 10**400}}, {"event": {"cuts": [10**400], "scores": [0, 1], "least": 1}},
])
def test_ends_of_other_types_are_wrong_and_never_a_crash(change):
    for claim in (FULL, SHUFFLED):
        document = certificate(claim)
        document["bounds"][0].update(change)
        document["digest"] = digest(document)
        assert verify_certificate(document).verdict == "refuted"


def test_hardly_any_noise_is_refused_here_too():
    document = certificate(FULL)
    document["claim"]["noise_multiplier"] = 1e-4
    document["digest"] = digest(document)
    assert verify_certificate(document).verdict == "refuted"


def test_no_text_of_a_document_moves_the_cursor():
    document = certificate(FULL)
    document["because"] = "x\n\x1b[1G\x1b[2KVERIFIED"
    document["digest"] = digest(document)
    found = verify_certificate(document)
    assert found.verdict == "refuted"
    assert all(text.isprintable() for _, text in found.lines())
    with pytest.raises(ValueError, match="control characters"):
        check_claim({**FULL, "name": "a\nHOLDS"})
