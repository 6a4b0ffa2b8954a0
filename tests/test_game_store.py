"""Games: the same whoever plays them; killed and resumed without loss; stores of other games refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
from games import ROOT, game, gaussian, needs_joblib, one_gaussian, slow, where

from dpaccount.auditing import game_scores
from dpaccount.auditing.game.fingerprint import name_of

# who plays


@needs_joblib
def test_neither_processes_nor_threads_show_in_the_result():
    import joblib

    alone = game(mu=0.9)
    assert alone == game(mu=0.9, n_jobs=2)
    with joblib.parallel_config("threading", n_jobs=2):
        assert alone == game(mu=0.9, n_jobs=None)
    assert alone != game(mu=0.9, seed=1)


@needs_joblib
def test_a_dask_cluster_takes_the_same_call(tmp_path):
    """Two worker processes of dask.distributed's local cluster."""
    distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed")
    import joblib

    alone = game(mu=0.9)
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
        joblib.parallel_config("dask"),
    ):
        together = game(mu=0.9, n_jobs=None)
        game(where, threshold=0.0, n_jobs=None, store=tmp_path / "where")
        workers = {float(pid) for pid in client.run(os.getpid).values()}
    assert alone == together
    assert set(np.concatenate(game_scores(tmp_path / "where"))) == workers
    assert len(workers) == 2


def test_a_seed_is_drawn_and_told():
    one, other = game(seed=None), game(seed=None)
    assert one.details["seed"] != other.details["seed"]
    assert game(seed=one.details["seed"]) == one


# stores


def test_a_store_keeps_the_scores_and_the_result(tmp_path):
    file = tmp_path / "game"
    found = game(store=file)
    assert found == game()
    without, within = game_scores(file)
    assert without.shape == within.shape == (4000,)
    lines = file.read_text().splitlines()
    assert len(lines) == 1 + 16

    def never(mean, rng, size, noise=1.0):
        raise AssertionError("the chunks are all known")

    before = file.stat().st_size
    assert game(store=file) == found
    assert file.stat().st_size == before
    never.__qualname__, never.__module__ = gaussian.__qualname__, gaussian.__module__
    with pytest.raises(AssertionError, match="all known"):  # but for the first, which is compared
        game(never, store=file)


SCRIPT = """
import json, sys, time
from dpaccount.auditing import audit_game

def mechanism(mean, rng, size):
    time.sleep(float(sys.argv[2]))
    return rng.normal(mean, 1.0, size)

if __name__ == "__main__":
    found = audit_game(mechanism, (0.0, 1.0), batch=True, mu=0.99, delta=1e-5, runs=5000, chunk=100, seed=5, n_jobs=int(sys.argv[3]),
                       store=sys.argv[1] or None)
    print(json.dumps([found.lower, found.verdict, found.selection, dict(found.details)]))
"""


@needs_joblib
def test_a_killed_game_goes_on_and_ends_as_if_it_had_not_been(tmp_path):
    """Killed with SIGKILL amid its chunks, with two processes; resumed with one."""
    script, file = tmp_path / "script.py", tmp_path / "game.jsonl"
    script.write_text(SCRIPT)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}

    def command(store, pause, processes):
        return [sys.executable, str(script), str(store), str(pause), str(processes)]

    first = subprocess.Popen(command(file, 0.05, 2), env=environment, start_new_session=True)
    try:
        deadline = time.monotonic() + 300
        while (file.read_bytes().count(b"\n") if file.exists() else 0) < 8 and time.monotonic() < deadline:
            time.sleep(0.02)
    finally:
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
    known = file.read_bytes()
    assert 8 <= known.count(b"\n") < 51
    with file.open("ab") as torn:  # and a line that the kill cut off
        torn.write(b'{"chunk": 49, "without": [0.1, 0.')

    def run(store):
        """The result, by one process."""
        done = subprocess.run(command(store, 0, 1), env=environment, capture_output=True, text=True, check=True, timeout=300)
        assert done.stderr == ""  # no bar where there is no terminal
        return json.loads(done.stdout)

    result = run(file)
    assert result == run("")
    assert result[3]["runs"] == 5000
    assert file.read_bytes().startswith(known)
    assert file.read_bytes().count(b"\n") == 51


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"seed": 1}, "seed"), ({"runs": 4250}, "runs"), ({"chunk": 500}, "chunk"), ({"alpha": 0.01}, "alpha"), ({"delta": 1e-6}, "delta"),
        ({"pair": (0.0, 1.1)}, "pair"), ({"threshold": 1.0}, "pilot"), ({"pilot": 500}, "pilot"),
        ({"method": "gdp"}, "method"), ({"mechanism": one_gaussian, "batch": False}, "mechanism"), ({"score": abs}, "score"),
        ({"epsilon": 1.0}, "several_looks"),
    ],
)
def test_a_store_of_other_settings_is_refused_and_left_alone(options, name, tmp_path):
    file = tmp_path / "game"
    game(store=file)
    before = file.read_bytes()
    with pytest.raises(ValueError, match=r"`audit_game\(store=\.\.\.\)` must be a file of this game") as refused:
        game(store=file, **options)
    assert f"Its {name} is another" in str(refused.value)
    assert file.read_bytes() == before


def test_another_mechanism_of_the_same_name_is_refused(tmp_path):
    def mechanism(noise):
        def drawn(mean, rng, size):
            return rng.normal(mean, noise, size)

        return drawn

    file = tmp_path / "game"
    game(mechanism(1.0), store=file)
    with pytest.raises(ValueError, match="Its mechanism is another"):
        game(mechanism(2.0), store=file)
    game(mechanism(1.0), store=file)


@dataclass(frozen=True)
class Shifted:
    """A score with a field."""

    by: float

    def __call__(self, output):
        return output - self.by


@pytest.mark.parametrize("options", [
    lambda v: {"mechanism": partial(gaussian, noise=v)},
    lambda v: {"mechanism": lambda mean, rng, size: rng.normal(mean, v, size)},
    lambda v: {"score": Shifted(v)},
    lambda v: {"score": Shifted(v).__call__},
], ids=["partial", "closure", "object", "method"])
def test_what_is_bound_in_a_callable_tells_games_apart(tmp_path, options):
    """Without replay too: the settings say which game it is."""
    file = tmp_path / "game"
    game(**options(1.0), store=file, reproducible=False)
    game(**options(1.0), store=file, reproducible=False)
    with pytest.raises(ValueError, match="chunks of different games are not to be mixed"):
        game(**options(5.0), store=file, reproducible=False)


def test_callables_that_hold_themselves_are_named():
    """A closure in a circle, and two that differ beside it."""

    def held(noise):
        def mechanism(mean, rng):
            return rng.normal(mean, noise) if again else None

        again = {"self": mechanism}
        return mechanism

    one, same, other = (name_of(held(noise)) for noise in (1.0, 1.0, 2.0))
    assert one == same != other


NOISE = [1.0]


def drawn_with_the_module(mean, rng):
    return float(rng.normal(mean, NOISE[0]) > 0.5)


def test_what_a_name_does_not_tell_the_first_chunk_does(tmp_path, monkeypatch):
    """Scores of 0 and 1, of which the first alone would often agree."""
    for seed in range(4):
        options = {"batch": False, "runs": 100, "chunk": 50, "seed": seed, "threshold": 0.5, "store": tmp_path / f"game{seed}"}
        game(drawn_with_the_module, **options)
        with monkeypatch.context() as patch:
            patch.setitem(globals(), "NOISE", [5.0])
            with pytest.raises(ValueError, match="the mechanism, the score or the data have changed"):
                game(drawn_with_the_module, **options)


@pytest.mark.parametrize("row", [
    '{"chunk": 0, "without": [], "within": []}', '{"chunk": 0, "without": [1.0], "within": [1.0]}',
    '{"chunk": 0, "without": [NaN, 1.0], "within": [0.0, 1.0]}', '{"chunk": 0, "without": [0.0], "within": [0.0, 1.0]}',
])
def test_chunks_of_another_size_or_without_numbers_are_refused(tmp_path, row):
    file = tmp_path / "game"
    game(store=file)
    lines = file.read_text().splitlines()
    file.write_text("\n".join([lines[0], row, *lines[2:]]) + "\n")
    with pytest.raises(ValueError, match=r"audit_game\(store"):
        game(store=file)


def test_randomness_from_elsewhere_cannot_be_resumed(tmp_path):
    def own(mean, rng, size):
        return np.random.default_rng().normal(mean, 1.0, size)

    game(own, store=tmp_path / "game")
    with pytest.raises(ValueError, match="not all randomness is drawn"):
        game(own, store=tmp_path / "game")


def test_a_mechanism_with_randomness_of_its_own_is_resumed_if_it_is_said(tmp_path):
    def own(mean, rng, size):
        return np.random.default_rng().normal(mean, 1.0, size)

    file = tmp_path / "game"
    found = game(own, store=file, reproducible=False)
    assert game(own, store=file, reproducible=False) == found
    assert any("a source of its own" in text for text in found.assumptions)
    with pytest.raises(ValueError, match="Its reproducible is another"):
        game(own, store=file)


def test_a_claim_may_be_changed_and_time_added_since_neither_changes_what_was_seen(tmp_path):
    file = tmp_path / "game"
    first = game(epsilon=4.5, threshold=1.5, store=file)
    assert first.verdict == "undecided"
    second = game(epsilon=0.5, threshold=1.5, store=file)
    assert (second.verdict, second.details["ended"]) == ("refuted", "settled")
    timed = tmp_path / "timed"
    options = {"runs": None, "threshold": 1.5, "store": timed}
    short = game(partial(slow, 0.01), seconds=0.2, **options)
    longer = game(partial(slow, 0.01), seconds=0.4, **options)
    assert longer.details["runs"] > short.details["runs"]
    assert longer.lower >= short.lower


def test_files_that_are_no_store_are_refused_and_left_alone(tmp_path):
    file = tmp_path / "game"
    for text in ("something of mine", "a,b\n1,2\n", '{"format": "another"}\n'):
        file.write_text(text)
        with pytest.raises(ValueError, match=r"`audit_game\(store"):
            game(store=file)
        assert file.read_text() == text
    file.unlink()
    found = game(store=file)
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join([*lines[:4], "torn\n", *lines[5:]]))
    with pytest.raises(ValueError, match="Line 5 cannot be read"):
        game(store=file)
    file.write_text(lines[0][:20])  # killed before its first line was whole
    assert game(store=file) == found
    file.write_text("".join([lines[0], *reversed(lines[3:])]))  # chunks in any order, some missing
    assert game(store=file) == found
