"""The console entry, and the exit codes: 0 fine or holds, 1 refuted, 2 undecided, 64 wrong usage, 70 internal."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from dpaccount.cli.audit import audit_command
from dpaccount.cli.calibrate import calibrate_command
from dpaccount.cli.convert import convert_command
from dpaccount.cli.curve import curve_command
from dpaccount.cli.delta import delta_command
from dpaccount.cli.epsilon import epsilon_command
from dpaccount.cli.errors import translated
from dpaccount.cli.explain import explain_command
from dpaccount.cli.noisy_gd import noisy_gd_command
from dpaccount.cli.pnsgd import pnsgd_command
from dpaccount.cli.statement import statement_command
from dpaccount.cli.sweep import sweep_command
from dpaccount.cli.verify import verify_command
from dpaccount.results import NumericalFailure
from dpaccount.statement import version

FINE, WRONG_USAGE, INTERNAL = 0, 64, 70
CLAIMS = ("audit", "verify")  # whose messages are about fields of a claim, not about options


def _print_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value:
        click.echo(f"dpaccount {version()}")
        ctx.exit()


class _Commands(click.Group):
    """Turns refusals of the library into the command line's own words."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (ValueError, TypeError, NumericalFailure, ImportError) as error:
            if not _is_ours(error):
                raise
            command = ctx.invoked_subcommand or ""
            text = str(error) if command in CLAIMS else translated(error, command)
            raise click.ClickException(text) from error


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Show the version and exit."
)
def cli() -> None:
    """Differential-privacy accounting with error bars.

    \b
    State a DP-SGD run:   --dataset-size 60000 --batch-size 256 --epochs 60 --noise-multiplier 1.1
    or its steps:         --noise-multiplier 1 --sampling-probability 0.01 --steps 1000
    or a file:            --run run.toml

    Every figure is an upper bound unless it says otherwise. Exit codes: 0 fine, 64 wrong usage, 70 internal error; of audit,
    verify and explain --verify also 1 refuted, 2 undecided.
    """


for _command in (
    epsilon_command, delta_command, calibrate_command, curve_command, convert_command, explain_command, statement_command,
    sweep_command, audit_command, verify_command, noisy_gd_command, pnsgd_command,
):
    cli.add_command(_command)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    try:
        code = cli.main(args=None if arguments is None else list(arguments), prog_name="dpaccount", standalone_mode=False)
        return code if isinstance(code, int) else FINE
    except click.ClickException as error:
        error.show()
        return WRONG_USAGE
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.Abort:
        return WRONG_USAGE
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FINE
    except Exception:
        return _internal()


def _is_ours(error: Exception) -> bool:
    """Messages in the house's shape blame the input; a numerical failure does only if an engine was forced."""
    return str(error).startswith("`method=" if isinstance(error, NumericalFailure) else "`")


def _internal() -> int:
    traceback.print_exc()
    click.echo("Internal error: please report it, with the command and the lines above.", err=True)
    return INTERNAL
