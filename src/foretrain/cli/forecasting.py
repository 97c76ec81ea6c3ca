"""foretrain forecast: predict what training will do."""

from __future__ import annotations

from typing import ClassVar

from foretrain.cli.groups import Lazy, LazyGroup, group


class Forecasts(LazyGroup):
    """Predict what training will do, before you train.

    \b
    Examples:
      foretrain forecast finetune MODEL reviews.csv --text review --label stars
      foretrain forecast templates examples/same_different.toml
      foretrain forecast corpus reviews.csv --text review --label sentiment
    """

    lazy: ClassVar = {
        "finetune": Lazy("forecast_finetune:finetune", "What will fine-tuning do to this model on these texts?"),
        "corpus": Lazy("forecast_corpus:corpus", "What will a classifier learn from these texts, and by which words?"),
        "templates": Lazy("forecast_templates:templates", "Which network learns this task, and from how many samples?"),
    }


forecast = group(Forecasts)
