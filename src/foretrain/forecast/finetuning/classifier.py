"""A classifier with a linear head, its rows, and how to leave it as it was."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from foretrain.core.errors import InputError, require

ROWS_AT_ONCE = 32


@dataclass(frozen=True)
class HeadedModel:
    """A module in evaluation mode, its head, and its inputs as rows of tensors. Outputs are logits [row, output].

    With two classes there is one output, the logit of the second class, or two. The module may be on an accelerator:
    inputs stay on the CPU and follow block by block, and so does what is kept of the outputs.
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

    @property
    def device(self) -> torch.device:
        return self.head.weight.device

    def rows(self, which: Tensor | slice) -> dict[str, Tensor]:
        """These rows of the inputs, without columns in which all of them are padding."""
        rows = {name: values[which] for name, values in self.inputs.items()}
        if "attention_mask" in rows and rows["attention_mask"].ndim == 2:
            used = rows["attention_mask"].any(0).nonzero().max() + 1
            width = rows["attention_mask"].shape[1]
            rows = {n: v[:, :used] if v.ndim == 2 and v.shape[1] == width else v for n, v in rows.items()}
        return {name: values.to(self.device) for name, values in rows.items()}

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
        before_head: list[Tensor] = []

        def note(_: nn.Module, given: tuple[Tensor, ...], output: Tensor) -> None:
            seen.append(given[0].detach().cpu())
            before_head.append(output.detach().cpu())

        hook = self.head.register_forward_hook(note)
        try:
            with self.restored():
                outputs = [self(block).cpu() for block in self.blocks()]
        except (RuntimeError, TypeError, IndexError) as error:
            raise InputError(f"The model cannot read these inputs: {str(error).splitlines()[0]}") from error
        finally:
            hook.remove()
        require(bool(seen), "The layer given as the head is never called; give the layer that makes the logits.")
        features = torch.cat([part.reshape(part.shape[0], -1) for part in seen])
        require(
            features.shape == (len(self), self.head.in_features),
            "The linear head must read one vector per row; got inputs of shape "
            f"{tuple(seen[0].shape)} for {len(self)} rows.",
        )
        require(bool(features.isfinite().all()), "What the head reads is not finite; are there NaNs in the inputs?")
        require(
            torch.allclose(torch.cat(outputs), torch.cat(before_head).reshape(len(self), -1), rtol=1e-4, atol=1e-5),
            "The model's outputs are not those of its linear head: something follows it, such as a sigmoid; give a "
            "model whose logits come out of a linear layer.",
        )
        return features

    @contextmanager
    def restored(self) -> Iterator[None]:
        """Evaluation mode inside; weights, modes, gradients and what wants gradients are set back on leaving."""
        weights = copy.deepcopy(self.module.state_dict())
        modes = [(module, module.training) for module in self.module.modules()]
        flags = [(parameter, parameter.requires_grad, parameter.grad) for parameter in self.module.parameters()]
        try:
            self.module.eval()
            yield
        finally:
            self.module.load_state_dict(weights)
            for module, mode in modes:
                module.training = mode
            for parameter, flag, gradient in flags:
                parameter.requires_grad_(flag)
                parameter.grad = gradient


def from_module(module: nn.Module, inputs: Any, classes: int, *, head: nn.Linear | None = None) -> HeadedModel:
    """Any torch classifier: its last Linear is the head, unless another one is given. The module itself is not changed.

    inputs  a tensor with a row per example, or a dictionary of them
    """
    module = getattr(module, "_orig_mod", module)  # what torch.compile compiled
    linear = [(name, layer) for name, layer in module.named_modules() if isinstance(layer, nn.Linear)]
    require(bool(linear), "The model has no linear head; give a model that ends in a linear layer.")
    name = next((name for name, layer in linear if layer is head), None) if head is not None else linear[-1][0]
    require(name is not None, "The layer given as the head is not a linear layer of the model.")
    model = copied(module)
    layer = model.get_submodule(str(name))
    assert isinstance(layer, nn.Linear)
    allowed = (1, 2) if classes == 2 else (classes,)
    require(
        layer.out_features in allowed,
        f"The linear head has {layer.out_features} outputs; {classes} classes need {' or '.join(map(str, allowed))}.",
    )
    rows = {str(k): torch.as_tensor(v) for k, v in inputs.items()} if isinstance(inputs, Mapping) else {"": inputs}
    precision = layer.weight.dtype
    rows = {k: v.cpu().to(precision) if v.is_floating_point() else v.cpu() for k, v in rows.items()}
    sizes = {len(values) for values in rows.values()}
    require(len(sizes) == 1, f"All inputs need a row per example; got {sorted(sizes)} rows.")
    return HeadedModel(model, layer, rows, classes)


def copied(module: nn.Module) -> nn.Module:
    """A copy in evaluation mode, without gradients, in single precision at least. The user's model stays as it is."""
    module = getattr(module, "_orig_mod", module)  # what torch.compile compiled
    try:
        copy_of_module = copy.deepcopy(module).eval()
    except (RuntimeError, TypeError) as error:
        raise InputError(f"The model cannot be copied ({error}); give it as a folder instead.") from error
    if any(p.dtype in (torch.float16, torch.bfloat16) for p in copy_of_module.parameters()):
        copy_of_module = copy_of_module.float()
    for parameter in copy_of_module.parameters():
        parameter.grad = None
    return copy_of_module
