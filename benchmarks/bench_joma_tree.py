"""JoMA: exact co-occurrence in latent trees by message passing, against listing all states."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from benchmarks import Measured, cpu_seconds
from foretrain.data import LatentTree

SMALL = [-1, -1, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7]  # 18 nodes: 2^18 states


def measure() -> Iterator[Measured]:
    yield _deep()
    yield _growth()
    yield _over_enumeration()


def _messages(tree: LatentTree) -> None:
    tree.marginals()
    tree.pair_probabilities(tree.tokens[:1])


def _deep() -> Measured:
    """Building a binary tree of depth 12 (8190 nodes) and P[y_l, y_m] of one token with all nodes."""
    seconds = cpu_seconds(lambda: _messages(LatentTree.regular(12, 2, 0.9)), repeats=5)
    return Measured("latent tree of depth 12", seconds, 1.0, "s", at_most=True)


def _growth() -> Measured:
    """Slope of ln time over ln nodes: 1 is linear."""
    trees = [LatentTree.regular(depth, 2, 0.9) for depth in range(12, 18)]
    for tree in trees:
        _messages(tree)  # orders the levels once
    times = [cpu_seconds(partial(_messages, tree), repeats=7) for tree in trees]
    slope = float(np.polyfit(np.log([tree.nodes for tree in trees]), np.log(times), 1)[0])
    detail = f"{trees[0].nodes} nodes {times[0]:.4f} s, {trees[-1].nodes} nodes {times[-1]:.3f} s"
    return Measured("message passing, power of the number of nodes", slope, 1.25, "", at_most=True, detail=detail)


def _over_enumeration() -> Measured:
    tree = LatentTree(SMALL, 0.9)

    def enumerated() -> None:
        states, probability = tree.enumerate_states()
        _ = probability.sum(0) @ (states & states[:, [-1]])

    ours, plain = cpu_seconds(lambda: _messages(tree), repeats=7), cpu_seconds(enumerated, repeats=3)
    detail = f"{ours:.5f} s against {plain:.3f} s, which doubles with every node"
    return Measured("message passing over enumeration, 18 nodes", plain / ours, 50, detail=detail)
