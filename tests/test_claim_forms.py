"""Forms of a claim, and what is refused."""

from __future__ import annotations

import json

import pytest
from worked_claim import TIGHT, WORKED

from dpaccount.auditing import Claim, check_claim
from dpaccount.auditing.claims import NAMES, TEMPLATE


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
