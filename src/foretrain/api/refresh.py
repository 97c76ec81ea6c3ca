"""Compute kept results again whose code has changed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from foretrain.api.check import data_folder
from foretrain.api.find import find_claims, find_experiment
from foretrain.api.run import run
from foretrain.core.errors import MissingData
from foretrain.core.progress import Progress, tell
from foretrain.core.trajectory import load_file
from foretrain.ledger.claim import Claim
from foretrain.papers.kept import is_old, origin_of, results_folder


def refresh(*queries: str, jobs: int = 1, runs: str | Path = "runs", data: str | Path | None = None) -> list[str]:
    """Compute the kept results again that the claims matching `queries` are judged from, if their code has changed.

    Each takes up to an hour. Gives a sentence for each result that had to be left as it is, with what it needs.
    """
    left, old = [], old_results(find_claims(queries).values())
    with data_folder(data):
        for done, path in enumerate(old):
            tell(Progress(done, len(old), f"computing {path.name} again"))
            origin = origin_of(load_file(path))
            try:
                _compute_again(path, origin["experiment"], origin.get("arguments", {}), jobs, runs)
            except MissingData as error:
                left.append(f"{path.name} stays as it is: {error}")
    return left


def old_results(claims: Iterable[Claim]) -> list[Path]:
    """The files of kept results that these claims are judged from and whose code has changed."""
    sources = [Path(file).read_text(encoding="utf-8") for file in {claim.code()[0] for claim in claims}]
    return [path for path in sorted(results_folder().glob("*.nc")) if _is_named(path, sources) and _is_old(path)]


def _is_old(path: Path) -> bool:
    return is_old(load_file(path))


def _is_named(path: Path, sources: Iterable[str]) -> bool:
    """Whether one of these files names the experiment of a kept result: each spells out its id."""
    experiment = origin_of(load_file(path)).get("experiment")
    return experiment is not None and any(f'"{experiment}"' in source for source in sources)


def _compute_again(path: Path, experiment: str, arguments: dict[str, Any], jobs: int, runs: str | Path) -> None:
    """Run it with the arguments it had, as far as they still exist; the others are those of tier full."""
    chosen = find_experiment(experiment)
    known, settings = chosen.parameters(), {axis: name for name, axis in chosen.cut.items()}
    renamed = {settings.get(name, name): value for name, value in arguments.items()}
    still = {name: value for name, value in renamed.items() if name in known}
    run(experiment, tier="full", out=runs, jobs=jobs, **still).export(str(path))
