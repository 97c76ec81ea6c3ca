"""What a study of neurons says: the answer in a sentence, a table by layer, and everything as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from foretrain.language.neurons import LayerStudy, NeuronStudy
from foretrain.language.shown_neurons import Piece, ShownNeuron

TABLE_HEAD = (
    "layer", "neurons", "two or more patterns", "untrained", "same tokens elsewhere", "one or more patterns",
    "two or more tokens*", "untrained",
)  # fmt: skip
FOOTNOTE = (
    "* Neurons that fire for two or more unrelated groups of tokens, whatever these attend to. Untrained models have "
    "such neurons too, so these alone are no sign of learned patterns."
)
CAVEAT = "More text lets more patterns stand out from chance: these shares are lower bounds for this text."


def answer(study: NeuronStudy, untrained: NeuronStudy | None) -> str:
    """The result in a sentence."""
    numbers = [layer.contexts.layer.index for layer in study.layers]
    where = f"layer {numbers[0]}" if len(numbers) == 1 else f"{len(numbers)} layers"
    share, other = _percent(study.superposed), "" if untrained is None else _percent(untrained.superposed)
    compared = f"; in an untrained model of the same size, {other} do" if other else ""
    return f"Of {study.neurons:,} neurons in {where}, {share} fire for two or more unrelated patterns{compared}."


def layer_rows(study: NeuronStudy, untrained: NeuronStudy | None) -> list[list[str]]:
    """One row per layer, for `TABLE_HEAD`."""
    return [
        [
            str(layer.contexts.layer.index),
            f"{len(layer.groupings):,}",
            _percent(layer.superposed),
            "" if other is None else _percent(other.superposed),
            _percent(layer.superposed_by_chance),
            _percent(layer.with_pattern),
            _percent(layer.grouped),
            "" if other is None else _percent(other.grouped),
        ]
        for layer, other in _side_by_side(study, untrained)
    ]


def as_dict(study: NeuronStudy, untrained: NeuronStudy | None, shown: Sequence[ShownNeuron]) -> dict[str, Any]:
    """Every number, for JSON."""
    return {
        "neurons": study.neurons,
        "windows": len(study.windows),
        "context": study.windows.shape[1],
        "superposed": study.superposed,
        "superposed_untrained": None if untrained is None else untrained.superposed,
        "layers": [
            {
                "layer": layer.contexts.layer.index,
                "module": layer.contexts.layer.down,
                "untrained": None if other is None else _shares(other),
                **_shares(layer),
                "superposed_by_chance": layer.superposed_by_chance,
                "scores": [round(float(score), 4) for score in layer.scores],
                "patterns": [each.count for each in layer.groupings],
            }
            for layer, other in _side_by_side(study, untrained)
        ],
        "examples": [
            {
                "layer": neuron.layer,
                "neuron": neuron.index,
                "score": round(neuron.score, 4),
                "patterns": [
                    {
                        "contexts": pattern.contexts,
                        "label": pattern.label,
                        "examples": [_context(example) for example in pattern.examples],
                    }
                    for pattern in neuron.patterns
                ],
            }
            for neuron in shown
        ],
    }


def _shares(layer: LayerStudy) -> dict[str, float]:
    return {
        "superposed": layer.superposed, "with_pattern": layer.with_pattern, "unrelated_tokens": layer.grouped
    }  # fmt: skip


def _context(pieces: Sequence[Piece]) -> dict[str, Any]:
    attended = sorted((piece for piece in pieces if piece.weight > 0), key=lambda piece: -piece.weight)
    return {
        "text": "".join(piece.text for piece in pieces),
        "fires": next(piece.text for piece in pieces if piece.fires),
        "attends_to": [piece.text for piece in attended],
    }


def _side_by_side(study: NeuronStudy, untrained: NeuronStudy | None) -> list[tuple[LayerStudy, LayerStudy | None]]:
    others = [None] * len(study.layers) if untrained is None else untrained.layers
    return list(zip(study.layers, others, strict=True))


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %" if 0 < share < 0.01 else f"{100 * share:.0f} %"
