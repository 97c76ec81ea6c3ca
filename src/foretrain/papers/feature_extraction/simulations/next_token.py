"""Next-token prediction: texts as contexts and targets, and a small transformer whose scores are read."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy import ndarray as Array
from scipy import sparse
from torch import Tensor, nn
from torch.nn import functional

from foretrain.core.errors import require_at_least
from foretrain.core.streams import stream, torch_stream
from foretrain.data.corpora import TEXTS, text_corpus

MADE_UP = "made_up"
LENGTH, BATCH = 16, 16  # tokens of a window, and windows per step, when a transformer is trained


@dataclass(frozen=True)
class NextTokens:
    """One long text of token numbers; the context of a target is the `context` tokens before it."""

    tokens: Int[Array, "place"]
    vocab: int
    context: int

    @property
    def targets(self) -> Int[Array, "target"]:
        return self.tokens[self.context :]

    @cached_property
    def counts(self) -> sparse.csr_array:
        """n_i(e) of the context of every target."""
        n = len(self.targets)
        rows = np.repeat(np.arange(n), self.context)
        places = np.arange(n)[:, None] + np.arange(self.context)
        return sparse.csr_array((np.ones(rows.size), (rows, self.tokens[places].ravel())), shape=(n, self.vocab))

    @property
    def one_hot(self) -> Float[Array, "target vocab"]:
        return np.eye(self.vocab)[self.targets]

    @cached_property
    def pairs(self) -> Float[Array, "vocab vocab"]:
        """N(e, k): how often token e is in the context of target k."""
        return np.asarray(self.counts.T @ self.one_hot)

    def shuffled_one_hot(self) -> Float[Array, "target vocab"]:
        """The targets, shuffled among the contexts."""
        return self.one_hot[stream("feature_extraction/next_token", "shuffled").permutation(len(self.targets))]

    def shuffled(self) -> NextTokens:
        """The same tokens in random order: the next token no longer depends on those before it."""
        return replace(self, tokens=stream("feature_extraction/next_token", "order").permutation(self.tokens))


def read_next_tokens(corpus: str, *, vocab: int, context: int, tokens: int) -> NextTokens:
    """The first `tokens` tokens of a corpus, or a made-up Markov chain.

    The vocabulary is the `vocab` − 1 most frequent tokens, and one token for all others.
    """
    require_at_least("vocab", vocab, 3)
    if corpus == MADE_UP:
        return NextTokens(_markov_chain(vocab, tokens), vocab, context)
    words = TEXTS[corpus].tokenize(text_corpus(corpus))[:tokens]
    number = {word: k for k, (word, _) in enumerate(Counter(words).most_common(vocab - 1))}
    return NextTokens(np.array([number.get(word, vocab - 1) for word in words]), vocab, context)


def _markov_chain(vocab: int, length: int) -> Int[Array, "length"]:
    """Each token has its own likely successors: frequencies follow Zipf's law, times a lognormal for each pair."""
    draw = stream("feature_extraction/next_token", "chain")
    weights = np.exp(draw.standard_normal((vocab, vocab))) / (np.arange(vocab) + 5.0)
    steps = (weights / weights.sum(axis=1, keepdims=True)).cumsum(axis=1)
    uniform = draw.random(length)
    chain = np.zeros(length, dtype=np.int64)
    for place in range(1, length):
        chain[place] = np.searchsorted(steps[chain[place - 1]], uniform[place]).clip(max=vocab - 1)
    return chain


class SmallTransformer(nn.Module):
    """Pre-norm blocks with learned positions; with `causal` = False every position sees its own target."""

    def __init__(self, vocab: int, *, width: int = 32, layers: int = 2, length: int = 16, causal: bool = True) -> None:
        super().__init__()
        self.embed, self.place = nn.Embedding(vocab, width), nn.Embedding(length, width)
        block = nn.TransformerEncoderLayer(
            width, 2, 4 * width, dropout=0.0, activation="relu", batch_first=True, norm_first=True
        )
        self.blocks = nn.TransformerEncoder(block, layers, norm=nn.LayerNorm(width), enable_nested_tensor=False)
        self.read = nn.Linear(width, vocab)
        self.causal, self.length = causal, length

    def forward(self, tokens: Int[Tensor, "text place"]) -> Float[Tensor, "text place vocab"]:
        n = tokens.shape[1]
        mask = torch.full((n, n), -torch.inf).triu(1) if self.causal else None
        return self.read(self.blocks(self.embed(tokens) + self.place(torch.arange(n)), mask=mask))


def train_transformer(text: NextTokens, *, steps: int, causal: bool, width: int) -> tuple[SmallTransformer, float]:
    """A transformer trained with Adam on windows of a text, and its perplexity over the last tenth of the steps."""
    with torch.random.fork_rng():
        torch.manual_seed(torch_stream("feature_extraction/transformer", 1).initial_seed() % 2**31)
        net = SmallTransformer(text.vocab, width=width, length=LENGTH, causal=causal)
    draw = stream("feature_extraction/transformer", 1, "windows")
    method = torch.optim.Adam(net.parameters(), lr=3e-3)
    losses = []
    for _ in range(steps):
        starts = draw.integers(0, len(text.tokens) - LENGTH - 1, BATCH)
        windows = torch.from_numpy(text.tokens[starts[:, None] + np.arange(LENGTH + 1)])
        loss = functional.cross_entropy(net(windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten())
        method.zero_grad()
        loss.backward()
        method.step()
        losses.append(float(loss.detach()))
    return net, float(np.exp(np.mean(losses[-max(1, steps // 10) :])))
