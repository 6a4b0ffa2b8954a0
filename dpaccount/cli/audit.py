"""``dpaccount audit``."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import click

from dpaccount.auditing.certificate import certificate
from dpaccount.auditing.claims import TEMPLATE, Claim, plain_word
from dpaccount.auditing.outcome import REFUTED, UNDECIDED
from dpaccount.auditing.printed import lines
from dpaccount.auditing.readers import read_claims, read_text
from dpaccount.auditing.readers.phases import merged
from dpaccount.auditing.readers.statements import is_statement
from dpaccount.auditing.report import claim_report
from dpaccount.auditing.verdict import ClaimVerdict, check_claim
from dpaccount.cli.errors import of_claim
from dpaccount.cli.options import AS_JSON
from dpaccount.cli.picture import check_folder
from dpaccount.cli.show import print_json

CODES = {REFUTED: 1, UNDECIDED: 2}
EXAMPLES = {"delta": "1e-5", "epsilon": "2.9", "sampler": "poisson", "adjacency": "add-or-remove"}
Written = click.Path(dir_okay=False, writable=True, path_type=Path)


@click.command("audit", short_help="Check claims on paper: holds, refuted or undecided.")
@click.argument("files", nargs=-1, metavar="init [FILE] | FILE...")
@click.option("--text", "texts", multiple=True, metavar="TEXT", help="A claim in plain words, or a privacy statement; may be repeated.")
@click.option("--set", "settings", multiple=True, metavar="FIELD=VALUE", help="A fact that the claims do not state; may be repeated.")
@click.option("--report", type=Written, metavar="FILE.html", help="Write a report for a browser or for print.")
@click.option("--certificate", "certified", type=Written, metavar="FILE.json", help="Write what is proved of one claim, for `verify`.")
@AS_JSON
@click.pass_context
def audit_command(
    ctx: click.Context, /, files: tuple[str, ...], texts: tuple[str, ...], settings: tuple[str, ...], report: Path | None,
    certified: Path | None, as_json: bool,
) -> None:
    """Check claimed guarantees: does each hold, is it refuted, or which facts are missing?

    \b
    dpaccount audit init claim.toml     write a commented template (without FILE: print it)
    dpaccount audit claim.toml          verdict, bound, theorem, and the twelve usual errors
    dpaccount audit history.json --set sampler=poisson --set adjacency=add-or-remove --set delta=1e-5 --set epsilon=2.9
    dpaccount audit --text "sigma=1.1, batch 256 of 60000, 60 epochs, shuffled, (2.9, 1e-5)-DP"

    FILE is a claim in TOML or JSON, or several; the JSON history of an Opacus accountant; a dp-accounting event in JSON; or a text
    (.txt). Exit codes: 0 all hold, 1 one is refuted, 2 one is undecided and none refuted, 64 wrong usage.
    """
    if files and files[0] == "init":
        return _init(files[1:], bool(texts or settings or report or certified or as_json))
    if not files and not texts:
        raise click.UsageError("Missing argument 'FILE...', or --text. `dpaccount audit init` prints a template.")
    for flag, path in (("--report", report), ("--certificate", certified)):
        if path is not None:
            check_folder(flag, path)
    told = dict(map(_setting, settings))
    claims = [claim for name in files for claim in _read(Path(name), told)] + [claim for text in texts for claim in _of_text(text, told)]
    if not claims:
        raise click.UsageError(f"There is no claim in {', '.join(files)}.")
    if certified is not None and len(claims) > 1:
        raise click.UsageError(f"--certificate is about one claim; got {len(claims)}.")
    found = [check_claim(_with(claim, told)) for claim in claims]
    _write(found, report, certified)
    if as_json:
        print_json("audit", claims=[verdict.to_dict() for verdict in found])
    else:
        _print(found)
        _point(found, report, certified)
    verdicts = {verdict.verdict for verdict in found}
    ctx.exit(next((code for name, code in CODES.items() if name in verdicts), 0))


def _read(path: Path, told: dict[str, Any]) -> list[Claim]:
    """The claims of a file; a complaint names it."""
    if not path.is_file():
        raise click.UsageError(f"There is no file {str(path)!r}. `dpaccount audit init {path}` writes a template.")
    try:
        text = path.read_text(encoding="utf-8") if path.suffix == ".txt" else ""
        return read_text(text, **_drawn(told)) if is_statement(text) else read_claims(path)[0]
    except (ValueError, TypeError, OSError) as error:
        raise click.UsageError(f"{path}: {of_claim(error, told)}") from error


def _of_text(text: str, told: dict[str, Any]) -> list[Claim]:
    try:
        return read_text(text, **_drawn(told)) if is_statement(text) else read_text(text)
    except (ValueError, TypeError) as error:
        raise click.UsageError(f"--text: {of_claim(error, told)}") from error


def _with(claim: Claim, told: dict[str, Any]) -> Claim:
    """The claim with the facts of --set."""
    try:
        return merged("--set", _stated(claim), told)
    except (ValueError, TypeError) as error:
        text = of_claim(error, told)
        raise click.UsageError(text if text.startswith("--set") else f"--set: {text}") from error


def _drawn(told: dict[str, Any]) -> dict[str, Any]:
    """How batches were drawn, where it was told: a statement only assumes it."""
    return {name: value for name, value in told.items() if name == "sampler"}


def _stated(claim: Claim) -> dict[str, Any]:
    return {name: value for name, value in vars(claim).items() if value is not None}


def _setting(text: str) -> tuple[str, Any]:
    """FIELD=VALUE, the value as in TOML; a bare word is text."""
    name, sign, value = text.partition("=")
    if not sign or not name.strip():
        raise click.UsageError(f"--set takes FIELD=VALUE, such as delta=1e-5; got {text!r}.")
    field = name.strip().replace("-", "_")
    if not value.strip():
        raise click.UsageError(f"--set {field} has no value; say FIELD=VALUE, such as {field}={EXAMPLES.get(field, '...')}.")
    try:
        return field, plain_word(field, tomllib.loads(f"x = {value}")["x"])
    except tomllib.TOMLDecodeError:
        return field, plain_word(field, value.strip())


def _write(found: list[ClaimVerdict], report: Path | None, certified: Path | None) -> None:
    texts: list[tuple[Path, str]] = []
    if report is not None:
        texts.append((report, claim_report(found)))
    if certified is not None:
        texts.append((certified, json.dumps(certificate(found[0]), indent=2, allow_nan=False) + "\n"))
    for path, text in texts:
        try:
            path.write_text(text, encoding="utf-8")
        except OSError as error:
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


def _point(found: list[ClaimVerdict], report: Path | None, certified: Path | None) -> None:
    """What was written, and what to say next."""
    if report is not None or certified is not None:
        click.echo()
    if report is not None:
        click.echo(f"Wrote {report}.")
    if certified is not None:
        click.echo(f"Wrote {certified}: `dpaccount verify {certified}` checks it from scratch.")
    if any(verdict.missing for verdict in found):
        click.echo("\nState what is missing in the file, or with --set FIELD=VALUE; `dpaccount audit init` lists every field.")


def _init(names: tuple[str, ...], more: bool) -> None:
    """Write the template, never over a file that exists."""
    if more or len(names) > 1:
        raise click.UsageError("`dpaccount audit init` takes one file name, or none, and no options.")
    if not names:
        return click.echo(TEMPLATE, nl=False)
    path = Path(names[0])
    if path.suffix not in (".toml", ".json"):
        raise click.UsageError(f"{path}: the name of a claim ends in .toml (with comments) or .json.")
    check_folder("audit init", path)
    if path.exists():
        raise click.UsageError(f"{path} exists already, and is left as it is.")
    try:
        path.write_text(TEMPLATE if path.suffix == ".toml" else _as_json(), encoding="utf-8")
    except OSError as error:
        raise click.UsageError(f"{path}: {error}") from error
    return click.echo(f"Wrote {path}: fill in what is known, delete the rest, then `dpaccount audit {path}`.")


def _as_json() -> str:
    """The fields of the template; JSON has no comments."""
    return json.dumps(tomllib.loads(TEMPLATE), indent=2) + "\n"
