"""Theorem 2 with sequences of finite length, and section 9's remark on the size of the dataset."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import xarray as xr
from numpy import ndarray as Array

from foretrain.core.streams import stream
from foretrain.core.trajectory import trajectory
from foretrain.ledger.claim import Claim, Control
from foretrain.ledger.comparators import bounded, close, every, positive, ranked
from foretrain.ledger.tolerances import EXACT
from foretrain.papers.scan_snap import theory
from foretrain.papers.scan_snap.simulations import flows
from foretrain.papers.scan_snap.simulations.full_gradient import trained_logits
from foretrain.papers.scan_snap.tolerances import HALF

COMMON, RARE = 0.4, 0.1


def _rare_token(vocab: int) -> Array:
    """Two classes with a common token of .4, a distinct token of .5 and a rare distinct token of .1 each."""
    P = np.zeros((2, vocab))
    P[:, 0] = COMMON
    P[[0, 1], [1, 3]] = 1 - COMMON - RARE
    P[[0, 1], [2, 4]] = RARE
    return P


def _signs_at_finite_length(vocab: int, shares: tuple[float, ...]) -> xr.Dataset:
    """The sign of the rare token's force at the start, by length in shares of the length that it needs."""
    needed = float(theory.least_length(_rare_token(vocab))[0, 2])
    forces = [theory.finite_length_force(_rare_token(vocab), length=s * needed) for s in shares]
    force = [gain[0, 2] + noise[0, 2] for gain, noise in forces]
    return trajectory({"at_start": ("share", np.sign(force))}, {"share": list(shares)})


def _signs_in_training(
    vocab: int,
    shares: tuple[float, ...],
    lengths: tuple[int, ...],
    sequences: int,
    eta_y: float,
    eta_z: float,
    steps: int,
    times: float = 1.0,
) -> xr.Dataset:
    """The sign of the rare token's logit after two steps on many sequences, and at the end of a training on fewer.

    For the control the sequences are `times` as long.
    """
    needed = float(theory.least_length(_rare_token(vocab))[0, 2])
    first = [_trained(vocab, round(times * s * needed), sequences, 1.0, 1.0, 2) for s in shares]
    last = [_trained(vocab, round(times * T), 512, eta_y, eta_z, steps) for T in lengths]
    return trajectory(
        {"at_start": ("share", np.sign(first)), "at_end": ("length", np.sign(last))},
        {"share": list(shares), "length": list(lengths)},
    )


@lru_cache(maxsize=32)
def _trained(vocab: int, length: int, sequences: int, eta_y: float, eta_z: float, steps: int) -> float:
    """Mean logit of the two rare tokens after training on the same sequences at every step."""
    P = _rare_token(vocab)[:, :5]
    draw = stream("scan_snap/finite_length", length, sequences)
    counts = np.stack([draw.multinomial(length - 1, row, size=sequences) for row in P])[None].astype(float)
    run = flows.joint_descent(
        lambda: counts, np.zeros(2, int), vocab=vocab, eta_y=eta_y, eta_z=eta_z, steps=steps, save_every=steps
    )
    return float(run["z"].values[-1, 0, 0, 0, [2, 4]].mean())


_RATES = {"vocab": 30, "eta_y": 1.0, "eta_z": 0.01}

theorem2_length = Claim(
    id="scan_snap/theorem2_length",
    source="Theorem 2 (a), with sequences of finite length",
    says="A rare distinct token (P = .1) gains attention at the start of training only if sequences are longer than "
    "T*, at which noise in the token counts and the drive of Theorem 2 cancel.",
    predict=_signs_at_finite_length,
    observe=_signs_in_training,
    compare=close("at_start", EXACT, relative=False, by="by theory", seen="in training"),
    settings={
        "fast": {
            **_RATES,
            "shares": (0.25, 0.5, 2.0, 4.0),
            "lengths": (16, 64, 256),
            "sequences": 20_000,
            "steps": 300,
        },
        "full": {
            **_RATES,
            "shares": (0.25, 0.5, 0.8, 1.25, 2.0, 4.0),
            "lengths": (16, 64, 256, 1024),
            "sequences": 200_000,
            "steps": 800,
        },
    },
    control=Control("sequences sixteen times as long: every token gains", {"times": 16.0}),
    whose="our own expectation",
    finding="Theorem 2 (a) needs long sequences: about M·(1/P(l|n) − 1/‖P‖²)/Σf_n·f_n' tokens. For a token of "
    "probability .1, M = 30 and two classes that is 600 (709 exactly) at the start of training; by its end the token "
    "has gained with 256 tokens and lost with 64. At M = 1000 it is 24 000; the paper's experiments use 128.",
)


# Section 9: more data suppresses tokens that only look distinct


def _sampled(tokens: int, seed: int, classes: int, distinct: int, rare: int, share: float, truly: bool) -> Array:
    """P(l|n) as a dataset of so many tokens per class has it; `rare` tokens share `share` of every class.

    With `truly` the rare tokens are distinct, each for one class.
    """
    first = 1 + classes * distinct
    P = np.zeros((classes, first + rare))
    P[:, 0] = 0.3
    for n in range(classes):
        P[n, 1 + n * distinct : 1 + (n + 1) * distinct] = (0.7 - share) / distinct
        P[n, first:] = (np.arange(rare) % classes == n) * classes * share / rare if truly else share / rare
    draw = stream("scan_snap/section9", tokens, seed)
    return np.stack([draw.multinomial(tokens, row) for row in P]) / tokens


def _attention_on_spurious(
    tokens: tuple[int, ...],
    seeds: int,
    classes: int,
    distinct: int,
    rare: int,
    share: float,
    steps: int,
    truly: bool = False,
) -> xr.Dataset:
    """After training on each dataset: attention on rare tokens seen with one class only, and their mean logit."""
    attention, logit = np.zeros((len(tokens), seeds)), np.zeros((len(tokens), seeds))
    for i, number in enumerate(tokens):
        for seed in range(seeds):
            P = _sampled(number, seed, classes, distinct, rare, share, truly)
            z = trained_logits(P, eta_y=1.0, eta_z=0.1, save_at=[steps])["z"].values[0, 0]
            looks = ((P > 0).sum(axis=0) == 1) & (np.arange(P.shape[1]) >= 1 + classes * distinct)
            attention[i, seed] = theory.attention_limit(P, z)[:, looks].sum(axis=1).mean()
            logit[i, seed] = z[0, looks].mean()
    return trajectory(
        {
            "attention": (("tokens", "seed"), attention),
            "left": attention[-1].mean() / attention[0].mean(),
            "spurious_logit": (("tokens", "seed"), logit),
        },
        {"tokens": list(tokens), "seed": np.arange(1, seeds + 1)},
    )


_DATA = {"tokens": (30, 90, 270), "classes": 2, "distinct": 2, "rare": 30, "share": 0.3}

section9 = Claim(
    id="scan_snap/section9",
    source="Section 9",
    says="A common token that a small dataset shows with one class only is taken for a distinct one and gains "
    "attention. The more data, the less attention such tokens get.",
    observe=_attention_on_spurious,
    compare=every(ranked("attention", "tokens", rising=False), bounded("left", high=HALF), positive("spurious_logit")),
    settings={
        "fast": {**_DATA, "seeds": 4, "steps": 60},
        "full": {**_DATA, "seeds": 20, "steps": 300},
    },
    control=Control("the rare tokens are truly distinct, each for one class", {"truly": True}),
    whose="the paper's statement",
)

CLAIMS = [theorem2_length, section9]
