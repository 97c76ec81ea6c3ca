"""These files run in a process of their own, which tests/devices/test_on_a_device.py starts."""

from __future__ import annotations

import pytest
import torch

import fake_accelerator


@pytest.fixture(scope="session", autouse=True)  # before torch counts its devices, at the first backward pass
def device() -> torch.device:
    return fake_accelerator.install()
