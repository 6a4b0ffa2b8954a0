"""``dpaccount verify``."""

from __future__ import annotations

from pathlib import Path

import click

from dpaccount.auditing.certificate import Verification, verify_certificate
from dpaccount.cli.options import AS_JSON
from dpaccount.cli.show import print_json
from dpaccount.engines.balls import face

CODES = {"refuted": 1, "undecided": 2}


@click.command("verify", short_help="Check a claim's certificate from scratch, by ball arithmetic.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@AS_JSON
@click.pass_context
def verify_command(ctx: click.Context, /, files: tuple[str, ...], as_json: bool) -> None:
    """Check certificates that `dpaccount audit --certificate` wrote: every end of the bracket again, every field against the claim.

    Printed are what was verified, what is wrong, and what is taken on trust. Exit codes: 0 verified, 1 refuted (something in a
    certificate is not so), 2 undecided (ball arithmetic has no proof, or a later version wrote it), 64 wrong usage. Needs the extra
    dpaccount[certify].
    """
    face.require("dpaccount verify")
    found = [_verified(Path(name)) for name in files]
    if as_json:
        print_json("verify", certificates=[{"file": name, **result.to_dict()} for name, result in zip(files, found, strict=True)])
    else:
        _print(files, found)
    verdicts = {result.verdict for result in found}
    ctx.exit(next((code for name, code in CODES.items() if name in verdicts), 0))


def _verified(path: Path) -> Verification:
    if not path.is_file():
        raise click.UsageError(f"There is no file {str(path)!r}. `dpaccount audit CLAIM --certificate {path}` writes one.")
    try:
        return verify_certificate(path)
    except (ValueError, OSError) as error:
        raise click.UsageError(f"{path}: {error}") from error


def _print(files: tuple[str, ...], found: list[Verification]) -> None:
    for i, (name, result) in enumerate(zip(files, found, strict=True)):
        if len(files) > 1:
            click.echo(("\n" if i else "") + name)
        click.echo(str(result))
