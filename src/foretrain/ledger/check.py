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
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import as_completed
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from foretrain.core.errors import DamagedFile, InputError, require, require_known
from foretrain.core.files import plain, read_record, remove_abandoned, sha256_of, write_record
from foretrain.core.progress import current_listener, listening
from foretrain.core.provenance import module_digest, module_of, versions
from foretrain.core.trajectory import load_file, save
from foretrain.core.workers import worker_pool
from foretrain.ledger.claim import Claim
from foretrain.ledger.judging import judge
from foretrain.ledger.tiers import TIERS
from foretrain.ledger.verdict import AssumptionCheck, Verdict

CLAIM_ID = re.compile(r"[a-z0-9_]+/[A-Za-z0-9_]+")
TRAJECTORIES = ("prediction", "observation")


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
    }
    return hashlib.sha256(json.dumps(depends_on, sort_keys=True, default=_named).encode()).hexdigest()[:12]


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
        remove_abandoned(self.path)
        try:
            last = read_record(self.path / "check.json")
            if {key: last.get(key) for key in record} == record:
                return str(last["check"])
        except (OSError, DamagedFile):
            pass  # none yet, or not readable: either way this is a new check
        return self._note(uuid.uuid4().hex[:12], **record)

    def finish(self, check: str, claims: Sequence[str]) -> None:
        self._note(check, status="done", claims=list(claims))

    def _note(self, check: str, **record: Any) -> str:
        write_record(self.path / "check.json", {"check": check, **record})
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
        record = read_record(place)
        if record["mark"] != fingerprint(claim, self.tier) or check not in (None, record["check"]):
            return None
        files = {part: self._place(claim.id, f".{part}.nc") for part in record["files"]}
        for part, file in files.items():
            if not file.is_file() or sha256_of(file) != record["files"][part]:
                raise DamagedFile(f"{file} is damaged or missing.")
        datasets: dict[str, Any] = {part: load_file(file) for part, file in files.items() if trajectories}
        return replace(_from_plain(record["verdict"]), **datasets)

    def seconds(self, claim: str) -> float:
        """How long this claim took last time; infinite if that is not known."""
        try:
            return float(read_record(self._place(claim, ".json"))["verdict"]["seconds"])
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
    jobs: int = 1,
    look_up: Callable[[str], Claim] | None = None,
) -> Iterator[Verdict]:
    """Judge and save; gives each verdict, without its trajectories, as soon as it is there.

    Workers (`jobs` above 1) get a claim's id and look the claim up with `look_up`, such as `foretrain.papers.claim`.
    Claims that took longest last time go first. Both halves of an erratum go to one worker: they share a measurement.
    """
    require(jobs >= 1, f"jobs must be at least 1; got {jobs}.")
    marks = {claim.id: fingerprint(claim, folder.tier) for claim in claims}
    if jobs == 1 or len(claims) <= 1 or look_up is None:
        for claim in claims:
            yield _judge_and_save(claim, folder, marks[claim.id], check)
        return
    together: dict[str, list[str]] = {}
    for claim in claims:
        together.setdefault(claim.corrects or claim.id, []).append(claim.id)
    longest_first = sorted(together.values(), key=lambda names: sum(map(folder.seconds, names)), reverse=True)
    with worker_pool(min(jobs, len(claims))) as pool:
        todo = [
            pool.submit(_judge_by_id, {n: marks[n] for n in names}, folder, check, look_up) for names in longest_first
        ]
        for future in as_completed(todo):
            yield from future.result()


def _judge_by_id(
    marks: dict[str, str], folder: VerdictFolder, check: str, look_up: Callable[[str], Claim]
) -> list[Verdict]:
    verdicts = []
    for name, mark in marks.items():
        claim = look_up(name)
        require(
            fingerprint(claim, folder.tier) == mark,
            f"The source code of {name} has changed since this check began; give the same command again.",
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


def _from_plain(record: dict[str, Any]) -> Verdict:
    numbers = {f.name: float(record[f.name]) for f in fields(Verdict) if f.name in ("margin", "seconds")}
    checks = tuple(AssumptionCheck(**check) for check in record["assumptions"])
    return Verdict(**{**record, **numbers, "assumptions": checks, "notes": tuple(record["notes"])})
