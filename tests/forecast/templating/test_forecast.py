"""The forecast of a template task: against kernel regression, and what it says in words, files and refusals."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from foretrain.cli import main
from foretrain.cli.terminal import json_text
from foretrain.core.errors import InputError
from foretrain.core.progress import Progress, listening
from foretrain.data import template_examples as tasks
from foretrain.data.template_task import Template, TemplateTask
from foretrain.forecast.templating import prediction
from foretrain.forecast.templating.figures import forecast_figure
from foretrain.forecast.templating.forecast import ForecastSetting, forecast_templates, trivial_loss
from foretrain.forecast.templating.words import condition_words, samples_words, summary, verdict_words
from foretrain.kernels import attention
from foretrain.kernels.architectures import MLP, MLP_XX, TRANSFORMER, TRANSFORMER_AI

EXAMPLES = Path(__file__).parents[3] / "examples"
SAMPLES = (16, 64, 256, 4096)


@pytest.fixture(scope="module")
def same() -> xr.Dataset:
    return forecast_templates(tasks.same_different(), samples=SAMPLES, simulate=256, seeds=6)


def test_separates_architectures(same: xr.Dataset) -> None:
    learnable = dict(zip(same.architecture.values.tolist(), same.learnable.values.tolist(), strict=True))
    assert learnable == {"transformer": True, "transformer + aI": True, "MLP": False, "MLP + XXᵀ": True}
    needed = same.samples_needed
    assert needed.sel(architecture="transformer") > 6 * needed.sel(architecture="transformer + aI")
    assert np.isinf(needed.sel(architecture="MLP"))
    assert same.condition.sel(architecture="transformer").item() == pytest.approx(1070, rel=0.01)  # known value


def test_says_why(same: xr.Dataset) -> None:
    assert "αα, αβ look the same to it, and their labels differ" in same.why.sel(architecture="MLP").item()
    assert "what it sees least is αα − 0.96 αβ" in same.why.sel(architecture="transformer").item()


def test_prediction_meets_kernel_regression(same: xr.Dataset) -> None:
    """Means over six samples within the predicted interval, widened by their own error."""
    mean, error = same.simulated.mean("seed"), same.simulated.std("seed", ddof=1) / np.sqrt(6)
    known = mean.notnull()
    assert int(known.sum()) == 12
    assert (mean > 0.93 * same.error_low - 3 * error).where(known, True).all()
    assert (mean < 1.07 * same.error_high + 3 * error).where(known, True).all()


def test_samples_needed_is_where_the_curve_crosses(same: xr.Dataset) -> None:
    for name in ("transformer", "transformer + aI", "MLP + XXᵀ"):
        of = same.sel(architecture=name)
        n = of.samples_needed.item()
        curve = np.exp(np.interp(np.log(n), np.log(same.n), np.log(of.error)))
        assert 0.05 < curve < 0.2  # 0.1, but for interpolation between four points


def test_singular_matrix_with_equal_labels_is_learnable() -> None:
    rows = tuple(Template.parse(s) for s in ("ααS", "αβS", "ααT", "αβT"))
    result = forecast_templates(TemplateTask(rows, (1.0, 1.0, -1.0, -1.0)), samples=(64,)).sel(architecture="MLP")
    assert bool(result.learnable)
    assert np.isinf(result.condition)
    assert "ααS, αβS look the same to it, but their labels agree" in result.why.item()
    assert result.samples_needed < 1000


@pytest.mark.parametrize(("beta", "gamma"), [(1.0, 0.0), (0.0, 1.0)], ids=["no positions", "even attention"])
def test_the_lemmas_promise_nothing_where_attention_is_blind(beta: float, gamma: float) -> None:
    """Without positions, or without scores, αβα and αββ are one bag of symbols even to a transformer."""
    setting = ForecastSetting(beta=beta, gamma=gamma)
    result = forecast_templates(tasks.aba_abb(), setting, samples=(64,), architectures=(TRANSFORMER,))
    result = result.isel(architecture=0)
    assert not bool(result.learnable)
    assert result.limit_error.item() == pytest.approx(1)
    assert "αβα, αββ look the same to it, and their labels differ" in result.why.item()
    assert np.isinf(result.samples_needed)
    bag = forecast_templates(
        tasks.same_different(), ForecastSetting(gamma=0.0), samples=(64,), architectures=(TRANSFORMER,)
    )
    assert bag.learnable.all()  # how often a symbol occurs is enough here


def test_small_alphabet_leaves_an_error() -> None:
    small, large = (
        forecast_templates(tasks.same_different(), alphabet=m, samples=(64, 65536), architectures=(MLP_XX,)).isel(
            architecture=0
        )
        for m in (16, 400)
    )
    assert small.error[1] > 50 * large.error[1]
    assert small.error_low[1] > 0.3 * small.error[0]  # more samples of the same 16 tokens hardly help


def test_next_token_tasks_are_warned_of_copying() -> None:
    result = forecast_templates(tasks.copying(), samples=(64,))
    notes = json.loads(result.attrs["config"])["notes"]
    assert any("Theorem 4.1" in note for note in notes)
    assert result.tells_apart.all()  # one template: nothing to tell apart
    assert not result.learnable.any()  # but the answer is a symbol never seen
    assert np.isinf(result.samples_needed).all()
    assert not any("Theorem 4.1" in n for n in json.loads(_same().attrs["config"])["notes"])


def _same() -> xr.Dataset:
    return forecast_templates(tasks.same_different(), samples=(16,), architectures=(MLP_XX,))


def test_many_templates_are_forecast_without_shared_tokens() -> None:
    setting = ForecastSetting(activation="relu")
    result = forecast_templates(tasks.majority(5), setting, samples=(64,), architectures=(TRANSFORMER,))
    assert any("ignored" in note for note in json.loads(result.attrs["config"])["notes"])
    assert (result.condition.sel(architecture="transformer") > 1e4).item()


def test_a_condition_too_large_to_see_is_not_called_infinite() -> None:
    """N of a transformer is nonsingular (Lemma 3.7), however small its eigenvalues; that of an MLP is not."""
    setting = ForecastSetting(beta=0.05, gamma=0.05)
    result = forecast_templates(tasks.aba_abb(), setting, samples=(64,), architectures=(TRANSFORMER, MLP))
    assert np.isinf(result.condition).all()
    assert condition_words(result.sel(architecture=TRANSFORMER)).startswith("> ")
    assert result.condition_at_least.sel(architecture=TRANSFORMER) > 1e6
    assert condition_words(result.sel(architecture=MLP)) == "∞"
    assert "cannot be distinguished from 0" in result.why.sel(architecture=TRANSFORMER).item()


@pytest.mark.parametrize(
    ("setting", "name"),
    [
        (ForecastSetting(beta=0.05, gamma=0.05, activation="relu"), TRANSFORMER),
        (ForecastSetting(gamma=1e-8), TRANSFORMER_AI),
    ],
    ids=["ReLU", "a·I"],
)
def test_what_neither_numbers_nor_lemmas_decide_is_called_undecided(setting: ForecastSetting, name: str) -> None:
    """Lemma 3.6 speaks of cosine and the plain transformer; tiny eigenvalues alone do not show that N is singular."""
    result = forecast_templates(tasks.aba_abb(), setting, samples=(64,), architectures=(name, MLP))
    unknown, blind = result.sel(architecture=name), result.sel(architecture=MLP)
    assert not unknown.nonsingular
    assert verdict_words(unknown).startswith("cannot be told (eigenvalues below")
    assert "of the 2 eigenvalues of N cannot be distinguished from 0 at this accuracy" in unknown.why.item()
    assert condition_words(unknown).startswith("> ")
    assert samples_words(unknown).startswith("more than")
    assert verdict_words(blind) == "fails (error stays at 1)"
    assert samples_words(blind) == "never"


def test_tokens_are_blamed_only_where_more_of_them_would_help() -> None:
    few = forecast_templates(
        tasks.same_different(), alphabet=16, error=1e-4, samples=(64, 1024), architectures=(MLP_XX,)
    )
    assert samples_words(few.isel(architecture=0)) == "not with so few tokens"
    assert any("overstates it by up to 15 %" in note for note in json.loads(few.attrs["config"])["notes"])
    left_out = forecast_templates(
        tasks.majority(5), alphabet=16, error=1e-12, samples=(64,), architectures=(TRANSFORMER,)
    )
    assert samples_words(left_out.isel(architecture=0)).startswith("more than")
    assert not any("15 %" in note for note in json.loads(left_out.attrs["config"])["notes"])


def test_sampled_entries_are_told_and_lower_the_accuracy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "MOST_WORK", 1.0)  # every pattern is too entangled
    setting = ForecastSetting(gamma=1.01)  # no other test has its values computed and kept
    result = forecast_templates(tasks.same_different(), setting, samples=(64,), architectures=(TRANSFORMER, MLP))
    output = [note for note in json.loads(result.attrs["config"])["notes"] if "is sampled" in note]
    assert len(output) == 1
    assert output[0].startswith("transformer: ")
    assert result.resolution.sel(architecture=TRANSFORMER) > 1e-6
    assert result.resolution.sel(architecture=MLP) < 1e-12


def test_long_work_says_how_long_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "WORK_PER_SECOND", 1e6)  # as if templates of three symbols took seconds
    monkeypatch.setattr(prediction, "SLOW", 100.0)
    told: list[Progress] = []
    with listening(told.append):
        forecast_templates(tasks.aba_abb(), ForecastSetting(gamma=1.02), samples=(64,))
    assert [event.done for event in told if not event.inner] == [0, 1, 2, 3]
    assert any(re.fullmatch(r"kernel value 1 of \d+, about \d+ s left", event.doing) for event in told)


def test_values_that_take_too_long_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two templates of 30 symbols would take minutes; here the limit is so low that three symbols are too many."""
    exact = forecast_templates(tasks.aba_abb(), samples=(64,), architectures=(TRANSFORMER,))
    monkeypatch.setattr(prediction, "PATIENCE", 1e-3)
    setting = ForecastSetting(gamma=1.03)
    result = forecast_templates(tasks.aba_abb(), setting, samples=(64,), architectures=(TRANSFORMER,))
    assert any("is sampled" in note for note in json.loads(result.attrs["config"])["notes"])
    assert not any("is sampled" in note for note in json.loads(exact.attrs["config"])["notes"])
    assert result.resolution.item() > 100 * exact.resolution.item()


def test_slow_values_leave_out_shared_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prediction, "SLOW", 0.0)
    result = forecast_templates(tasks.aba_abb(), samples=(64,), architectures=(TRANSFORMER, MLP_XX))
    notes = json.loads(result.attrs["config"])["notes"]
    assert any("share are ignored for the transformer:" in note for note in notes)
    assert any("as many tokens as there are samples" in note for note in notes)  # for the MLP


def test_trivial_loss() -> None:
    assert trivial_loss(tasks.same_different()) == pytest.approx(1)
    assert trivial_loss(replace(tasks.same_different(), labels=(3.0, 0.0), weights=(0.25, 0.75))) == pytest.approx(
        27 / 16
    )
    assert trivial_loss(tasks.print_symbol()) == pytest.approx(0.5)
    assert trivial_loss(tasks.copying()) == pytest.approx(1)  # a constant is right: against the guess 0


def test_summary_is_plain_json(same: xr.Dataset) -> None:
    read = json.loads(json_text(summary(same)))
    assert [a["architecture"] for a in read["architectures"]] == same.architecture.values.tolist()
    assert read["architectures"][2]["samples_needed"] is None
    assert [point["n"] for point in read["architectures"][0]["curve"]] == list(SAMPLES)
    assert read["templates"] == ["αα", "αβ"]


def test_figure_names_every_architecture(same: xr.Dataset) -> None:
    figure = forecast_figure(same)
    named = " ".join(trace.name for trace in figure.data if trace.name)
    for name in same.architecture.values.tolist():
        assert name in named
    assert "MLP: never" in named
    assert figure.layout.xaxis.title.text
    assert figure.layout.yaxis.title.text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [({"error": 0.0}, "error must lie"), ({"samples": ()}, "samples must be"), ({"alphabet": 1}, "the alphabet 1")],
)
def test_bad_input_is_refused(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        forecast_templates(tasks.same_different(), **arguments)  # type: ignore[arg-type]


def test_command_prints_and_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, drawn = tmp_path / "forecast.json", tmp_path / "forecast.html"
    with pytest.raises(SystemExit) as ended:
        main(
            [
                "forecast",
                "templates",
                str(EXAMPLES / "same_different.toml"),
                "--json",
                str(file),
                "--figure",
                str(drawn),
            ]
        )
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    for words in ("transformer + aI", "never", "Predicted error on unseen symbols", "look the same to it"):
        assert words in printed
    assert json.loads(file.read_text(encoding="utf-8"))["task"] == "same or different"
    assert "plotly" in drawn.read_text(encoding="utf-8")


PRINT = 'named = "print_symbol"'
CLASH = '[[template]]\nstring = "αβ"\nlabel = 1\n[[template]]\nstring = "βα"\nlabel = 1\n'
ONE_LABEL = CLASH.replace("βα", "αα")
TWO = "label = -1".join(ONE_LABEL.rsplit("label = 1", 1))


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        (CLASH, [], "Templates αβ and βα are not disjoint: the string AB matches both"),
        ("alphabet = 1\n" + TWO, [], "αβ has 2 and the alphabet 1"),
        ("", [], "at least one"),
        ('[[template]]\nstring = "αα"\nlabel = "α"\n', [], "must be a number in regression"),
        (CLASH.replace("βα", "βαα"), [], "equal lengths"),
        (TWO, ["--error", "2"], "error must lie between 0 and 1"),
        (TWO, ["--beta", "-1"], "beta must lie between 0 and 100; got -1."),
        (TWO, ["--gamma", "-1"], "gamma must lie between 0 and 100; got -1."),
        (TWO, ["--activation", "tanhh"], "no activation 'tanhh'"),
        (TWO, ["--figure", "x.pdf"], "must end in .html, .png, .svg"),
        (TWO, ["--report", "x.pdf"], "--report writes HTML; got x.pdf"),
        (TWO, ["--beta", "1e308"], "beta must lie between 0 and 100; got 1e+308."),
        (TWO, ["--gamma", "nan"], "gamma must lie between 0 and 100; got nan."),
        (TWO, ["--error", "nan"], "error must lie between 0 and 1"),
        (TWO, ["--simulate", "-1"], "simulate must lie between 0 and 4000"),
        (ONE_LABEL, ["--train"], "All labels are the same"),
        (ONE_LABEL, [], "Every template has the label 1.0, so a constant guess is already right"),
        (PRINT, ["--train"], "asks for a symbol: leave out --train"),
        ("nonsense", [], "is not a TOML file"),
        ("a = 1", [], "may have name, kind"),
    ],
)
def test_command_refuses_in_one_sentence(
    text: str, options: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "task.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SystemExit) as ended:
        main(["forecast", "templates", str(path), *options])
    outcome = capsys.readouterr()
    assert ended.value.code == 2
    assert words in outcome.err
    assert len(outcome.err.strip().splitlines()) == 1
    assert outcome.out == ""
    assert [p.name for p in tmp_path.iterdir()] == ["task.toml"]
