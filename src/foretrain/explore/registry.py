"""Every view, by its address."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from foretrain.core.errors import require_known
from foretrain.explore.sliders import defaults
from foretrain.explore.view import Picture, Places, View
from foretrain.explore.views import corpus, finetune, joma, latent_tree, ledger, scan_snap, templates
from foretrain.explore.views import runs as stored_runs

VIEWS: dict[str, View] = {
    module.VIEW.path: module.VIEW
    for module in (scan_snap, joma, latent_tree, templates, corpus, finetune, ledger, stored_runs)
}


def picture(view: str, *, runs: str | Path = "runs", kept: str | Path | None = None, **state: Any) -> Picture:
    """What the page shows for a view and the state of its controls; controls that are not named are as at the start.

    runs  folder with runs and verdicts, for the views that read them
    kept  file that `foretrain forecast finetune --keep` wrote, for the view of fine-tuning
    """
    require_known("view", view, VIEWS)
    places = Places(Path(runs), None if kept is None else Path(kept))
    chosen = VIEWS[view]
    controls = {control.name: control for control in chosen.controls(places)}
    for name in state:
        require_known(f"control of {view}", name, controls)
    given = {name: controls[name].accept(value) for name, value in state.items()}
    return chosen.picture({**defaults(list(controls.values())), **given}, places)
