"""``dpaccount convert``: the numbers of the mathematics page, 18 digits by mpmath."""

from __future__ import annotations

import json

import pytest

from dpaccount.curves.profile import PrivacyProfile
from dpaccount.mechanisms.gaussian import Gaussian


@pytest.mark.parametrize(
    ("arguments", "kind", "how", "value"),
    [
        (["--gdp", 1, "--delta", "1e-5"], "epsilon", "exact", 4.37717809568122463),
        (["--gdp", 1, "--epsilon", 1], "delta", "exact", 0.126936737506643946),
        (["--gdp", 1], "zcdp", "mu^2/2", 0.5),
        (["--gdp", 2, "--order", 8], "rdp", "exact", 16.0),
        (["--zcdp", 0.5, "--delta", "1e-5"], "epsilon", "mironov", 5.29852591218808121),
        (["--zcdp", 0.5, "--delta", "1e-5"], "epsilon", "improved", 4.7283869849433139),
        (["--zcdp", 0.5, "--delta", "1e-5"], "epsilon", "optimal", 4.72838564863849),
        (["--dp", 1], "zcdp", "Bun", 0.5),
        (["--dp", "1,0", "--epsilon", 0.5], "delta", "exact", (2.718281828459045 - 1.6487212707001282) / 3.718281828459045),
        (["--rdp", "2:1"], "rdp", "stated", 1.0),
    ],
)
def test_conversions_have_the_right_values(shell, arguments, kind, how, value):
    rows = json.loads(shell("convert", *arguments, "--json"))["implied"]
    (found,) = [row for row in rows if row["kind"] == kind and how in row["how"]]
    assert found["value"] == pytest.approx(value, rel=1e-9 if how != "optimal" else 1e-6)


def test_the_gdp_of_a_pure_guarantee_meets_its_kink(shell):
    (row,) = json.loads(shell("convert", "--dp", 1, "--to", "gdp", "--json"))["implied"]
    total_variation = PrivacyProfile(Gaussian(1 / row["value"])).delta(epsilon=0.0).estimate
    assert total_variation == pytest.approx((2.718281828459045 - 1) / (2.718281828459045 + 1), rel=1e-12)


def test_what_does_not_follow_is_said_and_refused(shell):
    data = json.loads(shell("convert", "--dp", "1,1e-6", "--json"))
    assert set(data["not_implied"]) == {"gdp", "zcdp", "rdp"}
    assert "infinite" in shell("convert", "--dp", "1,1e-6", "--to", "zcdp", code=64)
    assert "0.5-zCDP does not imply Gaussian DP: " in shell("convert", "--zcdp", 0.5)


def test_an_approximate_guarantee_says_what_it_can(shell):
    out = shell("convert", "--dp", "1,1e-5")
    assert "epsilon  1 at delta = 1e-05" in out
    assert "delta    0.462122537 at epsilon = 0" in out  # (e - 1 + 2e-5)/(e + 1)
    assert "(1, 1e-05)-DP does not imply Gaussian DP, zCDP or Renyi DP: with probability delta" in out


@pytest.mark.parametrize(
    "arguments",
    [
        [], ["--gdp", 1, "--zcdp", 1], ["--gdp", 0], ["--gdp", -1], ["--zcdp", "nan"], ["--dp", "1,2,3"], ["--dp", "1,2"],
        ["--rdp", "2"], ["--rdp", "2:1,x:2"], ["--rdp", "1:1"], ["--gdp", 1, "--to", "epsilon"], ["--gdp", 1, "--delta", 2],
    ],
)
def test_bad_conversions_are_wrong_usage(shell, arguments):
    assert shell("convert", *arguments, code=64).strip()
