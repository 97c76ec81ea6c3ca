"""Training of the 1-layer transformer as a flow, for infinitely long sequences: counts become P(l|n).

There are two flows. `attention_flow` is eq. 10: attention moves, and the decoder is always where Theorem 1 puts it for
the current features (Assumption 1c); `driven_flow` is the same flow without learning rates. `joint_flow` moves decoder
and attention together by their own gradients (eq. 7 and 94), which is what training does without that assumption.

`probabilities` are [instance, class, token] over context tokens; the next token of class n is column n of the
decoder. Logits are stored per class, z[n] = Z[ψ(n)]; classes of the same query move together.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import xarray as xr
from numpy import ndarray as Array

from foretrain.core.trajectory import trajectory
from foretrain.papers.scan_snap import theory

State = dict[str, Array]


def attention_flow(
    probabilities: Array, query: Array, *, vocab: int, eta_y: float, eta_z: float, save_at: Array, rtol: float = 1e-12
) -> xr.Dataset:
    """Lemma 4, eq. 10, with the coefficients of Theorem 1: logits z and growth B_n = η_Z∫ξ_n."""
    rates = {"eta_y": eta_y, "eta_z": eta_z, "vocab": vocab, "classes": probabilities.shape[-2]}
    drives = np.asarray(theory.attention_drive(save_at, **rates))
    return driven_flow(probabilities, query, vocab=vocab, drives=drives, rtol=rtol).assign_coords(time=save_at)


def driven_flow(probabilities: Array, query: Array, *, vocab: int, drives: Array, rtol: float = 1e-12) -> xr.Dataset:
    """The same flow over the drive Γ = η_Z∫γ instead of time, in which eq. 10 does not depend on the learning rates."""
    from foretrain.dynamics.flow import integrate  # loads scipy's solvers, which listing claims can do without

    def field(_: float, state: State) -> State:
        f = theory.features(probabilities, state["z"])
        beta = theory.gradient_coefficients(f, vocab=vocab)[1]
        velocity = theory.by_query(theory.attention_velocity(f, beta), query)
        return {"z": velocity, "growth": theory.growth_speed(f, beta)}

    axes = ("instance", "class", "token")
    start = {
        "z": xr.DataArray(np.zeros(probabilities.shape), dims=axes),
        "growth": xr.DataArray(np.zeros(probabilities.shape[:-1]), dims=axes[:-1]),
    }
    return integrate(field, start, until=float(drives[-1]), save_at=drives, rtol=rtol)


def joint_flow(
    probabilities: Array,
    query: Array,
    *,
    vocab: int,
    eta_y: float,
    eta_z: float,
    save_at: Array,
    start: Array | None = None,
    rtol: float = 1e-12,
) -> xr.Dataset:
    """Eq. 7 and 94 together: decoder Y, logits z and their velocity.

    `start` is z(0) as [instance, head, class, token]. Every head has its own Y and z, and their outputs are added. By
    default there is one head that starts at 0, as in the paper.
    """
    from foretrain.dynamics.flow import integrate  # loads scipy's solvers, which listing claims can do without

    def field(t: float, state: State) -> State:
        return joint_velocity(probabilities[:, :, None], query, state, eta_y, eta_z)

    first = _start(probabilities, vocab, start)
    solved = integrate(field, first, until=float(save_at[-1]), save_at=save_at, rtol=rtol)
    states = zip(solved["Y"].values, solved["z"].values, strict=True)
    velocity = np.stack([field(0.0, {"Y": Y, "z": z})["z"] for Y, z in states])
    return solved.assign(velocity=(solved["z"].dims, velocity))


def joint_descent(
    draw_counts: Callable[[], Array],
    query: Array,
    *,
    vocab: int,
    eta_y: float,
    eta_z: float,
    steps: int,
    save_every: int = 1,
) -> xr.Dataset:
    """`joint_flow` as gradient descent on sampled sequences; `draw_counts()` gives [instance, class, sample, token]."""
    state = {name: value.values for name, value in _start(draw_counts()[:, :, 0], vocab).items()}
    saved = [state["z"]]
    for step in range(1, steps + 1):
        velocity = joint_velocity(draw_counts(), query, state, eta_y, eta_z)
        state = {name: value + velocity[name] for name, value in state.items()}
        if step % save_every == 0:
            saved.append(state["z"])
    times = save_every * np.arange(len(saved))
    return trajectory({"z": (("time", "instance", "head", "class", "token"), np.stack(saved))}, {"time": times})


def joint_velocity(counts: Array, query: Array, state: State, eta_y: float, eta_z: float) -> State:
    """Eq. 7 and 94, averaged over all samples of all classes: the expected step of batch size 1.

    counts [instance, class, sample, token], Y [instance, head, token, label], z [instance, head, class, token]
    """
    Y = state["Y"]
    f = theory.features(counts[:, None], state["z"][..., None, :])
    classes, samples = f.shape[2:4]
    rows = f.reshape(*f.shape[:2], classes * samples, -1)
    outputs = (rows @ Y).sum(axis=1, keepdims=True)  # the outputs of the heads are added
    by_class = np.swapaxes(outputs.reshape(*outputs.shape[:2], classes, samples, -1), 2, 3)
    error = np.swapaxes(theory.next_token_error(by_class), 2, 3).reshape(outputs.shape)  # e_n − α_n
    share = theory.logit_velocity(rows, error @ np.swapaxes(Y, -1, -2)).reshape(f.shape).mean(axis=3)
    return {
        "Y": eta_y / (classes * samples) * np.swapaxes(rows, -1, -2) @ error,
        "z": eta_z / classes * theory.by_query(share, query),
    }


def _start(probabilities: Array, vocab: int, z: Array | None = None) -> dict[str, xr.DataArray]:
    instances, classes, tokens = probabilities.shape
    z = np.zeros((instances, 1, classes, tokens)) if z is None else z
    Y = np.zeros((instances, z.shape[1], tokens, vocab))
    return {
        "Y": xr.DataArray(Y, dims=("instance", "head", "token", "label")),
        "z": xr.DataArray(z, dims=("instance", "head", "class", "token")),
    }
