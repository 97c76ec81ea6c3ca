"""Moves parameters: vectorised training, and the gradient flow of a field."""

from foretrain.dynamics.flow import integrate
from foretrain.dynamics.optimizers import SGD, Adagrad, Adam
from foretrain.dynamics.train import train

__all__ = ["SGD", "Adagrad", "Adam", "integrate", "train"]
