"""Mistakes that a new user makes are answered in a sentence that names their own words."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from foretrain import SGD, sweep, train
from foretrain.core.errors import InputError
from foretrain.core.trajectory import load_file
from foretrain.data import SequenceClasses
from foretrain.data.template_examples import same_different
from foretrain.forecast.templating.forecast import ForecastSetting, forecast_templates
from foretrain.models import Bilinear

P = [[0.6, 0.3, 0.1, 0.0, 0.0], [0.6, 0.0, 0.0, 0.3, 0.1]]


def trained(**changes: object) -> object:
    task = SequenceClasses(P, [4, 4])
    model = Bilinear(task)
    arguments = {
        "optimizer": SGD({"Y": 1.0, "Z": 1.0}),
        "steps": 1,
        "batch": 4,
        "record": {"attention": lambda parameters: (("class", "token"), model.attention(parameters))},
    }
    return train(model, task, **{**arguments, **changes})  # type: ignore[arg-type]


def test_the_example_itself_runs() -> None:
    assert trained()


def _one_axis(parameters: dict[str, torch.Tensor]) -> tuple[tuple[str, ...], torch.Tensor]:
    return ("a", "b"), parameters["Z_distinct"][..., 0]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"record": {"x": _one_axis}}, "its values have 1 axes"),
        ({"optimizer": SGD({"Y": 1.0})}, "No learning rate is given for 'Z'"),
    ],
)
def test_training_refuses_in_a_sentence(changes: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        trained(**changes)


WRONG_TYPES = """
import torch
from foretrain import SGD, InputError, train
from foretrain.data import SequenceClasses
from foretrain.models import Bilinear
task = SequenceClasses([[0.5, 0.5, 0], [0.5, 0, 0.5]], [0, 0])
theirs = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
for wrong in ({"record": None, "optimizer": SGD(1.0)}, {"record": {}, "optimizer": theirs}):
    try:
        train(Bilinear(task), task, steps=1, batch=1, **wrong)
    except InputError as error:
        print(error)
"""


def test_wrong_types_are_refused_in_a_sentence_where_nothing_checks_types() -> None:
    """In a process of its own: in the tests, beartype would refuse them first."""
    done = subprocess.run([sys.executable, "-c", WRONG_TYPES], capture_output=True, text=True, check=True)
    first, second = done.stdout.splitlines()
    assert first.startswith("record must map names to measures")
    assert "torch.optim.sgd.SGD" in second


def test_single_precision_probabilities_are_taken_and_wrong_ones_are_not() -> None:
    task = SequenceClasses(torch.tensor(P), [4, 4])  # type: ignore[arg-type]
    np.testing.assert_allclose(task.probabilities, P, rtol=1e-6)
    np.testing.assert_allclose(task.probabilities.sum(axis=1), 1, rtol=1e-15)
    with pytest.raises(InputError, match=r"probabilities of class 0 must sum to 1; it sums to 1\.1"):
        SequenceClasses(torch.tensor([[0.5, 0.6]]), [0])  # type: ignore[arg-type]
    with pytest.raises(InputError, match="query must lie between 0 and 4; got 5"):
        SequenceClasses(P, [4, 5])


def test_things_have_names_and_correct_plurals() -> None:
    assert repr(SequenceClasses(P, [4, 4])) == "SequenceClasses(2 classes, 5 tokens, 1 query, length 128)"
    assert repr(Bilinear(SequenceClasses(P, [3, 4]))).startswith(
        "Bilinear(SequenceClasses(2 classes, 5 tokens, 2 queries"
    )


def test_a_file_of_ones_own_is_not_to_be_deleted(tmp_path) -> None:
    (tmp_path / "own.json").write_text("{}")
    with pytest.raises(InputError, match=r"is not netCDF; give a \.nc file or the folder of a run") as refused:
        load_file(tmp_path / "own.json")
    assert "delete" not in str(refused.value)


@pytest.mark.parametrize("name", ["beta", "gamma", "identity"])
def test_constants_beyond_reason_are_refused(name: str) -> None:
    with pytest.raises(InputError, match=rf"{name} must lie between 0 and 100; got 1e\+308"):
        forecast_templates(same_different(), ForecastSetting(**{name: 1e308}))


def test_a_run_and_a_model_are_named_in_the_order_they_were_given() -> None:
    from foretrain.checkpoints import compare

    for a, b, words in (("tiny", "run.jsonl", "is a model and run.jsonl is a run"), ("run.jsonl", "x", "is a run and")):
        with pytest.raises(InputError, match=f"^{a} {words}"):
            compare(a, b)


def test_a_monitor_is_named_and_says_what_it_has() -> None:
    from foretrain import Monitor

    model = torch.nn.TransformerEncoderLayer(8, 2, 8, batch_first=True)
    wrong = "import torch, foretrain; foretrain.Monitor(torch.nn.Linear(1, 1), evry=3)"  # without the tests' checks
    said = subprocess.run([sys.executable, "-c", wrong], capture_output=True, text=True, check=False)
    assert "TypeError: Monitor.__init__() got an unexpected keyword argument 'evry'" in said.stderr
    with Monitor(model, every=2) as monitor:
        assert repr(monitor) == "<Monitor of TransformerEncoderLayer, every 2 steps: 0 measurements>"
        for _ in range(3):
            model(torch.randn(2, 3, 8)).square().mean().backward()
            monitor.step()
    assert repr(monitor) == "<Monitor of TransformerEncoderLayer, every 2 steps: 2 measurements, the last at step 2>"


def _inverse(x: float, y: float = 1.0) -> float:
    return y / x


def test_a_sweep_says_which_values_failed_and_hints_at_the_grid(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError) as stopped:
        sweep(_inverse, grid={"x": [1, 0], "y": [2.0, 3.0]}, out=tmp_path)
    assert stopped.value.__notes__ == ["The sweep stopped at x=0, y=2.0."]
    with pytest.raises(TypeError) as listed:
        sweep(_inverse, x=[0.1, 0.2], out=tmp_path)
    assert listed.value.__notes__ == [
        'The function got all values of x at once; for one call per value, give grid={"x": [0.1, 0.2]}.'
    ]


def test_a_finished_run_is_short_in_a_terminal_and_a_dataset_in_a_notebook(tmp_path: Path) -> None:
    folder = sweep(_inverse, grid={"x": [1, 2], "y": [2.0, 3.0]}, out=tmp_path)
    assert repr(folder) == f"<RunFolder {folder.path}: own/_inverse, 4 of 4 cells done>"
    assert "own/_inverse" in folder._repr_html_()
    assert "xr-var-name" in folder._repr_html_()
    folder.folder.status = "running"
    assert "4 of 4 cells done" in repr(folder)


def test_a_forecast_of_a_corpus_is_its_summary() -> None:
    from foretrain.forecast import corpus

    texts = [f"a {word} {thing}" for word in ("good", "bad") for thing in ("film", "book", "play", "song", "game")]
    found = corpus([(text, k // 5) for k, text in enumerate(texts)])
    assert repr(found) == found.summary
