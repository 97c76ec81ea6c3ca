"""`foretrain lab neurons`: what makes MLP neurons fire, and whether one fires for unrelated patterns."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text
from torch import nn

from foretrain.cli.common import option, say
from foretrain.cli.files import require_outputs
from foretrain.cli.progress import progress_shown
from foretrain.cli.terminal import console, show_json, table
from foretrain.core.errors import InputError, require
from foretrain.core.files import write_text
from foretrain.language.decoders import Decoder, open_decoder
from foretrain.language.neuron_words import CAVEAT, FOOTNOTE, TABLE_HEAD, answer, as_dict, layer_rows
from foretrain.language.neurons import NeuronStudy, cut_windows, study_neurons
from foretrain.language.shown_neurons import ShownNeuron, shown_neurons
from foretrain.show.pages import render

MOST_CONTEXT = 128  # tokens, unless more are asked for
PRINTED = 6  # neurons


def neurons(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A folder with a decoder, or a hub name.")],
    text: Annotated[Path, option("Text that the model reads.", "FILE")],
    layers: Annotated[str | None, option("Layers, from 0 at the bottom; by default all.", "A,B,…")] = None,
    context: Annotated[int | None, option("Tokens per window; by default the model's, at most 128.", "N")] = None,
    windows_read: Annotated[int, option("Windows of the text to read, at most.", "N", "--windows")] = 2048,
    shown: Annotated[int, option("How many neurons the page shows.", "N", "--neurons")] = 50,
    report: Annotated[Path | None, option("Write a page with contexts and attention.", "FILE.html")] = None,
    untrained: Annotated[
        bool, option("Compare with an untrained model of the same size.", None, "--untrained/--no-untrained")
    ] = True,
    json_out: Annotated[bool, option("Print everything as JSON.", None, "--json")] = False,
) -> None:
    """Do the neurons of a language model fire for several unrelated patterns (JoMA's pattern superposition)?

    For every MLP neuron: the contexts that make it fire most, what the firing tokens attend to, and into how many
    unrelated patterns these contexts fall. The text must fill at least 80 windows; with more, more patterns show.

    \b
    Examples:
      foretrain lab neurons gpt2 --text sample.txt --report page.html
      foretrain lab neurons runs/my-training --text sample.txt --layers 0,1
      foretrain lab neurons gpt2 --text sample.txt --no-untrained --json
    """
    require_outputs({"--report": report})
    require(shown >= 1, f"--neurons must be at least 1; got {shown}.")
    require(windows_read >= 80, f"--windows must be at least 80; got {windows_read}.")
    chosen, words = _numbers(layers), _read(text)
    with progress_shown("neurons"):
        decoder = open_decoder(model)
        windows = cut_windows(decoder.encode(words), _length(context, decoder), windows_read)
        _require_fit(decoder, int(windows.max()))
        study = study_neurons(decoder.model, windows, layers=chosen)
        other = study_neurons(decoder.untrained(), windows, layers=chosen) if untrained else None
    best = shown_neurons(study, decoder.pieces(windows.ravel().tolist()), most=shown)
    if json_out:
        show_json(as_dict(study, other, best))
    else:
        _print(study, other, best)
    if report is not None:
        write_text(report, page(decoder.name, study, other, best))
        say(f"Wrote {report}.")


def page(name: str, study: NeuronStudy, untrained: NeuronStudy | None, best: list[ShownNeuron]) -> str:
    """The study as an HTML page."""
    return render(
        "neurons.html",
        title=f"What the neurons of {name} fire for",
        answer=answer(study, untrained),
        contexts=study.layers[0].contexts.values.shape[1],
        head=TABLE_HEAD,
        rows=layer_rows(study, untrained),
        footnotes=(CAVEAT, FOOTNOTE),
        neurons=best,
    )


def _print(study: NeuronStudy, untrained: NeuronStudy | None, best: list[ShownNeuron]) -> None:
    out = console(results=True)
    out.lines(answer(study, untrained), "")
    out.print(table(TABLE_HEAD, layer_rows(study, untrained), frame=None, justify="right"))
    out.print(Text(f"\n{CAVEAT}\n{FOOTNOTE}", style="dim"))
    if best:
        out.lines("", "Neurons with the most even patterns (what fires ← what it attends to):")
    for neuron in best[:PRINTED]:
        patterns = "   |   ".join(pattern.label for pattern in neuron.patterns)
        out.lines(f"  layer {neuron.layer}, neuron {neuron.index}, score {neuron.score:.2f}: {patterns}")


def _numbers(layers: str | None) -> list[int] | None:
    if layers is None:
        return None
    parts = [part.strip() for part in layers.split(",")]
    require(all(part.isdecimal() for part in parts), f"--layers takes numbers such as 0,3; got {layers!r}.")
    return sorted({int(part) for part in parts})


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"--text {file} cannot be read ({error.strerror}).") from error
    except UnicodeDecodeError as error:
        raise InputError(f"--text {file} is not UTF-8 text: {error.reason} at byte {error.start}.") from error


def _length(context: int | None, decoder: Decoder) -> int:
    length = min(decoder.longest, MOST_CONTEXT) if context is None else context
    require(
        8 <= length <= decoder.longest,
        f"--context must be from 8 to {decoder.longest}, the longest that the model reads; got {length}.",
    )
    return length


def _require_fit(decoder: Decoder, largest: int) -> None:
    """Refuse a tokenizer that belongs to another model."""
    rows = max((m.num_embeddings for m in decoder.model.modules() if isinstance(m, nn.Embedding)), default=largest + 1)
    require(largest < rows, f"The tokenizer gives token {largest}, but the model has {rows} embeddings.")
