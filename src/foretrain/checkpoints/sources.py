"""Finds checkpoints: those of a model on the hub, of a folder, or of a folder of checkpoints, in the order of steps."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from foretrain.checkpoints.formats import ENDINGS, PICKLES, has_weights, weight_files
from foretrain.checkpoints.weights import Unreadable
from foretrain.core.errors import InputError, require

STEP = re.compile(r"step[-_=]?(\d+)", re.IGNORECASE)
SERIES = re.compile(r"(?:step|iter|checkpoint|ckpt|epoch)[-_=]?(\d+)", re.IGNORECASE)
VERSIONED = re.compile(r"(?P<name>.+)-v(?P<version>\d+)\.ckpt")  # Lightning's, if the name was taken
LAST_NUMBER = re.compile(r"(\d+)(?!.*\d)")
HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
GENERIC = ("checkpoints", "checkpoint", "ckpts", "ckpt", "model", "models", "weights", "out", "output", "outputs")
BELOW = "checkpoints"  # the folder inside a training's folder that holds them
SHOWN = 6  # most names to list
UNREACHABLE = {"OfflineModeIsEnabled", "LocalEntryNotFoundError", "ConnectionError", "ConnectError", "TimeoutException"}
HUB_FILES = ("*.json", "*.safetensors", "tokenizer*", "*.model", "vocab.txt", "merges.txt")


@dataclass(frozen=True)
class Checkpoint:
    """One checkpoint: a file or a folder, or a revision on the hub that is downloaded when it is needed."""

    label: str
    step: int
    step_known: bool = True  # whether the name or the trainer's state gives the step
    path: Path | None = None
    hub: tuple[str, str] | None = None  # name of the model, revision

    def place(self) -> Path:
        """Where it is on disk."""
        return self.path if self.path is not None else download(*(self.hub or ("", "")))


@dataclass(frozen=True)
class Source:
    """What the user named: one checkpoint or a series, in the order of steps."""

    name: str
    checkpoints: list[Checkpoint]
    base: Path | None = None  # a folder that may have config.json and a tokenizer for all of them
    notes: list[str] = field(default_factory=list)


def find(model: str, *, revisions: Sequence[str] = (), checkpoints: Path | None = None) -> Source:
    """The checkpoints behind a name. Nothing is downloaded yet."""
    path = Path(model)
    require(not (revisions and checkpoints), "--revisions and --checkpoints name two different series; give one.")
    if revisions:
        require(not path.exists(), f"--revisions is for models on the hub; {model} is on this disk.")
        return Source(model, _in_order([_revision(model, name) for name in revisions]))
    if checkpoints is not None:
        require(checkpoints.is_dir(), f"--checkpoints {checkpoints} is not a folder.")
        return _series(checkpoints, base=path if path.is_dir() else None)
    if path.is_dir():
        return Source(_title(path), [_single(path)], path) if _is_model(path) else _series(path, base=path)
    if path.is_file():
        return Source(_title(path), [_single(path)], path.parent)
    _require_in_folder(path)
    looks_like_a_path = model.startswith((".", "/", "~")) or model.endswith(ENDINGS) or model.count("/") > 1
    require(
        not looks_like_a_path and HUB_NAME.fullmatch(model) is not None,
        f"There is no file or folder {model}; a model on the hub has a name like owner/name.",
    )
    return Source(model, [Checkpoint(model, 0, False, hub=(model, "main"))])


def download(model: str, revision: str) -> Path:
    """The folder with a revision of a model on the hub, from the cache if it is there."""
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise InputError(f"Models on the hub need huggingface_hub; install foretrain[hf] ({error}).") from error
    try:
        folder = Path(snapshot_download(model, revision=revision, allow_patterns=list(HUB_FILES)))
        if not list(folder.glob("*.safetensors")):  # older models
            patterns = [*HUB_FILES, "pytorch_model*.bin"]
            folder = Path(snapshot_download(model, revision=revision, allow_patterns=patterns))
        return folder
    except Exception as error:  # no network, no such model, no such revision, no space: many kinds, one sentence
        raise Unreadable(
            f"There is no file or folder {model} here, and {model}, revision {revision}, could not be downloaded from "
            f"the hub: {_reason(error)}."
        ) from error


def _reason(error: Exception) -> str:
    """Why a download failed, and what to do about it, without the name of an exception."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if "GatedRepoError" in kinds:
        return "its owner gives it only to some users; log in with `hf auth login`"
    if "RepositoryNotFoundError" in kinds:
        return "the hub has no public model of that name; check the name, or log in if it is private"
    if "RevisionNotFoundError" in kinds:
        return "the model has no such revision; check --revisions"
    if kinds & UNREACHABLE:
        return "the hub cannot be reached; check the network and the name"
    reason = str(error).split("\n")[0].strip().removesuffix(".")[:200]
    return f"{reason or 'the download failed'}; check the name and the network"


def _require_in_folder(path: Path) -> None:
    """If a path names nothing, but its folder is there and holds checkpoints, say which: it is no name on the hub."""
    folder = path.parent
    if folder == Path() or not folder.is_dir():
        return
    names = [place.name for place in [*_folders(folder), *weight_files(folder)]]
    names.sort(key=lambda name: (step_in(name) is None, step_in(name) or 0, name))
    shown = ", ".join(names if len(names) <= SHOWN else [*names[: SHOWN - 2], "…", names[-1]])
    require(not names, f"{folder} has no {path.name}; it has {shown}.")


def step_in(name: str) -> int | None:
    """The step that a name gives: step32000, checkpoint-500, epoch=3-step=500.ckpt, or its last number."""
    version = VERSIONED.fullmatch(name)
    stem = version["name"] if version else name
    for ending in (*ENDINGS, *PICKLES):
        stem = stem.removesuffix(ending)
    match = STEP.search(stem) or SERIES.search(stem) or LAST_NUMBER.search(stem)
    return int(match[1]) if match else None


def trainer_step(place: Path) -> int | None:
    """The step that the Trainer's own state gives."""
    step = read_json(place / "trainer_state.json").get("global_step") if place.is_dir() else None
    return step if isinstance(step, int) else None


def read_json(file: Path) -> dict[str, Any]:
    """A JSON object from a file, empty if there is no such file."""
    if not file.is_file():
        return {}
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"{file} is not valid JSON ({error}).") from error
    if not isinstance(content, dict):
        raise Unreadable(f"{file} does not hold a JSON object.")
    return content


def _revision(model: str, name: str) -> Checkpoint:
    revision, _, given = name.partition("=")
    step = int(given) if given.isdigit() else step_in(revision)
    require(step is not None, f"No step can be read from the revision {revision!r}; write {revision}=STEP.")
    return Checkpoint(revision, step or 0, hub=(model, revision))


def _single(place: Path) -> Checkpoint:
    step = trainer_step(place)
    named = step_in(place.name) if SERIES.search(place.name) else None
    known = step if named is None else named
    return Checkpoint(_name(place), known or 0, known is not None, path=place)


def _is_model(folder: Path) -> bool:
    """Whether a folder holds one checkpoint, not a series of folders or files with steps in their names."""
    files = weight_files(folder)
    if not has_weights(folder) or _folders(folder):
        return False
    if not files:
        return True  # an index without any of its files
    sharded = any("-of-" in file.name for file in files)
    stepped = [file for file in files if step_in(file.name) is not None]
    return (folder / "config.json").is_file() or sharded or len(stepped) < 2


def _series(folder: Path, base: Path | None) -> Source:
    """The checkpoints directly below a folder."""
    files, inside = weight_files(folder), _folders(folder)
    if not files and not inside and (folder / BELOW).is_dir():
        return _series(folder / BELOW, base or folder)
    steps = {place: step_in(place.name) for place in (inside or files)}
    stepped = [Checkpoint(place.name, step, path=place) for place, step in steps.items() if step is not None]
    if not stepped:
        raise Unreadable(
            f"{folder} is not a checkpoint, nor a folder of checkpoints: it has neither files of weights "
            f"({', '.join(ENDINGS)}) nor folders or files with steps in their names."
        )
    notes = []
    if inside and files:
        left_out = f"{files[0].name} is" if len(files) == 1 else f"{len(files)} files of weights are"
        notes.append(f"{left_out} left out: only the folders of checkpoints beside them are measured.")
    unnamed = [place for place in _visible(folder) if inside and place not in inside and has_weights(place)]
    unnamed += [place for place, step in steps.items() if step is None]
    notes += [f"{place.name} is left out: its name has no step." for place in unnamed]
    stepped, older = _newest_versions(stepped)
    notes += [f"{one.label} is left out: {other.label} is a later version of the same step." for one, other in older]
    return Source(_title(folder), _in_order(stepped), base or folder, notes)


def _newest_versions(checkpoints: list[Checkpoint]) -> tuple[list[Checkpoint], list[tuple[Checkpoint, Checkpoint]]]:
    """Of files that Lightning wrote under one name (a.ckpt, a-v1.ckpt), the last; and each older one beside it."""
    versions: dict[str, dict[int, Checkpoint]] = {}
    for checkpoint in checkpoints:
        match = VERSIONED.fullmatch(checkpoint.label)
        name, number = (match["name"] + ".ckpt", int(match["version"])) if match else (checkpoint.label, -1)
        versions.setdefault(name, {})[number] = checkpoint
    newest = {name: same[max(same)] for name, same in versions.items()}
    older = [(old, newest[name]) for name, same in versions.items() for _, old in sorted(same.items())]
    return list(newest.values()), [(old, new) for old, new in older if old is not new]


def _folders(folder: Path) -> list[Path]:
    return [place for place in _visible(folder) if _is_checkpoint(place)]


def _visible(folder: Path) -> list[Path]:
    """The folders in a folder, without those that a killed process left, such as .step-4.part."""
    return [place for place in sorted(folder.iterdir()) if place.is_dir() and not place.name.startswith(".")]


def _is_checkpoint(place: Path) -> bool:
    return SERIES.search(place.name) is not None or (step_in(place.name) is not None and has_weights(place))


def _in_order(checkpoints: list[Checkpoint]) -> list[Checkpoint]:
    ordered = sorted(checkpoints, key=lambda checkpoint: checkpoint.step)
    for one, other in pairwise(ordered):
        require(one.step != other.step, f"{one.label} and {other.label} both name step {one.step}; remove one of them.")
    return ordered


def _name(path: Path) -> str:
    return path.resolve().name or str(path)


def _title(path: Path) -> str:
    """The name of a folder or file, after the folders it is in as long as names say little: run-2/checkpoints."""
    whole = path.resolve()
    places = [whole, *list(whole.parents)[:2]]
    count = next((k for k, place in enumerate(places) if not _is_generic(place)), len(places) - 1)
    return "/".join(place.name for place in reversed(places[: count + 1]) if place.name) or str(path)


def _is_generic(place: Path) -> bool:
    return place.stem.lower() in GENERIC or SERIES.search(place.name) is not None or place.stem.isdigit()
