"""``dpaccount statement``."""

from __future__ import annotations

from typing import Any

import click

from dpaccount.citations import citations
from dpaccount.cli.options import run_options
from dpaccount.cli.show import bounds_record, print_json, warn
from dpaccount.cli.stated import Stated
from dpaccount.statement import privacy_statement


@click.command("statement", short_help="A privacy statement for a model card or paper.")
@run_options("epsilon", "delta")
@click.option("--markdown", "style", flag_value="markdown", help="For a model card.")
@click.option("--latex", "style", flag_value="latex", help="For a paper.")
@click.option("--cite", is_flag=True, help="Add the BibTeX of the theorems that were used.")
@click.pass_context
def statement_command(ctx: click.Context, /, as_json: bool, style: str | None, cite: bool, **options: Any) -> None:
    """A privacy statement to paste, at one --delta (or one --epsilon).

    \b
    dpaccount statement --run run.toml --delta 1e-5 --markdown --cite
    """
    stated = Stated.of(ctx)
    target = _target(stated)
    whole = stated.trained and not stated.before and stated.values["method"] == "auto"
    if stated.trained:
        stated.need("noise_multiplier")
    subject = stated.training if whole else stated.profile
    text = privacy_statement(subject, style=style or "plain", cite=cite, **target)
    profile = stated.profile
    found = profile.epsilon(**target) if "delta" in target else profile.delta(**target)
    notes = (*found.notes, *stated.notes(target.get("delta", found.upper)))
    if as_json:
        return print_json(
            "statement", run=stated.record(), **target, answer=bounds_record(found), statement=text, notes=list(notes),
            bibtex=citations(subject, found),
        )
    click.echo(text)
    return warn(notes)


def _target(stated: Stated) -> dict[str, float]:
    """One delta, or else one epsilon; a run file may hold both, and then delta is meant."""
    name = "delta" if stated.values.get("delta") is not None else "epsilon"
    values = stated.values.get(name)
    if values is None:
        raise click.UsageError("Missing option '--delta' (or '--epsilon').")
    if len(values) != 1:
        raise click.UsageError(f"A statement is about one --{name}; got {len(values)}.")
    return {name: values[0]}
