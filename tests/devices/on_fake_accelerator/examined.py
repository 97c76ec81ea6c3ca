"""`foretrain doctor` on an accelerator."""

from __future__ import annotations

import pytest
import torch

import fake_accelerator
from foretrain.core.devices import devices, fastest_device
from foretrain.doctor import examine
from foretrain.doctor.cost import HostReads, Workload

TINY = Workload(width=8, layers=2, heads=2, tokens=4, batch=2, every=4, rounds=2)


@pytest.mark.usefixtures("as_users_run_it")
def test_the_doctor(device: torch.device) -> None:
    examined = examine(workload=TINY)  # without a name, the accelerator is taken
    assert examined.device == device.type
    assert [check for check in examined.checks if not check.holds] == []
    first, second = examined.summary
    assert first.startswith("foretrain agrees with the CPU on this fakegpu device (torch ")
    assert "0 host reads" in second
    assert examined.cost.reads_unmeasured == 0
    assert examined.cost.reads_measured is not None
    assert examined.cost.reads_measured > 0
    assert (examined.cost.memory_bytes, examined.cost.waits_measured) == (None, None)


def test_what_this_machine_has(device: torch.device) -> None:
    assert devices() == ["cpu", device.type]
    assert fastest_device().type == device.type


def test_the_doctor_counts_what_the_accelerator_counts(device: torch.device) -> None:
    x = torch.randn(4).to(device)
    with HostReads() as doctor, fake_accelerator.host_reads() as reads:
        assert float(x.sum()) == float(x.cpu().sum())
        x[x > 0].nonzero()
        torch.empty(4).copy_(x)
        (x + 1).to(torch.float64).add_(x)
        x[torch.tensor([0, 1])] = 2.0
    assert len(doctor.names) == len(reads) == 5
