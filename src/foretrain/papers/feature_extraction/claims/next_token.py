"""Language models: next-token scores follow the co-occurrence of context and target."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
import xarray as xr
from scipy.stats import spearmanr

from foretrain.claim import Claim, Control
from foretrain.comparators import bounded, close, every
from foretrain.kernels.tangent import Scales, mlp_kernel
from foretrain.papers.feature_extraction import theory
from foretrain.papers.feature_extraction.first_step import first_step
from foretrain.papers.feature_extraction.networks import network
from foretrain.papers.feature_extraction.next_token import NextTokens, read_next_tokens, train_transformer
from foretrain.streams import torch_stream
from foretrain.tolerances import ALGEBRA
from foretrain.trajectory import trajectory

TOP = 10
FLOW_TIME = 30.0  # largest scores near 1 logit: past the first step, where the softmax pushes back


@cache
def _text(corpus: str, vocab: int, context: int, tokens: int) -> NextTokens:
    return read_next_tokens(corpus, vocab=vocab, context=context, tokens=tokens)


def _model_bounds() -> xr.Dataset:
    return trajectory({"pearson_low": 0.98, "spearman_low": 0.95})


def _model_scores(
    corpus: str, vocab: int, context: int, tokens: int, widths: tuple[int, int], seeds: int, shuffled: bool = False
) -> xr.Dataset:
    """One step of ReLU networks against the formula, and the flow against N(e, k) per context token.

    The step is the mean over seeds at the first width, and that of one network at the second. Along the flow scores
    are read less the bias, the score of a token never seen, which is the same for all context tokens.
    `shuffled` trains on targets shuffled among contexts and compares with the true co-occurrence.
    """
    text = _text(corpus, vocab, context, tokens)
    kernel = mlp_kernel("relu")
    pairs = text.pairs
    velocity = theory.next_token_velocity(
        pairs, pairs.sum(axis=1), pairs.sum(axis=0), own=kernel.own, shared=kernel.shared
    )
    target = text.shuffled_one_hot() if shuffled else text.one_hot
    seen = np.asarray(text.counts.T @ target)
    force = seen - seen.sum(axis=1, keepdims=True) / vocab  # outputs start at 0: every target has p = 1/V

    def pearson(width: int, count: int) -> float:
        net = network("MLP ReLU", vocab, width, scales=Scales(), outputs=vocab)
        starts = (net.start(torch_stream("feature_extraction/language_model", width, s)) for s in range(count))
        mean = np.mean([first_step(net, start, force) for start in starts], axis=0)
        return float(np.corrcoef(mean.ravel(), velocity.ravel())[0, 1])

    def ranks(scores: np.ndarray) -> float:
        return float(np.mean([spearmanr(scores[e], pairs[e]).statistic for e in range(vocab)]))

    flow = {name: theory.label_scores(text.counts, target, mlp_kernel(name), FLOW_TIME) for name in ("relu", "tanh")}
    own = flow["relu"] - theory.predicted_bias(flow["relu"], kernel)
    return trajectory(
        {
            "pearson": ("width", [pearson(widths[0], seeds), pearson(widths[1], 1)]),
            "spearman": ("network", [ranks(own), ranks(flow["tanh"])]),
            "spearman_with_bias": ranks(flow["relu"]),
        },
        {"width": widths, "network": ["MLP ReLU, less its bias", "MLP tanh"]},
    )


language_model = Claim(
    id="feature_extraction/language_model",
    source="derived; the paper states it for next-token prediction",
    says=(
        "The first step moves the score of target k after token e by ρ[N(e,k) − N(e)/V] + β[T_k − T/V] (ReLU, mean of "
        "three networks of width 256, and one of width 1024); along the flow, scores less the bias rank the targets of "
        "a context token as their co-occurrence does. The bias itself, towards frequent targets, hides it: see "
        "spearman_with_bias."
    ),
    predict=_model_bounds,
    observe=_model_scores,
    compare=every(bounded("pearson", low="pearson_low"), bounded("spearman", low="spearman_low")),
    settings={
        "fast": {"corpus": "made_up", "vocab": 24, "context": 1, "tokens": 4000, "widths": (256, 1024), "seeds": 3},
        "full": {
            "corpus": "wikitext-2",
            "vocab": 60,
            "context": 1,
            "tokens": 200_000,
            "widths": (256, 1024),
            "seeds": 3,
        },
    },
    control=Control("targets are shuffled among contexts", {"shuffled": True}),
)


def _transformer_bounds() -> xr.Dataset:
    return trajectory({"gap_low": 0.0, "leak": 0.0})


def _transformer_scores(
    corpus: str, vocab: int, tokens: int, steps: int, width: int, causal: bool = True
) -> xr.Dataset:
    """Scores after a single token: targets that follow it most, less those that follow it least; and the leak."""
    text = _text(corpus, vocab, 1, tokens)
    net, perplexity = train_transformer(text, steps=steps, width=width, causal=causal)
    net.eval()
    with torch.no_grad():
        scores = net(torch.arange(vocab)[:, None])[:, 0].double().numpy()
        window = torch.from_numpy(text.tokens[None, :16]).repeat(2, 1)
        window[1, -1] = (window[1, -1] + 1) % vocab
        seen = net(window)[:, :-1]
    order = np.argsort(-text.pairs, axis=1, kind="stable")
    often = np.argsort(-text.pairs.sum(axis=1))[: vocab // 2]
    top = np.take_along_axis(scores, order[:, :TOP], axis=1).mean(axis=1)
    bottom = np.take_along_axis(scores, order[:, -TOP:], axis=1).mean(axis=1)
    return trajectory(
        {
            "gap": ("token", (top - bottom)[often]),
            "leak": float((seen[0] - seen[1]).abs().max()),  # what a changed last token does to earlier places
            "perplexity": perplexity,
        }
    )


transformer_scores = Claim(
    id="feature_extraction/transformer_scores",
    source="derived; the paper states it for transformers on WikiText-2 (published: no causal mask, perplexity 3.95)",
    says=(
        "A small transformer scores the ten targets that follow a token most above the ten that follow it least, for "
        "every frequent token; with the causal mask on, no place sees its own target."
    ),
    predict=_transformer_bounds,
    observe=_transformer_scores,
    compare=every(bounded("gap", low="gap_low"), close("leak", ALGEBRA, relative=False)),
    settings={
        "fast": {"corpus": "made_up", "vocab": 24, "tokens": 4000, "steps": 150, "width": 32},
        "full": {"corpus": "wikitext-2", "vocab": 500, "tokens": 300_000, "steps": 2000, "width": 64},
    },
    control=Control("no causal mask: every place sees its own target", {"causal": False}),
)

CLAIMS = [language_model, transformer_scores]
