"""``dpaccount audit`` and ``dpaccount verify``."""

from __future__ import annotations

import json

import pytest
from worked_claim import WORKED

from dpaccount.auditing.claims import TEMPLATE
from dpaccount.cli.main import run


@pytest.fixture
def claims(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, changes in (("holds", {}), ("refuted", {"sampler": "shuffled"}), ("undecided", {"sampler": None})):
        table = {k: v for k, v in (WORKED | changes | {"name": name}).items() if v is not None}
        (tmp_path / f"{name}.toml").write_text("\n".join(f"{k} = {json.dumps(v)}" for k, v in table.items()), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("names", "code"),
    [(["holds"], 0), (["refuted"], 1), (["undecided"], 2), (["holds", "undecided"], 2), (["holds", "undecided", "refuted"], 1)],
)
def test_exit_codes(claims, capsys, names, code):
    assert run(["audit", *(f"{name}.toml" for name in names)]) == code
    text = capsys.readouterr().out
    for name in names:
        assert f"{name.upper():<11}{name}" in text
    assert "because" in text
    assert "assumes" in text


def test_what_is_printed_names_the_bound_the_theorem_and_the_assumption(claims, capsys):
    run(["audit", "refuted.toml"])
    first, because, bound, theorem, *rest = capsys.readouterr().out.splitlines()
    assert first.startswith("REFUTED")
    assert "10.859" in because
    assert "2.9" in because
    assert bound.startswith("bound")
    assert "largest batch sum" in theorem
    assert any(line.startswith("assumes") for line in rest)
    assert sum(line[:3].strip().isdigit() for line in rest) == 12


def test_json_of_the_command(claims, capsys):
    assert run(["audit", "holds.toml", "refuted.toml", "--json"]) == 1
    content = json.loads(capsys.readouterr().out)
    assert [c["verdict"] for c in content["claims"]] == ["holds", "refuted"]


def test_init_writes_a_template_once(claims, capsys):
    assert run(["audit", "init", "claim.toml"]) == 0
    assert (claims / "claim.toml").read_text(encoding="utf-8") == TEMPLATE
    assert run(["audit", "init", "claim.toml"]) == 64
    assert "exists already" in capsys.readouterr().err
    assert run(["audit", "init"]) == 0
    assert capsys.readouterr().out == TEMPLATE


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["none.toml"], "no file 'none.toml'"), ([], "Missing argument"), (["init", "a", "b"], "one file name"),
        (["holds.toml", "--epsilon", "3"], "--epsilon"),
    ],
)
def test_wrong_usage(claims, capsys, arguments, words):
    assert run(["audit", *arguments]) == 64
    assert words in capsys.readouterr().err


def test_a_bad_file_is_named_with_the_nearest_field(claims, capsys):
    (claims / "bad.toml").write_text('samplr = "poisson"', encoding="utf-8")
    assert run(["audit", "bad.toml"]) == 64
    error = capsys.readouterr().err
    assert "bad.toml" in error
    assert "did you mean 'sampler'" in error


# what others wrote, reports, certificates


LINE = "sigma=1.1, batch 256 of 60000, 60 epochs, shuffled, add/remove, (2.9, 1e-5)-DP"


def test_a_line_of_text_and_more_facts(capsys):
    assert run(["audit", "--text", LINE]) == 1
    assert capsys.readouterr().out.startswith("REFUTED")
    assert run(["audit", "--text", LINE.replace("shuffled", "Poisson")]) == 0
    assert run(["audit", "--text", "sigma 20, n = 500, 100 steps, full-batch, eps 2, delta 1e-5", "--set", "adjacency=zero-out"]) == 0
    capsys.readouterr()
    assert run(["audit", "--text", "sigma 1.1, 60 epochs"]) == 2
    assert "--set FIELD=VALUE" in capsys.readouterr().out


def test_a_statement_is_judged_for_the_batches_that_are_told(tmp_path, capsys):
    text = (
        "DP-SGD performed over 60000 examples with 256 examples per iteration, noise multiplier 1.1 for 2 epochs without microbatching, "
        "and no bound on number of examples per user. Example-level DP with add-or-remove-one adjacency at delta = 1e-05 computed with "
        "RDP accounting: Epsilon with each example occurring once per epoch: 6.9 Epsilon assuming Poisson sampling (*): 0.6"
    )
    (tmp_path / "said.txt").write_text(text, encoding="utf-8")
    for source in (["--text", text], [str(tmp_path / "said.txt")]):
        assert run(["audit", *source]) == 2
        assert "HOLDS" in capsys.readouterr().out
        assert run(["audit", *source, "--set", "sampler=shuffled"]) == 1  # Poisson's figure is no figure of shuffled batches
        assert "REFUTED" in capsys.readouterr().out


def test_a_history_asks_for_what_it_does_not_say(tmp_path, capsys):
    path = tmp_path / "history.json"
    path.write_text(json.dumps({"history": [[1.1, 256 / 60000, 14062]], "mechanism": "rdp"}), encoding="utf-8")
    assert run(["audit", str(path), "--json"]) == 2
    [found] = json.loads(capsys.readouterr().out)["claims"]
    assert found["missing"] == ["sampler", "adjacency", "delta", "epsilon"]
    told = [word for fact in ("sampler=poisson", "adjacency=add-or-remove", "delta=1e-5", "epsilon=2.9") for word in ("--set", fact)]
    assert run(["audit", str(path), *told]) == 0


def test_a_report_and_a_certificate_of_one_claim(claims, capsys):
    assert run(["audit", "holds.toml", "--report", "r.html", "--certificate", "c.json"]) == 0
    assert "dpaccount verify c.json" in capsys.readouterr().out
    assert (claims / "r.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert run(["verify", "c.json"]) == 0
    assert capsys.readouterr().out.startswith("VERIFIED")
    text = (claims / "c.json").read_text(encoding="utf-8")
    (claims / "c.json").write_text(text.replace("2.38168972614165", "2.38168972614164"), encoding="utf-8")
    assert run(["verify", "c.json", "--json"]) == 1
    [found] = json.loads(capsys.readouterr().out)["certificates"]
    assert found["verdict"] == "refuted"
    assert any("2.38168972614165" in text for text in found["wrong"])
    later = json.loads(text) | {"version": 9}
    (claims / "c.json").write_text(json.dumps(later), encoding="utf-8")
    assert run(["verify", "c.json"]) == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["audit", "--text", "foo bar"], "'foo bar'"), (["audit", "--text", LINE, "--set", "epsilon"], "FIELD=VALUE"),
        (["audit", "--text", LINE, "--set", "epsilon=3"], "epsilon = 2.9"),
        (["audit", "--text", LINE, "--set", "samplr=poisson"], "'sampler'"),
        (["audit", "--text", LINE, "--text", LINE, "--certificate", "c.json"], "one claim"),
        (["audit", "init", "--report", "r.html"], "no options"),
        (["audit", "--text", "sigma 1.1", "--certificate", "c.json"], "missing"), (["verify"], "Missing argument"),
        (["verify", "none.json"], "no file 'none.json'"), (["verify", "holds.toml"], "no JSON"),
        (["audit", "--text", LINE, "--report", "no/r.html"], "no/r.html"),
    ],
)
def test_wrong_usage_of_readers_reports_and_certificates(claims, capsys, arguments, words):
    assert run(arguments) == 64
    assert words in capsys.readouterr().err


def test_a_template_is_written_as_its_name_says_and_can_be_read(claims, capsys):
    assert run(["audit", "init", "claim.json"]) == 0
    assert json.loads((claims / "claim.json").read_text(encoding="utf-8"))["epsilon"] == 2.9
    assert run(["audit", "claim.json"]) == 0
    assert "HOLDS" in capsys.readouterr().out
    assert run(["audit", "init", "claim"]) == 64
    assert "ends in .toml (with comments) or .json" in capsys.readouterr().err
    assert not (claims / "claim").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--set", "sampler=poison"], "Error: --set sampler must be one of 'poisson'"),
        (["--set", "delta="], "Error: --set delta has no value; say FIELD=VALUE, such as delta=1e-5."),
        (["--set", "delta=2"], "Error: --set delta must be in [0, 1]; got 2."),
        (["--set", "delta=0.001%"], "got '0.001%'. Write 1e-05."),
        (["--set", "delta=10^-5"], "got '10^-5'. Write 1e-5."),
        (["--set", "noise_multiplier=2"], "Error: --set: was told noise_multiplier = 2, and read noise_multiplier = 1.1"),
        (["--set", "samplr=poisson"], "Error: --set: there is no field 'samplr': did you mean 'sampler'?"),
        (["--text", "sigma 1.1, delta 2"], "Error: --text: delta must be in [0, 1]; got 2."),
        (["--text", "sigma 1.1, delta 0.001%"], "write a share as a number"),
        (["quoted.toml"], "Error: quoted.toml: epsilon must be a finite number >= 0; got '2.9'. Write it without quotes."),
        (["count.toml"], "Error: count.toml: dataset_size must be a whole number >= 1; got '60,000'. Write 60000."),
        (["--report", "nodir/r.html"], "Error: --report nodir/r.html: there is no folder 'nodir'."),
        (["--certificate", "nodir/c.json"], "Error: --certificate nodir/c.json: there is no folder 'nodir'."),
    ],
)
def test_a_refusal_names_the_option_or_the_file(claims, capsys, monkeypatch, arguments, words):
    monkeypatch.setattr("dpaccount.cli.audit.check_claim", lambda claim: pytest.fail("refused before anything is computed"))
    (claims / "quoted.toml").write_text('epsilon = "2.9"', encoding="utf-8")
    (claims / "count.toml").write_text('dataset_size = "60,000"', encoding="utf-8")
    assert run(["audit", "--text", "sigma=1.1, eps 2.9", *arguments]) == 64
    error = capsys.readouterr().err
    assert words in error
    assert "`check_claim" not in error


def test_words_are_read_in_any_case(capsys):
    assert run(["audit", "--text", LINE.replace("shuffled", "Poisson"), "--set", "sampler=Poisson", "--set", "adjacency=Add/Remove"]) == 0
    assert run(["audit", "--text", LINE, "--set", "released=Final Model", "--json"]) in (1, 2)
    assert '"released": "final-model"' in capsys.readouterr().out


def test_a_certificate_of_an_undecided_claim_does_not_look_like_a_proof(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    told = ["--text", "sigma=4, batch 250 of 1000, 1 epoch, shuffled, add/remove, (0.6, 1e-5)-DP"]
    assert run(["audit", *told, "--certificate", "c.json"]) == 2
    capsys.readouterr()
    assert run(["verify", "c.json"]) == 0
    assert capsys.readouterr().out.startswith("VERIFIED (undecided)  the certificate")
