"""foretrain lab: small language models to try things on."""

from __future__ import annotations

from typing import ClassVar

from foretrain.cli.groups import Lazy, LazyGroup, group


class Laboratory(LazyGroup):
    """Small language models to try things on.

    \b
    Examples:
      foretrain lab language book.txt
      foretrain lab neurons MODEL --text book.txt
    """

    lazy: ClassVar = {
        "language": Lazy("language:language", "Train a small language model on your text, watched."),
        "neurons": Lazy("neurons:neurons", "See which patterns fire the neurons of a model."),
    }


lab = group(Laboratory)
