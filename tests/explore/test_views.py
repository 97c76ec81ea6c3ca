"""Every view without a browser: pure functions from a state to a picture, whose numbers are the library's."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
import threading
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest

import foretrain
from foretrain import papers
from foretrain.core.errors import InputError
from foretrain.core.trajectory import save, trajectory
from foretrain.data.latent_tree import LatentTree
from foretrain.explore import picture
from foretrain.explore.figure_theme import caption, fitted
from foretrain.explore.registry import VIEWS
from foretrain.explore.result_cache import ResultCache
from foretrain.explore.sliders import defaults
from foretrain.explore.view import Cell, Picture, Places
from foretrain.explore.views.corpus import rows_of, sample_reviews
from foretrain.explore.views.finetune import made_up_pass
from foretrain.explore.views.ledger import _changed
from foretrain.explore.views.runs import place_of, run_names
from foretrain.explore.views.scan_snap import BATCH, probabilities
from foretrain.explore.views.templates import read_templates
from foretrain.papers.joma import theory as joma
from foretrain.papers.scan_snap import theory
from foretrain.show.plotting import PALETTE


def first_state(path: str, places: Places | None = None) -> dict[str, Any]:
    return defaults(VIEWS[path].controls(places or Places()))


@cache
def first_picture(path: str, places: Places) -> Picture:
    return VIEWS[path].picture(first_state(path, places), places)


def drawn(shown: Picture) -> dict[str, go.Figure]:
    return {**shown.figures, **shown.slow_figures}


def cells(shown: Picture) -> list[list[str]]:
    rows = [row for table in shown.tables for row in table.rows]
    return [[cell.text if isinstance(cell, Cell) else cell for cell in row] for row in rows]


@pytest.mark.parametrize("path", VIEWS)
def test_a_view_answers_at_once_and_then_in_full(path: str, places: Places) -> None:
    view, state = VIEWS[path], first_state(path, places)
    first = view.draw(state, None, places)
    whole = first_picture(path, places)
    assert first.answer
    assert whole.answer
    assert not whole.waiting
    assert not whole.problem
    assert view.work is None or first.waiting
    assert not first.slow_figures
    assert whole.figures or whole.slow_figures or path == "ledger"


@pytest.mark.parametrize("path", VIEWS)
def test_formulas_name_claims_that_exist_and_can_be_typeset(path: str, places: Places) -> None:
    from foretrain.show.formulas import typeset

    for formula in first_picture(path, places).formulas:
        papers.claim(formula.claim)
        assert str(typeset(formula.latex)).startswith("<math")


@pytest.mark.parametrize("path", VIEWS)
def test_python_draws_the_same_picture(path: str, places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[go.Figure] = []
    monkeypatch.setattr(go.Figure, "show", lambda figure: shown.append(figure))
    whole = first_picture(path, places)
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(whole.python, {})
    assert whole.answer in said.getvalue()
    assert [figure.to_json() for figure in shown] == [figure.to_json() for figure in drawn(whole).values()]


def test_scan_snap_shows_the_numbers_of_the_theory_and_of_training() -> None:
    changed = {"eta_y": 0.3, "eta_z": 0.6, "classes": 3, "vocab": 80, "until": 300.0}
    shown = picture("scan-snap", **changed)
    state = {**first_state("scan-snap"), **changed}
    P = probabilities(state)
    z = theory.predicted_logits(P, eta_y=0.3, eta_z=0.6, times=[300.0])[-1]
    table = dict(cells(shown))
    assert table["flow of training"] == f"{np.exp(z[1]):.4g}"
    corrected = theory.theorem4_growth_factor([300.0], probabilities=P, eta_y=0.3, eta_z=0.6)
    assert table["Theorem 4, corrected"] == f"{np.sqrt(corrected[0]):.4g}"
    assert abs(float(table["simulated training"]) - np.exp(z[1])) < 0.02
    found = theory.applies(P, eta_y=0.3, eta_z=0.6, length=state["length"], batch=BATCH)
    lights = {light.name: light.word for light in shown.lights}
    assert lights == {row["name"]: row["verdict"] for row in found.rows()}


def test_the_snap_is_named_only_where_it_means_something() -> None:
    view, places = VIEWS["scan-snap"], Places()
    meant = {**first_state("scan-snap"), "eta_y": 0.9, "eta_z": 0.02, "vocab": 120, "profile": (5, 0, 30, 30, 30)}
    for state, word in ((meant, "meaningful"), (first_state("scan-snap"), "not meaningful")):
        first, whole = view.draw(state, None, places), view.picture(state, places)
        assert {light.name: light.word for light in whole.lights}["snap_time"] == word
        marks = [each.text for each in whole.figures["growth"].layout.annotations]
        for said in (first.answer, whole.answer):
            assert ("snaps near step" in said) == (word == "meaningful")
            assert said[0].isupper() or said[0].isdigit()
        assert marks == (["snap"] if word == "meaningful" else [])


def test_sliders_are_about_one_value() -> None:
    for path, view in VIEWS.items():
        for control in view.controls(Places()):
            if control.kind in ("number", "whole"):
                assert "each once" not in control.says, f"{path}: {control.name}"


def test_scan_snap_has_a_frame_per_step_and_attention_sums_to_one() -> None:
    shown = picture("scan-snap", until=100.0)
    frames = shown.slow_figures["attention"].frames
    assert [frame.name for frame in frames][::30] == ["0", "100"]
    for frame in frames:
        assert sum(frame.data[0].y) == pytest.approx(1)


def test_theorem_4_is_left_out_where_it_says_nothing() -> None:
    two_common = picture("scan-snap", profile=(20, 20, 30, 20, 10))
    assert not any("Theorem 4" in row[0] for row in cells(two_common))


def test_scan_snap_refuses_what_cannot_be_trained() -> None:
    with pytest.raises(InputError, match="distinct token"):
        picture("scan-snap", profile=(50, 50, 0, 0, 0))
    with pytest.raises(InputError, match="need more than 20"):
        picture("scan-snap", classes=12, vocab=20)
    with pytest.raises(InputError, match="eta_y must lie between"):
        picture("scan-snap", eta_y=100)


def test_templates_agree_with_the_forecast() -> None:
    from foretrain.data.template_files import task_of
    from foretrain.forecast import templates

    shown = picture("templates", templates="αα = 1\nαβ = -1", error=0.2)
    forecast = templates(task_of(read_templates("αα = 1\nαβ = -1")).task, error=0.2)
    rows = {row[0]: row for row in cells(shown) if len(row) == 4}
    assert {name: row[2] for name, row in rows.items()} == forecast.table["in words"].to_dict()
    assert rows["MLP"][2] == "never"


def test_capital_letters_are_wildcards_and_labels_may_be_symbols() -> None:
    assert read_templates("ABA=1\nABB = -2")["template"] == [
        {"string": "αβα", "label": 1.0},
        {"string": "αββ", "label": -2.0},
    ]
    assert read_templates("AB = B")["kind"] == "next-token"


@pytest.mark.parametrize("text", ["", "αβ", "= 1", "αβγδεζηθι = 1", "\n".join(f"α{k} = 1" for k in range(13))])
def test_templates_that_cannot_be_read_are_refused(text: str) -> None:
    with pytest.raises(InputError):
        read_templates(text)


def test_the_ledger_filters_and_shows_verdict_and_figure(places: Places) -> None:
    everything = picture("ledger", runs=places.runs, paper="all")
    assert f"There are {len(papers.claims())} claims" in everything.answer
    failing = picture("ledger", runs=places.runs, verdict="fails", claim="scan_snap/theorem4")
    assert [row[0] for row in cells(failing)] == ["scan_snap/theorem4"]
    assert failing.slow_figures
    assert "fails: " in failing.answer
    assert "1 fail" in failing.sentences[0]
    assert papers.claim("scan_snap/theorem4").says in failing.passages[0].paragraphs
    holding = picture("ledger", runs=places.runs, verdict="holds")
    assert [row[0] for row in cells(holding)] == ["scan_snap/theorem4_corrected"]
    with pytest.raises(InputError, match="There is no claim"):
        picture("ledger", runs=places.runs, claim="scan_snap/theorem44")


def test_figures_are_recoloured_for_the_dark_and_stacked_on_a_phone() -> None:
    figure = picture("scan-snap").figures["growth"]
    light, dark = fitted(figure), fitted(figure, dark=True)
    assert PALETTE[0] in str(light)
    assert PALETTE[0] not in str(dark["data"])
    assert fitted(figure, narrow=True)["layout"]["height"] > figure.layout.height


def analysed(runs: Path, name: str, layers: int) -> None:
    from foretrain.runs.training_log import append_line

    matrices = [f"h.{layer}.{kind}.weight" for layer in range(layers) for kind in ("attn", "mlp")]
    weights = {matrix: {"norm": 1.0 + k, "kurtosis": -0.5, "edge": 1.0} for k, matrix in enumerate(matrices)}
    append_line(runs / f"{name}.jsonl", {"checkpoint": name, "step": 0, "weights": weights})


def test_an_analysis_of_one_model_has_a_bar_for_each_matrix(tmp_path: Path) -> None:
    analysed(tmp_path, "deep", 20)
    analysed(tmp_path, "tiny", 2)
    for name, layers in (("tiny", 2), ("deep", 20)):
        shown = picture("runs", runs=tmp_path, run=f"{name}.jsonl", quantity="norm")
        (bars,) = shown.slow_figures["quantity"].data
        assert (bars.type, list(bars.y[:2]), list(bars.x[:2])) == ("bar", ["0.attn", "0.mlp"], [1.0, 2.0])
        assert len(bars.y) == 2 * layers
        assert shown.slow_figures["quantity"].layout.yaxis.type == "category"
        assert shown.answer == (
            f"{name}.jsonl: norm lies between 1 (matrix 0.attn) and {2 * layers} (matrix {layers - 1}.mlp)."
        )
        assert shown.tables[1].rows[0] == ("h.0.attn.weight", "1")
        assert all(row[1] for row in shown.tables[0].rows)
    both = picture("runs", runs=tmp_path, run="tiny.jsonl", other="deep.jsonl", quantity="norm")
    assert [bars.name for bars in both.slow_figures["quantity"].data] == ["this run, norm", "the other, norm"]
    assert both.tables[1].head == ("matrix", "this run", "the other")
    assert both.tables[1].rows[-1] == ("h.19.mlp.weight", "", "40")
    assert picture("runs", runs=tmp_path, run="tiny.jsonl", quantity="loss").answer.endswith("loss was not measured.")


def test_unknown_views_and_controls_are_refused() -> None:
    with pytest.raises(InputError, match="There is no view"):
        picture("scan")
    with pytest.raises(InputError, match="There is no control of scan-snap"):
        picture("scan-snap", eta=1)


def test_the_caption_is_the_title_in_plain_text() -> None:
    assert (
        caption(go.Figure(layout={"title": {"text": "C<sub>4</sub> &lt; 0<br>by <i>angle</i>"}}))
        == "C_{4} < 0 by angle"
    )
    assert fitted(go.Figure(layout={"title": {"text": "A"}}))["layout"]["title"]["text"] == ""


def test_joma_shows_the_dip_and_the_rebound_by_closed_form_and_by_steps() -> None:
    shown = picture("joma", until=3.0)
    assert "sparse and then spreads again" in shown.answer
    (closed, *first), (steps, *second) = shown.tables[0].rows
    assert (closed, steps) == ("closed form", "step by step")
    assert np.allclose([float(x) for x in first], [float(x) for x in second], atol=0.06)
    mu = np.array(first_state("joma")["targets"])
    v = mu * -np.expm1(-joma.log_distance(mu, np.linspace(0, 3, 121)[:, None]))
    share = np.exp(v**2 / 2) / np.exp(v**2 / 2).sum(1, keepdims=True)
    entropies = -(share * np.log(share)).sum(1)
    assert shown.figures["entropy"].data[0].y == pytest.approx(entropies)


def test_with_a_linear_activation_attention_never_spreads_again() -> None:
    shown = picture("joma", activation="linear")
    assert "never spreads again" in shown.answer
    assert "v blows up" in shown.answer
    softmax = picture("joma", activation="linear", attention="softmax")
    assert [formula.claim for formula in softmax.formulas] == ["joma/theorem2_softmax"]


def test_linear_attention_has_its_own_closed_form() -> None:
    shown = picture("joma", attention="linear attention", until=5.0)
    assert "phase" not in shown.slow_figures  # its paths are not those of eq. 6
    line, marks = (trace for trace in shown.figures["components"].data[:2])
    assert np.interp(marks.x, line.x, line.y) == pytest.approx(np.array(marks.y), abs=0.02)


def test_the_latent_tree_agrees_with_enumeration() -> None:
    shown = picture("latent-tree", depth=3, rho=0.6, p_zero=0.6)
    tree = LatentTree.regular(3, 2, 0.6, p_zero=0.6)
    states, probability = tree.enumerate_states()
    first, second = tree.tokens[:2]
    together = probability[0, states[:, first] & states[:, second]].sum() / probability[0, states[:, first]].sum()
    row = {row[0]: row for row in shown.tables[0].rows}["1"]
    assert row[1] == row[2] == f"{together:.4f}"
    assert row[3] != row[1]
    with pytest.raises(InputError, match="at most 64"):
        picture("latent-tree", depth=6, branching=4)


@pytest.mark.parametrize(("rho", "depth", "branching"), [(0.8, 4, 2), (1.0, 4, 2), (0.5, 2, 3)])
def test_the_far_end_of_the_latent_tree_is_that_of_its_own_python(rho: float, depth: int, branching: int) -> None:
    shown = picture("latent-tree", rho=rho, depth=depth, branching=branching)
    tree = LatentTree.regular(depth, branching, rho, p_zero=0.7)
    beside = tree.cooccurrence(tree.tokens[:1])[0, tree.tokens]
    assert f"{beside[-1]:.0%} one from the far end" in shown.answer
    assert f"{beside[1]:.0%} have a given token with the same parent" in shown.answer
    last = shown.tables[0].rows[-1]
    assert last == (str(depth), f"{beside[-1]:.4f}", "–", "–", "–")
    assert shown.figures["law"].data[-1].y[-1] == pytest.approx(beside[-1])
    assert "only one token" in picture("latent-tree", branching=1).answer


def test_pasted_texts_are_forecast_like_any_corpus() -> None:
    from foretrain.forecast import corpus

    rows = sample_reviews()[:60]
    shown = picture("corpus", source="pasted texts", texts="\n".join(f"{label}\t{text}" for label, text in rows))
    assert shown.answer == corpus([(text, label) for label, text in rows]).summary
    assert "Marlowe" in first_picture("corpus", Places()).answer.title()


@pytest.mark.parametrize(
    ("texts", "rows"),
    [
        ("a\tone, two\nb\tthree", [("a", "one, two"), ("b", "three")]),
        ("a | one", [("a", "one")]),
        ('text,label\n"one, two",a', [("a", "one, two")]),
        ("a,one,two", [("a", "one,two")]),
    ],
)
def test_rows_are_read_in_every_way_they_are_pasted(texts: str, rows: list[tuple[str, str]]) -> None:
    assert rows_of({"source": "pasted texts", "texts": texts}) == rows


@pytest.mark.parametrize("texts", ["", "only text", "label,text\na", "a,b\n" * 3000])
def test_rows_that_cannot_be_read_are_refused(texts: str) -> None:
    with pytest.raises(InputError):
        rows_of({"source": "pasted texts", "texts": texts})


def test_runs_are_found_inside_the_folder_only(places: Places) -> None:
    assert run_names(places.runs) == ["one.jsonl", "two.jsonl", "kept/small.nc"]
    for name in ("../secret.jsonl", "/etc/passwd", "out.jsonl", "nothing"):
        with pytest.raises(InputError, match="There is no run"):
            place_of(places.runs, name)
        with pytest.raises(InputError, match="run is one of"):
            picture("runs", runs=places.runs, run=name)


def test_a_training_is_compared_with_another(places: Places) -> None:
    shown = picture("runs", runs=places.runs, run="one.jsonl", other="two.jsonl")
    assert "ends at a loss of 1.05, the other at 1.525" in shown.answer
    names = [trace.name for trace in shown.slow_figures["quantity"].data]
    assert "&lt;b&gt;" in names[0]
    end = 1 - np.mean([190 / 400, 190 / 800])
    assert shown.tables[1].rows[0][1] == f"{end:.4g}"
    loss = picture("runs", runs=places.runs, run="one.jsonl", quantity="loss")
    assert list(loss.slow_figures["quantity"].data[0].y[:2]) == [2.0, 1.95]
    with pytest.raises(InputError, match="no quantity 'hat'"):
        picture("runs", runs=places.runs, run="one.jsonl", quantity="hat")


def test_a_run_that_grows_is_read_again(places: Places) -> None:
    view = VIEWS["runs"]
    assert view.stamp is not None
    state = {"run": "two.jsonl", "other": "none"}
    before = view.stamp(state, places)
    (places.runs / "two.jsonl").touch()
    assert view.stamp(state, places) != before


def test_a_sweep_that_goes_on_is_read_again(tmp_path: Path) -> None:
    """Its record stays the same while pieces are added; only their marks change."""
    stopped = tmp_path / "stopped"

    def cell(a: float) -> float:
        if a == 2 and not stopped.exists():
            stopped.touch()
            raise KeyboardInterrupt
        return a

    with pytest.raises(KeyboardInterrupt):
        foretrain.sweep(cell, grid={"a": [1.0, 2.0, 3.0]}, piece=1, out=tmp_path / "runs")
    (name,) = run_names(tmp_path / "runs")
    view, state = VIEWS["runs"], {"run": name, "other": "none"}
    assert view.stamp is not None
    before = view.stamp(state, Places(tmp_path / "runs"))
    record = (tmp_path / "runs" / name / "run.json").stat().st_mtime_ns
    marks = sorted((tmp_path / "runs" / name / "sweep.zarr" / "done").rglob("*"))
    assert any(path.is_file() and path.name != "zarr.json" for path in marks)
    os.utime(marks[-1], ns=(record + 10**9, record + 10**9))
    assert view.stamp(state, Places(tmp_path / "runs")) != before


def test_a_verdict_that_was_added_is_read(tmp_path: Path) -> None:
    """Before the check that adds it has come to its end."""
    folder = tmp_path / "check" / "fast" / "scan_snap"
    folder.mkdir(parents=True)
    before = _changed(tmp_path, "fast")
    os.utime(folder, (before + 5, before + 5))
    assert _changed(tmp_path, "fast") > before > 0


def test_only_the_newest_wish_of_a_tab_is_computed() -> None:
    """A slider that has moved on leaves the settings behind that nobody waits for."""
    keeper, begun, go_on = ResultCache(), threading.Event(), threading.Event()
    done: dict[str, bool] = {}

    def slow() -> str:
        begun.set()
        go_on.wait(30)
        return "first"

    def wish(tab: str, key: str, work: Callable[[], str]) -> threading.Thread:
        thread = threading.Thread(target=lambda: done.update({key: keeper.compute(tab, key, work)}))
        thread.start()
        return thread

    threads = [wish("one", "first", slow)]
    assert begun.wait(30)
    for tab, key in (("one", "left"), ("two", "other"), ("one", "newest")):
        last = keeper._newest.get(tab)
        threads.append(wish(tab, key, lambda key=key: key))
        while keeper._newest.get(tab) == last:  # until it has been noted
            time.sleep(0.001)
    go_on.set()
    for thread in threads:
        thread.join(30)
    assert done == {"first": True, "left": False, "other": True, "newest": True}
    assert [keeper.get(key) for key in ("first", "left", "other", "newest")] == ["first", None, "other", "newest"]


def test_an_empty_folder_is_no_error(tmp_path: Any) -> None:
    assert "There is no run" in picture("runs", runs=tmp_path).answer


def test_fine_tuning_answers_for_rate_schedule_batch_and_noise() -> None:
    plain = first_picture("fine-tuning", Places())
    assert "lift accuracy from 79 %" in plain.answer
    slow = picture("fine-tuning", rate=2e-4)
    assert "where a linear probe has it" in slow.answer
    noisy = picture("fine-tuning", noise=0.2)
    assert dict(noisy.tables[1].rows)["wrong labels"] == "36 rows"
    clean, dirty = ({row[0]: row[1] for row in shown.tables[0].rows}["forecast"] for shown in (plain, noisy))
    assert float(dirty.split()[0]) < float(clean.split()[0])


def test_fine_tuning_reads_a_kept_pass(tmp_path: Path) -> None:
    from foretrain.forecast.finetuning.forecast import forecast_with
    from foretrain.forecast.finetuning.kept import load_pass, save_pass

    path = save_pass(made_up_pass(), tmp_path / "pass.nc")
    shown = picture("fine-tuning", kept=path, schedule="cosine")
    kept = load_pass(path)
    expected = forecast_with(kept, dataclasses.replace(kept.setting, schedule="cosine"), orders=2)
    assert shown.answer == expected.summary
    assert f"kept={str(path)!r}" in shown.python
    with pytest.raises(InputError, match="is no kept pass"):
        picture("fine-tuning", kept=save(trajectory({"x": ("time", [1.0])}), tmp_path / "other.nc"))
