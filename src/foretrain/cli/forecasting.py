"""foretrain forecast: predict what training will do."""

from __future__ import annotations

import typer

from foretrain.cli.forecast_corpus import corpus
from foretrain.cli.forecast_finetune import finetune
from foretrain.cli.forecast_templates import templates
from foretrain.cli.helping import Command, Group

forecast_app = typer.Typer(cls=Group, rich_markup_mode="rich", no_args_is_help=True, pretty_exceptions_enable=False)


@forecast_app.callback()
def _forecast() -> None:
    """Predict what training will do, before you train.

    \b
    Examples:
      foretrain forecast finetune MODEL reviews.csv --text review --label stars
      foretrain forecast templates examples/same_different.toml
      foretrain forecast corpus reviews.csv --text review --label sentiment
    """


for command in (finetune, corpus, templates):
    forecast_app.command(cls=Command)(command)
