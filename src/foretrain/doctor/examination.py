"""The whole examination of a device: checks, costs, and what they were made with."""

from __future__ import annotations

import json
import math
import platform
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from foretrain.core.devices import device_named, fastest_device, hardware_name
from foretrain.core.files import plain, write_text
from foretrain.doctor.checks import DeviceCheck, checks
from foretrain.doctor.cost import ON_CPU, Cost, Workload, cost
from foretrain.doctor.words import summary

FORMAT = "foretrain-doctor-1"


@dataclass(frozen=True)
class Examination:
    """How foretrain did on a device."""

    device: str
    hardware: str
    software: Mapping[str, str]
    checks: list[DeviceCheck]
    workload: Workload
    cost: Cost
    notes: list[str]  # what the Monitor had to say meanwhile

    @property
    def holds(self) -> bool:
        """Whether every check holds."""
        return all(check.holds for check in self.checks)

    @property
    def summary(self) -> list[str]:
        """Two sentences: whether the numbers are right, and what watching costs."""
        return summary(self.device, self.hardware, self.software, self.checks, self.cost, self.workload.every)

    def as_dict(self) -> dict[str, Any]:
        """For JSON: every check and every cost, and nothing that says whose machine it is."""
        return {
            "format": FORMAT, "device": self.device, "hardware": self.hardware, "software": dict(self.software),
            "holds": self.holds, "summary": self.summary,
            "checks": [{**asdict(check), "difference": _number(check.difference), "holds": check.holds}
                       for check in self.checks],
            "workload": asdict(self.workload), "cost": asdict(self.cost), "notes": self.notes,
        }  # fmt: skip

    def write(self, file: str | Path) -> None:
        """Write everything as JSON, to be sent to us."""
        write_text(Path(file), json.dumps(self.as_dict(), indent=1, ensure_ascii=False, default=plain) + "\n")


def examine(device: str | torch.device | None = None, *, workload: Workload | None = None) -> Examination:
    """Compare what foretrain measures on a device with the definitions on the CPU, and time a watched training there.

    Without a device, this takes the accelerator that torch sees, or the CPU, where float32 is compared with float64.
    The training that is timed has six layers of width 512, and two of width 128 on the CPU, unless a `workload` says
    otherwise.
    """
    chosen = device_named(device) if device is not None else fastest_device()
    work = workload or (ON_CPU if chosen.type == "cpu" else Workload())
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        results = checks(chosen)
        spent = cost(chosen, work)
    notes = list(dict.fromkeys(str(warning.message) for warning in said))
    return Examination(str(chosen), hardware_name(chosen), _software(), results, work, spent, notes)


def _software() -> dict[str, str]:
    versions = {
        "foretrain": metadata.version("foretrain"), "torch": torch.__version__, "python": platform.python_version(),
        "system": platform.system(), "float32 products": torch.get_float32_matmul_precision(),
    }  # fmt: skip
    libraries = {"CUDA": torch.version.cuda, "ROCm": torch.version.hip, "XPU": getattr(torch.version, "xpu", None)}
    return versions | {name: version for name, version in libraries.items() if version}


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
