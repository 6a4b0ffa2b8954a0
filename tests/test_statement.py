"""Privacy statements, the numbers they print, and the BibTeX of what was used."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpaccount._bibliography import BIBLIOGRAPHY
from dpaccount.bestof import BestOf
from dpaccount.citations import citations, cited
from dpaccount.curves.profile import PrivacyProfile
from dpaccount.mechanisms.curve import CurvePair
from dpaccount.mechanisms.discrete import DiscreteGaussian, DiscreteLaplace
from dpaccount.mechanisms.exponential import ExponentialMechanism
from dpaccount.mechanisms.finite import FinitePair
from dpaccount.mechanisms.gaussian import Gaussian
from dpaccount.mechanisms.laplace import Laplace
from dpaccount.mechanisms.pure import ApproximateDP, PureDP
from dpaccount.mechanisms.response import RandomizedResponse
from dpaccount.renyi import RenyiBound
from dpaccount.sampling.fixed_size import FixedSizeSampled
from dpaccount.sampling.poisson import PoissonSampled
from dpaccount.statement import STYLES, mechanism_text, privacy_statement, shown_down, shown_up
from dpaccount.training import TrainingRun

RUN = TrainingRun(dataset_size=6000, batch_size=6, accumulation=10, epochs=3, noise_multiplier=1.0)
SAMPLED = PoissonSampled(Gaussian(1.0), 0.01)

# statements


@pytest.mark.parametrize("style", STYLES)
def test_a_statement_says_everything_it_must(style):
    text = privacy_statement(RUN, delta=1e-5, style=style)
    for part in ("differentially private", "noise multiplier 1", "60/6000", "0.01", "300", "add-or-remove", "one record is added",
                 "[", "certified, every error is bounded", "dpaccount", "Poisson"):
        assert part in text


def test_the_claimed_epsilon_is_rounded_up_and_no_more():
    text = privacy_statement(RUN, delta=1e-5)
    claimed = float(re.search(r"epsilon = (\S+) and", text)[1])
    true = float(RUN.epsilon(delta=1e-5))
    assert true <= claimed <= true * (1 + 1e-4)


def test_delta_is_computed_when_epsilon_is_given():
    text = privacy_statement(Gaussian(1.0), epsilon=1.0)
    assert "epsilon = 1 and delta = 0.12694." in text  # 0.126936737506643946
    assert "delta in [0.126936737, 0.126936738]" in text


def test_certified_brackets_are_called_so():
    assert "certified" in privacy_statement(Laplace(1.0), epsilon=0.5)
    assert "certified" in privacy_statement(1000 * PoissonSampled(Laplace(1.0), 0.01), epsilon=0.5)
    text = privacy_statement(PrivacyProfile(1000 * PoissonSampled(Laplace(1.0), 0.01), adjacency="replace-one"), epsilon=0.5)
    assert "certified" not in text
    assert "estimated, not bounded" in text


def test_what_a_reader_must_hear_is_in_the_statement():
    assert "1/dataset_size" in privacy_statement(RUN, delta=1e-3)
    assert "not proved" in privacy_statement(PrivacyProfile(SAMPLED, adjacency="replace-one"), delta=1e-5)


def test_compositions_list_their_parts():
    text = privacy_statement(3 * SAMPLED + Laplace(2.0), epsilon=0.3)
    assert "3 x Gaussian, noise multiplier 1, Poisson, q = 0.01" in text
    assert "1 x Laplace, noise multiplier 2" in text
    both = privacy_statement(BestOf(PureDP(1.0), RenyiBound.zcdp(0.5)), delta=1e-5)
    assert "any 1-DP mechanism" in both
    assert "0.5-zCDP" in both


def test_latex_has_no_bare_special_characters():
    text = privacy_statement(RUN, delta=1e-5, style="latex")
    assert not re.search(r"(?<!\\)[%#&_]", text)
    assert r"\delta = 10^{-5}" in text
    assert text.count("{") == text.count("}")


def test_a_cited_statement_ends_with_bibtex():
    assert privacy_statement(RUN, delta=1e-5, cite=True).count("@inproceedings") >= 3
    assert "@" not in privacy_statement(RUN, delta=1e-5)


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({}, TypeError, "exactly one"),
        ({"delta": 1e-5, "epsilon": 1.0}, TypeError, "exactly one"),
        ({"delta": 1e-5, "style": "html"}, ValueError, "style"),
        ({"delta": 2.0}, ValueError, "delta"),
    ],
)
def test_bad_questions_are_refused(arguments, kind, message):
    with pytest.raises(kind, match=message):
        privacy_statement(RUN, **arguments)


def test_a_statement_about_something_else_is_refused():
    with pytest.raises(TypeError, match=r"`privacy_statement\(subject=...\)`"):
        privacy_statement(1.0, delta=1e-5)


@pytest.mark.parametrize(
    "step",
    [
        Gaussian(1.0), Laplace(1.0), DiscreteGaussian(1.0), DiscreteLaplace(1.0), RandomizedResponse(1.0),
        ExponentialMechanism(1.0), PureDP(1.0), ApproximateDP(1.0, 0.1), SAMPLED, FixedSizeSampled(Gaussian(1.0), 1, 10),
    ],
)
def test_every_mechanism_has_words(step):
    assert "(" not in mechanism_text(step).replace("(1, 0.1)", "")


# numbers


@given(st.floats(1e-290, 1e290), st.integers(2, 12))
def test_rounding_goes_to_its_side_and_one_digit_at_most(value, digits):
    up, down = float(shown_up(value, digits)), float(shown_down(value, digits))
    assert down <= value <= up
    assert up - down <= 1.0001 * value * 10.0 ** (1 - digits)


@pytest.mark.parametrize(("value", "up"), [(1e-5, "1e-05"), (2.0, "2"), (0.0, "0"), (float("inf"), "inf"), (1.23451, "1.2346")])
def test_short_numbers_stay_as_they_were_typed(value, up):
    assert shown_up(value, 5) == up


# citations

ZDW, ADCKS, DGKKM = "zhu2022optimal", "alghamdi2023saddle", "doroshenko2022connect"
USED = [
    (Gaussian(1.0), {"balle2018improving"}),
    (10 * Gaussian(1.0), {"balle2018improving", "dong2022gaussian", ZDW}),
    (PrivacyProfile(10 * Gaussian(1.0)), {"balle2018improving", "dong2022gaussian", ZDW}),
    (PrivacyProfile(10 * SAMPLED), {"balle2018improving", "balle2018privacy", ZDW, ADCKS}),
    (PoissonSampled(Gaussian(1.0), 1.0), {"balle2018improving"}),
    (PrivacyProfile(10 * SAMPLED, adjacency="replace-one"), {"balle2018improving", "balle2018privacy", ZDW, ADCKS}),
    (RUN, {"abadi2016deep", "balle2018improving", "balle2018privacy", ZDW, ADCKS}),
    (FixedSizeSampled(Gaussian(4.0), 10, 100), {"balle2018improving", "balle2018privacy"}),
    (Laplace(1.0), {"dwork2006calibrating"}),
    (DiscreteGaussian(1.0), {"canonne2020discrete"}),
    (DiscreteLaplace(1.0), {"ghosh2009universally"}),
    (RandomizedResponse(1.0), {"warner1965randomized"}),
    (ExponentialMechanism(1.0), {"mcsherry2007mechanism", "dong2020optimal"}),
    (5 * ApproximateDP(1.0, 1e-6), {"kairouz2015composition", ZDW}),
    (CurvePair((0.0,), (0.1,)), {ZDW}),
    (FinitePair((0.5, 0.5), (0.4, 0.6)), set()),
    (RenyiBound.zcdp(0.5), {"bun2016concentrated", "mironov2017renyi"}),
    (RenyiBound.from_table([2], [0.5]), {"mironov2017renyi"}),
]


@pytest.mark.parametrize(("subject", "keys"), USED, ids=range(len(USED)))
def test_exactly_what_was_used_is_cited(subject, keys):
    assert {c.key for c in cited(subject)} == keys


@pytest.mark.parametrize(
    ("conversion", "keys"),
    [
        ("mironov", {"mironov2017renyi"}),
        ("improved", {"mironov2017renyi", "canonne2020discrete"}),
        ("optimal", {"mironov2017renyi", "asoodeh2021three"}),
    ],
)
def test_the_conversion_that_was_used_is_cited(conversion, keys):
    answer = PrivacyProfile(RenyiBound.zcdp(0.5), conversion=conversion).epsilon(delta=1e-5)
    assert {c.key for c in cited(answer)} == keys


def test_an_answer_says_which_option_of_a_mechanism_was_used():
    few, many = PrivacyProfile(2 * ExponentialMechanism(1.0)), PrivacyProfile(300 * ExponentialMechanism(0.1))
    keys = {c.key for c in cited(few, few.epsilon(delta=1e-5))}
    assert ZDW in keys
    assert "bun2016concentrated" not in keys
    answer = many.epsilon(delta=1e-5)
    assert answer.method.startswith("RDP")
    keys = {c.key for c in cited(many, answer)}
    assert "bun2016concentrated" in keys
    assert "dong2020optimal" in keys
    assert ZDW not in keys


def test_engines_are_cited_by_the_answers_they_gave():
    profile = PrivacyProfile(10 * SAMPLED, method="lattice")
    keys = {c.key for c in cited(profile, profile.delta(epsilon=1.0))}
    assert DGKKM in keys
    assert ADCKS not in keys
    trade_off = PrivacyProfile(Gaussian(1.0)).trade_off(0.1)
    assert {c.key for c in cited(trade_off)} == {"dong2022gaussian"}


def test_calibrations_are_cited_like_answers():
    assert ADCKS in {c.key for c in cited(RUN.calibrate(epsilon=1.0, delta=1e-5))}


def test_each_work_comes_once_with_its_reason():
    text = citations(RUN, 10 * SAMPLED, RUN.epsilon(delta=1e-5))
    keys = re.findall(r"@\w+\{(\w+),", text)
    assert len(keys) == len(set(keys)) == 5
    assert text.count("% ") == 5


@pytest.mark.parametrize("key", BIBLIOGRAPHY)
def test_entries_are_well_formed(key):
    entry = BIBLIOGRAPHY[key]
    assert re.match(rf"@(inproceedings|article)\{{{key},\n", entry)
    assert entry.count("{") == entry.count("}")
    fields = dict(re.findall(r"^  (\w+) = \{(.*)", entry, flags=re.M))
    assert {"title", "author", "year"} <= set(fields)
    assert ("journal" in fields) == entry.startswith("@article")
    assert ("booktitle" in fields) == entry.startswith("@inproceedings")
    assert fields["year"].rstrip("},") in key
    surname = fields["author"].split(",")[0].split()[-1].lower()
    assert key.startswith(re.split(r"[-{]", surname)[0])


def test_nothing_to_cite_is_refused_and_so_are_strangers():
    with pytest.raises(TypeError, match=r"`citations\(answers=...\)`"):
        citations()
    with pytest.raises(TypeError, match=r"`citations\(answers=...\)`"):
        citations("Gaussian")
