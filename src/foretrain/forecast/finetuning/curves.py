"""Loss, accuracy and logits along a fine-tuning, forecast or real, and how well the two agree."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from foretrain.core.trajectory import trajectory
from foretrain.forecast.finetuning.probe import log_loss

PARTS = ("train", "test")


def recorded_steps(steps: int) -> list[int]:
    """The start, the end, and about a dozen steps between them, closer together at the start."""
    between = np.geomspace(1, steps, 12).round().astype(int).tolist() if steps > 1 else []
    return sorted({0, *between, steps})


def curves(labels: Tensor, train: int, outputs: Sequence[Tensor], steps: Sequence[int]) -> xr.Dataset:
    """Loss and accuracy [part, order, step] from outputs [step, row, output] of every order; logits at the end."""
    known = labels.numpy()
    parts = (slice(0, train), slice(train, None))
    stacked = torch.stack(list(outputs)).double().numpy()  # [order, step, row, output]
    loss = [[[log_loss(z[part], known[part]) for z in order] for order in stacked] for part in parts]
    right = [[[accuracy(z[part], known[part]) for z in order] for order in stacked] for part in parts]
    axes = ("part", "order", "step")
    where = np.where(np.arange(len(known)) < train, *PARTS)
    return trajectory(
        {
            "loss": (axes, np.array(loss)),
            "accuracy": (axes, np.array(right)),
            "logits": (("order", "row", "output"), stacked[:, -1]),
            "probe_logits": (("row", "output"), stacked[:, 0].mean(0)),
            "label": ("row", known),
            "where": ("row", where),
        },
        {"part": list(PARTS), "order": list(range(len(outputs))), "step": list(steps)},
        {"loss": "nats"},
    )


def accuracy(logits: np.ndarray, labels: np.ndarray) -> float:
    return float((guesses(logits) == labels).mean())


def guesses(logits: np.ndarray) -> np.ndarray:
    """The class with the highest logit; one logit is that of the second class."""
    return (logits[:, 0] > 0).astype(int) if logits.shape[1] == 1 else logits.argmax(1)


def score(data: xr.Dataset) -> dict[str, float]:
    """How well the forecast met the real training, on the test rows, for the first order of batches.

    correlation  of the forecast and the real change of the logits
    scale        spread of the forecast change over that of the real change
    accuracy_error, probe_error, loss_error  distance of forecast and of the unchanged probe from the real values
    agreement, probe_agreement               share of rows that get the class of the really fine-tuned model
    """
    test = data.where(data["where"] == "test", drop=True)
    start = test["probe_logits"].values
    forecast, real = test["logits"].isel(order=0).values, test["real_logits"].values
    change = {**compared(forecast - start, real - start)}
    end = data.sel(part="test").isel(order=0, step=[0, -1])
    right, wrong = end["accuracy"].values, end["loss"].values
    measured = data["real_accuracy"].sel(part="test").values[-1]
    same = guesses(real)
    return {
        **change,
        "accuracy_error": float(abs(right[1] - measured)),
        "probe_error": float(abs(right[0] - measured)),
        "loss_error": float(abs(wrong[1] - data["real_loss"].sel(part="test").values[-1])),
        "agreement": float((guesses(forecast) == same).mean()),
        "probe_agreement": float((guesses(start) == same).mean()),
    }


def compared(forecast: np.ndarray, real: np.ndarray) -> dict[str, float]:
    """Correlation and ratio of spreads of two changes of logits [row, output]."""
    one, two = forecast - forecast.mean(0), real - real.mean(0)
    sizes = np.sqrt((one**2).sum()), np.sqrt((two**2).sum())
    product = float(sizes[0] * sizes[1])
    return {
        "correlation": float((one * two).sum() / product) if product else float("nan"),
        "scale": float(sizes[0] / sizes[1]) if sizes[1] else float("nan"),
    }
