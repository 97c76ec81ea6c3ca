"""Calls the library in a process of its own and prints, as JSON, what each call changed in that process."""

from __future__ import annotations

import csv
import json
import os
import random
import signal
import warnings
from pathlib import Path
from typing import Any

import distributed  # noqa: F401  # libraries that xarray and the report load on first use, with their own warnings
import h5netcdf  # noqa: F401
import jinja2  # noqa: F401
import numpy as np
import plotly.graph_objs._deprecations
import plotly.offline  # noqa: F401
import scipy.sparse
import scipy.special  # noqa: F401
import torch
from threadpoolctl import threadpool_info

import foretrain
from foretrain.core import workers
from foretrain.core.engines import Processes
from foretrain.core.errors import InputError
from foretrain.core.trajectory import trajectory
from foretrain.data.labelled_texts import read_labelled
from foretrain.data.sequence_classes import SequenceClasses
from foretrain.data.template_examples import aba_abb, same_different
from foretrain.data.tokens import TokenTexts
from foretrain.dynamics.epochs import train_epochs
from foretrain.dynamics.validated import Schedule, train_validated
from foretrain.forecast.corpora.forecast import corpus as forecast_corpus
from foretrain.forecast.corpora.training import learned_scores
from foretrain.forecast.templating.forecast import forecast_templates
from foretrain.ledger.verdict_store import VerdictFolder, judge_all
from foretrain.models.bilinear import Bilinear
from foretrain.models.classifiers import Classifier
from foretrain.models.stacked.transformer_runs import TransformerRuns
from foretrain.models.transformer import TransformerShape
from foretrain.papers import claim
from foretrain.papers.scan_snap.experiments.training import fig6
from foretrain.runs.export import export_run
from foretrain.runs.sweep import Plan
from foretrain.show.report.page import write_report

EXAMPLES = Path(__file__).parents[2] / "examples"
ALLOCATOR: list[str] = []


def state() -> dict[str, Any]:
    return {
        "torch threads": torch.get_num_threads(),
        "torch threads between operations": torch.get_num_interop_threads(),
        "threads of BLAS": sorted((library["filepath"], library["num_threads"]) for library in threadpool_info()),
        "environment": dict(os.environ),
        "folder": str(Path.cwd()),
        "warning filters": len(warnings.filters),
        "numpy errors": np.geterr(),
        "numpy random": np.random.get_state()[1].tolist(),  # noqa: NPY002
        "python random": random.getstate(),
        "torch random": torch.get_rng_state().tolist(),
        "torch gradients": torch.is_grad_enabled(),
        "torch type": str(torch.get_default_dtype()),
        "signals": [str(signal.getsignal(s)) for s in (signal.SIGINT, signal.SIGTERM)],
        "limit of csv": csv.field_size_limit(),
        "allocator": list(ALLOCATOR),
    }


def train(_: Path) -> None:
    task = SequenceClasses.syn_small(length=8)
    model = Bilinear(task)
    record = {"attention": lambda p: (("class", "token"), model.attention(p))}
    foretrain.train(model, task, optimizer=foretrain.SGD(0.1), steps=2, batch=4, record=record)


def validated(_: Path) -> None:
    shape = TransformerShape(tokens=12 + 40, length=3, heads=2, embedding=8, head=4, mlp=8)
    split = aba_abb().split(12, 1, held_out=20, held_out_alphabet=20)
    train_validated(TransformerRuns(shape), [split], rates=(1e-3,), schedule=Schedule(epochs=2))


def epochs(_: Path) -> None:
    texts = TokenTexts.of_lists([[0, 1], [2, 3, 1]], 4)
    network = Classifier("mlp", 4, 3, "relu")
    train_epochs(network, texts, np.array([0, 1]), optimizer=foretrain.Adagrad(0.1), epochs=1)


def integrate(_: Path) -> None:
    foretrain.integrate(lambda t, s: {"x": -s["x"]}, {"x": 1.0}, until=1.0)


def run_sweep(folder: Path, queries: tuple[int, ...] = (1,), jobs: int = 1, steps: int = 2) -> Any:
    fixed = {"steps": steps, "eta_z": (1.0,), "ratio": (1.0,), "seeds": 1}
    return Plan("scan_snap/fig6", fig6, cut={"queries": queries}, fixed=fixed).run(folder, jobs=jobs)


def refused(folder: Path) -> None:
    try:
        run_sweep(folder, steps=-1)
    except InputError:
        return
    raise AssertionError("a negative number of steps was taken")


def judge(_: Path) -> None:
    foretrain.judge(claim("scan_snap/lemma6"))


def in_folder(folder: Path) -> None:
    list(judge_all([claim("scan_snap/lemma6")], VerdictFolder(folder, "fast")))


def in_processes(folder: Path) -> None:
    claims = [claim("scan_snap/lemma6"), claim("scan_snap/lemma1")]
    list(judge_all(claims, VerdictFolder(folder, "fast"), engine=Processes(2), look_up=claim))


def save_and_load(folder: Path) -> None:
    foretrain.load(foretrain.save(trajectory({"x": ("time", np.arange(3.0))}), folder / "x.nc"))


def report(folder: Path) -> None:
    write_report({"scan_snap/lemma6": foretrain.judge(claim("scan_snap/lemma6"))}, "fast", folder / "report.html")


def export(folder: Path) -> None:
    export_run(run_sweep(folder).path, str(folder / "x.csv"))


def templates(_: Path) -> None:
    forecast_templates(same_different())


def corpus(_: Path) -> None:
    texts = read_labelled(EXAMPLES / "reviews.csv")
    learned_scores(texts, forecast_corpus(texts), epochs=1, width=4, most=40)


def change_everything(_: Path) -> None:
    torch.set_num_threads(1)
    os.environ["SET_BY_A_LIBRARY"] = "1"
    np.seterr(all="ignore")
    np.random.seed(3)  # noqa: NPY002
    warnings.simplefilter("ignore")
    workers.keep_freed_memory()


CALLS = {
    "train": train, "train_validated": validated, "train_epochs": epochs, "integrate": integrate, "sweep": run_sweep,
    "sweep_in_processes": lambda folder: run_sweep(folder, (1, 3), jobs=2), "sweep_that_is_refused": refused,
    "judge": judge, "judge_all": in_folder, "judge_all_in_processes": in_processes, "save_and_load": save_and_load,
    "report": report, "export": export, "forecast_templates": templates, "forecast_corpus": corpus,
    "change_everything": change_everything,
}  # fmt: skip


def main(folder: Path) -> None:
    torch.set_num_threads(2)  # more than one, so that a change to one is seen
    workers.keep_freed_memory = lambda: ALLOCATOR.append("changed")  # type: ignore[assignment]
    changes = {}
    for name, call in CALLS.items():
        before = state()
        call(folder / name)
        after = state()
        changes[name] = [key for key in before if before[key] != after[key]]
    print(json.dumps(changes))
