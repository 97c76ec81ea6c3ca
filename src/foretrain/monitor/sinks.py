"""Sends what a monitor records to TensorBoard or to Weights & Biases while training goes on.

    Monitor(model, sinks=[TensorBoard("logs"), WandB(project="mine", mode="offline")])

A sink opens nothing before the first record comes, so that only the process that records opens it. These curves are
drawn for each record, here for a layer `blocks.0.attention` and a matrix `blocks.0.attention.qkv.weight`:

    loss
    attention_entropy/blocks.0.attention/mean        over heads, of every statistic of attention and of the identity
    attention_entropy/blocks.0.attention/lowest      the head that attends to the fewest tokens
    attention_largest_logit/blocks.0.attention/highest
    stable_rank/blocks.0.attention.qkv.weight        and everything else that is recorded of a matrix
    activation_residual_norm/blocks.0                and everything else that is recorded of a block or a router

With `heads=True` there is also a curve for every single head: /head_0, /head_1 and so on. That is 60 curves more for
every layer of twelve heads.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from foretrain.core.errors import InputError
from foretrain.runs.training_log import PER_HEAD, PER_NAME, Record

# the head that matters most, where a mean would hide it
EXTREMES: dict[str, tuple[str, Callable[[list[float]], float]]] = {
    "attention_entropy": ("lowest", min),
    "attention_largest_logit": ("highest", max),
}


def scalars(record: Record, *, heads: bool = False) -> dict[str, float]:
    """The numbers of a record by the names of their curves; what could not be measured, nan, is left out."""
    values = {"loss": float(record["loss"])} if "loss" in record else {}
    for part, prefix in PER_HEAD.items():
        for layer, measures in record.get(part, {}).items():
            for measure, per_head in measures.items():
                values |= _over_heads(prefix + measure, layer, [float(value) for value in per_head], heads)
    for part, (_, prefix) in PER_NAME.items():
        for place, measures in record.get(part, {}).items():
            values |= {
                f"{prefix}{name}/{place}": float(value)
                for name, value in measures.items()
                if isinstance(value, int | float)  # the load of every expert is in the records only
            }
    if "gradient_norm" in record:
        values["total_gradient_norm"] = float(record["gradient_norm"])
    return {name: value for name, value in values.items() if name == "loss" or not math.isnan(value)}


def _over_heads(name: str, layer: str, per_head: list[float], heads: bool) -> dict[str, float]:
    measured = [value for value in per_head if not math.isnan(value)]
    curve = f"{name}/{layer}"
    values = {f"{curve}/head_{head}": value for head, value in enumerate(per_head)} if heads else {}
    if measured:
        values[f"{curve}/mean"] = sum(measured) / len(measured)
        if name in EXTREMES:
            which, extreme = EXTREMES[name]
            values[f"{curve}/{which}"] = extreme(measured)
    return values


class TensorBoard:
    """Writes to a folder for TensorBoard. A resumed training hides what the first one wrote beyond where it resumes."""

    def __init__(self, folder: str | Path, *, heads: bool = False) -> None:
        self.folder, self.heads = Path(folder), heads
        self._writer: Any = None
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise InputError(
                "foretrain.monitor.sinks.TensorBoard needs tensorboard; pip install tensorboard."
            ) from error
        self._open = SummaryWriter

    def __call__(self, record: Record) -> None:
        """Write one record."""
        step = int(record["step"])
        if self._writer is None:
            self._writer = self._open(str(self.folder), purge_step=step)
        for name, value in scalars(record, heads=self.heads).items():
            self._writer.add_scalar(name.replace("#", "_"), value, step)  # TensorBoard allows no # in a name
        self._writer.flush()

    def close(self) -> None:
        """Finish the file; a record that comes later begins a new one."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None


class WandB:
    """Logs to a run of Weights & Biases: to `run`, or to the one that is active, or to a new one.

    `options` are those of wandb.init, for a new run. Training steps are on the axis `foretrain/step`, and so do not
    clash with how a run that you log to yourself counts its steps. Only a run that was begun here is finished here.
    """

    def __init__(self, run: Any = None, *, heads: bool = False, **options: Any) -> None:
        self.heads, self.options = heads, options
        try:
            import wandb
        except ImportError as error:
            raise InputError("The sink WandB needs wandb; pip install wandb.") from error
        self._wandb, self._run, self._own = wandb, run, False
        self._sections: set[str] = set()

    def __call__(self, record: Record) -> None:
        """Log one record."""
        if self._run is None:
            self._own = self._wandb.run is None
            self._run = self._wandb.init(**self.options) if self._own else self._wandb.run
        values = {_curve(name): value for name, value in scalars(record, heads=self.heads).items()}
        for section in sorted({name.split("/")[0] for name in values} - self._sections):
            self._run.define_metric(f"{section}/*", step_metric="foretrain/step")
            self._sections.add(section)
        # in a run of someone else, these values join whatever is logged next
        self._run.log({"foretrain/step": int(record["step"]), **values}, commit=self._own)

    def close(self) -> None:
        """Finish the run if it was begun here."""
        if self._own:
            self._run.finish()
            self._run, self._own, self._sections = None, False, set()


def _curve(name: str) -> str:
    return f"foretrain/{name}" if "/" not in name else name  # "loss" would mix with the run's own
