"""The examination of a device: here of the CPU, where float32 is compared with float64."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from checkpoints.test_command import foretrain
from foretrain.core.errors import InputError
from foretrain.doctor import Examination, checks, examination, examine, reference
from foretrain.doctor.attention_layer import ADDITIVE, BOOLEAN, HEADS, KINDS, PADDED, TOKENS, AttentionLayer, inputs
from foretrain.doctor.block_layers import EXPERTS, HIDDEN, OFF, ResidualBlocks, activations, block_inputs, routing
from foretrain.doctor.checks import DeviceCheck
from foretrain.doctor.cost import Cost, HostReads, Share, Workload
from foretrain.doctor.words import rows, summary

pytestmark = pytest.mark.usefixtures("as_users_run_it")
AREAS = ("attention", "identity", "weights", "activations", "experts", "whole model", "spectra")
TINY = Workload(width=8, layers=1, heads=2, tokens=4, batch=2, every=4, rounds=2)
COST = Cost(0.01, Share(0.004, 0.001), Share(0.0, 0.0005), 12_000_000, 0, 3, None, None)


@pytest.fixture(scope="module")
def examined() -> Examination:
    return examine("cpu", workload=TINY)


def test_the_cpu_agrees_with_float64(examined: Examination) -> None:
    assert [check for check in examined.checks if not check.holds] == []
    assert len(examined.checks) == 12 * len(KINDS) + 8 + 6
    assert examined.holds
    first, second = examined.summary
    assert first.startswith("foretrain agrees with float64 on this CPU (")
    assert f"{len(examined.checks)} of {len(examined.checks)} checks, largest difference" in first
    assert second.startswith("Monitor every 4 steps: ")
    assert examined.notes == []


def test_the_file_is_json_and_does_not_say_whose_machine_it_is(examined: Examination, tmp_path: Path) -> None:
    examined.write(tmp_path / "doctor.json")
    content = json.loads((tmp_path / "doctor.json").read_text())
    assert content["holds"] is True
    assert {check["area"] for check in content["checks"]} == set(AREAS)
    assert content["software"]["torch"] == torch.__version__
    assert content["cost"]["reads_unmeasured"] is None
    assert content["workload"]["width"] == 8
    assert str(Path.home()) not in json.dumps(content)


@pytest.mark.parametrize("kind", KINDS)
def test_the_logits_are_those_that_the_layer_uses(kind: str) -> None:
    """Attention computed from them, in float64, gives the layer's output."""
    layer, x = AttentionLayer(kind).double(), inputs(kind).double()
    logits, allowed = layer.logits(x)
    values = layer.queries_keys_values(x)[2].repeat_interleave(HEADS // layer.key_heads, dim=1)
    mixed = (logits.masked_fill(~allowed, -torch.inf).softmax(-1) @ values).transpose(1, 2).flatten(2)
    output = layer.attention.out_proj if hasattr(layer, "attention") else layer.get_submodule("o_proj")
    torch.testing.assert_close(output(mixed), layer(x))


def test_what_blocks_show_by_definition() -> None:
    """A quarter of the units is switched off, and each token goes to two of four experts."""
    model, x = ResidualBlocks().double(), block_inputs().double()
    assert activations(model, x)["dead_units"] == [OFF / HIDDEN] * 2
    loads = routing(model, x)
    assert sum(loads["load"][:EXPERTS]) == pytest.approx(1)
    assert loads["busiest"] == [EXPERTS * max(loads["load"][:EXPERTS]), EXPERTS * max(loads["load"][EXPERTS:])]
    for block in model.of_kind():
        torch.nn.init.zeros_(block.mixture.router.weight)
        torch.nn.init.zeros_(block.mixture.router.bias)
    assert routing(model, x)["router_entropy"] == pytest.approx([1.0, 1.0])


def test_padded_queries_do_not_count() -> None:
    layer, x = AttentionLayer(BOOLEAN).double(), inputs(BOOLEAN).double()
    logits, allowed = layer.logits(x)
    assert not allowed[-1, :, -PADDED:, -PADDED:].any()
    louder = logits.clone()
    louder[-1, :, -PADDED:] *= 100
    assert reference.attention(louder, allowed) == reference.attention(logits, allowed)


def test_the_definition_of_entropy() -> None:
    """Equal logits: a query that sees k tokens has ln k."""
    allowed = torch.ones(1, 1, TOKENS, TOKENS, dtype=torch.bool).tril()
    measured = reference.attention(torch.zeros(1, 1, TOKENS, TOKENS).double(), allowed)
    expected = sum(math.log(k) for k in range(1, TOKENS + 1)) / TOKENS
    assert measured["entropy"] == pytest.approx([expected])
    assert measured["relative_entropy"] == pytest.approx([1.0])
    assert measured["first_token"] == pytest.approx([sum(1 / k for k in range(1, TOKENS + 1)) / TOKENS])


def test_a_wrong_kernel_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A layer whose keys are a little off on the device."""
    sound = checks.AttentionLayer

    def spoiled(kind: str) -> AttentionLayer:
        layer = sound(kind)
        plain = layer.queries_keys_values

        def wrong(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            q, k, v = plain(x)
            return q, k if x.dtype is torch.float64 else 1.01 * k, v

        layer.queries_keys_values = wrong  # type: ignore[assignment, method-assign]
        return layer

    monkeypatch.setattr(checks, "AttentionLayer", spoiled)
    results = list(checks._of_kind(ADDITIVE)(torch.device("cpu")))
    wrong = {check.what.partition(": ")[2] for check in results if not check.holds}
    assert {"entropy", "largest_logit", "gradient_norm"} <= wrong
    assert {"query_key", "value_output"} & wrong == set()


def test_an_operation_that_a_device_lacks_is_a_reason_and_not_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking(*_: object) -> None:
        raise NotImplementedError("aten::_linalg_svd is absent\nand more")

    monkeypatch.setattr(checks, "stable_rank", lacking)
    results = {check.what: check for check in checks._spectra(torch.device("cpu"))}
    failed = results["stable rank of a large matrix"]
    assert (failed.holds, failed.reason) == (False, "NotImplementedError: aten::_linalg_svd is absent")
    assert results["effective rank"].holds
    monkeypatch.setattr(checks, "_recorded", lacking)
    assert all("_linalg_svd" in check.reason for check in checks._of_kind(ADDITIVE)(torch.device("cpu")))


def test_words() -> None:
    good = DeviceCheck("attention", "fused, causal: entropy", 2e-7, 1e-4)
    software = {"torch": "2.13", "CUDA": "13.0"}
    first, second = summary("cuda", "NVIDIA H100", software, [good], COST, 50)
    assert first == (
        "foretrain agrees with the CPU on this NVIDIA H100 (torch 2.13, CUDA 13.0): 1 of 1 checks, largest difference "
        "2e-07."
    )
    assert second == (
        "Monitor every 50 steps: 0.4 % slower (± 0.1), 12 MB more. A step that is not measured: less than 0.1 % "
        "slower, 0 host reads; one that is: 3."
    )
    off, absent = replace(good, difference=0.5), replace(good, difference=math.nan, reason="it was not recorded")
    assert "1 of 2 checks" in summary("cuda", "H100", software, [good, off], COST, 50)[0]
    assert summary("cuda", "H100", software, [good, off, absent], COST, 50)[0].endswith(
        "The worst is attention, fused, causal: entropy: it was not recorded."
    )
    assert rows([good, off, absent]) == [("attention, fused, causal", "1 of 3", "–", "1e-04")]


@pytest.mark.parametrize(
    ("device", "says"),
    [
        ("cuda", "There is no device cuda that torch"),
        ("meta", "holds no numbers"),
        ("gpu7", "no kind of device"),
    ],
)
def test_a_device_that_is_absent(device: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if device == "cuda" and torch.cuda.is_available():
        pytest.skip("this machine has it")
    with pytest.raises(InputError, match=says):
        examine(device)
    said = foretrain(capsys, "doctor", "--device", device, "--json", tmp_path / "doctor.json")
    assert (said.code, said.out, said.err.count("\n")) == (2, "", 1)
    assert not (tmp_path / "doctor.json").exists()


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examination, "ON_CPU", TINY)
    file = tmp_path / "doctor.json"
    said = foretrain(capsys, "doctor", "--device", "cpu", "--json", file)
    assert said.code == 0, said.err
    assert said.out.startswith("foretrain agrees with float64 on this CPU")
    assert f"Written to {file}; send it to us" in " ".join(said.out.split())
    assert "attention, hand-written softmax" in said.out
    assert json.loads(file.read_text())["holds"] is True

    def off(*_: Any) -> list[DeviceCheck]:
        return [DeviceCheck("spectra", "effective rank", 0.5, 1e-4)]

    monkeypatch.setattr(examination, "checks", off)
    said = foretrain(capsys, "doctor", "--device", "cpu", "--json", file)
    assert said.code == 1
    assert "disagrees with float64" in said.out
    assert "  spectra, effective rank: it is off by 5.0e-01, and 1e-04 is allowed" in said.out


@pytest.mark.parametrize("sizes", [{"width": 0}, {"rounds": 1}, {"heads": 1.5}])
def test_impossible_workloads(sizes: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"{next(iter(sizes))} must be a whole number"):
        Workload(**sizes)


def test_reads_of_the_cpu_itself_are_none() -> None:
    with HostReads() as reads:
        torch.ones(3).sum().item()
    assert reads.names == []
