"""Every model starts in the same way, and offers what its trainer asks for."""

from __future__ import annotations

import pytest
import torch

from foretrain.data import SequenceClasses
from foretrain.dynamics.optimizers import SGD, Adagrad, Adam
from foretrain.dynamics.protocols import GradientModel, Model, Optimizer, OutputModel, PreparesSteps, Task
from foretrain.models import Bilinear
from foretrain.models.causal_transformer import CausalTransformer
from foretrain.models.classifiers import ARCHITECTURES, Classifier
from foretrain.models.joint import Joint
from foretrain.models.sequence_baselines import KINDS, BaselineRuns
from foretrain.models.stacked.transformer_runs import LastLayerRuns, TransformerRuns
from foretrain.models.transformer import TransformerShape

TASK = SequenceClasses.syn_medium(2, length=20)
SHAPE = TransformerShape(tokens=20, length=3, heads=2, embedding=8, head=4, mlp=8)
GRADIENT_MODELS = {
    "bilinear": Bilinear(TASK, start="uniform"),
    "joint": Joint(nodes=3, contexts=5),
    "causal transformer": CausalTransformer(vocab=7, classes=2, layers=1, width=8, hidden=8),
}
OUTPUT_MODELS = {
    "transformer": TransformerRuns(SHAPE),
    "last layer": LastLayerRuns(SHAPE),
    **{kind: BaselineRuns(kind, tokens=20, length=3, embedding=4, hidden=8) for kind in KINDS},
}
CLASSIFIERS = {name: Classifier(name, 20, 4) for name in ARCHITECTURES}
MODELS = {**GRADIENT_MODELS, **OUTPUT_MODELS, **CLASSIFIERS}


@pytest.mark.parametrize("name", MODELS)
def test_what_a_run_starts_from_depends_on_its_key_alone(name):
    model = MODELS[name]
    assert isinstance(model, Model)
    both, first = model.start([("test", 1, "start"), ("test", 2, "start")]), model.start([("test", 1, "start")])
    assert both.keys() == first.keys()
    for block, value in both.items():
        assert value.shape == (2, *first[block].shape[1:])
        assert torch.equal(value[:1], first[block])
    assert any(not torch.equal(value[0], value[1]) for value in both.values())


@pytest.mark.parametrize("name", GRADIENT_MODELS)
def test_models_for_train(name):
    assert isinstance(MODELS[name], GradientModel)
    assert isinstance(MODELS[name], PreparesSteps) == (name == "bilinear")


@pytest.mark.parametrize("name", OUTPUT_MODELS)
def test_models_for_train_validated(name):
    assert isinstance(MODELS[name], OutputModel)


def test_tasks_and_optimizers():
    assert isinstance(TASK, Task)
    assert all(isinstance(kind(0.1), Optimizer) for kind in (SGD, Adam, Adagrad))
