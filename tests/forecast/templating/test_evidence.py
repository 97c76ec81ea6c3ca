"""What the forecast says about its own record is what docs/results has, and the docs show the same table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.template_needs.tables import close, samples_per_symbol, table
from benchmarks.template_needs.tasks import chosen, generated

from foretrain.data import template_examples
from foretrain.forecast.templating import evidence
from foretrain.forecast.templating.evidence import size_need, trust_words
from foretrain.forecast.templating.prediction import forecast_templates
from foretrain.kernels.architectures import ARCHITECTURES, MLP, MLP_XX, TRANSFORMER, TRANSFORMER_AI
from foretrain.kernels.sample_need import within_factor
from foretrain.papers.abstract_symbols.claims.forecast import (
    forecast_agrees,
    measured_need,
    rank_correlations,
    trained_errors_of,
)

ROOT = Path(__file__).parents[3]
STORED: dict[str, Any] = json.loads((ROOT / "docs/results/template_needs.json").read_text(encoding="utf-8"))["tasks"]


def test_the_tasks_are_those_of_the_benchmark() -> None:
    tasks = chosen() | generated()
    assert list(STORED) == list(tasks)
    assert len(generated()) >= 10
    for name, task in tasks.items():
        assert STORED[name]["templates"] == [str(template) for template in task.templates]
    assert len(tasks) == evidence.TASKS
    assert max(evidence.size_of(task) for task in tasks.values()) == evidence.LARGEST


@pytest.mark.parametrize("architecture", evidence.PER_SYMBOL)
def test_samples_per_symbol_are_those_of_training(architecture: str) -> None:
    for error, constant in zip(evidence.ERRORS, evidence.PER_SYMBOL[architecture], strict=True):
        assert constant == pytest.approx(samples_per_symbol(STORED, architecture, error), rel=0.01)


@pytest.mark.parametrize("error", evidence.ERRORS)
@pytest.mark.parametrize("architecture", evidence.PER_SYMBOL)
def test_the_counts_within_a_factor_of_3_are_those_of_training(architecture: str, error: float) -> None:
    right, tasks = close(STORED, architecture, error), chosen() | generated()
    bounds, by_size = 0, 0
    for name, entry in STORED.items():
        trained = trained_errors_of(entry, architecture)
        need = trained.needed(error)
        bounds += right[name] and (not np.isfinite(need) or need <= min(trained.errors))
        by_size += within_factor(size_need(tasks[name], architecture, error), trained, error)
    assert evidence.WITHIN_3[error][architecture] == (sum(right.values()), bounds, by_size)


@pytest.mark.parametrize("error", evidence.ERRORS)
def test_the_rank_correlations_are_those_of_training(error: float) -> None:
    taus = rank_correlations(forecast_agrees.prediction({"error": error}), forecast_agrees.observe(error=error))["all"]
    assert pytest.approx(taus, abs=0.005) == evidence.TAU[error]


def test_tasks_in_which_counts_tie_are_forecast_within_a_factor_of_3() -> None:
    right = {name: ok for name, ok in close(STORED, TRANSFORMER_AI, 0.1).items() if "tie" in name}
    assert len(right) >= 5
    assert all(right.values())
    assert all(np.isfinite(measured_need(STORED[name], TRANSFORMER_AI, 0.1)) for name in right)


def test_an_mlp_never_learned() -> None:
    assert all(not np.isfinite(measured_need(entry, MLP, 0.5)) for entry in STORED.values())
    assert all(entry["forecast"][MLP] == {"0.5": None, "0.1": None} for entry in STORED.values())


@pytest.mark.parametrize("architecture", [TRANSFORMER_AI, MLP_XX])
def test_forecasts_in_the_file_are_those_of_the_code(architecture: str) -> None:
    for name in ("αβαβ/ααββ (tie)", next(name for name in STORED if name.startswith("random 8"))):
        task = (chosen() | generated())[name]
        for error in evidence.ERRORS:
            forecast = forecast_templates(task, error=error, samples=(64,), architectures=(architecture,))
            assert forecast.samples_needed.item() == pytest.approx(
                STORED[name]["forecast"][architecture][str(error)], rel=0.02
            )


def test_the_docs_show_this_table() -> None:
    assert table(STORED) in (ROOT / "docs/forecast-your-task.md").read_text(encoding="utf-8")


def test_size_alone_says_nothing_about_what_was_not_trained() -> None:
    assert np.isnan(size_need(template_examples.same_different(), MLP, 0.1))
    assert np.isnan(size_need(template_examples.print_symbol(), TRANSFORMER, 0.1))
    small, large = (size_need(template_examples.majority(k), TRANSFORMER_AI, 0.1) for k in (3, 4))
    assert large / small == pytest.approx(32 / 12)
    assert size_need(template_examples.majority(3), TRANSFORMER, 0.3) < size_need(
        template_examples.majority(3), TRANSFORMER, 0.1
    )


def test_trust_is_about_the_error_that_was_asked_for() -> None:
    """Every count, and a plain word where size alone did better."""
    at_half, at_tenth, below = (trust_words(template_examples.majority(3), error) for error in (0.5, 0.1, 0.02))
    assert (
        "for 20 tasks with transformer (a guess from the task's size alone: 22; for 6 of the 20, training gave"
        in at_half
    )
    assert "and for 16 tasks with transformer + aI (a guess from the task's size alone: 19) and" in at_half
    assert "from the samples we tried" not in at_half
    assert "size alone did better for transformer and transformer + aI." in at_half
    assert "τ 0.86 against 0.81" in at_half
    assert "No transformer reached that error from the samples we tried." in at_tenth
    assert "10 tasks with MLP + XXᵀ (a guess from the task's size alone: 6; for 5 of the 10" in at_tenth
    assert "did better for" not in at_tenth
    assert "τ 0.51 against 0.40" in at_tenth
    assert "an error of 0.1, the nearest to 0.02." in below


def test_trust_says_where_it_ends() -> None:
    assert trust_words(template_examples.copying(), 0.1).startswith("unknown.")
    assert "larger than any" in trust_words(template_examples.majority(5), 0.1)
    assert "larger than any" not in trust_words(template_examples.majority(4), 0.1)
    assert set(evidence.PER_SYMBOL) < set(ARCHITECTURES)
