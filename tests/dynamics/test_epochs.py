"""Touching only the tokens of a batch gives the numbers of a dense torch.optim step."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from foretrain.core.errors import InputError
from foretrain.core.streams import stream
from foretrain.data.tokens import TokenTexts
from foretrain.dynamics.epochs import batch_loss, padded_batch, train_epochs
from foretrain.dynamics.optimizers import SGD, Adagrad
from foretrain.models.classifiers import ARCHITECTURES, Classifier

VOCAB, WIDTH = 30, 5


def corpus(texts: int = 24) -> tuple[TokenTexts, np.ndarray]:
    draw = np.random.default_rng(0)
    lengths = draw.integers(2, 7, texts)
    return (
        TokenTexts(draw.integers(0, VOCAB, lengths.sum()), np.concatenate([[0], np.cumsum(lengths)]), VOCAB),
        draw.integers(0, 2, texts),
    )


@pytest.mark.parametrize(("ours", "theirs"), [(Adagrad(0.1), torch.optim.Adagrad), (SGD(0.1), torch.optim.SGD)])
@pytest.mark.parametrize("architecture", ["mlp", "cnn", "sa", "mv", "rnn_token", "rnn_shared"])
@pytest.mark.parametrize("outputs", [1, 3])
def test_sparse_steps_are_dense_steps(ours, theirs, architecture: str, outputs: int) -> None:
    network = Classifier(architecture, VOCAB, WIDTH, "tanh", outputs=outputs)
    texts, labels = corpus()
    trained = train_epochs(network, texts, labels, optimizer=ours, epochs=2, batch=10, seed=4)

    dense = {k: v.requires_grad_() for k, v in network.start_one(("train_epochs", 4, "start")).items()}
    optimizer = theirs(dense.values(), lr=0.1)
    order = stream("train_epochs", 4, "order")
    for _ in range(2):
        permutation = order.permutation(len(texts))
        for start in range(0, len(texts), 10):
            rows = permutation[start : start + 10]
            longest = texts.lengths[rows].max()
            table = torch.tensor([texts[i].tolist() + [-1] * (longest - len(texts[i])) for i in rows])
            optimizer.zero_grad()
            batch_loss(network.scores(dense, table), torch.from_numpy(labels[rows])).backward()
            optimizer.step()
    for name, value in trained.items():
        torch.testing.assert_close(value, dense[name].detach(), rtol=1e-5, atol=1e-6)


def test_batches_name_their_tokens_once() -> None:
    texts, _ = corpus()
    tokens, local = padded_batch(texts, np.array([3, 0]))
    assert len(set(tokens.tolist())) == len(tokens)
    for row, text in zip(local, (3, 0), strict=True):
        assert tokens[row[row >= 0]].tolist() == texts[text].tolist()


def test_epochs_are_shown_from_the_start_and_seeds_differ() -> None:
    network = Classifier("mlp", VOCAB, WIDTH)
    texts, labels = corpus()
    seen: list[int] = []
    first = train_epochs(
        network, texts, labels, optimizer=Adagrad(0.1), epochs=2, each_epoch=lambda epoch, p: seen.append(epoch)
    )
    assert seen == [0, 1, 2]
    second = train_epochs(network, texts, labels, optimizer=Adagrad(0.1), epochs=2, seed=2)
    assert not torch.allclose(first["embedding"], second["embedding"])


def test_momentum_is_refused() -> None:
    texts, labels = corpus()
    with pytest.raises(InputError, match="Adagrad or plain SGD"):
        train_epochs(Classifier("mlp", VOCAB, 4), texts, labels, optimizer=SGD(0.1, momentum=0.9), epochs=1)


@pytest.mark.parametrize("architecture", [a for a in ARCHITECTURES if a != "cnn"])
def test_batches_of_single_tokens_and_of_nothing_can_be_trained_on(architecture: str) -> None:
    """Where a parameter has no part in a batch, it stays where it is."""
    texts = TokenTexts.of_lists([[0], [1], [], [2]], VOCAB)
    network = Classifier(architecture, VOCAB, WIDTH)
    trained = train_epochs(network, texts, np.array([0, 1, 1, 0]), optimizer=Adagrad(0.1), epochs=1, batch=2)
    assert all(torch.isfinite(p).all() for p in trained.values())


@pytest.mark.parametrize(
    ("labels", "said"),
    [([0, 1], "one label per text; got 2 for 3"), ([0, 1, 2], "from 0 to 1"), ([0, 1, -1], "from 0 to 1")],
)
def test_labels_that_do_not_fit_are_refused(labels: list[int], said: str) -> None:
    texts = TokenTexts.of_lists([[0], [1], [2]], VOCAB)
    with pytest.raises(InputError, match=said):
        train_epochs(Classifier("mlp", VOCAB, 4), texts, np.array(labels), optimizer=Adagrad(0.1), epochs=1)
