"""A classifier with a linear head: a Hugging Face model with pooling, or any torch module that ends in a Linear."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from foretrain.core.errors import InputError, require
from foretrain.core.quiet import quiet_transformers

Inputs = Mapping[str, Tensor] | Tensor
ROWS_AT_ONCE = 32


class PooledClassifier(nn.Module):
    """A Hugging Face encoder or decoder, one vector per text, and a linear head.

    Encoders average over the tokens of a text. Decoders take its last token, the only one that has seen all others.
    """

    def __init__(self, body: nn.Module, width: int, classes: int, *, pool: str) -> None:
        super().__init__()
        self.body, self.pool = body, pool
        self.head = nn.Linear(width, classes)

    def forward(self, **inputs: Tensor) -> Float[Tensor, "text output"]:
        hidden = self.body(**inputs).last_hidden_state
        mask = inputs["attention_mask"]
        if self.pool == "mean":
            weights = mask.to(hidden.dtype).unsqueeze(-1)
            pooled = (hidden * weights).sum(1) / weights.sum(1)
        else:
            last = mask.cumsum(1).argmax(1)
            pooled = hidden[torch.arange(len(hidden)), last]
        return self.head(pooled)


@dataclass(frozen=True)
class Classifier:
    """A module in evaluation mode, its head, and its inputs as rows of tensors. Outputs are logits [row, output].

    With two classes there is one output, the logit of the second class.
    """

    module: nn.Module
    head: nn.Linear
    inputs: dict[str, Tensor]  # every tensor has a row per example; "" is the only, positional input
    classes: int

    def __len__(self) -> int:
        return len(next(iter(self.inputs.values())))

    @property
    def outputs(self) -> int:
        return self.head.out_features

    def rows(self, which: Tensor | slice) -> dict[str, Tensor]:
        """These rows of the inputs, without columns in which all of them are padding."""
        rows = {name: values[which] for name, values in self.inputs.items()}
        if "attention_mask" in rows and rows["attention_mask"].ndim == 2:
            used = rows["attention_mask"].any(0).nonzero().max() + 1
            rows = {n: v[:, :used] if v.ndim == 2 and v.shape[1] >= used else v for n, v in rows.items()}
        return rows

    def __call__(self, which: Tensor | slice) -> Tensor:
        rows = self.rows(which)
        output = self.module(rows[""]) if "" in rows else self.module(**rows)
        logits = output if isinstance(output, Tensor) else output.logits
        return logits.reshape(len(logits), -1)

    def blocks(self) -> Iterator[Tensor]:
        yield from torch.arange(len(self)).split(ROWS_AT_ONCE)

    @torch.no_grad()
    def features(self) -> Float[Tensor, "row width"]:
        """What the head reads."""
        seen: list[Tensor] = []
        hook = self.head.register_forward_pre_hook(lambda _, given: seen.append(given[0].detach()))
        try:
            for block in self.blocks():
                self(block)
        finally:
            hook.remove()
        features = torch.cat([part.reshape(part.shape[0], -1) for part in seen])
        require(
            features.shape == (len(self), self.head.in_features),
            "The linear head must read one vector per row; got inputs of shape "
            f"{tuple(seen[0].shape)} for {len(self)} rows.",
        )
        return features

    @contextmanager
    def restored(self) -> Iterator[None]:
        """Weights, modes and what wants gradients are set back on leaving."""
        weights = {name: value.detach().clone() for name, value in self.module.state_dict().items()}
        modes = [(module, module.training) for module in self.module.modules()]
        wanted = [(parameter, parameter.requires_grad) for parameter in self.module.parameters()]
        try:
            self.module.eval()
            yield
        finally:
            self.module.load_state_dict(weights)
            for module, mode in modes:
                module.training = mode
            for parameter, flag in wanted:
                parameter.requires_grad_(flag)


def from_module(module: nn.Module, inputs: Any, classes: int, *, head: nn.Linear | None = None) -> Classifier:
    """Any torch classifier: its last Linear is the head, unless another one is given."""
    linear = [layer for layer in module.modules() if isinstance(layer, nn.Linear)]
    require(head is not None or bool(linear), "The model has no linear head; give the layer that makes the logits.")
    own = head if head is not None else linear[-1]
    wanted = 1 if classes == 2 else classes
    require(
        own.out_features == wanted,
        f"The linear head has {own.out_features} outputs; {classes} classes need {wanted}"
        f"{' (the logit of the second class)' if classes == 2 else ''}.",
    )
    rows = {str(k): torch.as_tensor(v) for k, v in inputs.items()} if isinstance(inputs, Mapping) else {"": inputs}
    return Classifier(module, own, rows, classes)


def from_hugging_face(name: str, texts: Sequence[str], classes: int, *, length: int = 64) -> Classifier:
    """A model given by folder or hub name, with its tokenizer; texts are cut after `length` tokens."""
    body, tokenizer = open_model(name)
    return from_body(body, tokenizer, texts, classes, length=length)


def from_body(
    body: nn.Module, tokenizer: Callable[..., Any], texts: Sequence[str], classes: int, *, length: int = 64
) -> Classifier:
    """A Hugging Face body and its tokenizer."""
    config: Any = body.config
    if getattr(tokenizer, "pad_token", "") is None:
        tokenizer.pad_token = tokenizer.eos_token  # type: ignore[attr-defined]
    tokenizer.padding_side = "right"  # type: ignore[attr-defined]
    encoded = tokenizer(list(texts), padding=True, truncation=True, max_length=length, return_tensors="pt")
    empty = int((encoded["attention_mask"].sum(1) == 0).sum())
    require(empty == 0, f"{empty} texts have no tokens; leave them out.")
    decoder = (
        bool(getattr(config, "is_decoder", False))
        or "Causal" in "".join(config.architectures or ())
        or not any(hasattr(body, part) for part in ("pooler", "encoder"))
    )
    width = getattr(config, "hidden_size", None) or config.n_embd
    module = PooledClassifier(body, width, 1 if classes == 2 else classes, pool="last" if decoder else "mean")
    names = ("input_ids", "attention_mask", "token_type_ids")
    inputs = {key: encoded[key] for key in names if key in encoded and (key != "token_type_ids" or not decoder)}
    return Classifier(module.eval(), module.head, inputs, classes)


def open_model(name: str) -> tuple[nn.Module, Any]:
    """Body and tokenizer; nothing is unpickled and no code of the model's own is run."""
    try:
        from transformers import AutoModel, AutoTokenizer
    except ImportError as error:
        raise InputError("Hugging Face models need transformers; pip install 'foretrain[hf]'.") from error
    try:
        with quiet_transformers():
            body = AutoModel.from_pretrained(name, use_safetensors=True, trust_remote_code=False, dtype=torch.float32)
            tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=False)
    except (OSError, ValueError, KeyError, ImportError) as error:
        what = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{name} is not a model that can be loaded: {what}") from error
    return body, tokenizer
