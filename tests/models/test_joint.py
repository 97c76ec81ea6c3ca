"""The joint layer: its hand-written eq. 2 against autograd, run axes, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from foretrain.core.errors import InputError
from foretrain.dynamics.flow import integrate
from foretrain.dynamics.optimizers import SGD
from foretrain.dynamics.train import train
from foretrain.ledger.tolerances import GRADIENT
from foretrain.models.joint import ACTIVATIONS, ATTENTIONS, Activation, Joint, JointBatch, leaky, power
from foretrain.models.parameters import start_keys

SAMPLES, NODES, CONTEXTS = 7, 4, 6


def random_batch(seed: int, drive: str, queries: int = 1, lead: tuple[int, ...] = ()) -> JointBatch:
    draw = torch.Generator().manual_seed(seed)
    x = torch.rand((*lead, SAMPLES, CONTEXTS), generator=draw, dtype=torch.float64)
    query = torch.randint(queries, (*lead, SAMPLES), generator=draw)
    if drive == "labels":
        return JointBatch(x, query, labels=torch.randint(NODES, (*lead, SAMPLES), generator=draw))
    return JointBatch(x, query, signal=torch.randn((*lead, SAMPLES, NODES), generator=draw, dtype=torch.float64))


def objective(model: Joint, activation: str, W: torch.Tensor, Z: torch.Tensor, batch: JointBatch) -> torch.Tensor:
    """Eq. 1 and eq. 9 sample by sample, with f written out: what eq. 2 climbs."""
    U = torch.eye(model.dimension, dtype=W.dtype) if model.embeddings is None else model.embeddings
    powers = {"square": 2, "cube": 3}
    total = torch.zeros((), dtype=W.dtype)
    for i in range(SAMPLES):
        z = Z[batch.query[i]] / model.temperature
        if model.attention == "linear":
            b = z * batch.x[i]
        elif model.attention == "exp":
            b = torch.exp(z) * batch.x[i]
        else:
            b = torch.softmax(z + torch.log(batch.x[i]), dim=0)
        u = W @ (U[:, :CONTEXTS] @ b + U[:, CONTEXTS + batch.query[i]])
        if activation in powers:
            h = u ** powers[activation]
        else:
            slope = {"linear": 1.0, "relu": 0.0, "leaky_relu": 0.1}[activation]
            h = torch.nn.functional.leaky_relu(u, slope)
        if batch.labels is not None:
            total = total + torch.log_softmax(h, dim=0)[batch.labels[i]]
        else:
            total = total + batch.signal[i] @ h
    return total / SAMPLES


@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("activation", list(ACTIVATIONS))
@settings(max_examples=4, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    drive=st.sampled_from(["labels", "signal"]),
    queries=st.sampled_from([1, 3]),
    orthonormal=st.booleans(),
)
def test_ascent_is_the_gradient_of_eq_9(attention, activation, seed, drive, queries, orthonormal):
    draw = torch.Generator().manual_seed(seed + 1)
    U = None if orthonormal else torch.randn(5, CONTEXTS + queries, generator=draw, dtype=torch.float64)
    model = Joint(
        attention, activation, nodes=NODES, contexts=CONTEXTS, queries=queries, embeddings=U, temperature=0.7, start=0.5
    )
    batch = random_batch(seed, drive, queries)
    start = {name: value[0].requires_grad_() for name, value in model.start([("test", seed, "start")]).items()}
    wanted = torch.autograd.grad(objective(model, activation, start["W"], start["Z"], batch), list(start.values()))
    got = model.ascent({name: value.detach() for name, value in start.items()}, batch)
    for value, reference in zip(got.values(), wanted, strict=True):
        assert torch.allclose(value, reference, rtol=0, atol=GRADIENT.value * max(1, reference.abs().max().item()))


@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("queries", [1, 2])
def test_runs_along_leading_axes_do_not_touch_each_other(attention, queries):
    model = Joint(attention, "relu", nodes=NODES, contexts=CONTEXTS, queries=queries, start=0.5)
    batch = random_batch(3, "labels", queries, lead=(3,))
    start = model.start(start_keys("test", [1, 2, 3]))
    settings = {name: torch.stack([value, 2 * value]) for name, value in start.items()}  # [setting, seed, …]
    together = model.ascent(settings, batch)
    for setting in range(2):
        for seed in range(3):
            own = JointBatch(batch.x[seed], batch.query[seed], labels=batch.labels[seed])
            alone = model.ascent({name: value[setting, seed] for name, value in settings.items()}, own)
            for name, value in alone.items():
                assert torch.allclose(together[name][setting, seed], value, rtol=0, atol=1e-15)


def test_softmax_attention_does_not_overflow():
    model = Joint("softmax", nodes=NODES, contexts=CONTEXTS)
    batch = random_batch(0, "labels")
    b = model.scores(torch.full((1, CONTEXTS), 900.0, dtype=torch.float64), batch)
    assert torch.allclose(b, batch.x / batch.x.sum(-1, keepdim=True))


def test_training_follows_the_flow_as_the_step_shrinks():
    """SGD on a fixed batch against the integrated field: the distance has order 1 in the step."""
    model = Joint("softmax", "leaky_relu", nodes=NODES, contexts=CONTEXTS, start=0.5)
    batch = random_batch(5, "labels")

    class FixedBatch:
        def sample(self, n: int, generator: np.random.Generator) -> JointBatch:
            return batch

    start = {name: value[0].numpy() for name, value in model.start([("order", 1, "start")]).items()}
    flow = integrate(model.field(batch), start, until=1.0, save_at=[1.0])
    distances = []
    for steps in (50, 100, 200):
        run = train(
            model,
            FixedBatch(),
            optimizer=SGD(1.0 / steps),
            steps=steps,
            batch=SAMPLES,
            experiment="order",
            record={"Z": lambda p: (("query", "context"), p["Z"])},
            save_at=[steps],
        )
        distances.append(float(np.abs(run["Z"].values.squeeze() - flow["Z"].values.squeeze()).max()))
    slope = np.polyfit(np.log([50, 100, 200]), np.log(distances), 1)[0]
    assert abs(slope + 1) < 0.05


@pytest.mark.parametrize(
    ("activation", "phi"),
    [
        (leaky(0.3), lambda u: torch.nn.functional.leaky_relu(u, 0.3)),
        (power(4), lambda u: u**4),
        (Activation(torch.tanh, lambda u: 1 - torch.tanh(u) ** 2), torch.tanh),
    ],
)
def test_any_activation_can_be_given_with_its_slope(activation, phi):
    model = Joint("exp", activation, nodes=NODES, contexts=CONTEXTS, start=0.5)
    batch = random_batch(2, "signal")
    start = {name: value[0].requires_grad_() for name, value in model.start([("test", 2, "start")]).items()}
    f = torch.cat([batch.x * torch.exp(start["Z"]), torch.ones(SAMPLES, 1, dtype=torch.float64)], dim=1)
    wanted = torch.autograd.grad((batch.signal * phi(f @ start["W"].T)).sum() / SAMPLES, list(start.values()))
    got = model.ascent({name: value.detach() for name, value in start.items()}, batch)
    for value, reference in zip(got.values(), wanted, strict=True):
        assert torch.allclose(value, reference, rtol=0, atol=GRADIENT.value * max(1, reference.abs().max().item()))
    with pytest.raises(InputError, match="exponent must be a whole number of at least 1; got 0"):
        power(0)


def test_hidden_nodes_and_gradient_sign():
    model = Joint("exp", "relu", nodes=NODES, contexts=CONTEXTS, start=0.5)
    batch = random_batch(1, "signal")
    parameters = {name: value[0] for name, value in model.start([("test", 1, "start")]).items()}
    up, down = model.ascent(parameters, batch), model.gradient(parameters, batch)
    assert all(torch.equal(up[name], -down[name]) for name in up)
    h = model.hidden(parameters, batch)
    value = (batch.signal * h).sum() / SAMPLES
    assert torch.allclose(value, objective(model, "relu", parameters["W"], parameters["Z"], batch))


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"attention": "cosine"}, "no attention 'cosine'"),
        ({"activation": "gelu"}, "no activation 'gelu'"),
        ({"nodes": 0}, "nodes must be a whole number of at least 1; got 0"),
        ({"nodes": 2.5}, "nodes must be a whole number of at least 1; got 2.5"),
        ({"start": -1.0}, "start must be at least 0; got -1.0"),
        ({"temperature": 0.0}, "temperature must be a finite number above 0"),
        ({"embeddings": torch.eye(4)}, "embeddings must have 7 columns"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(bad, words):
    with pytest.raises(InputError, match=words) as error:
        Joint(**{"nodes": NODES, "contexts": CONTEXTS, **bad})
    assert str(error.value).count("\n") == 0


def test_a_batch_has_labels_or_a_signal():
    x, query = torch.rand(2, 3), torch.zeros(2, dtype=torch.long)
    with pytest.raises(InputError, match="either labels or a signal"):
        JointBatch(x, query)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"labels": torch.tensor([0, 4])}, "labels must lie between 0 and 3; got 0 to 4"),
        ({"labels": torch.tensor([-1, 0])}, "labels must lie between 0 and 3; got -1 to 0"),
        ({"query": torch.tensor([0, 1])}, "query must lie between 0 and 0; got 0 to 1"),
        ({"x": torch.rand(2, 3, dtype=torch.float64)}, "x must have 6 columns, one per context token; got 3"),
        ({"x": torch.tensor([[1.0] * 6, [0.0] * 6], dtype=torch.float64)}, "its smallest row sum is 0"),
        ({"x": torch.tensor([[1.0] * 6, [-1.0] + [1.0] * 5], dtype=torch.float64)}, "its smallest entry is -1"),
        ({"labels": None, "signal": torch.ones(2, 3, dtype=torch.float64)}, "signal must have 4 columns"),
    ],
)
def test_a_batch_that_does_not_fit_is_refused(change, words):
    model = Joint("softmax", nodes=NODES, contexts=CONTEXTS)
    parts = {
        "x": torch.ones(2, CONTEXTS, dtype=torch.float64),
        "query": torch.zeros(2, dtype=torch.long),
        "labels": torch.zeros(2, dtype=torch.long),
    }
    parameters = {name: value[0] for name, value in model.start([("test", 1, "start")]).items()}
    with pytest.raises(InputError, match=words):
        model.ascent(parameters, JointBatch(**{**parts, **change}))


def test_softmax_attention_looks_at_tokens_that_occur_only():
    """A token that does not occur may have a logit beside which the others underflow."""
    model = Joint("softmax", nodes=NODES, contexts=3)
    x = torch.tensor([[0.0, 1.0, 3.0]], dtype=torch.float64)
    batch = JointBatch(x, torch.zeros(1, dtype=torch.long), labels=torch.zeros(1, dtype=torch.long))
    b = model.scores(torch.tensor([[2000.0, 1.0, 1.0]], dtype=torch.float64), batch)
    assert torch.allclose(b, torch.tensor([[0.0, 0.25, 0.75]], dtype=torch.float64))


def test_wrong_kinds_and_sizes_are_refused_in_a_sentence(as_users_run_it):
    x, query, labels = torch.rand(4, 5, dtype=torch.float64), torch.zeros(4, dtype=torch.int64), torch.zeros(4).long()
    for wrong, sentence in (
        ({"x": x.numpy()}, "x must be a torch tensor"),
        ({"query": query[:1]}, "query for each"),
        ({"labels": labels[:1]}, "label, or a row"),
        ({"x": x[:0], "query": query[:0], "labels": labels[:0]}, "query for each"),
    ):
        with pytest.raises(InputError, match=sentence):
            JointBatch(**{"x": x, "query": query, "labels": labels, **wrong})
    with pytest.raises(InputError, match="Activation"):
        Joint("exp", torch.tanh, nodes=3, contexts=5)
