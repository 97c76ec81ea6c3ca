"""Language models: next-token scores follow the co-occurrence of context and target.

Token frequencies alone explain much of any table of next-token scores, so each claim also looks at the excess: what is
left of scores and of N(e,k) when that of targets independent of their contexts, N(e)T_k/T, is taken off.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
import xarray as xr
from scipy.stats import spearmanr

from foretrain.claim import Claim, Control, no_number
from foretrain.comparators import bounded, close, close_relative, every, positive
from foretrain.kernels.tangent import Scales, mlp_kernel
from foretrain.papers.feature_extraction import theory
from foretrain.papers.feature_extraction.first_step import first_step
from foretrain.papers.feature_extraction.networks import network
from foretrain.papers.feature_extraction.next_token import NextTokens, read_next_tokens, train_transformer
from foretrain.streams import torch_stream
from foretrain.tolerances import ALGEBRA, FIRST_STEP
from foretrain.trajectory import trajectory

TOP = 10
FLOW_TIME = 30.0  # largest scores near 1 logit: past the first step, where the softmax pushes back


@cache
def _text(corpus: str, vocab: int, context: int, tokens: int) -> NextTokens:
    return read_next_tokens(corpus, vocab=vocab, context=context, tokens=tokens)


def _model_on_paper() -> xr.Dataset:
    return trajectory({"pearson_low": 0.98, "spearman_low": 0.95, "excess_slope": mlp_kernel("relu").own})


def _model_scores(
    corpus: str, vocab: int, context: int, tokens: int, width: int, seeds: int, shuffled: bool = False
) -> xr.Dataset:
    """The first step of ReLU networks against the formula, and the flow of the limit kernel against N(e, k).

    The excess of a step is that of the same network less its step on targets independent of contexts: its slope over
    the excess of N(e, k) is ρ. `shuffled` trains on targets shuffled among contexts and compares with the true counts.
    """
    text = _text(corpus, vocab, context, tokens)
    kernel = mlp_kernel("relu")
    pairs = text.pairs
    independent = theory.independent_pairs(pairs)
    excess = (pairs - independent).ravel()
    velocity = theory.next_token_velocity(
        pairs, pairs.sum(axis=1), pairs.sum(axis=0), own=kernel.own, shared=kernel.shared
    )
    target = text.shuffled_one_hot() if shuffled else text.one_hot
    seen = np.asarray(text.counts.T @ target)

    def step(net_seed: int, counted: np.ndarray) -> np.ndarray:
        """Outputs start at 0: every target has p = 1/V."""
        net = network("MLP ReLU", vocab, width, scales=Scales(), outputs=vocab)
        start = net.start(torch_stream("feature_extraction/language_model", width, net_seed))
        return first_step(net, start, counted - counted.sum(axis=1, keepdims=True) / vocab).ravel()

    steps = np.array([step(s, seen) for s in range(seeds)])
    beyond = steps - [step(s, independent) for s in range(seeds)]
    chance = np.broadcast_to(pairs.sum(axis=0) / pairs.sum(), target.shape)
    flow, flow_of_chance = (theory.label_scores(text.counts, rows, kernel, FLOW_TIME) for rows in (target, chance))
    return trajectory(
        {
            "pearson": ("seed", [np.corrcoef(one, velocity.ravel())[0, 1] for one in steps]),
            "spearman": spearmanr(flow, pairs, axis=None).statistic,
            "excess_slope": ("seed", beyond @ excess / (excess @ excess)),
            "excess_pearson": ("seed", [np.corrcoef(one, excess)[0, 1] for one in beyond]),
            "excess_spearman": spearmanr(flow - flow_of_chance, excess, axis=None).statistic,
        },
        {"seed": range(seeds)},
    )


language_model = Claim(
    id="feature_extraction/language_model",
    source="derived; the paper states it for next-token prediction",
    says=(
        "The first step moves the score of target k after token e by ρ[N(e,k) − N(e)/V] + β[T_k − T/V] (ReLU, width "
        "256), and along the flow scores rank (e, k) as their co-occurrence does. Of the step, what is beyond "
        "independence of context and target is ρ times the excess of N(e,k)."
    ),
    predict=_model_on_paper,
    observe=_model_scores,
    compare=every(
        bounded("pearson", low="pearson_low"),
        bounded("spearman", low="spearman_low"),
        close_relative("excess_slope", FIRST_STEP),
    ),
    settings={
        "fast": {"corpus": "made_up", "vocab": 24, "context": 4, "tokens": 4000, "width": 256, "seeds": 3},
        "full": {"corpus": "wikitext-2", "vocab": 60, "context": 4, "tokens": 200_000, "width": 256, "seeds": 3},
    },
    control=Control("targets are shuffled among contexts", {"shuffled": True}),
)


@cache
def _transformer_scores(
    corpus: str, vocab: int, tokens: int, steps: int, width: int, causal: bool = True, shuffled: bool = False
) -> xr.Dataset:
    """Scores after a single token: targets that follow it most, less those that follow it least; and the leak.

    `gap` ranks targets by N(e, k) and reads scores as they are; `excess_gap` ranks by the excess over independence and
    takes off each target's mean score over context tokens, which is all that a model of frequencies has.
    `shuffled` trains on the same tokens in random order and compares with the true counts.
    """
    text = _text(corpus, vocab, 1, tokens)
    net, perplexity = train_transformer(text.shuffled() if shuffled else text, steps=steps, width=width, causal=causal)
    net.eval()
    with torch.no_grad():
        scores = net(torch.arange(vocab)[:, None])[:, 0].double().numpy()
        window = torch.from_numpy(text.tokens[None, : net.length]).repeat(2, 1)
        window[1, -1] = (window[1, -1] + 1) % vocab
        seen = net(window)[:, :-1]
    pairs = text.pairs
    count = pairs.sum(axis=1)
    often = np.argsort(-count, kind="stable")[: vocab // 2]

    def gap(ranked: np.ndarray, read: np.ndarray) -> np.ndarray:
        order = np.argsort(-ranked, axis=1, kind="stable")
        top, bottom = (np.take_along_axis(read, order[:, part], axis=1) for part in (slice(TOP), slice(-TOP, None)))
        return (top.mean(axis=1) - bottom.mean(axis=1))[often]

    return trajectory(
        {
            "gap": ("token", gap(pairs, scores)),
            "excess_gap": (
                "token",
                gap(pairs - theory.independent_pairs(pairs), scores - count @ scores / count.sum()),
            ),
            "leak": float((seen[0] - seen[1]).abs().max()),  # what a changed last token does to earlier places
            "perplexity": perplexity,
        }
    )


TRANSFORMERS = {
    "fast": {"corpus": "made_up", "vocab": 24, "tokens": 4000, "steps": 150, "width": 32},
    "full": {"corpus": "wikitext-2", "vocab": 500, "tokens": 300_000, "steps": 2000, "width": 64},
}

transformer_scores = Claim(
    id="feature_extraction/transformer_scores",
    source="derived; the paper states it for transformers on WikiText-2",
    says=(
        "A small transformer with a causal mask scores the ten targets that follow a token most above the ten that "
        "follow it least, for every frequent token; and so with the excess over independence in place of counts, and "
        "scores less the mean of each target, where a model of token frequencies would have nothing."
    ),
    predict=no_number,
    observe=_transformer_scores,
    compare=every(positive("gap"), positive("excess_gap")),
    settings=TRANSFORMERS,
    control=Control("the same tokens in random order: only their frequencies can be learned", {"shuffled": True}),
)

transformer_mask = Claim(
    id="feature_extraction/transformer_mask",
    source="the published notebook trained its transformer without a causal mask (perplexity 3.95 on WikiText-2)",
    says=(
        "With the causal mask on, no place sees its own target: a changed last token changes no earlier output. Scores "
        "of a model without the mask are not next-token scores, and its perplexity is none."
    ),
    predict=lambda: trajectory({"leak": 0.0}),
    observe=_transformer_scores,
    compare=close("leak", ALGEBRA, relative=False),
    settings=TRANSFORMERS,
    control=Control("no causal mask: every place sees its own target", {"causal": False}),
)

CLAIMS = [language_model, transformer_scores, transformer_mask]
