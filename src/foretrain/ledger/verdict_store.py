"""Judges claims, here, in local processes or on a cluster, and saves every verdict the moment it is done.

`runs/check/<tier>/` holds one JSON file per claim beside the two trajectories it compared, and `check.json`
for the check as a whole. A saved verdict counts only for the source code, versions and setting it came from.
An interrupted check goes on where it stopped; a finished one starts anew.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, TypeAdapter, ValidationError

from foretrain.core.engines import Engine, Serial
from foretrain.core.errors import DamagedFile, InputError, require, require_known
from foretrain.core.files import plain, read_record, remove_abandoned, sha256_of, write_record
from foretrain.core.progress import current_listener, listening
from foretrain.core.provenance import module_digest, module_of, versions
from foretrain.core.trajectory import load_file, save
from foretrain.ledger.claim import Claim
from foretrain.ledger.judge import judge
from foretrain.ledger.tiers import TIERS
from foretrain.ledger.verdict import Verdict

CLAIM_ID = re.compile(r"[a-z0-9_]+/[A-Za-z0-9_]+")
TRAJECTORIES = ("prediction", "observation")
RECORD = "check.json"  # of a check as a whole


@dataclass(frozen=True)
class SavedVerdict:
    """The record of a verdict on disk."""

    __pydantic_config__ = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    mark: str
    check: str
    files: dict[Literal["prediction", "observation"], str]
    verdict: Verdict


def fingerprint(claim: Claim, tier: str) -> str:
    """Twelve hex digits over all that a verdict depends on: source code, versions, setting and control.

    Source files are read once per process: a program goes on with what it loaded, whatever happens to them meanwhile.
    """
    depends_on = {
        "source": module_digest(claim.module or module_of(claim.observe)),
        "versions": versions(),
        "setting": claim.setting(tier),
        "control": dict(claim.control.changes),
        "expect": claim.expected_at(tier),
        "words": [vars(quantity) for quantity in claim.quantities.table.values()],  # they are in its reason
    }
    return hashlib.sha256(json.dumps(depends_on, sort_keys=True, default=_named).encode()).hexdigest()[:12]


def _named(value: Any) -> Any:
    """Functions are written by name, because their addresses differ between processes."""
    return f"{value.__module__}.{value.__qualname__}" if hasattr(value, "__qualname__") else plain(value)


@dataclass(frozen=True)
class VerdictFolder:
    """The saved verdicts of one tier."""

    root: Path
    tier: str

    def __post_init__(self) -> None:
        require_known("tier", self.tier, TIERS)

    @property
    def path(self) -> Path:
        """Where the verdicts are."""
        return self.root / "check" / self.tier

    def begin(self, claims: Sequence[str]) -> str:
        """The name of this check: that of an unfinished one of the same claims, or a new one.

        Warns if the record of the last check is damaged: then nobody knows whether it was finished.
        """
        record = {"status": "running", "claims": list(claims)}
        remove_abandoned(self.path)
        try:
            last = read_record(self.path / RECORD)
            if {key: last.get(key) for key in record} == record:
                return str(last["check"])
        except DamagedFile as error:
            warnings.warn(f"{error} All claims are judged again.", stacklevel=2)
        except OSError:
            pass  # none yet
        return self._note(uuid.uuid4().hex[:12], **record)

    def finish(self, check: str, claims: Sequence[str]) -> None:
        """Note that a check has judged all its claims."""
        self._note(check, status="done", claims=list(claims))

    def _note(self, check: str, **record: Any) -> str:
        write_record(self.path / RECORD, {"check": check, **record})
        return check

    def put(self, verdict: Verdict, mark: str, check: str) -> Verdict:
        """Save a verdict: its trajectories first, so that a verdict on disk always has them."""
        files = {}
        for part in TRAJECTORIES:
            dataset, place = getattr(verdict, part), self._place(verdict.claim, f".{part}.nc")
            if dataset is None:
                continue
            try:
                files[part] = sha256_of(save(dataset, place))
            except InputError:
                raise
            except Exception as error:  # netCDF cannot say everything xarray can; the verdict stands all the same
                note = f"its {part} could not be saved ({type(error).__name__}: {error})"
                verdict = replace(verdict, notes=(*verdict.notes, note))
        record = {"mark": mark, "check": check, "files": files, "verdict": _to_plain(verdict)}
        write_record(self._place(verdict.claim, ".json"), record)
        return replace(verdict, prediction=None, observation=None)

    def get(self, claim: Claim, *, check: str | None = None, trajectories: bool = False) -> Verdict | None:
        """The saved verdict, if it comes from this source code and setting (and from this `check`).

        DamagedFile if what is on disk is not what was written.
        """
        place = self._place(claim.id, ".json")
        if not place.exists():
            return None
        saved = self._saved(place)
        if saved.mark != fingerprint(claim, self.tier) or check not in (None, saved.check):
            return None
        files = {part: self._place(claim.id, f".{part}.nc") for part in saved.files}
        for part, file in files.items():
            if not file.is_file() or sha256_of(file) != saved.files[part]:
                raise DamagedFile(f"{file} is damaged or missing.")
        datasets: dict[str, Any] = {part: load_file(file) for part, file in files.items() if trajectories}
        return replace(saved.verdict, **datasets)

    def has(self, claim: str) -> bool:
        """Whether there is a verdict on this claim, of whatever code."""
        return self._place(claim, ".json").is_file()

    def seconds(self, claim: str) -> float:
        """How long this claim took last time; infinite if that is not known."""
        try:
            return self._saved(self._place(claim, ".json")).verdict.seconds
        except (DamagedFile, OSError):
            return math.inf

    def _saved(self, place: Path) -> SavedVerdict:
        record = read_record(place)
        try:
            saved: SavedVerdict = _reader().validate_python(record)
            return saved
        except (ValidationError, OverflowError) as error:
            raise DamagedFile(f"{place} is damaged: it is not the record of a verdict.") from error

    def _place(self, claim: str, ending: str) -> Path:
        require(CLAIM_ID.fullmatch(claim) is not None, f"{claim!r} cannot be the id of a claim.")
        return self.path / f"{claim}{ending}"


def last_status(root: Path, claim: str) -> str | None:
    """How a claim came out when it was last judged, at whatever tier: "holds (fast)"; None if it never was."""
    places = {tier: VerdictFolder(root, tier)._place(claim, ".json") for tier in TIERS}
    written = {tier: place.stat().st_mtime for tier, place in places.items() if place.is_file()}
    if not written:
        return None
    tier = max(written, key=lambda name: written[name])
    try:
        return f"{VerdictFolder(root, tier)._saved(places[tier]).verdict.status} ({tier})"
    except (DamagedFile, OSError):
        return f"damaged ({tier})"


@dataclass(frozen=True)
class Known:
    """What is on disk already: verdicts that count (skipped claims have none), and sentences about damaged files."""

    verdicts: dict[str, Verdict]
    damaged: list[str]


def known(folder: VerdictFolder, claims: Iterable[Claim], check: str | None = None) -> Known:
    verdicts, damaged = {}, []
    for claim in claims:
        try:
            verdict = folder.get(claim, check=check)
        except DamagedFile as error:
            damaged.append(f"{error} Its claim is judged again.")
            continue
        if verdict is not None and verdict.judged:  # its data may be there by now
            verdicts[claim.id] = verdict
    return Known(verdicts, damaged)


def judge_all(
    claims: Sequence[Claim],
    folder: VerdictFolder,
    *,
    check: str = "",
    engine: Engine | None = None,
    look_up: Callable[[str], Claim] | None = None,
) -> Iterator[Verdict]:
    """Judge and save; gives each verdict, without its trajectories, as soon as it is there.

    Other processes get a claim's id and look the claim up with `look_up`, such as `foretrain.papers.claim`. Claims that
    took longest last time go first. Both halves of an erratum go to one worker: they share a measurement.
    """
    engine = engine or Serial()
    marks = {claim.id: fingerprint(claim, folder.tier) for claim in claims}
    if engine.own_process or len(claims) <= 1 or look_up is None:
        for claim in claims:
            yield _judge_and_save(claim, folder, marks[claim.id], check)
        return
    together: dict[str, list[str]] = {}
    for claim in claims:
        together.setdefault(claim.corrects or claim.id, []).append(claim.id)
    longest_first = sorted(together.values(), key=lambda names: sum(map(folder.seconds, names)), reverse=True)
    shared = replace(folder, root=folder.root.resolve())  # workers may have another current folder
    calls = (
        (tuple(names), partial(_judge_by_id, {n: marks[n] for n in names}, shared, check, look_up))
        for names in longest_first
    )
    for _, verdicts in engine.results(calls):
        for verdict in verdicts:
            require(
                folder.has(verdict.claim),
                f"A worker cannot see {shared.path}; choose --runs on a disk that all machines share.",
            )
            yield verdict


def _judge_by_id(
    marks: dict[str, str], folder: VerdictFolder, check: str, look_up: Callable[[str], Claim]
) -> list[Verdict]:
    verdicts = []
    for name, mark in marks.items():
        claim = look_up(name)
        here = fingerprint(claim, folder.tier)
        require(
            here == mark,
            f"A worker judges {name} with other source code, versions or settings ({here}) than this program ({mark}): "
            "install the same on both, or, if you have just changed them, give the same command again.",
        )
        verdicts.append(_judge_and_save(claim, folder, mark, check))
    return verdicts


def _judge_and_save(claim: Claim, folder: VerdictFolder, mark: str, check: str) -> Verdict:
    with _progress_named(claim.id), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        verdict = judge(claim, folder.tier)
    messages = [str(w.message) for w in caught if issubclass(w.category, UserWarning | RuntimeWarning)]
    verdict = replace(verdict, notes=(*verdict.notes, *dict.fromkeys(messages)))
    return folder.put(verdict, mark, check)


@contextmanager
def _progress_named(name: str) -> Iterator[None]:
    """Put the claim's id before what its experiments tell."""
    listener = current_listener()
    if listener is None:
        yield
        return
    with listening(lambda progress: listener(replace(progress, doing=f"{name}: {progress.doing}"))):
        yield


def _to_plain(verdict: Verdict) -> dict[str, Any]:
    """A verdict without its trajectories, as valid JSON: what is not finite is written as a word."""
    light = replace(verdict, prediction=None, observation=None)
    return {
        key: str(value) if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in asdict(light).items()
        if key not in TRAJECTORIES
    }


@cache
def _reader() -> Any:
    return TypeAdapter(SavedVerdict)
