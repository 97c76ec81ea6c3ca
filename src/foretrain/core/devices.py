"""Where tensors are: a device by its name, and what torch can say about it."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, Any

from foretrain.core.errors import InputError, require

if TYPE_CHECKING:
    import torch


def device_named(name: str | torch.device) -> torch.device:
    """The device, if this machine has it; refused otherwise, with what torch sees."""
    import torch  # takes two seconds, so only what needs torch imports it

    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise InputError(
            f"There is no kind of device called {str(name)!r}; give cpu, cuda, cuda:1, mps or xpu."
        ) from error
    require(device.type != "meta", "The device meta holds no numbers; give cpu, cuda, mps or xpu.")
    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise InputError(
            f"There is no device {device} that torch {torch.__version__} can use on this machine, where it sees "
            f"{' and '.join(devices())}; give one of these, or install torch for {device.type}."
        ) from error
    return device


def devices() -> list[str]:
    """The devices that torch sees here, by name."""
    import torch

    accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    return ["cpu", *([] if accelerator is None else [accelerator.type])]


def fastest_device() -> torch.device:
    """The accelerator, if there is one; else the CPU."""
    import torch

    return torch.device(devices()[-1])


def hardware_name(device: torch.device) -> str:
    """What the device is called by whoever made it, as far as torch knows."""
    import torch

    if device.type == "cpu":
        return f"CPU ({platform.machine()})"
    named: Any = getattr(torch.get_device_module(device), "get_device_name", None)
    return str(named(device)) if named is not None else f"{device.type} device"


def wait_for(device: torch.device) -> None:
    """Return when the device has done everything that it was given."""
    import torch

    synchronize: Any = getattr(torch.get_device_module(device), "synchronize", None)
    if synchronize is not None:
        synchronize()
