"""The forecast of a template task in words and as JSON."""

from __future__ import annotations

import numpy as np
import xarray as xr

from foretrain.core.trajectory import config_of
from foretrain.kernels.architectures import MLP, MLP_XX, TRANSFORMER, TRANSFORMER_AI
from foretrain.kernels.sample_need import TrainedErrors

SUBJECTS = {
    TRANSFORMER: "a transformer",
    TRANSFORMER_AI: "a transformer with a·I in every head",
    MLP: "an MLP",
    MLP_XX: "an MLP that is told which positions are equal",
}
IN_JSON = (
    "learnable", "tells_apart", "undecided", "why", "condition", "inverse_norm", "nonsingular", "condition_at_least",
    "limit_error", "samples_needed", "samples_limit",
)  # fmt: skip


def summary(forecast: xr.Dataset) -> dict[str, object]:
    """The forecast as data for JSON; needs and condition numbers may be infinite."""
    architectures = []
    for name in forecast.architecture.values.tolist():
        forecast_of_one = forecast.sel(architecture=name)
        curve = forecast_of_one[["error", "error_low", "error_high"]].to_dataframe()
        points = [
            {"n": row.Index, "error": row.error, "low": row.error_low, "high": row.error_high}
            for row in curve.itertuples()
        ]
        listed = {key: forecast_of_one[key].item() for key in IN_JSON}
        architectures.append({"architecture": name, **listed, "curve": points})
    return {**config_of(forecast), "architectures": architectures}


def answer(forecast: xr.Dataset) -> str:
    """The answer in a paragraph: who learns the task on unseen symbols, from about how many samples, who never does."""
    config = config_of(forecast)
    learn: list[str] = []
    copy, others = [], []
    for name in forecast.architecture.values.tolist():
        one, subject = forecast.sel(architecture=name), SUBJECTS[name]
        needed = one.samples_needed.item()
        if bool(one.learnable) and np.isfinite(needed):
            learn.append(
                f"{subject} {'about' if learn else 'needs about'} {about(needed)}{'' if learn else ' samples'}"
            )
        elif bool(one.learnable) or bool(one.undecided):
            others.append(_beyond(one, subject))
        elif bool(one.tells_apart):
            copy.append(subject)
        else:
            others.append(f"{subject} never learns it")
    sentences = []
    if learn:
        goal = f"To bring the error on unseen symbols down to {config['error']:g} of a constant guess's"
        sentences.append(f"{goal}, {joined(learn)}.")
    if copy:
        verb = "tells" if len(copy) == 1 else "tell"
        sentences.append(f"{_capital(joined(copy))} {verb} the answers apart, but cannot output an unseen symbol.")
    sentences += [f"{_capital(words)}." for words in others]
    return f"{config['task']}. {' '.join(sentences)}"


def _beyond(one: xr.Dataset, subject: str) -> str:
    """For a network whose need is not a number."""
    if bool(one.learnable) and bool(one.too_few_tokens):
        return f"{subject} can learn it, but not with so few tokens"
    if bool(one.learnable):
        return f"{subject} learns it, but needs {samples_words(one)} samples"
    needs = "not with so few tokens" if bool(one.too_few_tokens) else f"it needs {samples_words(one)} samples"
    return f"the forecast cannot tell whether {subject} learns it; if it does, {needs}"


def joined(parts: list[str]) -> str:
    """Parts of a sentence, with "and" before the last."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _capital(words: str) -> str:
    return words[0].upper() + words[1:]


def about(samples: float) -> str:
    """A number of samples to two digits, such as "1,700"."""
    if not np.isfinite(samples):
        return "–"
    if samples < 10:
        return f"{samples:.0f}"
    digits = int(np.floor(np.log10(samples))) - 1
    return f"{round(samples / 10**digits) * 10**digits:,.0f}"


def trained_words(trained: TrainedErrors, error: float) -> str:
    """How many samples training needed, in words."""
    needed, sizes = trained.needed(error), sorted(trained.errors)
    if not np.isfinite(needed):
        return f"more than {sizes[-1]:,}"
    return f"{sizes[0]:,} or fewer" if needed <= sizes[0] else f"{needed:,.0f}"


def verdict_words(one: xr.Dataset) -> str:
    """Whether one architecture learns the task on unseen symbols, in words."""
    if bool(one.learnable):
        return "learns"
    if bool(one.tells_apart):
        return "tells answers apart, but cannot copy"
    if bool(one.undecided):
        return f"cannot be told (eigenvalues below {one.resolution.item():.1g})"
    return f"fails (error stays at {one.limit_error.item():.2g})"


def samples_words(one: xr.Dataset) -> str:
    """How many samples one architecture needs, in words: two digits, and the forecast does not know the second."""
    needed = one.samples_needed.item()
    if np.isfinite(needed):
        return about(needed)
    if not bool(one.learnable) and not bool(one.undecided):
        return "never"
    return "not with so few tokens" if bool(one.too_few_tokens) else f"more than {one.samples_limit.item():,.0f}"


def error_words(point: xr.Dataset) -> str:
    """The predicted error at one number of samples, with its range, and what kernel regression gave if it was run."""
    words = f"{point.error.item():.2g} ({point.error_low.item():.2g}–{point.error_high.item():.2g})"
    if "simulated" in point and bool(point.simulated.notnull().any()):
        words += f", simulated {point.simulated.mean().item():.2g}"
    return words


def condition_words(one: xr.Dataset) -> str:
    """The condition number of one architecture's N, or a lower bound if the smallest eigenvalue cannot be resolved."""
    if np.isfinite(one.condition):
        return f"{one.condition.item():.3g}"
    return "∞" if bool(one.singular) else f"> {one.condition_at_least.item():.1g}"
