"""Each of the twelve usual errors, planted in the worked claim and absent."""

from __future__ import annotations

import pytest
from worked_claim import finding

from dpaccount.auditing import check_claim


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


TOGETHER = {"delta": 1e-5, "adjacency": "add-or-remove", "sampler": "poisson"}
MNIST = {"dataset_size": 60000, "batch_size": 256, "steps": 5000, "noise_multiplier": 1.1, "noise_std": 1.0, "clipping_norm": 1.0}


@pytest.mark.parametrize(("fields", "verdict"), [
    (MNIST | {"training_size": 50000, "epsilon": 1.8265}, "undecided"),
    (MNIST | {"training_size": 50000, "epsilon": 1.99}, "holds"),
    (MNIST | {"tuning_runs": 2, "epsilon": 2.1}, "undecided"),
    ({"dataset_size": 1000, "training_size": 100, "batch_size": 100, "steps": 10, "noise_multiplier": 1.0, "epsilon": 5,
      "sampler": "fixed-order", "adjacency": "zero-out"}, "refuted"),
    ({"dataset_size": 1000, "training_size": 100, "batch_size": 50, "steps": 20, "noise_multiplier": 1.0, "epsilon": 5,
      "sampler": "shuffled", "adjacency": "zero-out"}, "refuted"),
    ({"dataset_size": 1000, "training_size": 100, "batch_size": 100, "steps": 10, "epochs": 1, "noise_multiplier": 1.0,
      "epsilon": 5}, "undecided"),
    ({"dataset_size": 100, "batch_size": 1, "sampling_probability": 0.0149, "steps": 500, "noise_multiplier": 1.0,
      "epsilon": 1.6}, "refuted"),
    ({"dataset_size": 500, "sampler": "full-batch", "steps": 100, "noise_multiplier": 20.0, "noise_std": 19.981, "clipping_norm": 1.0,
      "epsilon": 1.9931}, "undecided"),
])
def test_errors_are_judged_together_and_no_rounding_is_on_the_wrong_side(fields, verdict):
    """Each error alone would leave some of these claims standing: the run that was really made needs more."""
    assert check_claim(TOGETHER | fields).verdict == verdict
