"""Standard transformers on real text: do counts say which words attention picks?

One layer and one head with positions, trained with AdamW. The model's attention logit of a query word on a word before
it, averaged over all pairs of positions, is its content logit z. Every word stands at the same positions there, so that
distance plays no part in it. For each query, z is ranked over the words that often come before the query.
"""

from __future__ import annotations

from itertools import combinations
from typing import Annotated, Any, Literal

import numpy as np
import torch
import xarray as xr
from numpy import ndarray as Array
from pydantic import Field
from torch import nn

from foretrain.core.errors import require
from foretrain.core.trajectory import trajectory
from foretrain.language.batches import training_batch, validation_windows
from foretrain.language.models import PostNormEncoder, build, next_token_loss
from foretrain.language.setting import LanguageSetting
from foretrain.language.training import make_optimizer
from foretrain.ledger.experiment import Experiment
from foretrain.ledger.parameters import Count, Positive, about
from foretrain.papers.scan_snap.experiments.real_text import STARTS, CorpusName, TextSamples, count_force, samples_of

ModelName = Literal["gpt", "post-norm"]
HELD_OUT = 0.05  # share of the text, at its end, on which the loss is measured
STATISTICS = ("force, unigram start", "force, uniform start", "rarity", "PMI")
SHARES = (0.2, 0.5)  # of the training, after which a pilot is stopped


def content_logits(model: nn.Module, context: int) -> Array:
    """z of every query word on every word before it, averaged over the pairs of positions: [query, word]."""
    with torch.no_grad():
        if isinstance(model, PostNormEncoder):
            layer: Any = model.layers[0]
            words = torch.arange(model.tokens.num_embeddings)[:, None].expand(-1, context)
            queries, keys, _ = layer.attention.qkv(model.embedded(words)).chunk(3, dim=-1)
        else:
            body: Any = model.transformer
            embedded = body.wte.weight[:, None] + body.wpe.weight[:context]
            queries, keys, _ = body.h[0].attn.c_attn(body.h[0].ln_1(embedded)).chunk(3, dim=-1)
        before = keys.cumsum(dim=1) - keys  # [word, position, width]: the sum over earlier positions
        pairs = context * (context - 1) / 2
        z = queries.flatten(1) @ before.flatten(1).mT / (pairs * queries.shape[-1] ** 0.5)
    return z.double().numpy()


def statistics_of(samples: TextSamples) -> tuple[Array, Array]:
    """How often each word is before each query, and what counts say of each pair: [query, word], [name, query, word].

    The force on z, computed as for the paper's own model; rarity, −ln P(word); and pointwise mutual information,
    ln P(word before | query)/P(word before).
    """
    together = samples.together()
    share = np.maximum(together.sum(axis=0), 0.5) / together.sum()
    per_query = np.maximum(together, 0.5) / np.maximum(together.sum(axis=1, keepdims=True), 1)
    rarity = np.broadcast_to(-np.log(share), together.shape)
    forces = [count_force(samples, start) for start in STARTS]
    return together, np.array([*forces, rarity, np.log(per_query / share)])


def rank_correlation(one: Array, other: Array, counted: Array) -> Array:
    """Spearman's rank correlation over the counted words of each query: [query]."""
    from scipy.stats import spearmanr  # 0.4 s to load, and only this function ranks

    return np.array(
        [spearmanr(a[words], b[words]).statistic for a, b, words in zip(one, other, counted, strict=True)], dtype=float
    )


def _train(setting: LanguageSetting, text: Array) -> tuple[list[Array], float]:
    """Content logits at the shares of training and at its end, and the loss on held-out text at the end."""
    known = int(len(text) * (1 - HELD_OUT))
    model = build(setting, setting.vocabulary)
    optimizer = make_optimizer(model, setting)
    marks = [round(share * setting.steps) for share in (*SHARES, 1.0)]
    states = []
    for step in range(setting.steps + 1):
        if step in marks:
            states.append(content_logits(model, setting.context))
        if step == setting.steps:
            break
        for group in optimizer.param_groups:
            group["lr"] = setting.learning_rate(step) * group["times"]
        next_token_loss(model, training_batch(text[:known], setting, step)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), setting.clip)
        optimizer.step()
        optimizer.zero_grad()
    model.eval()
    with torch.no_grad():
        loss = next_token_loss(model, validation_windows(text[known:], setting.context))
    return states, float(loss)


def one_network(
    corpus: Annotated[CorpusName, about("The text.")],
    model: Annotated[ModelName, about("GPT-2's layer, or the papers' encoder.")],
    seeds: Annotated[int, Field(ge=2), about("Models per corpus; two at least, to see if they agree.")] = 3,
    steps: Annotated[Count, about("Length of training.", unit="steps")] = 2000,
    vocabulary: Annotated[Count, about("Most frequent words that are kept.", unit="words")] = 1000,
    context: Annotated[int, Field(ge=2), about("Words in a window.", unit="words")] = 32,
    tokens: Annotated[Count, about("Words of each corpus that are read.", unit="words")] = 400_000,
    width: Annotated[Count, about("Width of the model.")] = 64,
    batch: Annotated[Count, about("Windows per step.")] = 16,
    rate: Annotated[Positive, about("AdamW's learning rate.")] = 3e-3,
    seen: Annotated[Count, about("How often a word must come before a query to count.")] = 30,
    least_words: Annotated[int, Field(ge=3), about("How many such words a query must have.", unit="words")] = 30,
) -> xr.Dataset:
    """Rank correlations with trained content logits, averaged over queries.

    statistic   of what counts say, by name                          [seed, statistic]
    agreement   of two seeds, mean over the pairs a seed is in       [seed]
    pilot       of the same run stopped after a share of its steps   [seed, share]
    error       standard error of `agreement` over queries
    """
    samples = samples_of(corpus, vocabulary, context, tokens)
    together, said = statistics_of(samples)
    counted = together >= seen
    counted[0] = counted[:, 0] = False  # word 0 stands for all rare ones
    rows = np.flatnonzero(counted.sum(axis=1) >= least_words)
    require(len(rows) >= 3, f"Only {len(rows)} words of {corpus} have {least_words} words before them; lower seen.")
    said, counted = said[:, rows], counted[rows]
    settings = [
        LanguageSetting(
            model=model, tokens="words", vocabulary=vocabulary, layers=1, width=width, heads=1, hidden=4 * width,
            context=context, batch=batch, steps=steps, rate=rate, warm_up=min(100, steps // 10), seed=seed,
        )
        for seed in range(1, seeds + 1)
    ]  # fmt: skip
    runs = [_train(setting, running_text(samples)) for setting in settings]
    states = [[state[rows] for state in run] for run, _ in runs]
    ends = [run[-1] for run in states]
    pairs = {(i, j): rank_correlation(ends[i], ends[j], counted) for i, j in combinations(range(seeds), 2)}
    agreement = [np.mean([r.mean() for two, r in pairs.items() if seed in two]) for seed in range(seeds)]
    error = np.mean(list(pairs.values()), axis=0).std(ddof=1) / np.sqrt(len(rows))
    return trajectory(
        {
            "statistic": (("seed", "of"), [[rank_correlation(s, z, counted).mean() for s in said] for z in ends]),
            "agreement": ("seed", agreement),
            "pilot": (
                ("seed", "share"),
                [[rank_correlation(z, run[-1], counted).mean() for z in run[:-1]] for run in states],
            ),
            "error": error,
            "loss": ("seed", [final for _, final in runs]),
            "queries": len(rows),
        },
        {"seed": np.arange(1, seeds + 1), "of": list(STATISTICS), "share": list(SHARES)},
        {"loss": "nats per word"},
        experiment="scan_snap/standard_transformer", vocabulary=vocabulary, context=context, steps=steps,
    )  # fmt: skip


def running_text(samples: TextSamples) -> Array:
    """The text that the samples were cut from, every third word of which begins one."""
    last = [samples.query[-1], samples.next[-1]]
    return np.concatenate([samples.context[:-1, :3].reshape(-1), samples.context[-1], last]).astype(np.int64)


standard_transformer = Experiment(
    "scan_snap/standard_transformer",
    "Standard transformers on real text: do counts say which words attention picks?",
    one_network,
    axes={"corpus": ("wikitext-2", "imdb", "ag_news"), "model": ("gpt", "post-norm")},
    settings={
        "fast": {
            "corpus": ("made-up",),
            "model": ("post-norm",),
            "seeds": 2,
            "steps": 20,
            "vocabulary": 30,
            "context": 8,
            "tokens": 3000,
            "width": 8,
            "seen": 5,
            "least_words": 5,
        },
        "full": {},
    },
)

EXPERIMENTS = [standard_transformer]
