"""Activations, experts and what is kept of every step, as a record has them and as a dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from foretrain.core.errors import InputError
from foretrain.runs.training_log import append_line, as_dataset, every_step, read_lines


def record(step: int, **parts: Any) -> dict[str, Any]:
    return {"step": step, **parts}


def test_blocks_routers_and_experts_are_axes() -> None:
    records = [
        record(0, activations={"h.0": {"massive": 2.0}, "h.1": {"massive": 3.0}}, gradient_norm=0.5),
        record(
            10,
            activations={"h.0": {"massive": 4.0, "dead_units": 0.5}},
            experts={"h.0.mlp": {"router_entropy": 0.9, "load": [0.75, 0.25]}, "h.1.mlp": {"load": [0.5, 0.25, 0.25]}},
        ),
    ]
    dataset = as_dataset(records)
    assert dict(dataset.sizes) == {"step": 2, "block": 2, "router": 2, "expert": 3}
    np.testing.assert_array_equal(dataset.activation_massive, [[2.0, 3.0], [4.0, np.nan]])
    np.testing.assert_array_equal(dataset.activation_dead_units.sel(block="h.0"), [np.nan, 0.5])
    np.testing.assert_array_equal(dataset.experts_load.sel(step=10, router="h.0.mlp"), [0.75, 0.25, np.nan])
    np.testing.assert_array_equal(dataset.total_gradient_norm, [0.5, np.nan])
    assert dataset.activation_massive.attrs["long_name"]


def test_every_step_is_put_together_from_all_records() -> None:
    records = [
        record(0, loss=3.0, every_step={"first": 0, "loss": [3.0], "gradient_norm": [1.0]}),
        record(3, loss=2.0, every_step={"first": 1, "loss": [2.5, None, 2.0]}),
        record(5, loss=1.5),  # of an older version: only the step that was measured
    ]
    steps = every_step(records)
    assert steps.step.values.tolist() == [0, 1, 2, 3, 5]
    np.testing.assert_array_equal(steps.loss, [3.0, 2.5, np.nan, 2.0, 1.5])
    np.testing.assert_array_equal(steps.total_gradient_norm, [1.0, np.nan, np.nan, np.nan, np.nan])


def test_a_training_that_goes_back_replaces_what_came_after() -> None:
    records = [
        record(4, every_step={"first": 0, "loss": [5.0, 4.0, 3.0, 2.0, 1.0]}),
        record(4, every_step={"first": 3, "loss": [20.0, 10.0]}),
    ]
    np.testing.assert_array_equal(every_step(records).loss, [5.0, 4.0, 3.0, 20.0, 10.0])


def test_a_long_training_is_put_together_in_no_time() -> None:
    """Each record looks at its own steps only: with all of them, this would take hours."""
    records = [record(50 * k + 49, every_step={"first": 50 * k, "loss": [1.0] * 50}) for k in range(4000)]
    assert every_step(records).sizes["step"] == 200_000


@pytest.mark.parametrize(
    "parts",
    [
        {"experts": {"h": {"router_entropy": [0.5]}}},
        {"experts": {"h": {"load": 0.5}}},
        {"activations": {"h": {"massive": [1.0]}}},
        {"every_step": {"loss": [1.0]}},
        {"every_step": {"first": 0, "loss": [1.0], "gradient_norm": []}},
        {"process": {"host": "here"}},
    ],
)
def test_a_part_of_another_form_is_named_by_its_line(parts: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    append_line(file, record(0, loss=1.0))
    append_line(file, record(1, **parts))
    with pytest.raises(InputError, match="line 2 is damaged"):
        read_lines(file)
