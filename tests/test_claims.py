"""Claims on paper: the worked one, each of the twelve errors planted, and what is refused."""

from __future__ import annotations

import json
import math

import pytest

from dpaccount.auditing import Claim, check_claim
from dpaccount.auditing.claims import NAMES, TEMPLATE
from dpaccount.auditing.readings import Run, collision, random_stopping, reading, renyi_figures
from dpaccount.cli.main import run

WORKED = {
    "noise_multiplier": 1.1, "dataset_size": 60000, "batch_size": 256, "epochs": 60, "epsilon": 2.9, "delta": 1e-5,
    "adjacency": "add-or-remove", "sampler": "poisson",
}
FLOOR = Run(1.1, 256 / 60000, 14062, 1e-5, 60, 60000, 256)  # the steps that the published figures count
TIGHT = {"abs": 1e-7}


def finding(number, **changes):
    """One usual error of the worked claim with changes; None leaves a field out."""
    table = {name: value for name, value in (WORKED | changes).items() if value is not None}
    verdict = check_claim(table)
    found = verdict.findings[number - 1]
    assert found.number == number
    return verdict, found


# the worked claim


def test_the_worked_claim_holds_under_poisson_and_add_or_remove():
    verdict = check_claim(WORKED)
    assert verdict.verdict == "holds"
    assert verdict.upper == pytest.approx(2.3816897261, **TIGHT)  # 14063 steps: a started one is paid
    assert not verdict.found
    assert check_claim({**WORKED, "steps": 14062}).upper == pytest.approx(2.3815969214, **TIGHT)


@pytest.mark.parametrize("adjacency", ["add-or-remove", "zero-out"])
def test_the_worked_claim_is_refuted_when_shuffled(adjacency):
    verdict = check_claim({**WORKED, "sampler": "shuffled", "adjacency": adjacency})
    assert verdict.verdict == "refuted"
    assert 10.859 < verdict.lower < 10.8593  # 96 records are in no full batch of an epoch; 10.87 if none were
    assert verdict.findings[0].status == "found"
    assert verdict.findings[0].effect == "refutes"
    assert "2.979" in verdict.findings[0].text
    assert "2.38" in verdict.findings[0].text
    assert any("Poisson" in text for text in verdict.changes)
    assert any("no noise multiplier below 1.5" in text for text in verdict.changes)


def test_the_published_figure_is_that_of_whole_batches():
    whole = check_claim({**WORKED, "sampler": "shuffled", "dataset_size": 59904})
    assert 10.869 <= whole.lower <= 10.881
    assert "2.98078" in whole.findings[0].text


def test_one_shuffled_epoch_already_refutes_it():
    verdict = check_claim({**WORKED, "sampler": "shuffled", "epochs": 1, "dataset_size": 59904})
    assert verdict.verdict == "refuted"
    assert verdict.lower == pytest.approx(2.98078354, abs=1e-7)


LESS = {"noise_multiplier": 1.1, "dataset_size": 59904, "batch_size": 256, "sampler": "shuffled", "delta": 1e-5}


@pytest.mark.parametrize("part", [{"steps": 1}, {"epochs": 0.3}, {"steps": 233}, {"epochs": 0.99}])
@pytest.mark.parametrize("adjacency", ["zero-out", "replace-one", "add-or-remove"])
def test_less_than_one_shuffled_epoch_is_not_refuted_by_a_whole_one(part, adjacency):
    verdict = check_claim({**LESS, **part, "adjacency": adjacency, "epsilon": 2.0})
    assert (verdict.verdict, verdict.lower) == ("undecided", 0.0)
    if adjacency == "zero-out":
        assert check_claim({**LESS, **part, "adjacency": adjacency, "epsilon": 3.93}).verdict == "holds"
        assert check_claim({**LESS, "steps": 234, "adjacency": adjacency, "epsilon": 2.0}).verdict == "refuted"


def test_a_started_epoch_without_a_batch_is_no_second_pass():
    """1.001 epochs of ten batches in ten steps: each record is seen once."""
    once = {"noise_multiplier": 1.1, "dataset_size": 1000, "batch_size": 100, "sampler": "fixed-order", "delta": 1e-5,
            "adjacency": "zero-out", "steps": 10, "epsilon": 4.5}
    assert check_claim(once).verdict == "holds"
    verdict = check_claim({**once, "epochs": 1.001})
    assert verdict.verdict == "undecided"
    assert verdict.lower == pytest.approx(3.92125025, abs=1e-7)
    assert check_claim({**once, "steps": 11}).verdict == "refuted"


@pytest.mark.parametrize("sampler", ["poisson", "shuffled", "fixed-order"])
def test_a_final_model_alone_is_not_refuted_by_updates_that_nobody_sees(sampler):
    small = {**WORKED, "sampler": sampler, "epsilon": 1.0, "adjacency": "zero-out", "epochs": 2}
    if sampler == "poisson":
        small["epsilon"] = 0.3
    seen, unsaid, hidden = (check_claim({**small, **more}) for more in ({"released": "all-iterates"}, {}, {"released": "final-model"}))
    assert (seen.verdict, unsaid.verdict, hidden.verdict) == ("refuted", "refuted", "undecided")
    assert "released is not stated" in unsaid.reason
    assert "released is not stated" not in seen.reason
    assert hidden.lower == 0.0
    assert not any(found.effect == "refutes" for found in hidden.findings)


def test_full_batches_and_single_steps_show_as_much_in_the_final_model():
    full = {"noise_multiplier": 20.0, "dataset_size": 500, "steps": 100, "epsilon": 1.9, "delta": 1e-5, "sampler": "full-batch",
            "adjacency": "add-or-remove", "released": "final-model"}
    assert check_claim(full).verdict == "refuted"
    credited = check_claim({**full, "analysis": "last-iterate", "convex": True})  # projection may hide the sum
    assert (credited.verdict, credited.lower) == ("undecided", 0.0)
    assert check_claim({**WORKED, "epochs": None, "steps": 1, "epsilon": 0.04, "released": "final-model"}).verdict == "refuted"


def test_replace_one_refutes_it_too():
    verdict = check_claim({**WORKED, "steps": 14062, "adjacency": "replace-one"})
    assert verdict.verdict == "refuted"
    assert verdict.lower == pytest.approx(4.22129673, **TIGHT)
    assert verdict.lower < verdict.upper < math.inf


def test_shuffled_claims_hold_where_no_amplification_is_needed():
    large = {**WORKED, "sampler": "shuffled", "adjacency": "zero-out", "epsilon": 55.0}
    assert check_claim(large).verdict == "holds"
    between = check_claim({**large, "epsilon": 20.0})
    assert between.verdict == "undecided"
    assert between.lower < 20.0 < between.upper


@pytest.mark.parametrize("name", ["sampler", "adjacency", "delta", "epsilon", "noise_multiplier", "epochs", "dataset_size"])
def test_without_a_fact_that_decides_it_is_undecided_and_asks_for_it(name):
    verdict = check_claim({key: value for key, value in WORKED.items() if key != name})
    assert verdict.verdict == "undecided"
    assert any(name in text for text in verdict.missing)
    assert name in verdict.reason


def test_an_undecided_claim_still_shows_each_reading():
    verdict = check_claim({key: value for key, value in WORKED.items() if key != "sampler"})
    shown = {r.name: r for r in verdict.readings}
    assert shown["poisson, add-or-remove"].upper < 2.9 < shown["shuffled, zero-out"].lower
    assert "within" in str(verdict)
    assert "above" in str(verdict)


# the numbers of each reading


def test_epsilon_by_delta_steps_and_unit():
    def epsilon(**changes):
        from dataclasses import replace

        found = reading(replace(FLOOR, **changes), "poisson", "add-or-remove")
        assert found.upper - found.lower < 1e-8
        return found.upper

    assert epsilon(steps=60) == pytest.approx(0.1810141, **TIGHT)
    assert epsilon(delta=1e-4) == pytest.approx(2.0286925876, **TIGHT)
    assert epsilon(delta=1 / 60000) == pytest.approx(2.3070475175, **TIGHT)
    assert epsilon(delta=1e-6) == pytest.approx(2.6966594024, **TIGHT)
    assert epsilon(steps=1) == pytest.approx(0.0483416671, **TIGHT)
    assert epsilon(steps=234) == pytest.approx(0.306475, abs=5e-7)
    assert 60 * epsilon(steps=234) == pytest.approx(18.4, abs=0.05)
    assert epsilon(sigma=0.55) == pytest.approx(14.717756, abs=5e-7)
    assert epsilon(rate=256 / 50000, steps=11718) == pytest.approx(2.6440938310, **TIGHT)


def test_renyi_conversions_of_the_worked_claim():
    classic, improved = renyi_figures(FLOOR, "add-or-remove")
    assert classic == pytest.approx(3.00827209, **TIGHT)
    assert improved == pytest.approx(2.59655587, **TIGHT)
    other, _ = renyi_figures(Run(1.12, FLOOR.rate, FLOOR.steps, 1e-5), "add-or-remove")
    assert other == pytest.approx(2.92223866, **TIGHT)  # the tutorial figure that goes with a rounded 1.1


def test_best_of_a_geometric_number_of_runs():
    assert random_stopping(FLOOR, "add-or-remove", 10.0) == pytest.approx(5.05, abs=5e-3)


def test_collisions_of_few_seeds():
    assert collision(40, 8) == pytest.approx(0.95992164, abs=5e-9)
    assert collision(3, 0) == 1.0


# each of the twelve, planted and absent


def test_error_1_other_batches_than_accounted():
    assert finding(1)[1].status == "checked"
    assert finding(1, sampler=None)[1].needs == ("sampler",)
    for sampler in ("shuffled", "fixed-order"):
        verdict, found = finding(1, sampler=sampler, adjacency="zero-out")
        assert (verdict.verdict, found.status, found.effect) == ("refuted", "found", "refutes")
    verdict, found = finding(1, sampler="fixed-size", adjacency="replace-one")
    assert (verdict.verdict, found.effect) == ("refuted", "refutes")


def test_error_2_adjacency():
    assert finding(2)[1].status == "checked"
    assert finding(2, adjacency=None)[1].status == "not checked"
    verdict, found = finding(2, adjacency="replace-one")
    assert (verdict.verdict, found.effect) == ("refuted", "refutes")
    assert "4.2214" in found.text


def test_error_3_steps():
    assert finding(3)[1].status == "checked"
    assert "0.181014" in finding(3)[1].text
    for steps in (14062, 14063, 14040, 14100):
        assert finding(3, steps=steps)[1].status == "checked"
    verdict, found = finding(3, epsilon=0.1811)  # epochs counted as steps, seen from the figure alone
    assert (verdict.verdict, found.effect) == ("refuted", "refutes")
    assert finding(3, epochs=None, steps=14062)[1].needs == ("epochs",)
    verdict, found = finding(3, epsilon=0.1811, released="final-model")
    assert (verdict.verdict, found.effect) == ("undecided", "voids")


def test_error_4_delta():
    assert finding(4)[1].status == "checked"
    assert finding(4, delta=None)[1].needs == ("delta",)
    verdict, found = finding(4, delta=1e-4)
    assert (found.status, found.effect) == ("found", "weakens")
    assert "2.0287" in found.text
    assert verdict.verdict == "holds"  # it is true, and protects nobody in particular
    assert "was found" in verdict.reason


def test_error_5_epsilon_of_a_part():
    assert finding(5)[1].status == "checked"
    assert "0.0483416" in finding(5)[1].text
    for part, value, needed in (("epoch", 0.31, 0.3070314), ("step", 0.0484, 0.0483417)):  # true of the part, which the run is not
        verdict, found = finding(5, epsilon=value, epsilon_of=part)
        assert (verdict.verdict, found.effect) == ("holds", "weakens")
        assert verdict.upper == pytest.approx(needed, abs=2e-7)
        assert f"one {part} as stated" in verdict.reason
        assert "the run costs more: 2.3816" in found.text
        verdict, found = finding(5, epsilon=0.9 * value, epsilon_of=part)
        assert (verdict.verdict, found.effect) == ("refuted", "refutes")
    assert finding(5, epsilon=0.31, epsilon_of="epoch", sampler="shuffled", adjacency="zero-out")[0].lower == pytest.approx(2.979, abs=1e-3)
    for claimed in (0.0484, 0.3065):  # said of the run, recognised by the figure
        verdict, found = finding(5, epsilon=claimed)
        assert (verdict.verdict, found.effect) == ("refuted", "refutes")
    assert finding(5, noise_multiplier=None)[1].status == "not checked"


def test_error_6_conversion():
    assert finding(6)[1].needs == ("accountant",)
    assert finding(6, accountant="rdp")[1].status == "checked"
    verdict, found = finding(6, accountant="rdp-classic", epsilon=3.01)
    assert (verdict.verdict, found.status) == ("holds", "found")
    assert "3.008" in found.text
    for accountant in ("clt", "gaussian-formula", "gdp"):
        assert finding(6, accountant=accountant)[1].effect == "weakens"
    assert finding(6, accountant="pld", epsilon=1.5)[1].status == "found"


def test_error_7_tuning():
    assert finding(7)[1].needs == ("tuning_runs",)
    assert finding(7, tuning_runs=1)[1].status == "checked"
    for released in ("final-model", "all-iterates"):
        verdict, found = finding(7, tuning_runs=100, tuning_charged=True, released=released)
        assert (verdict.verdict, found.status, found.effect) == ("undecided", "found", "voids")
        assert "does not cover" in found.text
        assert ("Papernot" in found.text) == (released == "final-model")  # all iterates leave composition alone
    verdict, found = finding(7, tuning_runs=10, tuning_charged=True, epsilon=9.0)
    assert (verdict.verdict, found.status) == ("holds", "checked")
    verdict, found = finding(7, tuning_runs=10)
    assert (verdict.verdict, found.status, found.effect) == ("undecided", "found", "voids")
    assert "8.91" in found.text
    assert "5.0" in found.text
    assert finding(7, tuning_runs=10, epsilon=9.0)[1].status == "checked"


def test_error_8_last_iterate():
    assert finding(8)[1].status == "checked"
    low = {"epsilon": 1.0, "analysis": "last-iterate"}
    verdict, found = finding(8, **low, released="all-iterates", convex=True)
    assert (verdict.verdict, found.effect) == ("refuted", "refutes")
    assert finding(8, **low, released="final-model", convex=False)[1].status == "found"
    for sampler in ("poisson", "shuffled", "fixed-size"):
        verdict, found = finding(8, **low, released="final-model", convex=True, sampler=sampler, adjacency="replace-one")
        assert (verdict.verdict, found.status, found.effect) == ("undecided", "found", "voids")
    verdict, found = finding(8, **low, released="final-model", convex=True, sampler="fixed-order", adjacency="zero-out")
    assert (verdict.verdict, found.status) == ("undecided", "checked")
    assert finding(8, **low, released="final-model")[1].needs == ("convex",)
    for more in ({"released": "all-iterates"}, {"released": "final-model", "convex": False}):  # composition proves 2.9 anyway
        verdict, found = finding(8, analysis="last-iterate", **more)
        assert (verdict.verdict, found.status) == ("holds", "checked")
        assert "no credit is needed" in found.text
    assert finding(8, epsilon=1.0)[1].needs == ("analysis",)


def test_error_9_clipping_and_noise():
    assert set(finding(9)[1].needs) == {"clipping", "batch_norm", "clipping_norm", "noise_std"}
    right = {"clipping": "per-example", "batch_norm": False, "clipping_norm": 2.0, "noise_std": 2.2}
    assert finding(9, **right)[1].status == "checked"
    verdict, found = finding(9, clipping="average")
    assert (verdict.verdict, found.effect) == ("refuted", "refutes")
    assert "232.7" in found.text
    verdict, found = finding(9, clipping="microbatch", microbatch_size=4)
    assert (verdict.verdict, found.effect) == ("undecided", "voids")
    assert "14.717" in found.text or "14.718" in found.text
    verdict, found = finding(9, **right | {"noise_std": 2.2 / 256})
    assert (verdict.verdict, found.effect) == ("refuted", "refutes")
    assert "divided by the batch" in found.text
    assert finding(9, **right | {"batch_norm": True})[1].effect == "voids"
    verdict, found = finding(9, clipping="none")
    assert (verdict.verdict, found.effect) == ("undecided", "voids")
    assert "no epsilon is proved" in verdict.reason


def test_error_10_normaliser():
    assert finding(10)[1].needs == ("normaliser",)
    assert finding(10, normaliser="public")[1].status == "checked"
    verdict, found = finding(10, normaliser="realised-batch")
    assert (verdict.verdict, found.effect) == ("undecided", "voids")
    assert finding(10, normaliser="realised-batch", adjacency="zero-out")[1].effect == "voids"
    assert finding(10, normaliser="realised-batch", sampler="fixed-order")[1].effect == "voids"  # under add-or-remove
    for sampler in ("shuffled", "fixed-order"):
        assert finding(10, normaliser="realised-batch", sampler=sampler, adjacency="zero-out")[1].status == "checked"
    assert finding(10, normaliser="realised-batch", sampler=None, adjacency="zero-out")[1].needs == ("sampler",)
    assert finding(10, normaliser="dataset-size")[1].effect == "voids"
    assert finding(10, normaliser="dataset-size", adjacency="zero-out")[1].status == "checked"


def test_error_11_sampling_probability_and_unit():
    assert finding(11)[1].needs == ("training_size", "unit")
    assert finding(11, training_size=60000, unit="record")[1].status == "checked"
    verdict, found = finding(11, training_size=50000, epsilon=2.5, steps=14062)
    assert (verdict.verdict, found.effect) == ("refuted", "refutes")
    assert "2.64409" in found.text
    assert finding(11, training_size=50000)[1].effect == "weakens"
    verdict, found = finding(11, unit="user")
    assert (verdict.verdict, found.status, verdict.missing) == ("undecided", "not checked", ("records_per_user",))
    assert finding(11, unit="user", records_per_user=1)[0].verdict == "holds"
    for rows, value in ((2, "5.264"), (5, "16.11")):
        verdict, found = finding(11, unit="user", records_per_user=rows, training_size=60000, steps=14062)
        assert (verdict.verdict, found.effect) == ("refuted", "refutes")
        assert value in found.text


def test_error_12_set_up_and_seeds():
    assert finding(12)[1].needs == ("data_dependent", "noise_seed_bits")
    assert finding(12, data_dependent=[], noise_seed_bits=128)[1].status == "checked"
    verdict, found = finding(12, data_dependent=["scaler"])
    assert (verdict.verdict, found.effect) == ("undecided", "voids")
    verdict, found = finding(12, noise_seed_bits=8)
    assert (verdict.verdict, found.effect) == ("refuted", "refutes")
    assert "0.95992164" in found.text


# forms of a claim


def test_toml_json_paths_and_lists_say_the_same(tmp_path):
    text = "\n".join(f"{name} = {json.dumps(value)}" for name, value in WORKED.items())
    assert check_claim(text).upper == check_claim(json.dumps(WORKED)).upper == check_claim(WORKED).upper
    for name, content in (("c.toml", text), ("c.json", json.dumps(WORKED))):
        (tmp_path / name).write_text(content, encoding="utf-8")
        assert check_claim(tmp_path / name).verdict == check_claim(str(tmp_path / name)).verdict == "holds"
    both = [WORKED, {**WORKED, "epsilon": 2.0}]
    assert [v.verdict for v in check_claim(both)] == ["holds", "refuted"]
    tables = "".join("[[claim]]\n" + "\n".join(f"{k} = {json.dumps(v)}" for k, v in one.items()) + "\n" for one in both)
    assert [v.verdict for v in check_claim(tables)] == ["holds", "refuted"]
    assert [v.verdict for v in check_claim(json.dumps(both))] == ["holds", "refuted"]


def test_the_template_is_a_claim_that_holds_with_nothing_left_open():
    verdict = check_claim(TEMPLATE)
    assert verdict.verdict == "holds"
    assert not verdict.unchecked
    assert not verdict.found


def test_every_field_is_documented():
    for name in NAMES:
        assert name in Claim.__doc__


def test_verdicts_are_json():
    content = json.loads(json.dumps(check_claim({**WORKED, "sampler": "shuffled"}).to_dict(), allow_nan=False))
    assert content["verdict"] == "refuted"
    assert content["upper"] is None
    assert len(content["findings"]) == 12


def test_no_noise_is_refuted_unless_delta_covers_being_seen_at_all():
    for sampler in ("poisson", "shuffled"):
        verdict = check_claim({**WORKED, "noise_multiplier": 0.0, "sampler": sampler})
        assert verdict.verdict == "refuted"
        assert "no finite epsilon" in verdict.reason
        assert "infinite" in str(verdict)
    rare = {**WORKED, "noise_multiplier": 0.0, "epochs": None, "steps": 1, "delta": 0.005}
    assert check_claim({k: v for k, v in rare.items() if v is not None}).upper == 0.0


def test_full_batches_and_all_records_need_no_sampler_theorem():
    full = {"noise_multiplier": 20.0, "dataset_size": 500, "steps": 100, "epsilon": 2.0, "delta": 1e-5, "sampler": "full-batch",
            "adjacency": "add-or-remove"}
    verdict = check_claim(full)
    assert verdict.verdict == "holds"
    assert verdict.upper == pytest.approx(1.99309140, **TIGHT)
    assert check_claim({**full, "adjacency": "replace-one"}).verdict == "refuted"


# what is refused


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"samplr": "poisson"}, ("'samplr'", "did you mean 'sampler'")),
        ({"noise": 1.0}, ("'noise'", "did you mean 'noise_")),
        ({"batch_size": 70000}, ("batch_size = 70000", "dataset_size = 60000")),
        ({"batch_size": 20000, "accumulation": 4}, ("batch_size = 80000", "dataset_size = 60000", "accumulation")),
        ({"sampling_probability": 0.01}, ("sampling_probability = 0.01", "batch_size = 256", "dataset_size = 60000")),
        ({"steps": 60}, ("epochs = 60", "steps = 60", "dataset_size = 60000", "batch_size = 256", "14062.5")),
        ({"steps": 20000}, ("epochs = 60", "steps = 20000")),
        ({"training_size": 70000}, ("training_size = 70000", "dataset_size = 60000")),
        ({"sampler": "full-batch"}, ("batch_size = 256", "sampler = 'full-batch'")),
        ({"unit": "record", "records_per_user": 3}, ("records_per_user = 3", "unit = 'record'")),
        ({"clipping": "per-example", "microbatch_size": 4}, ("microbatch_size = 4", "clipping = 'per-example'")),
        ({"sampler": "balls"}, ("sampler", "'poisson'", "got 'balls'")),
        ({"delta": 1.5}, ("delta", "in [0, 1]", "1.5")),
        ({"epsilon": -1.0}, ("epsilon", ">= 0", "-1")),
        ({"noise_multiplier": -1.0}, ("noise_multiplier", ">= 0", "-1")),
        ({"dataset_size": 0}, ("dataset_size", ">= 1", "0")),
        ({"epochs": 0}, ("epochs", "> 0", "0")),
        ({"data_dependent": "scaler"}, ("data_dependent", "list")),
        ({"batch_norm": "no"}, ("batch_norm", "True or False")),
    ],
)
def test_bad_claims_are_refused_in_words(changes, words):
    with pytest.raises((ValueError, TypeError)) as caught:
        check_claim({**WORKED, **changes})
    for word in words:
        assert word in str(caught.value)


def test_text_that_is_no_claim_is_refused():
    for bad in ("epsilon = ", "{", 3, None):
        with pytest.raises((ValueError, TypeError), match="check_claim"):
            check_claim(bad)


# the command


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
