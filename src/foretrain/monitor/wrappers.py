"""Sees through what others put around a model for training: torch.compile, data parallelism, checkpointing.

The layers of a model have the same names whether it is wrapped or not.
"""

from __future__ import annotations

from torch import nn
from torch.nn.parallel import DataParallel, DistributedDataParallel

# attributes under which wrappers keep the module they wrap
COMPILED, SHARDED, CHECKPOINTED = "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"


def unwrapped(model: nn.Module) -> nn.Module:
    """The model inside all wrappers; hooks go on the wrapper, which is what a training loop calls."""
    while True:
        if isinstance(model, DistributedDataParallel | DataParallel):
            model = model.module
        elif wrapper := next((name for name in (COMPILED, SHARDED) if name in model._modules), None):
            model = model.get_submodule(wrapper)
        else:
            return model


def plain_name(name: str) -> str:
    """The name of a module without the parts that wrappers add to it."""
    return ".".join(part for part in name.split(".") if part not in (COMPILED, SHARDED, CHECKPOINTED))


def parameters_of(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters of a model by the names they have without wrappers."""
    return {plain_name(name): parameter for name, parameter in unwrapped(model).named_parameters()}
