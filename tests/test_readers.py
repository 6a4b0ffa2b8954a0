"""Readers: histories, events, statements and lines; what is not said stays missing, what is not understood is named."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import NamedTuple

import pytest

from dpaccount.auditing import check_claim, read_event, read_opacus, read_text

ISSUE = "sigma=1.1, batch 256 of 60000, 60 epochs, shuffled, (2.9, 1e-5)-DP"


def stated(claim):
    return {name: value for name, value in vars(claim).items() if value is not None}


def line(text, **fields):
    [claim] = read_text(text, **fields)
    return stated(claim)


# a line of text


def test_the_line_of_the_documentation():
    assert line(ISSUE) == {
        "noise_multiplier": 1.1, "batch_size": 256, "dataset_size": 60000, "epochs": 60, "sampler": "shuffled", "epsilon": 2.9,
        "delta": 1e-5,
    }
    assert check_claim(read_text(ISSUE)[0]).missing == ("adjacency",)
    assert check_claim(read_text(ISSUE, adjacency="zero-out")[0]).verdict == "refuted"


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("DP-SGD with noise multiplier 1.1, batch size 256, 60,000 examples, 60 epochs, Poisson sampling, add/remove adjacency: "
         "epsilon = 2.9 at delta = 10^-5, RDP accountant",
         {"noise_multiplier": 1.1, "batch_size": 256, "dataset_size": 60000, "epochs": 60, "sampler": "poisson", "epsilon": 2.9,
          "delta": 1e-5, "adjacency": "add-or-remove", "accountant": "rdp"}),
        ("(ε, δ) = (2.9, 1e-5), σ=1.1; q = 0.01; 1000 steps; replace-one",
         {"epsilon": 2.9, "delta": 1e-5, "noise_multiplier": 1.1, "sampling_probability": 0.01, "steps": 1000,
          "adjacency": "replace-one"}),
        ("60k records; lot size 600; eps: 8; delta 1/60000",
         {"dataset_size": 60000, "batch_size": 600, "epsilon": 8.0, "delta": 1 / 60000}),
        ("(3, 100e-6)-differential privacy", {"epsilon": 3.0, "delta": 1e-4}),
        ("user-level, at most 5 examples per user, best of 10 runs", {"unit": "user", "records_per_user": 5, "tuning_runs": 10}),
        ("full-batch, final model only, per-example clipping, clip norm 0.5, noise std 0.55",
         {"sampler": "full-batch", "released": "final-model", "clipping": "per-example", "clipping_norm": 0.5, "noise_std": 0.55}),
        ("eps=2.9, eps = 2.9", {"epsilon": 2.9}),
    ],
)
def test_lines(text, fields):
    assert line(text) == fields


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sigma 1.1, sigma 1.2", ("noise_multiplier = 1.1", "noise_multiplier = 1.2", "contradict")),
        ("eps=3, wibble frob", ("'wibble frob'",)),
        ("noise 1.1, eps 3", ("noise", "'noise multiplier'", "'noise std'")),
        ("sampled without replacement, sigma=1", ("without replacement", "'shuffled'", "fixed-size")),
        ("sigma=1.1.2", ("sigma=1.1.2",)),
        ("epsilon >= 3", ("epsilon >=", "upper bound")),
        ("60 epochs of 234 steps", ("epochs of 234 steps",)),
        ("20 steps per epoch", ("per epoch",)),
        ("batch 256, n=100", ("batch_size = 256", "dataset_size = 100")),
        ("sigma=-1", ("sigma",)),
        ("", ("found nothing",)),
        ("x" * 20_000, ("10000",)),
    ],
)
def test_words_that_are_not_understood_are_named(text, words):
    with pytest.raises(ValueError, match=r"read_text|check_claim") as caught:
        read_text(text)
    for word in words:
        assert word in str(caught.value)


STATEMENT = """DP-SGD performed over 60000 examples with 256 examples per iteration, noise
multiplier 1.1 for 60 epochs with microbatching, and at most 2 examples per user.

This privacy guarantee protects the release of all model checkpoints in addition
to the final model.

Example-level DP with add-or-remove-one adjacency at delta = 1e-05 computed with
RDP accounting:
    Epsilon with each example occurring once per epoch:        56.975
    Epsilon assuming Poisson sampling (*):                      2.597

User-level DP with add-or-remove-one adjacency at delta = 1e-05 computed using
RDP accounting and group privacy:
    Epsilon with each example occurring once per epoch:      inf (**)
    Epsilon assuming Poisson sampling (*):                      7.000
"""


def test_a_privacy_statement_makes_a_claim_of_each_epsilon():
    claims = read_text(STATEMENT)
    assert [(c.epsilon, c.sampler, c.unit, c.records_per_user) for c in claims] == [
        (56.975, "once-per-epoch", "record", None), (2.597, "poisson", "record", None), (7.0, "poisson", "user", 2),
    ]
    assert {(c.clipping, c.released, c.accountant, c.delta) for c in claims} == {("microbatch", "all-iterates", "rdp", 1e-5)}
    with pytest.raises(ValueError, match="privacy statement"):
        read_text(STATEMENT.replace("iteration", "turn"))


def test_a_statement_is_judged_for_the_order_that_it_is_about():
    """The first epsilon is that of an arbitrary order, which is not Poisson sampling, and not known to be a fixed one."""
    alone = STATEMENT.replace("with microbatching", "without microbatching")
    once, poisson, _ = [check_claim(claim) for claim in read_text(alone)]
    assert (once.verdict, poisson.verdict) == ("undecided", "holds")
    assert once.upper == math.inf  # under add-or-remove a record more may move others
    assert any("zero-out" in text and "54.0458" in text for text in once.changes)
    for sampler in ("shuffled", "fixed-order"):  # as the training really was
        real = [check_claim(claim) for claim in read_text(alone, sampler=sampler)][:2]
        assert [found.verdict for found in real] == ["undecided", "refuted"]
    assert line("sigma=1.1, each example once per epoch")["sampler"] == "once-per-epoch"
    assert line("sigma=1.1, each example occurring once per epoch", sampler="shuffled")["sampler"] == "shuffled"


def test_microbatches_are_charged_for_by_the_statement():
    """TensorFlow Privacy halves the noise multiplier for them; others may move to other microbatches, so that proves nothing here."""
    _, poisson, _ = [check_claim(c) for c in read_text(STATEMENT.replace("2.597", "15.0"))]
    assert poisson.verdict == "undecided"
    assert "which the claim covers" in poisson.findings[8].text


# Opacus


class RDPAccountant:
    """As Opacus' accountants look from outside."""

    def __init__(self, history):
        self.history = history

    @classmethod
    def mechanism(cls):
        return "rdp"

    def state_dict(self):
        return {"history": self.history, "mechanism": self.__class__.mechanism}


HISTORY = [(1.1, 256 / 60000, 14062)]
READ = {"noise_multiplier": 1.1, "sampling_probability": 256 / 60000, "steps": 14062}


def test_histories_in_memory_and_in_json(tmp_path):
    accountant = RDPAccountant(HISTORY)
    assert stated(read_opacus(HISTORY)) == READ
    state = {"history": [list(row) for row in HISTORY], "mechanism": "rdp"}
    for found in (accountant, accountant.state_dict(), state, json.dumps(state), {"privacy_accountant_state_dict": state}):
        assert stated(read_opacus(found)) == {**READ, "accountant": "rdp"}
    path = tmp_path / "history.json"
    path.write_text(json.dumps(state), encoding="utf-8")
    for spec in (accountant, HISTORY, path, str(path)):
        found = check_claim(spec)
        assert (found.verdict, found.missing) == ("undecided", ("sampler", "adjacency", "delta", "epsilon"))
    told = read_opacus(HISTORY, sampler="poisson", adjacency="add-or-remove", delta=1e-5, epsilon=2.9)
    assert check_claim(told).upper == pytest.approx(2.3815969214, abs=1e-7)


def test_phases_of_a_history():
    claim = read_opacus([(1.0, 0.01, 250), (2.0, 0.02, 500), (1.0, 0.01, 250)], sampler="poisson", adjacency="add-or-remove", delta=1e-6)
    assert claim.phases == ((1.0, 0.01, 500), (2.0, 0.02, 500))
    found = check_claim({**stated(claim), "epsilon": 1.9})
    assert found.verdict == "holds"
    assert found.upper == pytest.approx(1.8787693888, abs=1e-7)
    assert check_claim({**stated(claim), "epsilon": 1.8, "released": "all-iterates"}).verdict == "refuted"


@pytest.mark.parametrize(
    ("history", "words"),
    [
        ([], "at least one"), ("[]", "at least one"), ([(1, 2)], "history[0]"), ({"mechanism": "rdp"}, "'history'"),
        ({"history": HISTORY, "mechanism": "foo"}, "'rdp', 'prv', 'gdp'"), ({"history": HISTORY, "model": 1}, "'model'"),
        ([(1.1, 256, 10)], "(0, 1]"), ([(1.1, 0.01, 0.5)], "history[0]"), ([(-1.0, 0.01, 5)], "-1"), ("\x80\x04\x95", "pickle"),
    ],
)
def test_what_is_no_history_is_refused(history, words):
    with pytest.raises((ValueError, TypeError)) as caught:
        read_opacus(history)
    assert words in str(caught.value)


def test_a_pickle_is_never_opened(tmp_path):
    path = tmp_path / "checkpoint.json"
    path.write_bytes(b"\x80\x04\x95\xff\xfe")
    with pytest.raises(ValueError, match="never opened"):
        check_claim(path)


def test_what_was_read_and_what_is_told_must_agree():
    with pytest.raises(ValueError, match=r"steps = 3.*steps = 14062"):
        read_opacus(HISTORY, steps=3)


# dp-accounting


@dataclass
class GaussianDpEvent:
    noise_multiplier: float


@dataclass
class PoissonSampledDpEvent:
    sampling_probability: float
    event: object


@dataclass
class SelfComposedDpEvent:
    event: object
    count: int


@dataclass
class ComposedDpEvent:
    events: list


@dataclass
class LaplaceDpEvent:
    noise_multiplier: float


class _Wrapped(NamedTuple):
    module_name: str
    class_name: str
    noise_multiplier: float


RUN = SelfComposedDpEvent(PoissonSampledDpEvent(0.01, GaussianDpEvent(1.0)), 1000)
RUN_FIELDS = {"noise_multiplier": 1.0, "sampling_probability": 0.01, "steps": 1000, "sampler": "poisson"}


def test_events_as_objects_text_and_tables():
    table = {"class_name": "SelfComposedDpEvent", "module_name": "dp_accounting.dp_event", "count": 1000, "event": {
        "class_name": "PoissonSampledDpEvent", "sampling_probability": 0.01,
        "event": {"class_name": "GaussianDpEvent", "noise_multiplier": 1.0},
    }}
    text = "dp_accounting.SelfComposedDpEvent(PoissonSampledDpEvent(0.01, event=GaussianDpEvent(noise_multiplier=1.0)), count=1000)"
    for event in (RUN, repr(RUN), str(RUN), text, table):
        assert stated(read_event(event)) == RUN_FIELDS
        assert check_claim(event).missing == ("adjacency", "delta", "epsilon")
    assert stated(read_event(_Wrapped("m", "GaussianDpEvent", 2.0))) == {
        "noise_multiplier": 2.0, "sampling_probability": 1.0, "steps": 1, "sampler": "full-batch",
    }


def test_the_events_of_dp_accounting_itself():
    events = pytest.importorskip("dp_accounting.dp_event", reason="dp-accounting is not installed")
    run = events.SelfComposedDpEvent(events.PoissonSampledDpEvent(0.01, events.GaussianDpEvent(1.0)), 1000)
    for event in (run, str(run), run.to_named_tuple(), repr(run.to_named_tuple())):
        assert stated(read_event(event)) == RUN_FIELDS
    drawn = events.SampledWithoutReplacementDpEvent(60000, 256, events.GaussianDpEvent(1.0))
    assert read_event(events.SelfComposedDpEvent(drawn, 10)).sampler == "fixed-size"


def test_phases_of_events():
    found = read_event(ComposedDpEvent([RUN, SelfComposedDpEvent(GaussianDpEvent(2.0), 3), RUN]))
    assert (found.sampler, found.phases) == ("poisson", ((1.0, 0.01, 2000), (2.0, 1.0, 3)))


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (LaplaceDpEvent(1.0), "LaplaceDpEvent"), (ComposedDpEvent([]), "releases something"), (3, "DpEvent"),
        (PoissonSampledDpEvent(0.1, ComposedDpEvent([GaussianDpEvent(1.0), GaussianDpEvent(1.0)])), "one GaussianDpEvent"),
        ("os.system('x')", "no DpEvent"), ("GaussianDpEvent(__import__('os'))", "no DpEvent"), ("GaussianDpEvent(1.0", "could not read"),
        ("GaussianDpEvent(sigma=1.0)", "'sigma'"), ("GaussianDpEvent(1.0, 2.0)", "fields of GaussianDpEvent"),
        ("GaussianDpEvent([x for x in y])", "could not read"),
        ("SelfComposedDpEvent(" * 60 + "GaussianDpEvent(1.0)" + ", 1)" * 60, "nested"),
        ({"class_name": "GaussianDpEvent"}, "'noise_multiplier'"), (PoissonSampledDpEvent(1.5, GaussianDpEvent(1.0)), "(0, 1]"),
    ],
)
def test_events_that_cannot_be_read_are_named(event, words):
    with pytest.raises((ValueError, TypeError)) as caught:
        read_event(event)
    assert words in str(caught.value)


@pytest.mark.parametrize("text", [
    "sigma=1.1, q=0.01, 1000 steps, (1.5, 0.1)-RDP", "(1.5, 0.1) Renyi DP, sigma 2", "Renyi DP epsilon = 2, delta=1e-5",
    "RDP with order 8, epsilon 2",
])
def test_renyi_claims_are_not_read_as_epsilon_and_delta(text):
    with pytest.raises(ValueError, match="Renyi DP has an order"):
        read_text(text)


def test_the_accountant_is_still_read():
    (claim,) = read_text("sigma=1.1, q=0.01, 1000 steps, (2, 1e-5)-DP, RDP accountant")
    assert (claim.accountant, claim.epsilon) == ("rdp", 2.0)
