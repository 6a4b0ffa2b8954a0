"""The JSON form: it round-trips bit for bit, and refuses what it does not know."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpaccount import serial
from dpaccount.bestof import BestOf
from dpaccount.curves.profile import PrivacyProfile
from dpaccount.mechanisms.atomic import AtomicStep
from dpaccount.mechanisms.curve import CurvePair
from dpaccount.mechanisms.discrete import DiscreteGaussian, DiscreteLaplace
from dpaccount.mechanisms.exponential import ExponentialMechanism
from dpaccount.mechanisms.finite import FinitePair
from dpaccount.mechanisms.gaussian import Gaussian
from dpaccount.mechanisms.gdp import GaussianDP
from dpaccount.mechanisms.laplace import Laplace
from dpaccount.mechanisms.pure import ApproximateDP, PureDP
from dpaccount.mechanisms.response import RandomizedResponse
from dpaccount.renyi import RenyiBound
from dpaccount.sampling.fixed_size import FixedSizeSampled
from dpaccount.sampling.poisson import PoissonSampled
from dpaccount.sampling.schedule import NoiseSchedule
from dpaccount.serial import from_json, to_dict, to_json

THIRD = 1 / 3  # has no short decimal
SAMPLED = PoissonSampled(Gaussian(1.1), THIRD)
EVERY_KIND = {
    "gaussian": Gaussian(THIRD),
    "laplace": Laplace(THIRD),
    "discrete-gaussian": DiscreteGaussian(THIRD, 3),
    "discrete-laplace": DiscreteLaplace(THIRD, 2),
    "randomized-response": RandomizedResponse(THIRD, 5),
    "exponential-mechanism": ExponentialMechanism(THIRD),
    "pure-dp": PureDP(THIRD),
    "gaussian-dp": GaussianDP(THIRD, "replace-one"),
    "approximate-dp": ApproximateDP(THIRD, 1e-300),
    "finite-pair": FinitePair((0.1, 0.2, 0.7), (0.3, 0.3, 0.4)),
    "curve-pair": CurvePair((-0.5, THIRD), (0.5, 0.01), False),
    "poisson-sampled": SAMPLED,
    "fixed-size-sampled": FixedSizeSampled(Gaussian(4.0), 100, 1000),
    "reversed": SAMPLED.under("add-or-remove")[1],
    "noise-schedule": NoiseSchedule([THIRD, 2.0, 1e-3], 0.1, [3, 1, 10**9]).reversed(),
    "composition": 10**9 * SAMPLED + 3 * Laplace(2.0) + Gaussian(5.0),
    "zcdp": RenyiBound.zcdp(THIRD),
    "rdp-table": 7 * RenyiBound.from_table([1.5, 2, 64.0], [0.1, THIRD, 9.0]),
    "renyi-bound": RenyiBound.zcdp(0.1) + 2 * RenyiBound.from_table([2], [0.5]) + 5 * SAMPLED,
    "best-of": BestOf(PureDP(0.1), 4 * RenyiBound.zcdp(0.005), 2 * SAMPLED + PureDP(1.0)),
}


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_every_kind_comes_back_equal(kind):
    guarantee = EVERY_KIND[kind]
    text = to_json(guarantee)
    back = from_json(text)
    assert back == guarantee
    assert hash(back) == hash(guarantee)
    assert to_json(back) == text
    assert f'"kind": "{kind}"' in text


def test_the_documented_table_lists_exactly_the_kinds():
    lines = serial.__doc__.splitlines()
    rules = [i for i, line in enumerate(lines) if line.startswith("=====")]
    named = {name.strip() for row in lines[rules[1] + 1 : rules[2]] for name in row[:23].split(",")}
    assert named == set(EVERY_KIND)


@given(st.floats(1e-100, 1e100), st.floats(1e-100, 1.0), st.integers(1, 10**9))
def test_floats_keep_every_bit(noise, q, count):
    run = count * PoissonSampled(Gaussian(noise), q)
    assert from_json(to_json(run)) == run


@given(st.lists(st.floats(0.001, 1.0), min_size=2, max_size=9))
def test_probability_vectors_are_not_normalised_twice(weights):
    total = sum(weights)
    p = tuple(w / total for w in weights)
    pair = FinitePair(p, p[::-1])
    assert from_json(to_json(pair)) == pair


def test_text_bytes_and_dictionaries_are_read_alike():
    run = 3 * SAMPLED
    text = to_json(run, indent=2)
    assert from_json(text) == from_json(text.encode()) == from_json(to_dict(run)) == run


def test_a_saved_first_phase_goes_on_as_if_never_saved():
    first, second = 500 * PoissonSampled(Gaussian(1.0), 0.01), 500 * PoissonSampled(Gaussian(2.0), 0.02)
    resumed = PrivacyProfile(from_json(to_json(first)) + second)
    assert float(resumed.epsilon(delta=1e-6)) == float(PrivacyProfile(first + second).epsilon(delta=1e-6))


def test_nothing_is_pickled():
    code = "import sys, dpaccount.serial as s; s.from_json(s.to_json(s.Gaussian(1.0))); print('pickle' in dir(s))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"


def _document(node, **top):
    return json.dumps({"format": "dpaccount", "version": 1, "guarantee": node, **top})


GAUSSIAN = {"kind": "gaussian", "noise_multiplier": 1.0}
DEEP = GAUSSIAN
for _ in range(40):
    DEEP = {"kind": "poisson-sampled", "step": DEEP, "sampling_probability": 0.5}

REFUSED = [
    ("{", ValueError, r"from_json\(document=.*valid JSON"),
    (b"\xff", ValueError, r"from_json\(document="),
    ("[1]", TypeError, "JSON object"),
    (None, TypeError, "JSON object"),
    ("[" * 100000, ValueError, "nested"),
    ("{}", ValueError, r"from_json\(format="),
    ('{"format": "other", "version": 1, "guarantee": {}}', ValueError, r"from_json\(format=.*'other'"),
    (_document(GAUSSIAN, version=2), ValueError, "version.*got 2.*later dpaccount"),
    (_document(GAUSSIAN, version=0), ValueError, "version.*got 0"),
    (_document(GAUSSIAN, version=True), ValueError, "version"),
    (_document(GAUSSIAN, version="1"), ValueError, "version"),
    (_document(GAUSSIAN, extra=1), ValueError, r"document\.extra"),
    ('{"format": "dpaccount", "version": 1}', ValueError, r"document\.guarantee.*missing"),
    ('{"format": "dpaccount", "version": 1, "version": 1, "guarantee": {}}', ValueError, r"version=.*given once"),
    (_document([]), TypeError, r"guarantee=.*JSON object"),
    (_document({"kind": "gauss"}), ValueError, "guarantee.kind.*'gauss'"),
    (_document({"kind": None}), TypeError, "guarantee.kind"),
    (_document({"kind": "os.system"}), ValueError, "guarantee.kind"),
    (_document({"kind": "gaussian"}), ValueError, "guarantee.noise_multiplier.*missing"),
    (_document({**GAUSSIAN, "sensitivity": 1}), ValueError, "guarantee.sensitivity.*absent"),
    (_document({**GAUSSIAN, "noise_multiplier": True}), TypeError, "noise_multiplier.*a number"),
    (_document({**GAUSSIAN, "noise_multiplier": "1"}), TypeError, "noise_multiplier.*a number"),
    (_document({**GAUSSIAN, "noise_multiplier": None}), TypeError, "noise_multiplier.*a number"),
    (_document({**GAUSSIAN, "noise_multiplier": -1}), ValueError, r"Gaussian\(noise_multiplier="),
    (_document({**GAUSSIAN, "noise_multiplier": 10**400}), ValueError, "finite double"),
    (_document(GAUSSIAN).replace("1.0", "1e999"), ValueError, "finite double"),
    (_document(GAUSSIAN).replace("1.0", "NaN"), ValueError, "NaN"),
    (_document(GAUSSIAN).replace("1.0", "Infinity"), ValueError, "Infinity"),
    (_document({"kind": "discrete-gaussian", "noise_multiplier": 1.0, "sensitivity": 1.0}), TypeError, "sensitivity.*whole"),
    (_document({"kind": "composition", "parts": []}), ValueError, "parts.*non-empty"),
    (_document({"kind": "composition", "parts": [{"count": 0, "step": GAUSSIAN}]}), ValueError, r"parts\[0\]\.count"),
    (_document({"kind": "composition", "parts": [{"count": 1.0, "step": GAUSSIAN}]}), TypeError, r"parts\[0\]\.count"),
    (_document({"kind": "composition", "parts": [{"count": 1, "step": {"kind": "best-of", "options": [GAUSSIAN]}}]}),
     ValueError, r"parts\[0\]\.step.*one step"),
    (_document({"kind": "poisson-sampled", "step": GAUSSIAN, "sampling_probability": 1.28}), ValueError, "sampling_probability"),
    (_document({"kind": "curve-pair", "epsilon": [0.0], "delta": [0.1], "symmetric": 1}), TypeError, "true or false"),
    (_document({"kind": "finite-pair", "p": [0.5, 0.6], "q": [0.5, 0.5]}), ValueError, "FinitePair"),
    (_document({"kind": "renyi-bound", "sources": [{"count": 1, "source": {"kind": "formula"}}]}), ValueError, "zcdp, rdp-table"),
    (_document({"kind": "renyi-bound", "sources": [{"count": 1, "source": {"kind": "zcdp", "rho": -1}}]}), ValueError, "rho"),
    (_document(DEEP), ValueError, "nested at most"),
]


@pytest.mark.parametrize(("document", "kind", "message"), REFUSED, ids=range(len(REFUSED)))
def test_what_is_not_known_is_refused_in_the_one_shape(document, kind, message):
    with pytest.raises(kind, match=message) as caught:
        from_json(document)
    assert str(caught.value).startswith("`")
    assert len(str(caught.value)) < 500


def test_a_formula_cannot_be_stored_and_the_message_says_what_can():
    with pytest.raises(ValueError, match=r"`to_json\(guarantee=...\)`.*from_table"):
        to_json(RenyiBound.from_function(lambda a: a) + SAMPLED)


@dataclass(frozen=True)
class Homemade(AtomicStep):
    """A step of a user's own."""

    facts = PureDP(1.0).facts

    def atoms(self):
        return PureDP(1.0).atoms()

    def reversed(self):
        return self

    def under(self, adjacency):
        return (self,)


@pytest.mark.parametrize("other", [Homemade(), 3 * Homemade(), PoissonSampled(Homemade(), 0.5), "gaussian", None, PrivacyProfile])
def test_what_has_no_json_form_is_refused(other):
    with pytest.raises(TypeError, match=r"`to_json\(guarantee=...\)`"):
        to_json(other)


def test_an_exchange_mixture_is_refused_by_name():
    mixture = SAMPLED.under("replace-one")[0]
    with pytest.raises(TypeError, match="AdditiveMixture has no kind"):
        to_json(mixture)
