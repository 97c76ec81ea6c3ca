"""What foretrain itself has written: runs, verdicts, and the JSON lines of a monitored training."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from hypothesis import strategies as st

from foretrain.core.trajectory import save, trajectory
from foretrain.ledger.verdict import Verdict
from foretrain.ledger.verdict_store import VerdictFolder, fingerprint
from fuzzing.mutations import as_json, changed, changed_bytes, scalars, tokens
from fuzzing.places import place
from fuzzing.running import Target

EXAMPLE = Path(__file__).parent.parent / "examples" / "training.jsonl"


def targets() -> tuple[Target, ...]:
    return (
        Target("run", _runs(), _load_run, share=0.3),
        Target("verdict", _verdicts(), _load_verdict, share=1),
        Target("lines", _lines(), _load_lines, share=2),
    )


def experiment(rates: list[float], size: int = 2) -> xr.Dataset:
    """A made-up experiment that is computed at once."""
    values = np.outer(rates, np.arange(size))
    return trajectory({"loss": (("rates", "step"), values)}, {"rates": rates, "step": np.arange(size)})


@cache
def _run() -> dict[str, bytes]:
    """The files of a finished run, by their path in its folder."""
    from foretrain.runs.sweep import Plan

    plan = Plan("made_up/one", experiment, cut={"rates": [0.5, 1.0]}, fixed={"size": 2})
    folder = plan.run(place("made")).path
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


@st.composite
def _runs(draw: st.DrawFn) -> tuple[str, bytes]:
    """One file of a run, changed. A sealed record is sealed again after the change, so that the seal hides nothing."""
    files = _run()
    named = st.sampled_from([name for name, content in files.items() if content])
    name = draw(st.one_of(st.just("run.json"), named))
    record = _record(files[name])
    if record is None or draw(st.integers(0, 4)) == 0:
        return name, draw(changed_bytes(files[name]))
    return name, _written(draw, record, sealed="sha256" in record)


def _record(content: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(content)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def _written(draw: st.DrawFn, record: dict[str, Any], *, sealed: bool) -> bytes:
    """The changed record as bytes, with a seal that fits if it can be sealed at all."""
    content = {key: value for key, value in record.items() if key != "sha256"}
    if not sealed or draw(st.integers(0, 4)) == 0:
        return as_json(draw(changed(record, replacements=st.one_of(scalars, tokens)))).encode()
    altered = draw(changed(content))
    return sealed_record(altered if isinstance(altered, dict) else {"record": altered})


def sealed_record(record: dict[str, Any]) -> bytes:
    """What `write_record` writes, without waiting for the disk."""
    plain = json.loads(json.dumps(record))
    seal = hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()
    return json.dumps({"sha256": seal, **plain}, sort_keys=True).encode()


def _load_run(given: tuple[str, bytes]) -> None:
    import foretrain

    name, content = given
    folder = place("run")
    shutil.rmtree(folder, ignore_errors=True)
    for other, valid in _run().items():
        file = folder / other
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if other == name else valid)
    foretrain.load(folder)


@cache
def _verdict() -> tuple[Any, dict[str, Any]]:
    """A claim, and the record of a verdict about it."""
    from foretrain import papers

    claim = papers.claim(next(iter(papers.claims())))
    verdict = Verdict(
        claim.id, "holds", "holds", 2.5, "all is well", 0.1, control_status="fails", control_reason="as it should",
        notes=("a note",),
    )  # fmt: skip
    folder = VerdictFolder(place("verdicts"), "fast")
    folder.put(verdict, fingerprint(claim, "fast"), "0123456789ab")
    record = json.loads((folder.path / f"{claim.id}.json").read_text(encoding="utf-8"))
    record["verdict"]["assumptions"] = [{"says": "small", "met": True, "measured": "yes", "needed": True}]
    data = trajectory({"x": ("step", [1.0])}, {"step": [0]})
    save(data, folder.path / f"{claim.id}.prediction.nc")
    return claim, record


@st.composite
def _verdicts(draw: st.DrawFn) -> bytes:
    _, record = _verdict()
    return _written(draw, record, sealed=True)


def _load_verdict(content: bytes) -> None:
    from foretrain.ledger.display import verdict_html

    claim, _ = _verdict()
    folder = VerdictFolder(place("verdicts"), "fast")
    (folder.path / f"{claim.id}.json").write_bytes(content)
    folder.seconds(claim.id)
    verdict = folder.get(claim, trajectories=True)
    if verdict is not None:
        verdict_html(verdict)
        json.dumps(asdict(verdict), default=str)
        verdict.summary()
        repr(verdict.as_expected)


@cache
def _training() -> list[dict[str, Any]]:
    """A few records of a real training, with two layers and two matrices each, and made-up values of what it lacks."""
    whole = [json.loads(line) for line in EXAMPLE.read_text(encoding="utf-8").splitlines()]
    kept = [whole[0], *whole[1:-1:40][:4], whole[-1]]
    parts = ("attention", "identity", "weights")
    short = [{k: dict(list(v.items())[:2]) if k in parts else v for k, v in record.items()} for record in kept]
    return [{**_more(record.get("step", 0)), **record} for record in short]


def _more(step: Any) -> dict[str, Any]:
    """The parts of a record that the example has not."""
    return {
        "gradient_norm": 0.5,
        "activations": {f"h.{k}": {"residual_norm": 1.0, "massive": 9.0, "dead_units": 0.1} for k in range(2)},
        "experts": {"h.1.mlp": {"router_entropy": 0.9, "load": [0.5, 0.25, 0.25], "busiest": 1.5}},
        "every_step": {"first": step, "loss": [2.0], "gradient_norm": [0.5]},
        "process": {"host": "here", "number": 12},
    }


@cache
def _sound_training() -> Path:
    file = place("sound.jsonl")
    file.write_text("".join(f"{json.dumps(record)}\n" for record in _training()), encoding="utf-8")
    return file


@st.composite
def _lines(draw: st.DrawFn) -> bytes:
    records = draw(changed(_training(), replacements=st.one_of(scalars, tokens)))
    lines = map(as_json, records if isinstance(records, list) else [records])
    content = "".join(f"{line}\n" for line in lines).encode()
    return draw(changed_bytes(content)) if draw(st.integers(0, 3)) == 0 else content


def _load_lines(content: bytes) -> None:
    """All that `foretrain watch` shows, alone and beside a sound run, and what `foretrain compare` says of the two."""
    from foretrain.checkpoints.run_comparison import compare_runs
    from foretrain.cli.watching import _look

    file = place("run.jsonl")
    file.write_bytes(content)
    _look([file])
    _look([file, _sound_training()])
    json.dumps(compare_runs(file, _sound_training()).as_dict())
