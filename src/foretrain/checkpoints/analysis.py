"""Analyses a checkpoint or a series: measures each, keeps what it measured, and checks whether the series is sound."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from foretrain.checkpoints.configs import settings_kept, sound_settings, unsound
from foretrain.checkpoints.fault import Fault, Record
from foretrain.checkpoints.find_faults import find_faults
from foretrain.checkpoints.formats import TORCH_ENDINGS, open_weights
from foretrain.checkpoints.identical import unfrozen_late
from foretrain.checkpoints.measure_checkpoint import VERSION, digests, has_attention, heads_in, measure
from foretrain.checkpoints.record_file import read_records
from foretrain.checkpoints.sentences import summary
from foretrain.checkpoints.series import Measured
from foretrain.checkpoints.sources import Checkpoint, Source, find, read_json, trainer_step
from foretrain.checkpoints.weights import NotFinite, Unreadable, Weights
from foretrain.core.errors import require, require_whole
from foretrain.core.files import write_text
from foretrain.core.progress import Progress, tell
from foretrain.runs.training_log import append_line

NO_HEADS = (
    "Identity shares of the heads are left out, because no config.json says how many heads there are; give --heads N."
)
NEAR = 4  # neighbours whose files are opened in search of a configuration


class Analysis(Measured):
    """What the weights of a series say: its records, its faults, and the same in words and pictures."""

    @property
    def summary(self) -> str:
        """A few sentences: what is missing, how the weights changed, and how many faults there are."""
        return summary(self)

    def report(self, file: str | Path) -> Path:
        """Write an HTML page with the faults and curves over training."""
        from foretrain.checkpoints.report import page  # takes half a second, for plotly

        write_text(Path(file), page(self))
        return Path(file)

    def as_dict(self) -> dict[str, Any]:
        """For JSON: all measures, without the samples of entries."""
        return {
            "name": self.name, "complete": self.complete, "checkpoints": self.total, "summary": self.summary,
            "faults": [asdict(fault) for fault in self.faults], "notes": self.notes,
            "records": [{key: value for key, value in record.items() if key != "tensors"} for record in self.records],
        }  # fmt: skip


def analyze(
    model: str | Path,
    *,
    revisions: Sequence[str] = (),
    checkpoints: str | Path | None = None,
    text: str | Path | None = None,
    context: int | None = None,
    heads: int | None = None,
    runs: str | Path = "runs",
) -> Analysis:
    """Measure a model, or each checkpoint of a series, and check whether the series is sound.

    `model` is a folder, a file of weights, a folder of checkpoints, or a name on the hub, with `revisions` if several
    are wanted. With `text`, a file, each checkpoint is run on it, in windows of `context` tokens. `heads` is the number
    of attention heads where no configuration gives it; without it, identity shares are left out. Each record is added
    to a file in `runs`, so that a killed analysis continues; a checkpoint is measured again only if one of its tensors
    changed. All of this runs on the CPU.
    """
    require(context is None or text is not None, "--context is for --text; give both, or neither.")
    if heads is not None:
        require_whole("--heads", heads, 1)
    source = find(str(model), revisions=revisions, checkpoints=None if checkpoints is None else Path(checkpoints))
    asked = {"text": None if text is None else Path(text), "context": context, "heads": heads}
    file = _file(source, asked, Path(runs))
    known = read_records(file)
    measured, unmeasured, failures = [], [], []
    for done, checkpoint in enumerate(source.checkpoints):
        tell(Progress(done, len(source.checkpoints), checkpoint.label))
        try:
            record = _measured(checkpoint, source, asked, known.get(checkpoint.label))
        except Unreadable as error:
            sentence = f"{checkpoint.label} could not be measured: {error}"
            if len(source.checkpoints) == 1:
                raise type(error)(sentence if isinstance(error, NotFinite) else str(error)) from error
            failures.append(Fault(error.kind, checkpoint.label, "all", sentence))
            unmeasured.append(checkpoint.step)
            continue
        if record is not known.get(checkpoint.label):
            append_line(file, record)
        measured.append(checkpoint.label)
    tell(Progress(len(source.checkpoints), len(source.checkpoints), "checking the series"))
    if not measured:
        raise Unreadable(f"None of {len(source.checkpoints)} checkpoints could be measured; {failures[0].sentence}")
    on_disk = read_records(file)  # as it will be read the next time
    records = [on_disk[label] for label in measured]
    faults = [*failures, *find_faults(records)]
    notes = [*source.notes, *unfrozen_late(records), *_unknown_heads(records)]
    return Analysis(source.name, records, faults, unmeasured, file, notes)


def _unknown_heads(records: Sequence[Record]) -> list[str]:
    """A sentence if attention could not be cut into heads."""
    return [NO_HEADS] if any(record.get("heads_unknown") for record in records) else []


def _measured(checkpoint: Checkpoint, source: Source, asked: Mapping[str, Any], known: Record | None) -> Record:
    """The record of a checkpoint: the known one if every tensor is still the same, otherwise a new one."""
    place = checkpoint.place()
    weights = open_weights(place)
    attention = has_attention(list(weights))
    require(
        attention or (asked["text"] is None and asked["heads"] is None),
        f"{place} has no attention: none of its {len(weights)} tensors has a name that queries and keys have, such as "
        "q_proj, c_attn or query_key_value; leave out --text and --heads to measure its matrices alone.",
    )
    config, lender = config_of(place, source, weights), None
    if not config:
        config, lender = _neighbours_config(checkpoint, source)
    start: Record = {
        "step": checkpoint.step, "checkpoint": checkpoint.label, "step_known": checkpoint.step_known,
        "config": settings_kept(config), "trainer_step": trainer_step(place),
    }  # fmt: skip
    if lender is not None:
        start["config_from"] = lender
    text = None
    if asked["text"] is not None:
        from foretrain.checkpoints.texts import measure_text, read_text, require_language_model

        require_language_model(config)
        text = read_text(asked["text"], _places(place, source), config, asked["context"])
        start["text"] = text.digest
        whole = json.dumps(config, sort_keys=True, default=str).encode()
        start["whole_config"] = hashlib.sha256(whole).hexdigest()[:32]
    heads = asked["heads"] or heads_in(config)
    if attention and heads is None:
        start["heads_unknown"] = True
    if known is not None and _is_current(known, start, weights):
        return known
    record = start | measure(weights, heads)
    cut = bool(record["identity"])  # if not, and the number is from a configuration, that is a fault of its own
    require(
        cut or asked["heads"] is None,
        f"No attention layer of {place} can be cut into --heads {heads} heads; give another number, or leave out "
        "--heads to measure the matrices alone.",
    )
    if text is not None:
        record |= measure_text(place, weights, config, text)
    return record


def _is_current(known: Record, start: Record, weights: Weights) -> bool:
    same = all(known.get(key) == value for key, value in ({"config_from": None, "heads_unknown": None} | start).items())
    return same and digests(weights) == {name: tensor["digest"] for name, tensor in known["tensors"].items()}


def config_of(place: Path, source: Source, weights: Weights) -> dict[str, Any]:
    """config.json of the checkpoint, or inside its file, or of the folder that the series is in."""
    folder = place if place.is_dir() else place.parent
    inside = read_config(folder) or sound_settings(weights.config or {})
    return inside or (read_config(source.base) if source.base is not None else {})


def read_config(folder: Path) -> dict[str, Any]:
    """config.json in a folder, empty if there is none; sizes that are no numbers are refused."""
    file = folder / "config.json"
    config = read_json(file)
    for key, value in config.items():
        if unsound(key, value):
            what = "a word" if key == "model_type" else "a whole number"
            raise Unreadable(f"{file} says {key} = {json.dumps(value)[:80]}, which is not {what}; correct it.")
    return config


def _neighbours_config(checkpoint: Checkpoint, source: Source) -> tuple[dict[str, Any], str | None]:
    """The configuration of the nearest checkpoint that has one, and that checkpoint's label."""
    others = [other for other in source.checkpoints if other is not checkpoint]
    others.sort(key=lambda other: abs(other.step - checkpoint.step))
    for other, look_inside in [*((other, False) for other in others), *((other, True) for other in others[:NEAR])]:
        try:
            place = other.place()
            if look_inside:
                config = sound_settings(open_weights(place).config or {}) if place.suffix in TORCH_ENDINGS else {}
            else:
                config = read_config(place if place.is_dir() else place.parent)
        except Unreadable:
            continue
        if config:
            return config, other.label
    return {}, None


def _places(place: Path, source: Source) -> list[Path]:
    """Where a tokenizer may be: in the checkpoint, beside it, or in the folder that the series is in."""
    places = [place, place.parent] if place.is_file() else [place]
    return list(dict.fromkeys([*places, *([source.base] if source.base is not None else [])]))


def _file(source: Source, asked: Mapping[str, Any], runs: Path) -> Path:
    """Where the records of this source with these settings are kept."""
    first = source.checkpoints[0]
    place = first.path if len(source.checkpoints) == 1 or first.path is None else first.path.parent
    identity = str(place.resolve()) if place is not None else source.name
    settings = {"version": VERSION, "source": identity, **{key: str(value) for key, value in asked.items()}}
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:12]
    name = re.sub(r"[^\w.-]+", "-", source.name)
    return runs / "analysis" / f"{name}-{digest}.jsonl"
