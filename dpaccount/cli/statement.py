"""``dpaccount statement``."""

from __future__ import annotations

from typing import Any

import click

from dpaccount.citations import citations
from dpaccount.cli.options import run_options
from dpaccount.cli.show import bounds_record, print_json, warn
from dpaccount.cli.stated import Stated
from dpaccount.statement import sources, statement_of


@click.command("statement", short_help="A privacy statement for a model card or paper.")
@run_options("epsilon", "delta")
@click.option("--markdown", is_flag=True, help="For a model card.")
@click.option("--latex", is_flag=True, help="For a paper.")
@click.option("--cite", is_flag=True, help="Add the BibTeX of the theorems that were used.")
@click.pass_context
def statement_command(ctx: click.Context, /, as_json: bool, markdown: bool, latex: bool, cite: bool, **options: Any) -> None:
    """A privacy statement to paste, at one --delta (or one --epsilon).

    \b
    dpaccount statement --run run.toml --delta 1e-5 --markdown --cite
    """
    if markdown and latex:
        raise click.UsageError("Give --markdown or --latex, not both.")
    stated = Stated.of(ctx)
    target = stated.one_target("statement")
    if stated.trained:
        stated.need("noise_multiplier")
    profile, run = stated.profile, stated.subject
    style = "markdown" if markdown else "latex" if latex else "plain"
    text = statement_of(profile, run, stated.before, style=style, cite=cite, **target)
    found = profile.epsilon(**target) if "delta" in target else profile.delta(**target)
    notes = (*found.notes, *stated.notes(target.get("delta", found.upper)))
    if as_json:
        return print_json(
            "statement", run=stated.record(), **target, answer=bounds_record(found), statement=text, notes=list(notes),
            bibtex=citations(*sources(profile, run, stated.before), found),
        )
    click.echo(text)
    return warn(notes)
