"""One cell of an experiment on real text: train a model, and give what was measured on the validation text."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import xarray as xr
from pydantic import Field

from foretrain.core.streams import stream
from foretrain.core.trajectory import trajectory
from foretrain.language.made_up import made_up_text
from foretrain.language.setting import LanguageSetting
from foretrain.language.text import TokenText, read_texts, tokenize
from foretrain.language.training import LanguageRun, train_language_model

Kind = Literal["real", "shuffled"]
WIKITEXT, MADE_UP = "wikitext-2", "made-up"
SOURCE = "The text: wikitext-2, a text file, or made-up for words that mean nothing."
Source = Annotated[str, Field(description=SOURCE, json_schema_extra={"file": True})]  # what is in the file counts


@lru_cache(maxsize=2)
def _tokens(source: str, tokens: str, vocabulary: int, context: int, batch: int) -> TokenText:
    setting = LanguageSetting(tokens=tokens, vocabulary=vocabulary, context=context, batch=batch)
    made_up = (made_up_text(20_000), made_up_text(4_000, seed=1))
    return tokenize(made_up if source == MADE_UP else read_texts([source]), setting)


def text_for(setting: LanguageSetting, kind: Kind = "real", source: str = WIKITEXT) -> TokenText:
    """The tokens of a corpus, a text file or a made-up text. Shuffled ones say nothing about what follows them."""
    text = _tokens(source, setting.tokens, setting.vocabulary, setting.context, setting.batch)
    if kind == "real":
        return text
    random = stream("language/shuffled", setting.seed)
    train, valid = random.permutation(text.train), random.permutation(text.valid)
    return replace(text, train=train, valid=valid, digest=f"{text.digest}-shuffled-{setting.seed}")


def trained(
    setting: LanguageSetting, text: TokenText, *, every: int, evaluations: int, folder: Path | None = None
) -> tuple[LanguageRun, xr.Dataset]:
    """A trained model, and its evaluations [step, layer, head] with layers numbered from the bottom.

    Without a folder, what the training leaves on disk is deleted.
    """
    with tempfile.TemporaryDirectory() as temporary:
        home = Path(temporary) / "run" if folder is None else folder
        keep = folder is not None
        run = train_language_model(setting, text, home, every=every, evaluations=evaluations, checkpoints=keep)
        evaluated = run.evaluated.load()
    return run, evaluated.assign_coords(layer=np.arange(evaluated.sizes["layer"]))


def with_room(dataset: xr.Dataset, layers: int) -> xr.Dataset:
    """The same with so many layers, of which those that the model does not have are nan."""
    return dataset.reindex(layer=np.arange(layers))


def as_trajectory(runs: xr.Dataset, units: Mapping[str, str], **config: Any) -> xr.Dataset:
    """The result of an experiment, with units and its configuration."""
    variables = {str(name): (values.dims, values.values) for name, values in runs.data_vars.items()}
    coordinates = {str(name): runs[name].values for name in runs.dims}
    return trajectory(variables, coordinates, units, **config)
