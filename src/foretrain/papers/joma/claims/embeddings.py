"""Section 7: embeddings that are trained too, and attention logits computed from embeddings."""

from __future__ import annotations

import xarray as xr

from foretrain.core.trajectory import trajectory
from foretrain.ledger.claim import Claim, Control
from foretrain.ledger.comparators import close, every, surely_positive
from foretrain.ledger.tolerances import ALGEBRA
from foretrain.papers.joma import theory
from foretrain.papers.joma.simulations import embeddings as runs


def _excess(seeds: int, steps: int, synonyms: bool) -> xr.Dataset:
    """By how much the cosine of two synonyms exceeds that of other pairs, by seed."""
    run = runs.train_embeddings(tuple(range(1, seeds + 1)), steps, synonyms)
    excess = run["pair_cosine"] - run["other_cosine"]
    return run[["pair_cosine", "other_cosine"]].assign(cosine_excess=excess)


trained = Claim(
    id="joma/trained_embeddings",
    source='Section 7, "Training embedding vectors"',
    whose="the paper's statement",
    says="If embeddings are trained with the rest, tokens that mean the same learn similar embeddings: the cosine of "
    "two synonyms exceeds that of other pairs by more than three standard errors over seeds, from an orthonormal "
    "start.",
    observe=_excess,
    compare=surely_positive("cosine_excess"),
    settings={
        "fast": {"seeds": 4, "steps": 400, "synonyms": True},
        "full": {"seeds": 20, "steps": 800, "synonyms": True},
    },
    control=Control("no synonyms: every token is drawn by its own chances", {"synonyms": False}),
    finding="Synonyms end with a cosine of .65 to .74, other pairs with −.1 (800 steps, five seeds), and the loss is "
    ".09 to .36 nats where fixed embeddings reach .29 to .58: trained embeddings do speed up learning here.",
)


def _shared_on_paper(cosine: float, steps: int) -> xr.Dataset:
    speeds = runs.shared_speeds(cosine)
    formula = theory.shared_logit_speed(speeds["free"], speeds["query_embeddings"], speeds["context_embeddings"])
    seen = runs.train_shared_attention(cosine, steps)["seen"]
    return trajectory(
        {"shared": (("problem", "query", "context"), formula), "unseen": ("time", cosine * seen.values)},
        {"time": seen["time"]},
    )


def _shared(cosine: float, steps: int, free: bool = False) -> xr.Dataset:
    """The speed of Z by autograd through A, and the logit of a token that never occurs; `free` trains Z itself."""
    speeds = runs.shared_speeds(cosine)
    run = runs.train_shared_attention(cosine, steps, free=free)
    return trajectory(
        {
            "shared": (("problem", "query", "context"), speeds["free" if free else "shared"].values),
            "unseen": ("time", run["unseen"].values),
        },
        {"time": run["time"]},
    )


shared = Claim(
    id="joma/attention_from_embeddings",
    source='Section 7, "Self-attention computed from embedding"',
    whose="the paper's statement",
    says="If logits are computed from embeddings, Z = U_QᵀAU_C, attention generalises to tokens with similar "
    "embeddings and moves faster: Ż = (U_QᵀU_Q)·G·(U_CᵀU_C) with G the speed of a free Z, and in training a token that "
    "never occurs gets the logit of its neighbour, times their cosine.",
    predict=_shared_on_paper,
    observe=_shared,
    compare=every(
        close("shared", ALGEBRA, by="by the formula", seen="by autograd"),
        close("unseen", ALGEBRA, by="by the formula", seen="in training"),
    ),
    settings={"fast": {"cosine": 0.6, "steps": 100}, "full": {"cosine": 0.6, "steps": 1000}},
    control=Control("Z itself is trained", {"free": True}),
    finding="n tokens that pull alike, with inner product c, move 1 + (n − 1)c times as fast as free logits.",
)

CLAIMS = [trained, shared]
