"""A pass over a model and its rows on disk, without the model: any setting can be forecast from it in a second.

The file is netCDF with a seal, like every trajectory; nothing is unpickled. It holds a random part of the coordinates
that the pass followed, so that it stays small, and the gradients in the middle of paths of several lengths, so that
learning rate and number of steps can be changed over a wide range.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from foretrain.core.errors import DamagedFile, InputError, require, require_whole
from foretrain.core.streams import stream
from foretrain.core.trajectory import config_of, load_file, save, trajectory
from foretrain.forecast.finetuning.dynamics import FinetuneSetting
from foretrain.forecast.finetuning.midpoint import length_of_path, midpoint
from foretrain.forecast.finetuning.prepared import REUSABLE_LENGTHS, LivePass, Middle, Pass, WhatIf
from foretrain.forecast.finetuning.tangent import Tangent

COORDINATES = 30_000  # of those that the pass followed; with fewer, the sample is too rough
LENGTHS = (0.25, 1.0, 4.0)  # of the kept paths, in lengths of the path of the setting that was asked for
FORMAT = "foretrain-finetune-pass-1"
VARIABLES = ("outputs", "jacobian", "shares", "weights", "middles", "length", "label")


@dataclass(frozen=True)
class KeptPass(Pass):
    """A pass that was read from a file: gradients at the start, and in the middle of some paths."""

    middles: tuple[Middle, ...] = ()
    setting: FinetuneSetting = field(default_factory=FinetuneSetting)  # that it was made for

    def middle_for(self, setting: FinetuneSetting, what: WhatIf) -> tuple[Tangent, float]:
        """The kept middle whose path is most like that of the setting."""
        require(
            setting.optimizer == self.setting.optimizer,
            f"This pass was kept for {self.setting.optimizer}, not for {setting.optimizer}.",
        )
        length = length_of_path(setting)
        shortest, longest = self.reach
        require(
            shortest <= length <= longest,
            f"The rates of all steps must sum to between {shortest:.2g} and {longest:.2g}, because this pass was kept "
            f"for that; they sum to {length:.2g}: change the rate or the number of steps.",
        )
        nearest = min(self.middles, key=lambda middle: abs(np.log(length / middle.length)))
        return nearest.tangent, length / nearest.length

    @property
    def reach(self) -> tuple[float, float]:
        """The shortest and the longest path that can be forecast, as sums of the rates of all steps."""
        lengths = [middle.length for middle in self.middles]
        return REUSABLE_LENGTHS[0] * min(lengths), REUSABLE_LENGTHS[1] * max(lengths)


def kept_pass(prepared: LivePass, setting: FinetuneSetting, *, coordinates: int = COORDINATES) -> KeptPass:
    """The part of a pass that is kept: a further pass for every length."""
    require_whole("coordinates", coordinates, 1)
    total = prepared.start.jacobian.shape[-1]
    count = min(coordinates, total)
    draw = stream("forecast/finetune", "kept coordinates")
    chosen = torch.from_numpy(np.sort(draw.choice(total, count, replace=False)))
    labels = prepared.labels_if(WhatIf())
    start = _thinned(prepared.start, chosen, count / total)
    middles = []
    for factor in LENGTHS:
        scaled = replace(setting, rate=factor * setting.rate)
        tangent = midpoint(prepared.classifier, prepared.start, labels, scaled)
        middles.append(Middle(_thinned(tangent, chosen, count / total), length_of_path(scaled)))
    return KeptPass(
        prepared.labels, prepared.train, prepared.classes, start, None, prepared.name, tuple(middles), setting
    )


def _thinned(tangent: Tangent, chosen: Tensor, part: float) -> Tangent:
    jacobian, shares = tangent.jacobian[..., chosen].contiguous(), tangent.shares[chosen] * part
    return Tangent(tangent.outputs, jacobian, shares, tangent.weights[chosen], left_out=tangent.left_out)


def save_pass(kept: KeptPass, path: str | Path) -> Path:
    """Write a pass to a netCDF file. The texts are not in it, only their labels."""
    start = kept.start
    dataset = trajectory(
        {
            "outputs": (("row", "output"), start.outputs.numpy()),
            "jacobian": (("row", "output", "coordinate"), start.jacobian.numpy()),
            "shares": ("coordinate", start.shares.numpy()),
            "weights": ("coordinate", start.weights.numpy()),
            "middles": (
                ("path", "row", "output", "coordinate"),
                np.stack([middle.tangent.jacobian.numpy() for middle in kept.middles]),
            ),
            "length": ("path", [middle.length for middle in kept.middles]),
            "label": ("row", kept.labels.numpy()),
        },
        format=FORMAT,
        train=kept.train,
        classes=list(kept.classes),
        name=kept.name,
        left_out=list(start.left_out),
        setting=kept.setting.as_dict(),
    )
    return save(dataset, path)


def load_pass(path: str | Path) -> KeptPass:
    """Read a pass that `save_pass` wrote; InputError if the file is something else, or not whole."""
    data = load_file(path)
    config = config_of(data)
    require(config.get("format") == FORMAT, f"{path} is no kept pass; write one with forecast finetune --keep.")
    try:
        return _kept(data, config)
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise DamagedFile(f"{path} is damaged: {error}.") from error


def _kept(data: xr.Dataset, config: dict[str, Any]) -> KeptPass:
    values = {name: torch.from_numpy(np.ascontiguousarray(data[name].values)) for name in VARIABLES}
    sizes = data.sizes
    whole = sizes["path"] >= 1 and 1 <= config["train"] < sizes["row"] and sizes["coordinate"] >= 1
    require(whole, "A kept pass has training rows, test rows, coordinates and at least one path.")
    require(all(bool(value.isfinite().all()) for value in values.values()), "A kept pass has finite numbers only.")
    require(bool((values["shares"] > 0).all() and (values["length"] > 0).all()), "Shares and lengths are above 0.")
    names = tuple(map(str, config["classes"]))
    labels = values["label"].long()
    require(bool((labels >= 0).all()) and int(labels.max()) < len(names), "A label has no class.")
    outputs, jacobian, shares, weights = (values[name] for name in ("outputs", "jacobian", "shares", "weights"))
    start = Tangent(outputs, jacobian, shares, weights, left_out=tuple(config["left_out"]))
    middles = tuple(
        Middle(replace(start, jacobian=jacobian), float(length))
        for jacobian, length in zip(values["middles"], values["length"], strict=True)
    )
    given = {**config["setting"], "betas": tuple(config["setting"]["betas"])}
    return KeptPass(
        labels, int(config["train"]), names, start, None, str(config["name"]), middles, FinetuneSetting(**given)
    )
