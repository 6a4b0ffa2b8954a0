"""The HTML report: what it says, that it fetches nothing, that it can be read at two widths, aloud and on paper."""

from __future__ import annotations

import html
import math
import re
import shutil
import subprocess
from html.parser import HTMLParser

import numpy as np
import pytest
from worked_claim import WORKED, changed

from dpaccount import Gaussian, PoissonSampled, PrivacyProfile
from dpaccount.auditing import check_claim, claim_report
from dpaccount.auditing.report.curves import profiles, trade_off
from dpaccount.auditing.report.style import STYLE
from dpaccount.auditing.report.svg import COLOURS, even

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
VOID = {"meta", "path", "rect", "br"}


class Page(HTMLParser):
    """Elements in order, with their attributes; refuses bad nesting."""

    def __init__(self, text):
        super().__init__()
        self.stack, self.elements = [], []
        self.feed(text)
        assert not self.stack

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.stack.pop() == tag

    def all(self, tag):
        return [attrs for name, attrs in self.elements if name == tag]


@pytest.fixture(scope="module")
def verdicts():
    return [
        check_claim(changed(name="holds <b>&")), check_claim(changed(sampler="shuffled", name="shuffled", tuning_runs=10)),
        check_claim(changed(sampler=None)), check_claim({"epsilon": 3.0, "delta": 0.0}),
    ]


@pytest.fixture(scope="module")
def page(verdicts):
    return claim_report(verdicts)


# what it says


def test_the_verdict_comes_first_then_the_bound_and_the_assumption(verdicts):
    text = re.sub(r"<style>.*?</style>|<[^>]+>", " ", claim_report(verdicts[1]))
    order = [text.index(word) for word in ("REFUTED", "10.85", "Bound", "Assumes", "Curves", "smallest change", "twelve usual errors",
                                           "Epsilon under each reading", "as it was stated", "Sources")]
    assert order == sorted(order)
    assert "Chua" in text
    assert "draw batches by Poisson sampling" in text


def test_all_twelve_errors_and_all_readings_are_there(page, verdicts):
    text = html.unescape(page)
    for verdict in verdicts:
        for finding in verdict.findings:
            assert finding.text in text
        for found in verdict.readings:
            assert found.text in text
    assert page.count('class="state found"') == sum(len(v.found) for v in verdicts)
    assert page.count('class="state open"') == sum(len(v.unchecked) for v in verdicts)


def test_names_are_escaped(page):
    assert "<b>" not in page
    assert "holds &lt;b&gt;&amp;" in page


def test_it_is_well_formed_and_speaks(page):
    found = Page(page)
    assert found.all("html") == [{"lang": "en"}]
    assert len(found.all("title")) == 1 + len(found.all("desc"))
    assert all(tag.get("aria-labelledby") or tag.get("aria-hidden") for tag in found.all("svg"))
    ids = [attrs["id"] for _, attrs in found.elements if "id" in attrs]
    assert len(ids) == len(set(ids))
    for attrs in found.all("svg") + found.all("article"):
        assert set(attrs.get("aria-labelledby", "").split()) <= set(ids)
    assert all(attrs.get("scope") for attrs in found.all("th"))


def test_it_fetches_nothing(page):
    found = Page(page)
    for tag, attrs in found.elements:
        assert tag not in ("script", "link", "img", "iframe", "object", "embed")
        assert not {"src", "srcset", "data"} & set(attrs)
        assert attrs.get("href", "#").startswith("#")
        assert not any(name.startswith("on") for name in attrs)
    assert "url(" not in STYLE
    assert "@import" not in STYLE
    assert any("default-src 'none'" in attrs.get("content", "") for attrs in found.all("meta"))


def _luminance(colour):
    parts = [int(colour[i: i + 2], 16) / 255 for i in (1, 3, 5)]
    r, g, b = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def test_colours_stand_out_from_white():
    inks = set(re.findall(r"(?<![-\w])color:(#[0-9a-f]{6})", STYLE)) | set(re.findall(r"background:(#[0-9a-f]{6})", STYLE)) | set(COLOURS)
    assert len(inks) > 8
    for ink in inks:
        assert 1.05 / (_luminance(ink) + 0.05) >= 4.5, ink


@pytest.mark.parametrize("bad", [[], 3, ["x"], None])
def test_what_is_no_verdict_is_refused(bad):
    with pytest.raises((ValueError, TypeError)):
        claim_report(bad)


# the curves


def test_the_own_curve_is_the_profile_of_the_run(verdicts):
    curves, _ = profiles(verdicts[0])
    own = next(curve for curve in curves if curve.own)
    profile = PrivacyProfile(14063 * PoissonSampled(Gaussian(1.1), 256 / 60000))
    for i in (0, 20, 60):
        assert own.y[i] == pytest.approx(float(profile.log_delta(float(own.x[i])).estimate) / math.log(10.0), rel=1e-8)


def test_the_trade_off_is_below_that_of_the_run_and_near_it(verdicts):
    claim, own = trade_off(verdicts[0])
    f = PrivacyProfile(14063 * PoissonSampled(Gaussian(1.1), 256 / 60000)).trade_off()
    for i in (150, 300, 380):
        true = float(f(10.0 ** float(own.x[i])).upper)
        assert true - 2e-3 <= own.y[i] <= true + 1e-9
    assert np.all(own.y >= claim.y - 1e-12)  # the claim holds


def test_the_lower_curve_of_shuffling_passes_through_the_bound(verdicts):
    own = next(curve for curve in profiles(verdicts[1])[0] if curve.own)
    assert own.kind == "at least"
    at = float(np.interp(-math.log10(WORKED["delta"]), -own.y, own.x))
    assert at == pytest.approx(verdicts[1].lower, rel=2e-2)
    promised, run = trade_off(verdicts[1])
    assert np.any(run.y < promised.y - 0.05)  # the claim is refuted


def test_ticks_are_round_and_inside():
    for low, high in ((0.0, 4.64), (0.0, 17.3), (0.0, 1.0), (0.0, 1e-3), (0.0, 2e6)):
        ticks = [value for value, _ in even(low, high)]
        assert 3 <= len(ticks) <= 8
        assert all(low <= value <= high * (1 + 1e-9) for value in ticks)


# in a browser


def _chromium(tmp_path, *arguments):
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}",
               "--host-resolver-rules=MAP * ~NOTFOUND", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


browser = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed (Debian: apt-get install chromium)")


@browser
def test_it_fits_a_phone_and_a_desk(page, tmp_path):
    frames = "".join(f'<iframe width="{width}" height="900" srcdoc="{html.escape(page)}"></iframe>' for width in (360, 1280))
    script = (
        "<script>onload=()=>{document.title=[...document.querySelectorAll('iframe')].map(f=>{const d=f.contentDocument;"
        "const figures=[...d.querySelectorAll('figure')].map(x=>x.getBoundingClientRect());"
        "return [d.documentElement.scrollWidth, Math.round(figures[0].width), figures[1].top>figures[0].bottom-1,"
        "d.querySelector('.badge').getBoundingClientRect().top<900].join(' ')}).join('; ')}</script>"
    )
    (tmp_path / "frames.html").write_text(f"<!DOCTYPE html><title>?</title>{frames}{script}", encoding="utf-8")
    dom = _chromium(tmp_path, "--window-size=1400,1000", "--virtual-time-budget=5000", "--dump-dom", (tmp_path / "frames.html").as_uri())
    phone, desk = (row.split() for row in re.search(r"<title>(.*?)</title>", dom)[1].split("; "))
    assert int(phone[0]) <= 360
    assert 300 <= int(phone[1]) <= 360
    assert phone[2] == "true"  # one chart below the other
    assert int(desk[0]) <= 1280
    assert int(desk[1]) >= 450
    assert desk[2] == "false"  # side by side
    assert phone[3] == desk[3] == "true"  # the verdict is on the first screen


@browser
def test_it_prints(page, tmp_path):
    (tmp_path / "report.html").write_text(page, encoding="utf-8")
    target = tmp_path / "report.pdf"
    _chromium(tmp_path, f"--print-to-pdf={target}", "--no-pdf-header-footer", (tmp_path / "report.html").as_uri())
    content = target.read_bytes()
    assert content.startswith(b"%PDF")
    pages = len(re.findall(rb"/Type\s*/Page\b(?!s)", content))
    assert 8 <= pages <= 24  # four claims, each on a page of its own and two or three more


def test_words_of_the_readings_are_not_broken(page):
    assert 'class="wide readings"' in page
    assert "table.readings tbody th{overflow-wrap:normal}" in page
    assert "table.readings td:nth-child(3),table.readings thead th{white-space:nowrap}" in page
