"""Every page that foretrain writes, made from small data with hostile names, and its displays in notebooks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from foretrain import papers
from foretrain.ledger.claim import Erratum
from safety.hostile import ALL, FILE, SCRIPTS

ROOT = Path(__file__).parents[2]


def report() -> str:
    """What `foretrain check --report` writes."""
    from foretrain.ledger.judge import judge
    from foretrain.show.report.page import report_page

    claims, verdicts = {}, {}
    for name in ("scan_snap/lemma13_17", "scan_snap/lemma13_17_corrected", "feature_extraction/score_flow"):
        claim = papers.claim(name)
        control = replace(claim.control, says=ALL)
        formulas = (rf"x \text{{{SCRIPTS[1]}}}", rf"\href{{{SCRIPTS[4]}}}{{x}}")
        told = {"erratum": Erratum(ALL, formulas, ALL)} if claim.erratum else {"finding": ALL}
        claims[name] = replace(claim, says=ALL, source=f"Lemma 1 {ALL}", control=control, **told)
        verdicts[name] = replace(judge(claim, "fast"), reason=ALL, control_reason=ALL, notes=(ALL,))
    return report_page(verdicts, "fast", claims)


def figure() -> str:
    """What `foretrain run --figure` writes."""
    from foretrain.show.pages import as_html
    from foretrain.show.plotting import new_figure, plain_text, prediction_line

    drawn = new_figure(plain_text(ALL), x=plain_text(ALL), y="y")
    for text in SCRIPTS:
        drawn.add_trace(prediction_line([0, 1], [0, 1], plain_text(text), text=[plain_text(text)] * 2))
    return as_html(drawn, ALL)


def _rows() -> list[tuple[str, str]]:
    classes = (f"good {ALL}", f"bad {ALL}")
    return [
        (f"{word} {script} {ALL}", classes[k % 2])
        for k, word in enumerate(("fine", "poor") * 4)
        for script in SCRIPTS[k % 3 :: 3]
    ]


def corpus() -> str:
    """What `foretrain forecast corpus --report` writes."""
    from foretrain.forecast.corpora.page import page

    return page(_corpus_forecast(), FILE)


@cache
def _corpus_forecast() -> Any:
    from foretrain.forecast.corpora.forecast import corpus as forecast_of

    return forecast_of(_rows(), test=_rows()[:6], tokenizer=str.split)


@cache
def _task_forecast() -> Any:
    from foretrain.data.template_files import task_of
    from foretrain.forecast.templating.forecast import templates as forecast_of

    content = {
        "name": ALL,
        "kind": "next-token",
        "wildcards": ["α"],
        "template": [{"string": ["α", SCRIPTS[0]], "label": "α"}, {"string": ["α", SCRIPTS[1]], "label": ALL}],
    }
    return forecast_of(task_of(content).task)


def templates() -> str:
    """What `foretrain forecast templates --report` writes."""
    from foretrain.forecast.templating.figures import page

    return page(_task_forecast())


def templates_figure() -> str:
    """What `foretrain forecast templates --figure` writes."""
    from foretrain.show.pages import as_html

    return as_html(_task_forecast().figure(), ALL)


@cache
def _finetuning() -> Any:
    from forecast.finetuning.models import smooth
    from foretrain.forecast.finetuning.dynamics import FinetuneSetting
    from foretrain.forecast.finetuning.forecast import forecast_with
    from foretrain.forecast.finetuning.prepared import prepare

    classifier, labels = smooth()
    return forecast_with(prepare(classifier, labels, rows=30), FinetuneSetting(rate=1e-3, steps=4, batch=8), orders=1)


def finetune() -> str:
    """What `foretrain forecast finetune --report` writes."""
    from foretrain.forecast.finetuning.figures import page

    return page(_finetuning())


def monitor() -> str:
    """What `foretrain watch --report`, `foretrain lab language` and `Monitor.report` write."""
    from foretrain.monitor.page.writing import page
    from foretrain.runs.training_log import read_lines

    records = read_lines(ROOT / "examples" / "training.jsonl")
    parts = ("attention", "identity", "weights")
    named = [{k: {f"{n}.{ALL}": w for n, w in v.items()} if k in parts else v for k, v in r.items()} for r in records]
    return page(named, FILE)


def several(folder: Path) -> str:
    """What `foretrain watch` and `compare` write about several trainings: names of files and errors are hostile."""
    from foretrain.monitor.page.several import page, watched
    from foretrain.runs.training_log import append_line

    files = [folder / f"{number} {FILE}.jsonl".replace("/", "") for number in (1, 2)]
    for file in files:
        for step in range(0, 60, 3):
            losses = {"first": max(0, step - 2), "loss": [float(step)] * min(3, step + 1)}
            append_line(file, {"step": step, "loss": float(step), "every_step": losses})
        append_line(file, {"stopped": 60, "error": ALL})
    return page(watched(files))


def checkpoints(folder: Path) -> str:
    """What `foretrain analyze --report` writes."""
    from foretrain.checkpoints import analyze
    from foretrain.checkpoints.report import page

    for step in (1, 2, 3):
        place = folder / f"series {FILE}" / f"checkpoint-{step}"
        place.mkdir(parents=True)
        generator = torch.Generator().manual_seed(min(step, 2))  # the last two are the same: a fault
        matrices = {f"layers.{k}.{text}.weight": torch.randn(8, 8, generator=generator)
                    for k, text in enumerate(SCRIPTS)}  # fmt: skip
        save_file(matrices, place / "model.safetensors")
    return page(analyze(str(folder / f"series {FILE}"), runs=folder / "runs"))


def neurons() -> str:
    """What `foretrain lab neurons --report` writes."""
    from foretrain.language.shown_neurons import Piece, ShownNeuron, ShownPattern
    from foretrain.show.pages import render

    pieces = [Piece(text, 0.5, fires=k == 1) for k, text in enumerate((*SCRIPTS, ALL))]
    patterns = [ShownPattern(3, ALL, [pieces]), ShownPattern(2, SCRIPTS[1], [pieces])]
    return render(
        "neurons.html", title=f"What the neurons of {ALL} fire for", answer=ALL, contexts=3, head=("layer", ALL),
        rows=[("0", ALL)], footnotes=(ALL, ALL), neurons=[ShownNeuron(0, 1, 0.9, 5, patterns)],
    )  # fmt: skip


def notebook() -> str:
    """All displays in notebooks, one below the other, in a page without any protection of its own."""
    from foretrain.ledger.verdict import Verdict

    claim = replace(papers.claim("scan_snap/lemma13_17"), says=ALL, source=ALL, erratum=Erratum(ALL, ("x", "x"), ALL))
    verdict = Verdict(ALL, "holds", "holds", 2.0, ALL, 0.1, control_status="fails", control_reason=ALL, notes=(ALL,))
    shown = (claim, verdict, _corpus_forecast(), _task_forecast(), _finetuning())
    body = "<hr>".join(one._repr_html_() for one in shown)
    return f'<!doctype html><meta charset="utf-8"><body>{body}</body>'


PAGES: dict[str, Callable[..., str]] = {
    make.__name__: make
    for make in (report, figure, corpus, templates, templates_figure, finetune, monitor, several, checkpoints, neurons)
}


def made(name: str, folder: Path) -> str:
    """The page of this name, or the displays in notebooks."""
    make = notebook if name == "notebook" else PAGES[name]
    return make(folder) if name in ("checkpoints", "several") else make()
