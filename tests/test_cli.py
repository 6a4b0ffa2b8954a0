"""The command line as a whole: exit codes, refusals, help."""

from __future__ import annotations

import subprocess
import sys

import pytest
from commandline import MNIST, SAMPLED

from dpaccount.cli import epsilon as epsilon_module
from dpaccount.cli.main import cli
from dpaccount.cli.options import KEYS


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nope"], "No such command"),
        (["epsilon", "--nope"], "No such option"),
        (["epsilon", "--noise-multiplier", "1"], "Missing option '--delta'"),
        (["epsilon", "--delta", "1e-5"], "Missing option '--noise-multiplier'"),
        (["epsilon", "--noise-multiplier", "x", "--delta", "1e-5"], "'x' is not a number"),
        (["epsilon", "--noise-multiplier", "-1", "--delta", "1e-5"], "Error: --noise-multiplier must be"),
        (["epsilon", "--noise-multiplier", "nan", "--delta", "1e-5"], "Error: --noise-multiplier must be"),
        (["epsilon", "--noise-multiplier", "1", "--delta", "2"], "Error: --delta must be in [0, 1]; got 2.0"),
        (["epsilon", "--noise-multiplier", "1", "--delta", "1e-5,0.5,2"], "Error: --delta must be in [0, 1]; got 2.0"),
        (["epsilon", "--noise-multiplier", "1", "--delta", "1e-5", "--steps", "0"], "Error: --steps must be"),
        (["epsilon", "--noise-multiplier", "1", "--delta", "1e-5", "--steps", "1.5"], "not a whole number"),
        (["epsilon", "--noise-multiplier", "1", "--delta", "0.001%"], "'0.001%' is not a number: write 1e-05"),
        (["epsilon", "--noise-multiplier", "1", "--delta", "3*10**-5"], "'3*10**-5' is not a number: write 3e-5"),
        (["epsilon", "--dataset-size", "60,000", "--delta", "1e-5"], "'60,000' is not a number: write 60000"),
        (["epsilon", *MNIST[:4], "--epochs", "0", "--noise-multiplier", "1", "--delta", "1e-5"], "--epochs must be a number > 0; got 0."),
        (["convert", "--zcdp", "x"], "'x' is not a number"),
        (["epsilon", *SAMPLED, "--delta", "1e-5", "--dataset-size", "100"], "not both"),
        (["epsilon", *SAMPLED, "--delta", "1e-5", "--epochs", "3"], "needs --dataset-size"),
        (["epsilon", *SAMPLED, "--delta", "1e-5", "--sensitivity", "3"], "does not belong"),
        (["epsilon", *MNIST, "--noise-multiplier", "1", "--delta", "1e-5", "--mechanism", "laplace"], "Gaussian"),
        (["epsilon", *MNIST[:4], "--noise-multiplier", "1", "--delta", "1e-5"], "'--epochs' or '--steps'"),
        (["epsilon", *SAMPLED, "--delta", "1e-5", "--method", "closed"], "--method closed has no formula"),
        (["epsilon", *SAMPLED, "--delta", "1e-5", "--per-epoch"], "--per-epoch needs"),
        (["epsilon", *SAMPLED, "--delta", "1e-5", "--sampler", "shuffle"], "'shuffle'"),
        (
            ["epsilon", "--dataset-size", "100", "--batch-size", "128", "--steps", "10", "--noise-multiplier", "2", "--delta", "1e-6"],
            "Error: --batch-size must be at most --dataset-size = 100, accumulation included; got 128",
        ),
        (["epsilon", "--mechanism", "randomized-response", "--mechanism-epsilon", "1", "--delta", "0"], "pass --adjacency replace-one"),
        (["delta", "--mechanism", "randomized-response", "--mechanism-epsilon", "1", "--epsilon", "0"], "--mechanism randomized-resp"),
        (["epsilon", "--mechanism", "pure", "--mechanism-epsilon", "-1", "--delta", "0"], "Error: --mechanism-epsilon must be"),
        (["epsilon", "--mechanism", "approximate", "--mechanism-epsilon", "1", "--mechanism-delta", "2", "--delta", "0"],
         "Error: --mechanism-delta must be"),
        (["curve", *SAMPLED, "--kind", "trade-off", "--at", "2"], "Error: --at must be"),
        (["curve", *SAMPLED, "--kind", "renyi", "--at", "1"], "Error: --at must be"),
        (["calibrate", *MNIST, "--epsilon", "-1", "--delta", "1e-5"], "Error: --epsilon must be"),
        (["calibrate", *MNIST, "--fpr", "2", "--fnr", "0.1"], "Error: --fpr must be"),
        (["convert", "--dp", "1,2"], "Error: --dp must be"),
        (["convert", "--zcdp", "-1"], "Error: --zcdp must be"),
        (["convert", "--rdp", "1:1"], "Error: --rdp must be"),
        (["calibrate", *SAMPLED, "--epsilon", "1", "--delta", "1e-5"], "Nothing is left free"),
        (["calibrate", *MNIST, "--epsilon", "1"], "Missing option '--delta'"),
        (["calibrate", *MNIST, "--epsilon", "1", "--delta", "1e-5", "--advantage", "0.1"], "Give one target"),
        (["calibrate", *MNIST[:2], *MNIST[4:], "--solve", "batch-size", "--epsilon", "1", "--delta", "1e-5"], "--noise-multiplier"),
        (["calibrate", "--steps", "3", "--solve", "epochs", "--epsilon", "1", "--delta", "1e-5"], "needs --dataset-size"),
        (["calibrate", "--noise-multiplier", "1", "--sampling-probability", "0.5", "--epsilon", "0.001", "--delta", "1e-9"], "no value"),
        # what would be ignored
        (["explain", *SAMPLED, "--delta", "1e-5", "--epsilon", "2"], "Give --delta or --epsilon, not both"),
        (["statement", *SAMPLED, "--delta", "1e-5", "--epsilon", "2"], "Give --delta or --epsilon, not both"),
        (["statement", *SAMPLED, "--delta", "1e-5", "--markdown", "--latex"], "--markdown or --latex"),
        (["epsilon", *SAMPLED, "--delta", "1e-5", "--conversion", "optimal"], "--conversion has no effect"),
        (["epsilon", "--noise-multiplier", "1", "--delta", "1e-5", "--sampler", "poisson"], "--sampler needs"),
        (["curve", *SAMPLED, "--kind", "renyi", "--method", "lattice"], "--method has no effect"),
        (["calibrate", *SAMPLED[2:], "--noise-multiplier", "2", "--solve", "noise-multiplier", "--advantage", "0.1"], "cannot be given"),
        (["calibrate", *MNIST, "--noise-multiplier", "2", "--solve", "steps", "--advantage", "0.1"], "--epochs cannot be given"),
        (["calibrate", *MNIST, "--noise-multiplier", "2", "--solve", "sampling-probability", "--advantage", "0.1"], "batch-size"),
        (["calibrate", *SAMPLED, "--solve", "mechanism-epsilon", "--advantage", "0.1"], "does not belong to --mechanism gaussian"),
        (["calibrate", *MNIST, "--conversion", "optimal", "--advantage", "0.1"], "--conversion has no effect"),
        (["convert", "--gdp", "1", "--to", "zcdp", "--delta", "1e-5"], "--delta has no effect with --to zcdp"),
        (["convert", "--gdp", "1", "--delta", "1e-5", "--conversion", "optimal"], "--conversion has no effect"),
        (["convert", "--zcdp", "1", "--conversion", "optimal"], "--conversion has no effect"),
        (["convert", "--dp", "1,1e-5", "--order", "2"], "--order has no effect"),
        (["explain", *SAMPLED], "'--delta'"),
        (["explain", *SAMPLED, "--delta", "1e-5,1e-6"], "about one --delta"),
        (["statement", *SAMPLED], "'--delta'"),
    ],
)
def test_wrong_usage_is_64_with_the_cause(shell, arguments, message):
    assert message in shell(*arguments, code=64)


def test_an_internal_error_is_70_and_keeps_its_traceback(shell, monkeypatch):
    class Broken:
        @staticmethod
        def of(ctx):
            raise ValueError("math domain error")

    monkeypatch.setattr(epsilon_module, "Stated", Broken)
    err = shell("epsilon", *SAMPLED, "--delta", "1e-5", code=70)
    assert "math domain error" in err
    assert "Internal error" in err


def test_help_and_version(shell):
    assert shell("--version").startswith("dpaccount ")
    assert "calibrate" in shell("--help")
    for name, command in cli.commands.items():
        assert command.get_short_help_str(), name
        text = shell(name, "-h")
        assert f"dpaccount {name}" in text


def test_every_run_file_key_is_an_option_somewhere():
    options = {parameter.name for command in cli.commands.values() for parameter in command.params}
    assert set(KEYS) <= options


def test_matplotlib_is_only_imported_to_plot():
    code = (
        "import sys; from dpaccount.cli.main import run; "
        "assert run(['epsilon', '--noise-multiplier', '1', '--delta', '1e-5', '--json']) == 0; "
        "assert not [m for m in sys.modules if m.split('.')[0] == 'matplotlib']"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_the_module_runs_as_a_command():
    done = subprocess.run([sys.executable, "-m", "dpaccount.cli", "nope"], capture_output=True, text=True, check=False)
    assert done.returncode == 64
