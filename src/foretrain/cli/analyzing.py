"""foretrain analyze, compare: what weights on disk say, and whether a series of checkpoints is sound."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich import box

from foretrain.checkpoints import Analysis, Comparison
from foretrain.checkpoints import analyze as analyze_checkpoints
from foretrain.checkpoints import compare as compare_both
from foretrain.checkpoints.matrix_names import in_order
from foretrain.checkpoints.run_comparison import RunComparison
from foretrain.checkpoints.sentences import PRODUCTS, chance, layer_table, matrix_table, share, shown
from foretrain.cli.common import RUNS, Runs, option, say
from foretrain.cli.files import require_outputs
from foretrain.cli.progress import progress_shown
from foretrain.cli.terminal import PlainConsole, console, show_json, table
from foretrain.core.errors import require
from foretrain.core.files import require_writable

FAULTS, INCOMPLETE = 1, 2  # exit codes
LISTED, LAYERS, TENSORS = 10, 12, 12  # most faults, layers and tensors to print
WRITTEN = ("nan", "inf", "-inf")  # how records spell numbers that are not finite

Heads = Annotated[int | None, option("Attention heads, if no config.json gives them.", "N")]
AsJson = Annotated[bool, option("Print everything as JSON.", None, "--json")]
MODEL = "A folder, a file, a folder of checkpoints, or a hub name."
CHECKPOINTS = ("Folder with checkpoints; MODEL has config and tokenizer.", "DIR")


def analyze(
    model: Annotated[str, typer.Argument(metavar="MODEL", help=MODEL)],
    revisions: Annotated[str | None, option("Revisions on the hub; main=143000: main is that step.", "A,B,…")] = None,
    checkpoints: Annotated[Path | None, option(*CHECKPOINTS)] = None,
    text: Annotated[Path | None, option("Text to run each checkpoint on: loss and attention.", "FILE")] = None,
    context: Annotated[int | None, option("Tokens per window; by default the model's, at most 256.", "N")] = None,
    heads: Heads = None,
    report: Annotated[Path | None, option("Write an HTML page with curves.", "FILE.html")] = None,
    json_out: AsJson = False,
    runs: Runs = RUNS,
) -> None:
    """What do the weights of a model say, how did they change over training, and is the series of checkpoints sound?

    One checkpoint is read at a time, tensor by tensor. Each result is saved: after an interruption, run the same
    command again to continue. Exit codes: 0 sound, 1 faults found, 2 something could not be read.

    \b
    Examples:
      foretrain analyze out/ --report training.html
      foretrain analyze EleutherAI/pythia-70m --revisions step0,step1000
      foretrain analyze gpt2 --text sample.txt --context 256
      foretrain analyze config/ --checkpoints out/ --json
    """  # fmt: skip
    require_outputs({"--report": report})
    require_writable("--runs", runs, folder=True)
    names = [name.strip() for name in (revisions or "").split(",") if name.strip()]
    require(revisions is None or bool(names), "--revisions names no revision; give a list such as step0,step1000.")
    with progress_shown("analyzing"):
        analysis = analyze_checkpoints(
            model, revisions=names, checkpoints=checkpoints, text=text, context=context, heads=heads, runs=runs
        )
    for note in analysis.notes:
        say(note)
    if json_out:
        show_json(analysis.as_dict(), nulls=WRITTEN)
    else:
        _print_analysis(analysis)
    if report is not None:
        analysis.report(report)
        say(f"Wrote {report}.")
    if not analysis.complete or analysis.faults:
        raise typer.Exit(FAULTS if analysis.complete else INCOMPLETE)


def compare(
    a: Annotated[str, typer.Argument(metavar="A", help="A model (folder, file, hub name) or a run (.jsonl).")],
    b: Annotated[str, typer.Argument(metavar="B", help="Another of the same kind.")],
    heads: Heads = None,
    json_out: AsJson = False,
    report: Annotated[Path | None, option("Write a page with the curves of two runs.", "FILE.html")] = None,
) -> None:
    """How do two models differ, tensor by tensor, or two monitored runs, step by step?

    More than two runs: foretrain watch A.jsonl B.jsonl C.jsonl.

    \b
    Examples:
      foretrain compare out/checkpoint-500 out/checkpoint-1000
      foretrain compare gpt2 my-fine-tuned-gpt2
      foretrain compare first-run.jsonl second-run.jsonl
    """
    require_outputs({"--report": report})
    with progress_shown("comparing"):
        comparison = compare_both(a, b, heads=heads)
    require(report is None or not isinstance(comparison, Comparison), "--report draws runs; for models, use --json.")
    if json_out:
        show_json(comparison.as_dict(), nulls=WRITTEN)
    elif isinstance(comparison, Comparison):
        _print_models(comparison)
    else:
        _print_runs(comparison)
    if report is not None:
        from foretrain.monitor.page.several import watched, write_several  # on use: Plotly takes long to import

        write_several(watched([Path(a), Path(b)]), report)
        say(f"Wrote {report}.")


def _print_analysis(analysis: Analysis) -> None:
    out = console(results=True)
    out.lines(analysis.summary, *(f"  {fault.kind}: {fault.sentence}" for fault in analysis.faults[:LISTED]))
    if len(analysis.faults) > LISTED:
        out.lines(f"  … and {len(analysis.faults) - LISTED} more (--report and --json have all)")
    (head, rows), what = layer_table(analysis), "layers"
    title = "From the first step to the last" if len(analysis.records) > 1 else "By layer"
    if not rows:  # no name says what is attention or an MLP, or in which layer
        (head, rows), what = matrix_table(analysis), "matrices"
        title = title.replace("layer", "matrix")
    chosen = _spread(len(rows), LAYERS)
    if len(chosen) < len(rows):
        title += f"; {len(chosen)} of {len(rows)} {what} (--report has all)"
    _table(out, title, head, [rows[k] for k in chosen])
    out.lines(f"Records: {analysis.file}")


def _print_models(comparison: Comparison) -> None:
    out = console(results=True)
    out.lines(comparison.summary)
    if comparison.distances and not comparison.shapes and len(comparison.identical) == len(comparison.distances):
        return
    moved = list(comparison.moved(vectors=False).items())
    rows = []
    for name, distance in moved[:TENSORS]:
        ranks = comparison.stable_ranks.get(name)
        numbers = [*map(shown, ranks), min(comparison.sides[name])] if ranks else ["", "", ""]
        rows.append([name, f"{100 * distance:.3g} %", *numbers])
    if rows:
        title = "Distances of matrices, relative to A"
        title += f"; the largest {TENSORS} of {len(moved)}" if len(moved) > TENSORS else ""
        _table(out, title, ["matrix", "distance", "stable rank, A", "stable rank, B", "of at most"], rows)
    layers = [(layer, comparison.identity[layer]) for layer in in_order(comparison.identity)]
    chosen = [layers[k] for k in _spread(len(layers), LAYERS)]
    rows = [
        [layer, *(share(value) for product in PRODUCTS for value in shares.get(product, (float("nan"),) * 2))]
        for layer, shares in chosen
    ]
    if rows:
        head = ["layer", *(f"{title}, {side}" for title in PRODUCTS.values() for side in "AB")]
        _table(out, f"The identity's share, mean over heads ({chance(comparison.chance)})", head, rows)


def _print_runs(comparison: RunComparison) -> None:
    out = console(results=True)
    out.lines(comparison.summary)
    layers = [(layer, comparison.entropies[layer]) for layer in in_order(comparison.entropies)]
    chosen = [layers[k] for k in _spread(len(layers), LAYERS)]
    if chosen:
        rows = [[layer, shown(one), shown(other)] for layer, (one, other) in chosen]
        _table(out, f"Entropy (nats) at step {comparison.steps[-1]}", ["layer", "A", "B"], rows)


def _spread(count: int, most: int) -> list[int]:
    """Up to `most` of `count` places, evenly spaced, with the first and the last."""
    return list(range(count)) if count <= most else [round(k * (count - 1) / (most - 1)) for k in range(most)]


def _table(out: PlainConsole, title: str, head: list[str], rows: Sequence[Sequence[object]]) -> None:
    out.print(table(head, rows, title=title, frame=box.HEAVY_HEAD))
