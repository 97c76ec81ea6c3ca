"""Models whose tensors have names of their own, and no configuration: everything is measured that needs no heads."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from checkpoints.test_command import foretrain
from foretrain.checkpoints import Comparison, analyze, compare
from foretrain.checkpoints.matrix_names import by_kind, group_of, layer_number
from foretrain.runs.layer_numbers import layer_numbers

pytestmark = pytest.mark.usefixtures("as_users_run_it")
LEFT_OUT = "Identity shares of the heads are left out, because no config.json says how many heads there are; give"


def hand_written(layers: int = 2, width: int = 32, seed: int = 0) -> dict[str, Tensor]:
    """The tensors of a GPT as people write it in an afternoon, trained enough not to look like an initialisation."""
    draw = torch.Generator().manual_seed(seed)

    def matrix(height: int, across: int) -> Tensor:
        spike = torch.outer(torch.randn(height, generator=draw), torch.randn(across, generator=draw))
        return 0.1 * torch.randn(height, across, generator=draw) + 0.05 * spike

    state = {"tok.weight": matrix(50, width), "head.weight": matrix(50, width)}
    for k in range(layers):
        state |= {
            f"blocks.{k}.qkv.weight": matrix(3 * width, width),
            f"blocks.{k}.proj.weight": matrix(width, width),
            f"blocks.{k}.up.weight": matrix(4 * width, width),
            f"blocks.{k}.down.weight": matrix(width, 4 * width),
            f"blocks.{k}.ln.weight": 1 + 0.1 * torch.randn(width, generator=draw),
        }
    return state


RENAMED: dict[str, Callable[[str], str]] = {
    "as written": str,
    "layers with an underscore": lambda name: name.replace("blocks.", "net.layer_"),
    "a list without a word": lambda name: name.replace("blocks.", "encoder."),
    "with a wrapper": lambda name: f"_orig_mod.{name}",
}


@pytest.mark.parametrize("rename", RENAMED.values(), ids=RENAMED)
def test_a_hand_written_model_is_measured(rename: Callable[[str], str], tmp_path: Path) -> None:
    torch.save({rename(name): tensor for name, tensor in hand_written().items()}, tmp_path / "model.pt")
    analysis = analyze(tmp_path / "model.pt", runs=tmp_path / "runs")
    assert analysis.faults == []
    assert analysis.dataset.sizes["matrix"] == 10
    for measure in ("norm", "stable_rank", "effective_rank", "kurtosis", "edge"):
        assert analysis.dataset[measure].notnull().all()
    assert "model.pt: no faults found. It has 0.0278 M parameters. The stable rank of the attention" in analysis.summary
    assert "The stable rank of the MLP matrices (median) is" in analysis.summary
    assert [note.startswith(LEFT_OUT) for note in analysis.notes] == [True]
    analysis.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert LEFT_OUT in page
    assert "layer 1" in page


def test_heads_that_are_given_later_add_the_shares(tmp_path: Path) -> None:
    torch.save(hand_written(), tmp_path / "model.pt")
    without = analyze(tmp_path / "model.pt", runs=tmp_path)
    shares = analyze(tmp_path / "model.pt", heads=4, runs=tmp_path)
    assert "identity_query_key" not in without.dataset
    assert shares.dataset["identity_query_key"].sizes == {"step": 1, "layer": 2, "head": 4}
    assert shares.notes == []
    assert "and 2 attention layers of 4 heads" in shares.summary


def test_a_config_that_appears_later_is_used(tmp_path: Path) -> None:
    """The records of the first analysis, in the same file, say that heads were unknown."""
    save_file(hand_written(), tmp_path / "model.safetensors")
    assert analyze(tmp_path, runs=tmp_path / "runs").notes != []
    (tmp_path / "config.json").write_text(json.dumps({"text_config": {"num_attention_heads": 4}}))
    again = analyze(tmp_path, runs=tmp_path / "runs")
    assert again.notes == []
    assert "identity_query_key" in again.dataset


def test_layers_are_selected_by_number(tmp_path: Path) -> None:
    """Also the eleventh, which text would put before the second; and their names are there, too."""
    torch.save(hand_written(layers=11), tmp_path / "model.pt")
    dataset = analyze(tmp_path / "model.pt", heads=2, runs=tmp_path).dataset
    assert dataset["layer"].values.tolist() == list(range(11))
    assert str(dataset.sel(layer=10)["layer_name"].values) == "blocks.10"
    shares = analyze(tmp_path / "model.pt", heads=2, runs=tmp_path).records[0]["identity"]["blocks.10"]["query_key"]
    assert dataset["identity_query_key"].sel(layer=10, step=0).values.tolist() == shares


@pytest.mark.parametrize(
    ("names", "numbers"),
    [
        (["h.0.attn", "h.1.attn", "h.10.attn"], [0, 1, 10]),
        (["model.layers.4.mixer", "model.layers.12.mixer"], [4, 12]),
        (["h.3.attn"], [3]),
        (["attn"], [0]),
        (["stages.0.blocks.1.attn"], None),
        (["encoder.0.attn", "decoder.0.attn"], None),
        (["h.0.attn", "h.0.cross"], None),
        (["h.0.attn", "h.00.attn"], None),
        (["h.0.attn", "h.1.deeper.attn"], None),
        (["first.attn", "second.attn"], None),
        (["h.٣.attn", "h.1.attn"], None),
        ([], None),
    ],
)
def test_a_number_that_tells_names_apart(names: list[str], numbers: list[int] | None) -> None:
    assert layer_numbers(names) == numbers


@pytest.mark.parametrize(
    ("name", "layer", "group"),
    [
        ("transformer.h.3.attn.c_attn.weight", 3, "attention"),
        ("blocks.0.qkv.weight", 0, "attention"),
        ("net.layer_7.wq.weight", 7, "attention"),
        ("layer12.to_q.weight", 12, "attention"),
        ("encoder.2.k.weight", 2, "attention"),
        ("layers.0.linear1.weight", 0, "MLP"),
        ("stack.1.up.weight", 1, "MLP"),
        ("stack.1.upper.weight", 1, None),
        ("layernorm.weight", None, None),
        ("fc1.weight", None, None),
        ("tok.weight", None, None),
        ("2.weight", None, None),
    ],
)
def test_what_a_name_says(name: str, layer: int | None, group: str | None) -> None:
    assert (layer_number(name), group_of(name)) == (layer, group)


def test_kinds_do_not_depend_on_what_layers_are_called() -> None:
    names = ["net.layer_0.qkv.weight", "net.layer_1.qkv.weight", "net.layer_0.up.weight", "tok.weight"]
    assert by_kind(names) == {"qkv": names[:2], "up": names[2:3]}


def test_faults_of_a_series(tmp_path: Path) -> None:
    states = {step: hand_written() for step in (0, 10, 20, 30)}
    for step, state in states.items():
        moved = {name: tensor * (1 + 0.01 * step) for name, tensor in state.items()}
        torch.save(moved if step != 30 else {n: t * 1.1 for n, t in state.items()}, tmp_path / f"step_{step}.pt")
    analysis = analyze(tmp_path, runs=tmp_path / "runs")
    assert [fault.kind for fault in analysis.faults] == ["identical weights"]
    assert analysis.notes == [analysis.notes[0]]


def test_names_that_say_nothing_have_a_row_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = {f"p{k}": tensor for k, tensor in enumerate(hand_written().values())}
    torch.save(state, tmp_path / "model.pt")
    said = foretrain(capsys, "analyze", tmp_path / "model.pt", "--runs", tmp_path / "runs")
    assert said.code == 0, said.err
    assert said.out.startswith("In ")
    assert "no attention layer was found; only its matrices are measured." in " ".join(said.out.split())
    assert "By matrix" in said.out
    assert "stable rank" in said.out
    assert "p3" in said.out


def test_heads_for_names_that_say_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.save({f"p{k}": t for k, t in enumerate(hand_written().values())}, tmp_path / "model.pt")
    said = foretrain(capsys, "analyze", tmp_path / "model.pt", "--heads", 4, "--runs", tmp_path / "runs")
    assert (said.code, said.out, said.err.count("\n")) == (2, "", 1)
    assert "leave out --text and --heads to measure its matrices alone" in said.err


def test_the_command_says_how_to_have_the_shares(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.save(hand_written(), tmp_path / "model.pt")
    said = foretrain(capsys, "analyze", tmp_path / "model.pt", "--runs", tmp_path / "runs")
    assert said.code == 0, said.err
    assert said.err.count(LEFT_OUT) == 1
    assert "By layer" in said.out


def test_two_hand_written_models(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in (0, 1):
        torch.save(hand_written(seed=seed), tmp_path / f"{seed}.pt")
    files = tmp_path / "0.pt", tmp_path / "1.pt"
    without, given = compare(*files), compare(*files, heads=4)
    assert isinstance(without, Comparison)
    assert isinstance(given, Comparison)
    assert len(without.stable_ranks) == 10
    assert LEFT_OUT in without.summary
    assert (without.identity, given.notes) == ({}, [])
    assert list(given.identity) == ["blocks.0", "blocks.1"]
    assert compare(files[0], files[0]).notes == []  # type: ignore[union-attr]
    assert LEFT_OUT in " ".join(foretrain(capsys, "compare", *files).out.split())
