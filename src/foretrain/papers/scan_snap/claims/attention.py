"""Section 5 and appendix E: how attention moves, and which tokens gain or lose it."""

from __future__ import annotations

import numpy as np
import xarray as xr
from numpy import ndarray as Array

from foretrain.core.streams import stream
from foretrain.core.trajectory import trajectory
from foretrain.ledger.claim import Assumption, Claim, Control, Erratum
from foretrain.ledger.comparators import close
from foretrain.ledger.tolerances import EXACT, GRADIENT
from foretrain.papers.scan_snap import theory
from foretrain.papers.scan_snap.simulations import flows
from foretrain.papers.scan_snap.simulations.random_classes import RandomClasses

AXES = ("instance", "class", "token")


def _random_state(classes: int, vocab: int) -> tuple[Array, Array]:
    """P [class, token] of random classes that overlap, and logits far from 0 that all classes share."""
    draw = stream("scan_snap/lemma4", classes, vocab)
    P = draw.dirichlet(np.full(vocab, 0.5), size=classes)
    return P, np.broadcast_to(draw.normal(0, 1, vocab), P.shape)


def _velocity_by_lemma4(classes: int, vocab: int, eta_y: float, time: float) -> xr.Dataset:
    P, z = _random_state(classes, vocab)
    f = theory.features(P, z)
    beta = theory.gradient_coefficients(f, vocab=vocab)[1]
    speed = theory.speed(time, eta_y=eta_y, vocab=vocab, classes=classes)
    velocity = theory.by_query(theory.attention_velocity(f, beta), np.zeros(classes, dtype=int))
    return trajectory({"velocity": ("token", speed * velocity[0])})


def _velocity_by_autograd(
    classes: int, vocab: int, eta_y: float, time: float, length: int | None = None, samples: int = 64
) -> xr.Dataset:
    """The gradient summed over the classes; with `length`, that of sampled sequences of this length."""
    return _gradient(np.ones(classes), vocab, eta_y, time, length, samples)


def _gradient(
    weights: Array, vocab: int, eta_y: float, time: float, length: int | None = None, samples: int = 64
) -> xr.Dataset:
    """Gradient in z of Σ_n weight_n·ln p(n) at the decoder of Theorem 5 with Θ = 0."""
    import torch  # only this function differentiates; loading torch takes seconds

    classes = len(weights)
    P, z = _random_state(classes, vocab)
    h = theory.decoder_growth(time / classes, eta_y=eta_y, vocab=vocab)
    W = h * (vocab * np.eye(classes, vocab) - 1)  # rows (M − 1)·h·ζ_n
    decoder = torch.from_numpy(np.linalg.pinv(theory.features(P, z)) @ W)
    counts = P[:, None]
    if length is not None:
        draw = stream("scan_snap/lemma4", classes, vocab, "sequences")
        counts = np.stack([draw.multinomial(length - 1, row, size=samples) for row in P]) / (length - 1)
    logits = torch.tensor(z[0], requires_grad=True)
    c = torch.from_numpy(counts) * torch.exp(logits)
    scores = torch.log_softmax((c / c.norm(dim=-1, keepdim=True)) @ decoder, dim=-1).mean(dim=1)
    (gradient,) = torch.autograd.grad(scores.diagonal() @ torch.from_numpy(weights), logits)
    return trajectory({"velocity": ("token", gradient.numpy())})


lemma4 = Claim(
    id="scan_snap/lemma4",
    source="Lemma 4, eq. 10",
    says="For infinitely long sequences the logits of a query move by "
    "ż_m = η_Z·γ·Σ_{n∈ψ⁻¹(m)} diag(f_n)·Σ_{n'≠n} β_nn'·(f_n f_nᵀ − I)·f_n', summed over the classes of the query.",
    predict=_velocity_by_lemma4,
    observe=_velocity_by_autograd,
    compare=close("velocity", GRADIENT, by="by eq. 10", seen="by autograd"),
    whose="the paper's statement",
    settings={
        "fast": {"classes": 5, "vocab": 40, "eta_y": 0.5, "time": 60.0},
        "full": {"classes": 20, "vocab": 400, "eta_y": 0.5, "time": 600.0},
    },
    control=Control("sequences of 128 tokens in place of infinitely long ones", {"length": 128}),
)


def _step_by_lemma4(classes: int, vocab: int, eta_y: float, time: float, share: bool = True) -> xr.Dataset:
    """Eq. 10, and with `share` the K-th part of it."""
    summed = _velocity_by_lemma4(classes, vocab, eta_y, time)["velocity"]
    return trajectory({"mean_step": summed / classes if share else summed})


def _mean_step(classes: int, vocab: int, eta_y: float, time: float, tilt: float = 0.0) -> xr.Dataset:
    """Expected step of batch size 1: classes are equally likely, or with `tilt` the more likely the larger n is."""
    weights = 1 + tilt * np.linspace(-1, 1, classes)
    return _gradient(weights / weights.sum(), vocab, eta_y, time).rename(velocity="mean_step")


lemma4_per_step = Claim(
    id="scan_snap/lemma4_per_step",
    source="Lemma 4, eq. 10, against the clock of Theorem 1",
    says="A step of batch size 1 moves the logits by 1/K of eq. 10 on average, because it sees one of K classes.",
    erratum=Erratum(
        changes={"share": False},
        prints="A step of batch size 1 moves the logits by all of eq. 10 on average.",
        says="Eq. 10 and 94 sum over the classes, but t in γ(t), eq. 85, counts steps of batch size 1: h(t/K) has the "
        "1/K that eq. 10 lacks. So Γ of Theorem 4 is that of a learning rate K·η_Z.",
        formulas=(
            r"\dot z_m = \eta_Z\,\gamma(t) \sum_{n \in \psi^{-1}(m)} \ldots",
            r"\dot z_m = \frac{\eta_Z}{K}\,\gamma(t) \sum_{n \in \psi^{-1}(m)} \ldots",
        ),
        consequence="Every growth of attention in section 6 is that of a learning rate K times too large.",
    ),
    predict=_step_by_lemma4,
    observe=_mean_step,
    compare=close("mean_step", GRADIENT, by="by the formula", seen="by autograd"),
    whose="the paper's statement",
    settings=lemma4.settings,
    control=Control("classes that are not drawn equally often", {"tilt": 0.5}),
)


def _predicted_fates(task: RandomClasses) -> xr.Dataset:
    return trajectory({"fate": (AXES, theory.fates(task.probabilities, task.query))})


def _fates_by_eq10(task: RandomClasses, vocab: int, eta_y: float, eta_z: float, until: float) -> xr.Dataset:
    """The sign of every logit's velocity along the flow of eq. 10."""
    P, query, times = task.probabilities, task.query, np.linspace(0, until, 41)
    flow = flows.attention_flow(P, query, vocab=vocab, eta_y=eta_y, eta_z=eta_z, save_at=times, rtol=1e-9)
    f = theory.features(P, flow["z"].values)
    velocity = theory.by_query(theory.attention_velocity(f, theory.gradient_coefficients(f, vocab=vocab)[1]), query)
    return _fates(task, times, velocity, flow["z"].values)


def _fates_by_training(task: RandomClasses, vocab: int, eta_y: float, eta_z: float, until: float) -> xr.Dataset:
    """The same while decoder and attention train together; t = 0 is left out because nothing moves there."""
    times = np.linspace(0, until, 41)
    flow = flows.joint_flow(task.probabilities, task.query, vocab=vocab, eta_y=eta_y, eta_z=eta_z, save_at=times).isel(
        time=slice(1, None), head=0
    )
    return _fates(task, times[1:], flow["velocity"].values, flow["z"].values)


def _fates(task: RandomClasses, times: Array, velocity: Array, z: Array) -> xr.Dataset:
    """The signs of the velocities, and for the figure the mean logits of common and of distinct tokens."""
    occurs = task.probabilities > 0
    common = np.arange(z.shape[-1]) < task.common
    logits = [z[:, occurs & kind].mean(axis=1) for kind in (common, ~common)]
    return trajectory(
        {"fate": (("time", *AXES), np.sign(velocity)), "mean_logit": (("kind", "time"), np.stack(logits))},
        {"time": times, "kind": ["common", "distinct"]},
    )


weak_correlations = Assumption(
    "Assumption 2 (weak correlations) at the start", lambda task, vocab: task.weak_correlations(vocab)
)
decoder_first = Assumption(
    "Assumption 1(c): the decoder learns much faster than attention (here η_Y ≥ 10·η_Z)",
    lambda eta_y, eta_z: (eta_y >= 10 * eta_z, f"η_Y/η_Z = {eta_y / eta_z:g}"),
)

_LARGE_VOCAB = {"vocab": 10**6, "eta_y": 0.5, "eta_z": 0.1, "until": 2000.0}

theorem2 = Claim(
    id="scan_snap/theorem2",
    source="Theorem 2, under eq. 10",
    says="Under eq. 10 every distinct token gains attention and the single common token loses it, all the time.",
    predict=_predicted_fates,
    observe=_fates_by_eq10,
    compare=close("fate", EXACT, relative=False, by="by Theorem 2", seen="under eq. 10"),
    whose="the paper's statement",
    settings={
        "fast": {"task": RandomClasses(), **_LARGE_VOCAB},
        "full": {
            **_LARGE_VOCAB,
            "task": RandomClasses(instances=50, per_query=3, share=(0.03, 0.08)),
            "vocab": 10**8,
            "until": 1e4,
        },
    },
    control=Control(
        "two common tokens, with other probabilities in each class",
        {"task": RandomClasses(instances=16, common=2, evenness=0.1)},
    ),
    assumes=(weak_correlations,),
)


def _common_under_eq10(task: RandomClasses, vocab: int, eta_y: float, eta_z: float, until: float) -> xr.Dataset:
    """The sign of the velocity of the first query's common token along the flow of eq. 10."""
    fate = _fates_by_eq10(task, vocab, eta_y, eta_z, until)["fate"].isel({"class": 0, "token": 0}, drop=True)
    return trajectory({"sign": fate})


theorem2_common = Claim(
    id="scan_snap/theorem2_common",
    source="Theorem 2 (b), under eq. 10",
    says="The single common token loses attention as soon as one class of the query has a distinct token, even if "
    "another class of that query has nothing but the common token.",
    predict=lambda: trajectory({"sign": -1.0}),
    observe=_common_under_eq10,
    compare=close("sign", EXACT, relative=False, by="by Theorem 2", seen="under eq. 10"),
    settings={"fast": {"task": RandomClasses(shape="half bare"), **_LARGE_VOCAB}},
    control=Control(
        "the class without distinct tokens is the only one of its query", {"task": RandomClasses(shape="bare")}
    ),
    whose="the paper's statement",
)

theorem2_training = Claim(
    id="scan_snap/theorem2_training",
    source="Theorem 2, under eq. 7 and 94",
    says="When decoder and attention train together and the decoder is much faster, distinct tokens gain attention "
    "and the single common token loses it. With η_Z = η_Y some distinct tokens lose it: Assumption 1(c) is needed.",
    predict=_predicted_fates,
    observe=_fates_by_training,
    compare=close("fate", EXACT, relative=False, by="by Theorem 2", seen="in training"),
    whose="the paper's statement",
    settings={
        "fast": {
            "task": RandomClasses(instances=8, queries=1, share=(0.2, 0.4)),
            "vocab": 30,
            "eta_y": 0.5,
            "eta_z": 0.01,
            "until": 400.0,
        },
        "full": {
            "task": RandomClasses(instances=20, per_query=3, share=(0.2, 0.4)),
            "vocab": 60,
            "eta_y": 0.5,
            "eta_z": 0.01,
            "until": 2000.0,
        },
    },
    control=Control("attention learns as fast as the decoder", {"eta_z": 0.5}),
    assumes=(decoder_first,),
)

corollary2 = Claim(
    id="scan_snap/corollary2",
    source="Corollary 2, under eq. 10",
    says="With one query, classes that are alike and common tokens that have one probability in all classes, "
    "every common token loses attention.",
    predict=_predicted_fates,
    observe=_fates_by_eq10,
    compare=close("fate", EXACT, relative=False, by="by Corollary 2", seen="under eq. 10"),
    whose="the paper's statement",
    settings={
        "fast": {
            "task": RandomClasses(queries=1, per_query=3, common=4, shape="symmetric", share=(0.1, 0.3)),
            **_LARGE_VOCAB,
        }
    },
    control=Control(
        "the same common tokens with other probabilities in each class",
        {"task": RandomClasses(queries=1, per_query=3, common=4, share=(0.1, 0.3), evenness=0.1)},
    ),
    assumes=(weak_correlations,),
)

CLAIMS = [lemma4, lemma4_per_step, theorem2, theorem2_common, theorem2_training, corollary2]
