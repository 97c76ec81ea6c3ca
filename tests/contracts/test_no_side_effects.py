"""A library call changes nothing in the process that makes it: threads, environment, allocator, warnings, random state.

Every public function that trains, sweeps, judges or forecasts is called in a small setting.
"""

from __future__ import annotations

import os
import random
import signal
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

import foretrain
from foretrain.core import workers
from foretrain.core.trajectory import trajectory
from foretrain.data import SequenceClasses
from foretrain.data.labelled_texts import read_labelled
from foretrain.data.template_tasks import aba_abb, same_different
from foretrain.data.tokens import TokenTexts
from foretrain.dynamics.epochs import train_epochs
from foretrain.dynamics.optimizers import Adagrad
from foretrain.dynamics.validated import Schedule, train_validated
from foretrain.forecast.corpus import forecast_corpus
from foretrain.forecast.corpus_training import learned_scores
from foretrain.forecast.templates import forecast_templates
from foretrain.ledger.check import VerdictFolder, judge_all
from foretrain.models import Bilinear
from foretrain.models.classifiers import Classifier
from foretrain.models.stacked.transformer_runs import TransformerRuns
from foretrain.models.transformer import TransformerShape
from foretrain.papers import claim
from foretrain.papers.scan_snap.experiments.training import fig6
from foretrain.runs.sweep import sweep

EXAMPLES = Path(__file__).parents[2] / "examples"


def _state() -> dict[str, Any]:
    blas = [(library["filepath"], library["num_threads"]) for library in threadpool_info()]
    return {
        "torch threads": torch.get_num_threads(),
        "torch threads between operations": torch.get_num_interop_threads(),
        "threads of BLAS": sorted(blas),
        "environment": dict(os.environ),
        "folder": Path.cwd(),
        "warning filters": list(warnings.filters),
        "numpy errors": np.geterr(),
        "numpy random": np.random.get_state()[1].tolist(),  # type: ignore[index, union-attr]  # noqa: NPY002
        "python random": random.getstate(),
        "torch random": torch.get_rng_state().tolist(),
        "torch gradients": torch.is_grad_enabled(),
        "torch type": torch.get_default_dtype(),
        "signals": [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)],
    }


@pytest.fixture
def two_threads() -> Iterator[None]:
    """More than one thread, so that setting it to one would be seen."""
    torch.set_num_threads(2)
    with threadpool_limits(2):
        yield
    torch.set_num_threads(1)


def _train(_: Path) -> None:
    task = SequenceClasses.syn_small(length=8)
    record = {"z": lambda p: ((), p["Z"].sum((-1, -2)))}
    foretrain.train(Bilinear(task), task, optimizer=foretrain.SGD(0.1), steps=2, batch=4, record=record)


def _train_validated(_: Path) -> None:
    shape = TransformerShape(tokens=12 + 40, length=3, heads=2, embedding=8, head=4, mlp=8)
    split = aba_abb().split(12, 1, held_out=20, held_out_alphabet=20)
    train_validated(TransformerRuns(shape), [split], rates=(1e-3,), schedule=Schedule(epochs=2))


def _train_epochs(_: Path) -> None:
    texts = TokenTexts.of_lists([[0, 1], [2, 3, 1]], 4)
    train_epochs(Classifier("mlp", 4, 3, "relu"), texts, np.array([0, 1]), optimizer=Adagrad(0.1), epochs=1)


def _integrate(_: Path) -> None:
    foretrain.integrate(lambda t, s: {"x": -s["x"]}, {"x": 1.0}, until=1.0)


def _sweep(folder: Path, queries: tuple[int, ...] = (1,), jobs: int = 1) -> None:
    fixed = {"steps": 2, "eta_z": (1.0,), "ratio": (1.0,), "seeds": 1}
    sweep("scan_snap/fig6", fig6, cut={"queries": queries}, fixed=fixed, root=folder, jobs=jobs)


def _sweep_in_processes(folder: Path) -> None:
    _sweep(folder, queries=(1, 3), jobs=2)


def _judge(_: Path) -> None:
    foretrain.judge(claim("scan_snap/lemma6"))


def _judge_all(folder: Path) -> None:
    list(judge_all([claim("scan_snap/lemma6")], VerdictFolder(folder, "fast")))


def _judge_all_in_processes(folder: Path) -> None:
    claims = [claim("scan_snap/lemma6"), claim("scan_snap/lemma1")]
    list(judge_all(claims, VerdictFolder(folder, "fast"), jobs=2, look_up=claim))


def _save_and_load(folder: Path) -> None:
    foretrain.load(foretrain.save(trajectory({"x": ("time", np.arange(3.0))}), folder / "x.nc"))


def _forecast_templates(_: Path) -> None:
    forecast_templates(same_different())


def _forecast_corpus(_: Path) -> None:
    corpus = read_labelled(EXAMPLES / "reviews.csv")
    learned_scores(corpus, forecast_corpus(corpus), epochs=1, width=4, most=40)


CALLS: list[Callable[[Path], None]] = [
    _train, _train_validated, _train_epochs, _integrate, _sweep, _sweep_in_processes, _judge, _judge_all,
    _judge_all_in_processes, _save_and_load, _forecast_templates, _forecast_corpus,
]  # fmt: skip


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__.strip("_"))
def test_nothing_is_different_afterwards(
    call: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    allocator: list[str] = []
    monkeypatch.setattr(workers, "keep_freed_memory", lambda: allocator.append("changed"))
    warm_up = tmp_path / "warm_up"  # libraries that are loaded on first use may set themselves up
    call(warm_up)
    before = _state()
    call(tmp_path / "run")
    after = _state()
    assert {name: after[name] for name in before if after[name] != before[name]} == {}
    assert allocator == []
