"""Fig 6, 7 and 24 at a size that two cores can train: identity scalings in a language model, and template tasks
fine-tuned from a pretrained and from a random start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np
import torch
import xarray as xr
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from foretrain.core.errors import InputError
from foretrain.core.streams import stream
from foretrain.language.experiment_cell import MADE_UP, WIKITEXT, Source, text_for, trained
from foretrain.language.models import build
from foretrain.language.setting import LanguageSetting
from foretrain.language.text import TokenText
from foretrain.ledger.experiment import Experiment
from foretrain.ledger.parameters import Count, NotNegative, WholeNumber, about
from foretrain.monitor.projections import identity_shares

# GPT-2 small on WikiText-2 in the paper: 12 layers, width 768, Adam 3e-4, 20 epochs.
GPT = LanguageSetting(
    vocabulary=50_257, layers=12, width=768, heads=12, hidden=3072, context=1024, batch=8, rate=3e-4, dropout=0.1,
    steps=6000,
)  # fmt: skip
SMALL = {"vocabulary": 8192, "layers": 2, "width": 128, "heads": 4, "hidden": 512, "context": 128, "batch": 16}
Scaling = Literal["none", "trained", "frozen"]
SCALINGS: tuple[Scaling, ...] = ("none", "trained")
STARTS = ("pretrained", "random")
SAMPLES = (16, 32, 64, 128, 256, 512, 1024)
Layers = Annotated[Count, about("Depth of the model.", unit="layers")]
Width = Annotated[Count, about("Width of the model; the MLP is four times as wide, a head has 32 to 64 of it.")]
Context = Annotated[Count, about("Length of the windows.", unit="tokens")]
Words = Annotated[Count, about("Size of the vocabulary of byte pairs.", unit="tokens")]
Seed = Annotated[WholeNumber, about("Seed of the weights and of the batches.")]
Steps = Annotated[Count, about("Length of training.", unit="steps")]


def fig6(
    scaling: Annotated[
        Scaling, about("No scalings, two trainable scalars per head, or scalars that stay at 0.")
    ] = "none",
    seed: Seed = 1,
    steps: Steps = GPT.steps,
    layers: Layers = GPT.layers,
    width: Width = GPT.width,
    context: Context = GPT.context,
    vocabulary: Words = GPT.vocabulary,
    rate: Annotated[NotNegative, about("AdamW's learning rate.")] = GPT.rate,
    evaluations: Annotated[Count, about("How often the validation text is read.", unit="times")] = 10,
    source: Source = WIKITEXT,
) -> xr.Dataset:
    """Validation loss of a GPT on WikiText-2 with and without scalings, and the scalars' size.

    Runs with the same seed begin with the same weights and read the same batches.
    """
    scaled: dict[str, Any] = {"identity_scaling": scaling != "none"}
    if scaling == "frozen":
        scaled["identity_rate"] = 1e-30
    setting = _setting(layers, width, context, vocabulary, steps=steps, rate=rate, seed=seed, **scaled)
    run, evaluated = trained(setting, text_for(setting, source=source), every=10**9, evaluations=evaluations)
    scalars = [p.detach().abs().mean() for name, p in run.model.named_parameters() if "identity_scaling" in name]
    size = float(torch.stack(scalars).mean()) if scalars else 0.0
    loss = ("step", evaluated.loss.values, {"units": "nats per token"})
    return xr.Dataset({"validation_loss": loss, "scalar_size": size}, {"step": evaluated.step.values})


def fig7(
    depth: Layers = 12,
    samples: Annotated[
        Sequence[Count], Field(min_length=1), about("Sizes of the template task's training set.")
    ] = SAMPLES,
    seed: Seed = 1,
    pretraining: Annotated[Count, about("Length of training on text.", unit="steps")] = 60_000,
    fine_tuning: Annotated[Count, about("Length of training on the template task.", unit="steps")] = 1000,
    width: Width = GPT.width,
    context: Context = GPT.context,
    vocabulary: Words = GPT.vocabulary,
    pretrained: Annotated[str, about("Folder or hub name of a pretrained GPT-2, to use in place of training.")] = "",
    source: Source = WIKITEXT,
) -> xr.Dataset:
    """Fig 7 and 24: test loss on αβα against αββ after fine-tuning, and the identity in the heads before it.

    test_loss [start, n] is on symbols that fine-tuning has never seen; 1 is chance. The others are the largest share of
    the identity in W_Q·W_Kᵀ and in W_V·W_O of any head, by size: [start].
    """
    rate = GPT.rate if width >= GPT.width else 3e-3
    setting = _setting(depth, width, context, vocabulary, steps=pretraining, rate=rate, seed=seed)
    models = _given(pretrained, seed) if pretrained else _made(setting, text_for(setting, source=source))
    losses = [[_fine_tuned(model, n, fine_tuning, seed) for n in samples] for model in models]
    largest = {f"identity_{name}": ("start", [_largest(model, name) for model in models]) for name in PRODUCTS}
    return xr.Dataset({"test_loss": (("start", "n"), losses), **largest}, {"start": list(STARTS), "n": list(samples)})


PRODUCTS = ("query_key", "value_output")
RATE, BATCH, TEST = 3e-4, 64, 512  # of fine-tuning


def _setting(layers: int, width: int, context: int, vocabulary: int, **more: Any) -> LanguageSetting:
    heads = 12 if width == GPT.width else max(1, width // 32)
    sizes = {"layers": layers, "width": width, "heads": heads, "hidden": 4 * width, "context": context}
    batch = GPT.batch if width >= GPT.width else SMALL["batch"]
    return LanguageSetting(**{**GPT.as_dict(), **sizes, "vocabulary": vocabulary, "batch": batch, **more})


def template_batch(count: int, symbols: np.ndarray, key: tuple[str | int, ...]) -> tuple[Tensor, Tensor]:
    """Strings αβα (label 1) and αββ (label −1) in equal numbers, with two different symbols each: [string, 3]."""
    random = stream("abstract_symbols/fig7", *key)
    first = random.integers(0, len(symbols), count)
    second = (first + random.integers(1, len(symbols), count)) % len(symbols)
    same = np.arange(count) % 2 == 0
    strings = np.stack([first, second, np.where(same, first, second)], axis=1)
    return torch.from_numpy(symbols[strings]), torch.from_numpy(np.where(same, 1.0, -1.0)).float()


def _fine_tuned(model: nn.Module, n: int, steps: int, seed: int) -> float:
    """Mean squared error on new symbols after fine-tuning all weights and a linear read-out of the last token."""
    import copy

    tuned: Any = copy.deepcopy(model).train()
    body, width = tuned.transformer, tuned.config.n_embd
    known, new = np.split(stream("abstract_symbols/fig7", "symbols", seed).permutation(tuned.config.vocab_size), 2)
    train, test = template_batch(n, known, ("train", n, seed)), template_batch(TEST, new, ("test", seed))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        head = nn.Linear(width, 1)
        optimizer = torch.optim.AdamW([*body.parameters(), *head.parameters()], lr=RATE, weight_decay=0.0, fused=True)
        for step in range(steps):
            chosen = stream("abstract_symbols/fig7", "batch", n, seed, step).integers(0, n, min(n, BATCH))
            output = head(body(train[0][chosen]).last_hidden_state[:, -1])[:, 0]
            F.mse_loss(output, train[1][chosen]).backward()
            optimizer.step()
            optimizer.zero_grad()
        tuned.eval()
        with torch.no_grad():
            return float(F.mse_loss(head(body(test[0]).last_hidden_state[:, -1])[:, 0], test[1]))


def _largest(model: nn.Module, product: str) -> float:
    """The identity's share in the head where it is largest in size, with its sign."""
    config: Any = model.config
    shares = identity_shares(dict(model.state_dict()), int(config.n_head)).values()
    return max((share for layer in shares for share in layer[product]), key=abs)


def _made(setting: LanguageSetting, text: TokenText) -> tuple[nn.Module, nn.Module]:
    """A model trained on text, and the same before training."""
    return trained(setting, text, every=10**9, evaluations=1)[0].model, build(setting, text.vocabulary)


def _given(name: str, seed: int) -> tuple[nn.Module, nn.Module]:
    """A pretrained GPT-2 from a folder or the hub, and a new one of the same size."""
    from transformers import GPT2LMHeadModel

    try:
        model = GPT2LMHeadModel.from_pretrained(name)
    except (OSError, ValueError) as error:
        raise InputError(f"{name!r} is not a GPT-2 that can be loaded ({type(error).__name__}).") from error
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return model, GPT2LMHeadModel(model.config)


EXPERIMENTS = [
    Experiment(
        "abstract_symbols/fig6",
        "Validation loss of a GPT on WikiText-2 with and without identity scalings, in pairs of runs",
        fig6,
        {"scaling": SCALINGS, "seed": 6},
        settings={
            "fast": {
                "seeds": 1, "steps": 4, "layers": 1, "width": 32, "context": 32, "vocabulary": 300, "rate": 3e-3,
                "source": MADE_UP,
            },
            "full": {
                "steps": 400,
                "layers": 2,
                "width": 128,
                "context": 128,
                "vocabulary": 8192,
                "rate": 3e-3,
            },
        },
    ),
    Experiment(
        "abstract_symbols/fig7",
        "A template task fine-tuned from a pretrained and from a random start, and the heads' diagonals (also Fig 24)",
        fig7,
        {"depth": (12,), "seed": 3},
        settings={
            "fast": {
                "depth": (1,), "samples": (16,), "seeds": 1, "pretraining": 2, "fine_tuning": 2, "width": 32,
                "context": 32, "vocabulary": 300, "source": MADE_UP,
            },
            "full": {
                "depth": (1, 2), "samples": (16, 64, 256, 1024), "pretraining": 700, "fine_tuning": 250, "width": 128,
                "context": 128, "vocabulary": 8192,
            },
        },
    ),
]  # fmt: skip
