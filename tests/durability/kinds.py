"""One folder with every kind of file that foretrain writes and reads back, and how each is read."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xarray as xr
from torch import nn

from foretrain import papers
from foretrain.core.errors import DamagedFile
from foretrain.core.trajectory import load_file, save
from foretrain.language.made_up import made_up_text
from foretrain.language.models import build
from foretrain.language.setting import LanguageSetting
from foretrain.language.state import TrainingFolder, load_model
from foretrain.language.text import TokenText, tokenize
from foretrain.language.training import make_optimizer, train_language_model
from foretrain.ledger.verdict_store import RECORD, VerdictFolder, judge_all
from foretrain.monitor.monitor import Monitor
from foretrain.runs.run_folder import load
from foretrain.runs.sweep import Plan
from runs.made_up_sweeps import AXES, noise

CUT = {"rate": (0.5, 1.0, 2.0), "seeds": (1, 2, 3, 4)}
SMALL = LanguageSetting(
    tokens="words", vocabulary=40, layers=1, width=8, heads=2, hidden=8, context=8, batch=4, steps=4, warm_up=2
)


@dataclass(frozen=True)
class Kind:
    """Files of one kind, how to read the numbers in them, and what writes them again (None: nothing does)."""

    files: list[Path]
    read: Callable[[], Any]
    repair: Callable[[], object] | None = None


def numbers(dataset: xr.Dataset) -> Any:
    """All that a dataset says, to the bit; what a note of ours says about its state is left out."""
    parts = {str(name): (v.dims, v.dtype.str, v.values.tobytes()) for name, v in dataset.variables.items()}
    return parts, dict(dataset.attrs)


def single(size: int) -> xr.Dataset:
    return xr.Dataset({"v": ("i", np.arange(size) / 7)})


def every_kind(home: Path) -> dict[str, Kind]:
    return {**_sweeps(home), **_verdicts(home), **_records(home), **_trainings(home)}


def _sweeps(home: Path) -> dict[str, Kind]:
    def swept() -> Path:
        return Plan("paper/figure", noise, cut=CUT, fixed={"size": 3}, axes=AXES, together=2).run(home / "runs").path

    def alone() -> Path:
        return Plan("paper/alone", single, cut={}, fixed={"size": 5}).run(home / "runs").path

    run, one = swept(), alone()
    group = run / "sweep.zarr"
    chunks = [path for path in group.rglob("*") if path.is_file() and path.name != "zarr.json"]
    marks = [path for path in chunks if path.parts[-4] == "done"]
    file = save(single(5), home / "single.nc")

    def of(files: list[Path]) -> Kind:
        return Kind(sorted(files), lambda: numbers(load(run)), swept)

    return {
        "chunks of results, coordinates and notes": of([path for path in chunks if path not in marks]),
        "done marks": of(marks),
        "zarr.json of the group": of([group / "zarr.json"]),
        "zarr.json of arrays": of(list(group.glob("*/zarr.json"))),
        "run.json": of([run / "run.json"]),
        "trajectory.nc": Kind([one / "trajectory.nc"], lambda: numbers(load(one)), alone),
        "exported .nc": Kind([file], lambda: numbers(load_file(file))),
    }


def _verdicts(home: Path) -> dict[str, Kind]:
    names = ["toy/means", "toy/bounds", "toy/matrix"]
    claims = [papers.claim(name) for name in names]
    folder = VerdictFolder(home / "runs", "fast")

    def judged() -> None:
        list(judge_all(claims, folder, check="a check"))

    def read() -> Any:
        verdicts = [folder.get(claim, trajectories=True) for claim in claims]
        plain = [replace(v, prediction=None, observation=None, seconds=0.0) for v in verdicts if v is not None]
        both = [(v.prediction, v.observation) for v in verdicts if v is not None]
        return repr(plain), [numbers(d) for pair in both for d in pair if d is not None]

    def begun() -> str:
        """The name of an unfinished check, as the same command finds it."""
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                return folder.begin(names)
            except UserWarning as damage:
                raise DamagedFile(str(damage)) from damage

    def begin_again() -> None:
        folder._note("a check", status="running", claims=names)

    judged()
    begin_again()
    place = folder.path / "toy"
    return {
        "verdict .json": Kind(sorted(place.glob("*.json")), read, judged),
        "verdict .nc": Kind(sorted(place.glob("*.nc")), read, judged),
        "check.json": Kind([folder.path / RECORD], begun, begin_again),
    }


def _records(home: Path) -> dict[str, Kind]:
    torch.manual_seed(1)
    model = nn.TransformerEncoderLayer(8, 2, 8, batch_first=True, dropout=0.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    file = home / "monitored.jsonl"
    with Monitor(model, every=1, file=file) as monitor:
        for _ in range(5):
            loss = model(torch.randn(2, 4, 8)).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            monitor.step(loss=loss)
    return {"monitor .jsonl": Kind([file], lambda: numbers(load(file)))}


def _trainings(home: Path) -> dict[str, Kind]:
    text: TokenText = tokenize((made_up_text(1500), made_up_text(300, seed=1)), SMALL)
    folder = home / "language"
    run = train_language_model(SMALL, text, folder, every=2, evaluations=2)
    states = [folder / "setting.json", folder / "state.json", *folder.glob("state-*.safetensors")]

    def state() -> Any:
        model = build(SMALL, text.vocabulary)
        optimizer = make_optimizer(model, SMALL)
        home_of = TrainingFolder(folder)
        home_of.require_own(SMALL, text.digest)
        step, losses = home_of.restore(model, optimizer)
        kept = [v.numpy().tobytes() for s in optimizer.state.values() for v in s.values()]
        return step, losses.numpy().tobytes(), weights(model), kept

    checkpoint = run.checkpoints[-1]
    return {
        "state of a training": Kind(states, state),
        "checkpoint": Kind(sorted(checkpoint.iterdir()), lambda: weights(load_model(checkpoint))),
        "measurements of a training": Kind(
            [folder / "run.jsonl", folder / "evaluations.jsonl"],
            lambda: (numbers(run.watched), numbers(run.evaluated)),
        ),
    }


def weights(model: nn.Module) -> list[bytes]:
    return [parameter.detach().numpy().tobytes() for parameter in model.parameters()]
