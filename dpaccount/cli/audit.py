"""``dpaccount audit``."""

from __future__ import annotations

from pathlib import Path

import click

from dpaccount.auditing.claims import TEMPLATE, Claim, read_claims
from dpaccount.auditing.outcome import REFUTED, UNDECIDED
from dpaccount.auditing.verdict import ClaimVerdict, check_claim, lines
from dpaccount.cli.options import AS_JSON
from dpaccount.cli.show import print_json

CODES = {REFUTED: 1, UNDECIDED: 2}


@click.command("audit", short_help="Check claims on paper: holds, refuted or undecided.")
@click.argument("files", nargs=-1, required=True, metavar="init [FILE] | FILE...")
@AS_JSON
@click.pass_context
def audit_command(ctx: click.Context, /, files: tuple[str, ...], as_json: bool) -> None:
    """Check claimed guarantees: does each hold, is it refuted, or which facts are missing?

    \b
    dpaccount audit init claim.toml     write a commented template (without FILE: print it)
    dpaccount audit claim.toml          verdict, bound, theorem, and the twelve usual errors

    A claim is a small TOML or JSON file; FILE may hold several. Exit codes: 0 all hold, 1 one is refuted, 2 one is
    undecided and none refuted, 64 wrong usage.
    """
    if files[0] == "init":
        return _init(files[1:], as_json)
    claims = [claim for name in files for claim in _read(Path(name))]
    if not claims:
        raise click.UsageError(f"There is no claim in {', '.join(files)}.")
    found = [check_claim(claim) for claim in claims]
    if as_json:
        print_json("audit", claims=[verdict.to_dict() for verdict in found])
    else:
        _print(found)
    verdicts = {verdict.verdict for verdict in found}
    ctx.exit(next((code for name, code in CODES.items() if name in verdicts), 0))


def _read(path: Path) -> list[Claim]:
    """The claims of a file; a complaint names it."""
    if not path.is_file():
        raise click.UsageError(f"There is no file {str(path)!r}. `dpaccount audit init {path}` writes a template.")
    try:
        return read_claims(path)[0]
    except (ValueError, TypeError, OSError) as error:
        raise click.UsageError(f"{path}: {error}") from error


def _print(found: list[ClaimVerdict]) -> None:
    for i, verdict in enumerate(found):
        if i:
            click.echo(f"\n{'-' * 80}\n")
        for line in lines(verdict):
            click.echo(line)
    if len(found) > 1:
        click.echo(f"\n{'-' * 80}\n")
        for i, verdict in enumerate(found, 1):
            click.echo(f"{verdict.verdict.upper():<11}{verdict.claim.name or f'claim {i}'}")


def _init(names: tuple[str, ...], as_json: bool) -> None:
    """Write the template, never over a file that exists."""
    if as_json or len(names) > 1:
        raise click.UsageError("`dpaccount audit init` takes one file name, or none, and no --json.")
    if not names:
        return click.echo(TEMPLATE, nl=False)
    path = Path(names[0])
    if path.exists():
        raise click.UsageError(f"{path} exists already, and is left as it is.")
    try:
        path.write_text(TEMPLATE, encoding="utf-8")
    except OSError as error:
        raise click.UsageError(f"{path}: {error}") from error
    return click.echo(f"Wrote {path}: fill in what is known, delete the rest, then `dpaccount audit {path}`.")
