"""What makes neurons fire: reading any decoder, against brute force and eager attention; patterns, on planted ones."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from checkpoints.stories import stories
from foretrain.cli.neurons import neurons, page
from foretrain.core.errors import InputError
from foretrain.language.attention_weights import attention_weights_of
from foretrain.language.decoders import open_decoder
from foretrain.language.made_up import made_up_text
from foretrain.language.mlp_layers import chosen_layers, mlp_layers
from foretrain.language.models import build, logits_of
from foretrain.language.neuron_contexts import FIRST, TopContexts, read_contexts, to_others
from foretrain.language.neurons import cut_windows, study_neurons
from foretrain.language.patterns import Grouping, Positions, grouping, scale_of
from foretrain.language.setting import LanguageSetting
from foretrain.language.shown_neurons import shown_neurons
from foretrain.language.state import TrainingFolder
from foretrain.language.text import encode, word_tokenizer
from foretrain.language.token_vectors import token_vectors
from language.stories_tokenizer import stories_tokenizer
from monitor import models

SMALL = LanguageSetting(model="post-norm", tokens="words", vocabulary=50, layers=2, width=16, heads=2, hidden=24,
                        context=16, batch=2)  # fmt: skip
TOKENS = torch.randint(1, 50, (3, 12), generator=torch.Generator().manual_seed(1))
ANY_DECODER = {**models.DECODERS, "NanoGPT": models.NanoGPT, "encoder": lambda: build(SMALL, 50)}


# ---- reading --------------------------------------------------------------------------------------------------------


def test_the_best_contexts_are_those_of_brute_force() -> None:
    activations = torch.randn(23, 9, 5, generator=torch.Generator().manual_seed(0))
    top = TopContexts.empty(5, 6)
    for first in range(0, 23, 4):
        top.add(activations[first : first + 4], first)
    for neuron in range(5):
        best = [
            (
                float(activations[window, FIRST:, neuron].max()),
                window,
                int(activations[window, FIRST:, neuron].argmax()),
            )
            for window in range(23)
        ]
        expected = sorted(best, reverse=True)[:6]
        assert top.values[neuron].tolist() == [value for value, _, _ in expected]
        assert top.windows[neuron].tolist() == [window for _, window, _ in expected]
        assert top.positions[neuron].tolist() == [position + FIRST for _, _, position in expected]


@pytest.mark.parametrize("name", ANY_DECODER)
def test_neurons_are_found_in_every_family(name: str) -> None:
    torch.manual_seed(0)
    model = ANY_DECODER[name]().eval()
    layers = mlp_layers(model)
    assert [layer.index for layer in layers] == [0, 1]
    vectors = torch.randn(50, 4)
    read = read_contexts(model, TOKENS, layers, vectors, contexts=2)
    hidden = {"GPT-2": 128, "encoder": 24}.get(name, 64)
    assert [layer.values.shape for layer in read] == [(hidden, 2)] * 2
    assert not model.training


def test_a_neuron_is_what_the_nonlinearity_gives() -> None:
    model = models.DECODERS["GPT-2"]().eval()
    outputs = []
    handle = model.transformer.h[1].mlp.act.register_forward_hook(lambda *call: outputs.append(call[2]))
    (read,) = read_contexts(model, TOKENS, chosen_layers(mlp_layers(model), [1]), torch.randn(50, 4), contexts=1)
    handle.remove()
    largest = outputs[0][:, FIRST:].flatten(0, 1).max(0).values
    np.testing.assert_allclose(read.values[:, 0], largest.numpy(), atol=1e-6)


@pytest.mark.parametrize("name", [name for name in models.DECODERS if name != "Gemma"])
def test_attention_weights_are_those_of_eager_attention(name: str) -> None:
    torch.manual_seed(0)
    model: Any = models.DECODERS[name]().eval()
    model.set_attn_implementation("sdpa")
    with torch.no_grad():
        plain = logits_of(model, TOKENS)
        with attention_weights_of(model) as weights:
            read = logits_of(model, TOKENS)
        model.set_attn_implementation("eager")
        eager = model(TOKENS, output_attentions=True).attentions
    assert torch.equal(plain, read)
    assert len(weights) == len(eager)
    for mean, heads in zip(weights.values(), eager, strict=True):
        torch.testing.assert_close(mean, heads.mean(1), atol=1e-5, rtol=1e-4)


def test_what_is_attended_to_leaves_out_the_token_itself_and_the_first() -> None:
    weights = torch.tensor([[[1.0, 0, 0, 0], [0.5, 0.5, 0, 0], [0.2, 0.5, 0.3, 0], [0.1, 0.3, 0.1, 0.5]]])
    expected = [[0.0, 0, 0, 0], [0, 0, 0, 0], [0, 1, 0, 0], [0, 0.75, 0.25, 0]]
    torch.testing.assert_close(to_others(weights)[0], torch.tensor(expected))


def test_contexts_keep_what_the_layer_attends_to() -> None:
    model = build(SMALL, 50).eval()
    vectors = torch.randn(50, 4)
    read = read_contexts(model, TOKENS, mlp_layers(model), vectors, contexts=2)
    with torch.no_grad(), attention_weights_of(model) as weights:
        logits_of(model, TOKENS)
    others = to_others(weights["layers.1.attention"])
    np.testing.assert_allclose(read[1].mixtures, (others @ vectors[TOKENS]).numpy(), atol=2e-3)  # half precision
    np.testing.assert_array_equal(read[1].attended[:, -1, 0], others[:, -1].argmax(-1).numpy())


def test_tokens_in_similar_surroundings_have_similar_vectors() -> None:
    random = np.random.default_rng(0)
    rows = random.integers(2, 80, (400, 20))
    rows[:, 9], rows[:, 10], rows[:, 11] = 80, random.integers(0, 2, 400), 81  # 0 and 1 stand in the same place
    vectors = token_vectors(rows, 90)
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    assert unit[0] @ unit[1] > (unit[2:80] @ unit[0]).max() + 0.2
    assert not vectors[85].any()


# ---- patterns -------------------------------------------------------------------------------------------------------


def planted(patterns: int, noise: int, *, attention: bool = True, members: int = 12) -> Grouping:
    """The grouping of a neuron that fires for so many patterns, each a token and a direction that it attends to, and
    at some random positions; without `attention`, its tokens attend to anything."""
    random = np.random.default_rng([patterns, noise, attention])
    directions = random.standard_normal((3, 64))
    tokens = random.integers(0, 60, 4000)
    attended = random.standard_normal((4000, 64))
    chosen = [random.choice(np.arange(200, 4000), noise, replace=False)]
    for number in range(patterns):
        places = np.arange(members) + members * number
        tokens[places] = number
        if attention:
            attended[places] = directions[number] + 0.5 * random.standard_normal((members, 64))
        chosen.append(places)
    positions = Positions.of(tokens, np.eye(60, 64)[tokens], attended)
    return grouping(positions, np.concatenate(chosen), scale_of(positions, 36, random), random)


@pytest.mark.parametrize("noise", [0, 10])
@pytest.mark.parametrize("patterns", [1, 2, 3])
def test_planted_patterns_are_found(patterns: int, noise: int) -> None:
    found = planted(patterns, noise)
    assert found.count == patterns
    assert found.superposed == (patterns > 1)
    planted_ones = found.patterns[noise:].reshape(patterns, -1)
    assert all(len(set(row)) == 1 for row in planted_ones.tolist())
    assert len(set(planted_ones[:, 0].tolist())) == patterns
    assert (found.patterns[:noise] >= 0).mean() < 0.3 if noise else True
    share = 12 / (12 * patterns + noise)
    assert found.score == pytest.approx(share**2 * patterns * (patterns - 1), abs=0.05)


def test_unrelated_tokens_that_attend_to_anything_are_no_patterns() -> None:
    found = planted(2, 10, attention=False)
    assert found.groups.max() + 1 == 2
    assert found.count == 0
    assert found.score == 0.0


def test_random_positions_have_no_patterns() -> None:
    assert [planted(0, 36 + extra).count for extra in range(4)] == [0] * 4


def test_a_study_repeats_itself_and_says_what_chance_gives() -> None:
    tokenizer = word_tokenizer(text := made_up_text(3000), 50)
    windows = cut_windows(encode(tokenizer, text), 16, 128)
    model = build(SMALL, 50)
    first, second = (study_neurons(model, windows) for _ in range(2))
    assert model.training
    assert first.neurons == 48
    for one, other in zip(first.layers, second.layers, strict=True):
        np.testing.assert_array_equal(one.scores, other.scores)
        assert one.superposed_by_chance < 0.05


# ---- what people see ------------------------------------------------------------------------------------------------


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A training's folder with one checkpoint."""
    tokenizer = word_tokenizer(made_up_text(3000), 50)
    home = TrainingFolder(tmp_path / "training")
    home.begin(SMALL, "", tokenizer.to_str())
    home.save_checkpoint(0, build(SMALL, tokenizer.get_vocab_size()), SMALL)
    return home.path


@pytest.fixture
def text(tmp_path: Path) -> Path:
    file = tmp_path / "text.txt"
    file.write_text(made_up_text(3000), encoding="utf-8")
    return file


def test_a_training_of_our_own_is_read(checkpoint: Path, text: Path, tmp_path: Path, capsys: Any) -> None:
    neurons(str(checkpoint), text, report=tmp_path / "page.html")
    shown = capsys.readouterr().out
    assert shown.startswith("Of 48 neurons in 2 layers, ")
    assert "in an untrained model of the same size" in shown.split("\n")[0]
    assert "Of 48 neurons" in (tmp_path / "page.html").read_text(encoding="utf-8")
    neurons(str(checkpoint), text, layers="1", untrained=False, json_out=True)
    content = json.loads(capsys.readouterr().out)
    assert [layer["layer"] for layer in content["layers"]] == [1]
    assert len(content["layers"][0]["scores"]) == 24


def test_bad_input_is_refused_in_a_sentence(checkpoint: Path, text: Path, tmp_path: Path) -> None:
    short, empty = tmp_path / "short.txt", tmp_path / "empty"
    short.write_text("a few words")
    empty.mkdir()
    for arguments, words in (
        ((str(checkpoint), short), "give more text or a smaller context"),
        ((str(empty), text), "is not a model"),
        ((str(tmp_path / "nowhere"), text), "There is no folder"),
        ((str(checkpoint), tmp_path / "nothing.txt"), "cannot be read"),
        ((str(checkpoint), text, "7"), "There is no layer 7"),
        ((str(checkpoint), text, "one"), "--layers takes numbers"),
        ((str(checkpoint), text, None, 99), "--context must be from 8 to 16"),
    ):
        with pytest.raises(InputError, match=words):
            neurons(*arguments)
    (checkpoint / "checkpoints" / "step-0" / "tokenizer.json").unlink()
    with pytest.raises(InputError, match=r"has no tokenizer\.json"):
        neurons(str(checkpoint), text)
    models.DECODERS["GPT-2"]().save_pretrained(empty)
    with pytest.raises(InputError, match="There is no tokenizer in"):
        neurons(str(empty), text)
    with pytest.raises(InputError, match="No MLP neurons were found in Sequential"):
        mlp_layers(nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 5)))


# ---- stories260K, which was really pretrained ------------------------------------------------------------------------


@pytest.mark.slow
def test_stories260k_has_patterns_that_an_untrained_model_has_not(data_dir: Path, tmp_path: Path) -> None:
    folder = tmp_path / "stories"
    stories(data_dir).save_pretrained(folder)
    stories_tokenizer(data_dir).save_pretrained(folder)
    decoder = open_decoder(str(folder))
    file = data_dir / "gutenberg" / "the-adventures-of-sherlock-holmes_1661.txt.gz"
    book = gzip.decompress(file.read_bytes()).decode("utf-8")[2_000:60_000]
    windows = cut_windows(decoder.encode(book), 48, 480)
    trained, untrained = (study_neurons(model, windows, layers=[2]) for model in (decoder.model, decoder.untrained()))
    assert trained.superposed > 0.15
    assert untrained.superposed < 0.05
    assert trained.layers[0].superposed_by_chance < 0.03
    pieces = {token: f"{piece}<script>" for token, piece in decoder.pieces(windows.ravel().tolist()).items()}
    shown = shown_neurons(trained, pieces, most=3)
    assert len(shown) == 3
    assert all(len(neuron.patterns) >= 2 for neuron in shown)
    written = page("<b>stories</b>", trained, untrained, shown)
    assert "<script>" not in written
    assert "&lt;script&gt;" in written
    assert "<b>stories" not in written
    assert 'class="fires"' in written
