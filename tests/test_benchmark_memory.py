"""Memory of a benchmark is that of its own process, however large the process that starts it has been."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from benchmarks.memory import peak_of


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux can restart a peak")
def test_a_child_does_not_begin_at_its_parents_peak() -> None:
    np.ones(75_000_000)  # 600 MB, freed at once
    small = peak_of("import numpy")
    large = peak_of("import numpy\nnumpy.ones(25_000_000)")
    assert small < 150e6
    assert 150e6 < large - small < 250e6


def test_a_program_that_exits_is_measured() -> None:
    assert peak_of("raise SystemExit(0)") > 1e6
