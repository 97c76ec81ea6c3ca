"""Sees through what others put around a model for training: torch.compile, data parallelism, checkpointing.

The layers of a model have the same names whether it is wrapped or not.
"""

from __future__ import annotations

import sys

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


def whole_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """Those parameters that this process holds whole, and keeps where they are from the forward pass to the update.

    With FSDP's `fully_shard` they are whole during the forward pass of their module only, and then freed.
    """
    sharded = [plain_name(name) for name, module in unwrapped(model).named_modules() if _is_sharded(module)]
    spread = tuple(f"{name}." if name else "" for name in sharded)
    return {
        name: parameter
        for name, parameter in parameters_of(model).items()
        if not hasattr(parameter, "full_tensor") and not name.startswith(spread)
    }


def _is_sharded(module: nn.Module) -> bool:
    fsdp = sys.modules.get("torch.distributed.fsdp")  # whoever uses it has loaded it
    return fsdp is not None and hasattr(fsdp, "FSDPModule") and isinstance(module, fsdp.FSDPModule)
