"""Judges claims, one after another or in local processes, and saves every verdict the moment it is done.

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
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import as_completed
from dataclasses import asdict, dataclass, fields, replace
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from foretrain.claim import TIERS, AssumptionCheck, Claim, Verdict, judge
from foretrain.errors import DamagedFile, InputError, nearest, require, require_known
from foretrain.provenance import source_digest, versions
from foretrain.trajectory import load, plain, save, sha256_of, write_text
from foretrain.workers import one_thread, worker_pool

CLAIM_ID = re.compile(r"[a-z0-9_]+/[A-Za-z0-9_]+")
TRAJECTORIES = ("prediction", "observation")


def select(patterns: Sequence[str], names: Iterable[str]) -> list[str]:
    """The names that match any pattern, in their own order; all of them without a pattern.

    A pattern is a whole name, the part behind its slash, a beginning ("scan_snap"), or a glob ("*/theorem*").
    """
    names = list(names)
    chosen: set[str] = set()
    for pattern in patterns:
        found = {pattern} & set(names) or {name for name in names if _matches(pattern, name)}
        if not found:
            near = ", ".join(nearest(pattern, names))
            raise InputError(f"Nothing matches {pattern!r}; the nearest names are {near}.")
        chosen |= found
    return [name for name in names if name in chosen or not patterns]


def _matches(pattern: str, name: str) -> bool:
    tail = name.split("/", 1)[-1]
    return name.startswith(pattern) or fnmatchcase(name, pattern) or fnmatchcase(tail, pattern)


def fingerprint(claim: Claim, tier: str) -> str:
    """Twelve hex digits over all that a verdict depends on: source code, versions, setting and control.

    Source files are read once per process: a program goes on with what it loaded, whatever happens to them meanwhile.
    """
    depends_on = {
        "source": source_digest(claim.paper),
        "claim": _file_digest(Path(claim.code()[0])),
        "versions": versions(),
        "setting": claim.setting(tier),
        "control": dict(claim.control.changes),
        "expect": claim.expected_at(tier),
    }
    return hashlib.sha256(json.dumps(depends_on, sort_keys=True, default=_named).encode()).hexdigest()[:12]


@cache
def _file_digest(place: Path) -> str:
    return sha256_of(place) if place.is_file() else str(place)


def _named(value: Any) -> Any:
    """A function stands for itself by its name: its address is another one in every process."""
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
        return self.root / "check" / self.tier

    def begin(self, claims: Sequence[str]) -> str:
        """The name of this check: that of an unfinished one of the same claims, or a new one."""
        record = {"status": "running", "claims": list(claims)}
        try:
            last = json.loads((self.path / "check.json").read_text(encoding="utf-8"))
            if {key: last[key] for key in record} == record:
                return str(last["check"])
        except (OSError, ValueError, KeyError, TypeError):
            pass  # none yet, or not readable: either way this is a new check
        return self._note(uuid.uuid4().hex[:12], **record)

    def finish(self, check: str, claims: Sequence[str]) -> None:
        self._note(check, status="done", claims=list(claims))

    def _note(self, check: str, **record: Any) -> str:
        write_text(self.path / "check.json", json.dumps({"check": check, **record}, indent=1) + "\n")
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
        sealed = {"sha256": _seal(record), **record}
        write_text(self._place(verdict.claim, ".json"), json.dumps(sealed, indent=1, default=plain) + "\n")
        return replace(verdict, prediction=None, observation=None)

    def get(self, claim: Claim, *, check: str | None = None, trajectories: bool = False) -> Verdict | None:
        """The saved verdict, if it comes from this source code and setting (and from this `check`).

        DamagedFile if what is on disk is not what was written.
        """
        place = self._place(claim.id, ".json")
        if not place.exists():
            return None
        record = _read(place)
        if record["mark"] != fingerprint(claim, self.tier) or check not in (None, record["check"]):
            return None
        files = {part: self._place(claim.id, f".{part}.nc") for part in record["files"]}
        for part, file in files.items():
            if not file.is_file() or sha256_of(file) != record["files"][part]:
                raise DamagedFile(f"{file} is damaged or missing.")
        found: dict[str, Any] = {part: load(file) for part, file in files.items() if trajectories}
        return replace(_from_plain(record["verdict"]), **found)

    def seconds(self, claim: str) -> float:
        """How long this claim took last time; infinite if that is not known."""
        try:
            return float(_read(self._place(claim, ".json"))["verdict"]["seconds"])
        except (DamagedFile, OSError):
            return math.inf

    def _place(self, claim: str, ending: str) -> Path:
        require(CLAIM_ID.fullmatch(claim) is not None, f"{claim!r} cannot be the id of a claim.")
        return self.path / f"{claim}{ending}"


@dataclass(frozen=True)
class Known:
    """What is on disk already: verdicts that count (skipped claims have none), and sentences about damaged files."""

    verdicts: dict[str, Verdict]
    damaged: list[str]


def known(folder: VerdictFolder, claims: Iterable[Claim], check: str | None = None) -> Known:
    found, damaged = {}, []
    for claim in claims:
        try:
            verdict = folder.get(claim, check=check)
        except DamagedFile as error:
            damaged.append(f"{error} Its claim is judged again.")
            continue
        if verdict is not None and not verdict.skipped:  # its data may be there by now
            found[claim.id] = verdict
    return Known(found, damaged)


def judge_all(claims: Sequence[Claim], folder: VerdictFolder, *, check: str = "", jobs: int = 1) -> Iterator[Verdict]:
    """Judge and save; gives each verdict, without its trajectories, when it is done.

    With more than one job the claims must be those of the papers (a worker looks them up by id), and those
    that took longest last time go first. Both halves of an erratum go to one worker: they share their measurement.
    """
    require(jobs >= 1, f"jobs must be at least 1; got {jobs}.")
    if jobs == 1 or len(claims) <= 1:
        for claim in claims:
            yield _judge_and_save(claim, folder, fingerprint(claim, folder.tier), check)
        return
    marks = {claim.id: fingerprint(claim, folder.tier) for claim in claims}
    together: dict[str, list[str]] = {}
    for name in marks:
        together.setdefault(name.removesuffix("_corrected"), []).append(name)
    longest_first = sorted(together.values(), key=lambda names: sum(map(folder.seconds, names)), reverse=True)
    with worker_pool(min(jobs, len(claims))) as pool:
        todo = [pool.submit(_judge_by_id, {n: marks[n] for n in names}, folder, check) for names in longest_first]
        for future in as_completed(todo):
            yield from future.result()


def _judge_by_id(marks: dict[str, str], folder: VerdictFolder, check: str) -> list[Verdict]:
    from foretrain.papers import claims

    return [_judge_and_save(claims()[name], folder, mark, check) for name, mark in marks.items()]


def _judge_and_save(claim: Claim, folder: VerdictFolder, mark: str, check: str) -> Verdict:
    one_thread()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        verdict = judge(claim, folder.tier)
    told = [str(w.message) for w in caught if issubclass(w.category, UserWarning | RuntimeWarning)]
    verdict = replace(verdict, notes=(*verdict.notes, *dict.fromkeys(told)))
    return folder.put(verdict, mark, check)


def _read(place: Path) -> dict[str, Any]:
    try:
        record = dict(json.loads(place.read_text(encoding="utf-8")))
        if record.pop("sha256") == _seal(record):
            return record
    except (ValueError, KeyError, TypeError):
        pass
    raise DamagedFile(f"{place} is damaged.")


def _seal(record: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True, default=plain).encode()).hexdigest()


def _to_plain(verdict: Verdict) -> dict[str, Any]:
    """A verdict without its trajectories, as valid JSON: what is not finite is written as a word."""
    light = replace(verdict, prediction=None, observation=None)
    return {
        key: str(value) if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in asdict(light).items()
        if key not in TRAJECTORIES
    }


def _from_plain(record: dict[str, Any]) -> Verdict:
    numbers = {f.name: float(record[f.name]) for f in fields(Verdict) if f.name in ("error", "tolerance", "seconds")}
    checks = tuple(AssumptionCheck(**check) for check in record["assumptions"])
    return Verdict(**{**record, **numbers, "assumptions": checks, "notes": tuple(record["notes"])})
