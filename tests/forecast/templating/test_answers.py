"""`foretrain.forecast.templates`: the same answer in Python, on a page and in a notebook; and real training."""

from __future__ import annotations

from functools import partialmethod
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import foretrain
from foretrain.cli import main
from foretrain.core.errors import InputError
from foretrain.data import template_examples as tasks
from foretrain.data.template_task import Template, TemplateTask
from foretrain.forecast.templating import training
from foretrain.forecast.templating.forecast import TemplateForecast, templates
from foretrain.forecast.templating.training import errors_at, trained_errors
from foretrain.forecast.templating.words import about
from foretrain.kernels.architectures import ARCHITECTURES, MLP, MLP_XX, TRANSFORMER, TRANSFORMER_AI
from foretrain.kernels.sample_need import TrainedErrors, within_factor

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture(scope="module")
def same() -> TemplateForecast:
    return templates(EXAMPLES / "same_different.toml", samples=(64, 1024))


def test_a_file_and_its_task_have_the_same_forecast(same: TemplateForecast) -> None:
    assert foretrain.forecast.templates is templates
    again = templates(tasks.same_different(), samples=(64, 1024))
    assert again.table.drop(columns="why").equals(same.table.drop(columns="why"))


def test_the_summary_says_who_learns_and_who_never_does(same: TemplateForecast) -> None:
    assert same.summary.startswith("same or different. To bring the error on unseen symbols down to 0.1 of a ")
    assert (
        f"a transformer needs about {about(same.table.samples[TRANSFORMER])} samples, a transformer with"
        in same.summary
    )
    assert "An MLP never learns it." in same.summary
    assert "\n" not in same.summary


def test_copying_is_said_once_for_all_who_cannot() -> None:
    forecast = templates(tasks.print_symbol(), samples=(64,), architectures=(TRANSFORMER_AI, MLP, MLP_XX))
    assert forecast.summary == (
        "print symbol. A transformer with a·I in every head and an MLP that is told which positions are equal tell the "
        "answers apart, but cannot output an unseen symbol. An MLP never learns it."
    )
    assert forecast.table["by size alone"].isnull().all()  # no such task was trained


def test_what_is_learnable_is_never_called_never() -> None:
    """Lemma 3.6: a plain transformer learns match-to-sample, from more samples than the kernel's accuracy can tell."""
    forecast = templates(tasks.relational_match_to_sample(), samples=(64,), architectures=(TRANSFORMER,))
    assert "A transformer learns it, but needs more than" in forecast.summary
    assert "never" not in forecast.summary
    assert forecast.table["in words"].item().startswith("more than")
    assert "transformer: more than" in " ".join(trace.name or "" for trace in forecast.figure().data)


def test_the_table_has_the_baseline_beside_the_forecast(same: TemplateForecast) -> None:
    assert list(same.table.index) == list(ARCHITECTURES)
    assert same.baseline == "2 templates × 2 symbols = 4"
    larger = templates(tasks.majority(3), samples=(64,), architectures=(TRANSFORMER,))
    ratio = larger.table["by size alone"][TRANSFORMER] / same.table["by size alone"][TRANSFORMER]
    assert ratio == pytest.approx(4 * 3 / (2 * 2))


def test_page_and_notebook_say_the_same_and_escape_names(same: TemplateForecast, tmp_path: Path) -> None:
    rows = (Template.parse("αα"), Template.parse("αβ"))
    named = templates(TemplateTask(rows, (1.0, -1.0), name="<b>x</b>"), samples=(64,), architectures=(MLP, MLP_XX))
    for forecast in (same, named):
        forecast.report(tmp_path / "page.html")
        page, fragment = (tmp_path / "page.html").read_text(encoding="utf-8"), forecast._repr_html_()
        for html in (page, fragment):
            assert "<b>x" not in html
            assert "samples (by size alone)" in html
            assert "needs about" in html
            assert "Trust:" in html


@pytest.fixture(scope="module")
def trained() -> TemplateForecast:
    forecast = templates(tasks.same_different(), samples=(64,), architectures=(TRANSFORMER_AI, MLP_XX))
    return forecast.train(sizes=(8, 64), seeds=1)


def test_training_is_kept_beside_the_forecast(trained: TemplateForecast) -> None:
    assert trained.dataset.trained.dims == ("architecture", "trained_n", "trained_seed")
    assert trained.dataset.trained.sel(architecture=TRANSFORMER_AI, trained_n=64).item() < 0.5
    assert trained.table["in training"].notnull().all()
    assert trained.score.startswith("Compared with training, as far as the trained sizes can tell, ")
    assert "samples (in training)" in trained._repr_html_()
    assert any("trained" in (trace.name or "") for trace in trained.figure().data)


def test_training_is_the_same_again() -> None:
    first, again = (errors_at(tasks.same_different(), MLP_XX, 16, seeds=2) for _ in range(2))
    assert first == again
    assert first[0] != first[1]


@pytest.mark.parametrize(
    ("errors", "error", "needed"),
    [
        ({64: [0.4], 128: [0.1]}, 0.2, 64 * 2**0.5),  # half way, in logarithms
        ({64: [0.4], 128: [0.1]}, 0.5, 64),  # an upper bound
        ({64: [0.4], 128: [0.3]}, 0.2, np.inf),
        ({64: [0.1], 128: [0.4], 256: [0.1]}, 0.2, 128 * 2**0.5),  # from where on it stays below
        ({64: [np.inf, 0.4, 0.4], 128: [0.1, 0.1, 0.9]}, 0.2, 64 * 2**0.5),  # medians over seeds
    ],
)
def test_needed(errors: dict[int, list[float]], error: float, needed: float) -> None:
    assert TrainedErrors(errors).needed(error) == pytest.approx(needed)


@pytest.mark.parametrize(
    ("forecast", "errors", "close"),
    [
        (250.0, {64: [0.4], 128: [0.1]}, True),
        (300.0, {64: [0.4], 128: [0.1]}, False),
        (25.0, {64: [0.4], 128: [0.1]}, False),
        (np.inf, {64: [0.4], 128: [0.3]}, True),  # training needs more than 128
        (40.0, {64: [0.4], 128: [0.3]}, False),
        (2.0, {8: [0.1]}, True),  # training needs at most 8
        (25.0, {8: [0.1]}, False),
    ],
)
def test_within_a_factor_of_3(forecast: float, errors: dict[int, list[float]], close: bool) -> None:
    assert within_factor(forecast, TrainedErrors(errors), 0.2) is close


@given(st.lists(st.floats(0.01, 1.2), min_size=1, max_size=6), st.floats(0.05, 0.9), st.floats(0.05, 0.9))
def test_a_lower_error_needs_no_fewer_samples(curve: list[float], one: float, two: float) -> None:
    errors = TrainedErrors({2**i: [miss] for i, miss in enumerate(curve)})
    low, high = sorted((one, two))
    assert errors.needed(low) >= errors.needed(high) * (1 - 1e-9)


@pytest.mark.parametrize(
    ("threshold", "tried"),
    [(200, [128, 256]), (80, [32, 64, 128]), (20, [8, 16, 32, 64, 128]), (5000, [128, 256, 512, 1024])],
)
def test_sizes_are_tried_only_around_the_need(
    threshold: int, tried: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fake(task: TemplateTask, name: str, n: int, **_: object) -> list[float]:
        return [0.01 if n >= threshold else 0.9 if n < threshold / 1.5 else 0.2]

    monkeypatch.setattr(training, "errors_at", fake)
    assert sorted(trained_errors(tasks.same_different(), MLP).errors) == tried


def test_symbols_cannot_be_trained() -> None:
    with pytest.raises(InputError, match="asks for a symbol"):
        templates(tasks.copying(), samples=(16,), architectures=(MLP,)).train()


@pytest.mark.parametrize("labels", [(1.0, 1.0), ("yes", "yes")], ids=["numbers", "symbols"])
def test_a_task_with_one_label_is_refused(labels: tuple[float, ...] | tuple[str, ...]) -> None:
    task = TemplateTask(tasks.same_different().templates, labels, (0.5, 0.5))
    with pytest.raises(InputError, match=f"Every template has the label {labels[0]}.*give at least two labels"):
        foretrain.forecast.templates(task)


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize("task", [3, None, ["αα"]])
def test_what_is_no_task_is_refused(task: object) -> None:
    with pytest.raises(InputError, match="must be a TemplateTask or the path"):
        templates(task)  # type: ignore[arg-type]


def test_command_trains_and_reports(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TemplateForecast, "train", partialmethod(TemplateForecast.train, sizes=(8,), seeds=1))
    page = tmp_path / "page.html"
    with pytest.raises(SystemExit) as ended:
        main(["forecast", "templates", str(EXAMPLES / "same_different.toml"), "--train", "--report", str(page)])
    printed = capsys.readouterr().out
    assert ended.value.code == 0
    first = printed.index("same or different. ")
    assert first < printed.index("Trust: ") < printed.index("by size alone") < printed.index("Why (")
    assert "in training" in printed
    assert "more than 8" in printed
    assert "in training" in page.read_text(encoding="utf-8")
