"""`foretrain lab neurons`: what makes MLP neurons fire, and whether one fires for unrelated patterns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foretrain.cli.common import console, say, show_json
from foretrain.cli.progress import progress_shown
from foretrain.core.errors import InputError, require, visible
from foretrain.core.files import require_writable

if TYPE_CHECKING:
    from foretrain.language.decoders import Decoder
    from foretrain.language.neurons import NeuronStudy
    from foretrain.language.shown_neurons import ShownNeuron

MOST_CONTEXT = 128  # tokens, unless more are asked for
PRINTED = 6  # neurons


def neurons(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A folder with a decoder, or a hub name.")],
    text: Annotated[Path, typer.Option(help="Text that the model reads.", metavar="FILE")],
    layers: Annotated[
        str | None,
        typer.Option(help="Layers, from 0 at the bottom; by default all.", metavar="A,B,…", show_default=False),
    ] = None,
    context: Annotated[
        int | None,
        typer.Option(help="Tokens per window; by default the model's, at most 128.", metavar="N", show_default=False),
    ] = None,
    windows_read: Annotated[
        int, typer.Option("--windows", help="Windows of the text to read, at most.", metavar="N")
    ] = 2048,
    shown: Annotated[int, typer.Option("--neurons", help="How many neurons the page shows.", metavar="N")] = 50,
    report: Annotated[
        Path | None,
        typer.Option(help="Write a page with contexts and attention.", metavar="FILE.html", show_default=False),
    ] = None,
    untrained: Annotated[
        bool, typer.Option("--untrained/--no-untrained", help="Compare with an untrained model of the same size.")
    ] = True,
    json_out: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
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
    if report is not None:
        is_html = report.suffix.lower() in (".html", ".htm")
        require(is_html, f"--report writes HTML; got {report.name}; give a name that ends in .html.")
        require_writable("--report", report)
    require(shown >= 1, f"--neurons must be at least 1; got {shown}.")
    require(windows_read >= 80, f"--windows must be at least 80; got {windows_read}.")
    chosen, words = _numbers(layers), _read(text)
    from foretrain.language.decoders import open_decoder
    from foretrain.language.neuron_words import as_dict
    from foretrain.language.neurons import cut_windows, study_neurons
    from foretrain.language.shown_neurons import shown_neurons

    with progress_shown("neurons"):
        decoder = open_decoder(model)
        windows = cut_windows(decoder.encode(words), _length(context, decoder), windows_read)
        _require_fit(decoder, int(windows.max()))
        study = study_neurons(decoder.model, windows, layers=chosen)
        other = study_neurons(decoder.untrained(), windows, layers=chosen) if untrained else None
    best = shown_neurons(study, decoder.pieces(windows.ravel().tolist()), most=shown)
    if json_out:
        show_json(as_dict(study, other, best), allow_nan=False)
    else:
        _print(study, other, best)
    if report is not None:
        from foretrain.core.files import write_text

        write_text(report, page(decoder.name, study, other, best))
        say(f"Wrote {report}.")


def page(name: str, study: NeuronStudy, untrained: NeuronStudy | None, best: list[ShownNeuron]) -> str:
    """The study as an HTML page."""
    from foretrain.language.neuron_words import CAVEAT, FOOTNOTE, TABLE_HEAD, answer, layer_rows
    from foretrain.show.pages import render

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
    from rich.table import Table
    from rich.text import Text

    from foretrain.language.neuron_words import CAVEAT, FOOTNOTE, TABLE_HEAD, answer, layer_rows

    out = console(results=True)
    out.print(Text(answer(study, untrained)))
    out.print("")
    table = Table(box=None, pad_edge=False, header_style="dim")
    for head in TABLE_HEAD:
        table.add_column(head, justify="right")
    for row in layer_rows(study, untrained):
        table.add_row(*row)
    out.print(table)
    out.print(Text(f"\n{CAVEAT}\n{FOOTNOTE}", style="dim"))
    if best:
        out.print(Text("\nNeurons with the most even patterns (what fires ← what it attends to):"))
    for neuron in best[:PRINTED]:
        patterns = "   |   ".join(pattern.label for pattern in neuron.patterns)
        out.print(Text(visible(f"  layer {neuron.layer}, neuron {neuron.index}, score {neuron.score:.2f}: {patterns}")))


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
    from torch import nn

    rows = max((m.num_embeddings for m in decoder.model.modules() if isinstance(m, nn.Embedding)), default=largest + 1)
    require(largest < rows, f"The tokenizer gives token {largest}, but the model has {rows} embeddings.")
