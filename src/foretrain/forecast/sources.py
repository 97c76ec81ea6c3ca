"""Labelled texts as people name them: sst2, imdb or ag_news, a file, or data in memory."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from foretrain.core.errors import InputError, require
from foretrain.data.corpora import HUB_NAMES, LABELLED, labelled_corpus
from foretrain.data.labelled_texts import LabelledTexts, as_labelled_texts, read_labelled


def texts_of(
    data: Any,
    *,
    text: Any = None,
    label: Any = None,
    classes: Sequence[str] | None = None,
    header: bool | None = None,
    folder: Path | None = None,
    split: str = "train",
) -> LabelledTexts:
    """Labelled texts by the name of a corpus, from a file, or from data in memory; ./imdb is always a file.

    text, label  columns; the columns and classes of a corpus with a name are known
    classes      the allowed labels in order
    folder       where corpora with a name are; of these, `split` is read
    """
    if not isinstance(data, str | Path):
        return as_labelled_texts(data, text=text, label=label, classes=classes)
    name = str(data)
    columns = {"text": text, "label": label, "header": header, "classes": classes}
    given: dict[str, Any] = {option: value for option, value in columns.items() if value is not None}
    if name in LABELLED or name in HUB_NAMES:
        require(not given, f"--{next(iter(given), '')} is for files; the columns and classes of {name} are known.")
        return labelled_corpus(name, split, data=folder)
    require(not Path(name).is_dir(), f"{name} is a folder; give a file in it.")
    if not Path(name).is_file() and not Path(name).suffix:
        near = get_close_matches(name, LABELLED, 1)
        hint = f"did you mean {near[0]}?" if near else f"the built-in corpora are {', '.join(LABELLED)}."
        raise InputError(f"There is no file {name}; {hint}")
    require(folder is None, f"--data is for the built-in corpora ({', '.join(LABELLED)}); got the file {name}.")
    return read_labelled(name, **given)


def further_texts(data: Any, texts: LabelledTexts, *, folder: Path | None = None, **columns: Any) -> LabelledTexts:
    """Test rows for labelled texts: of a corpus with a name, its test split; else data with the same classes."""
    if isinstance(data, str) and (data in LABELLED or data in HUB_NAMES):
        return texts_of(data, folder=folder, split="test")
    return texts_of(data, classes=texts.classes, **columns)
