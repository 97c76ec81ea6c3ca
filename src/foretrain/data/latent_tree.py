"""HBLT(ρ), the hierarchical binary latent tree of JoMA's Definition 2: exact statistics, and samples.

The root is a class label. Every node below it is 0 or 1 and takes its parent's value with probability (1 + ρ)/2. The
leaves are tokens: a token occurs if its leaf is 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray as Array

from foretrain.core.errors import InputError, require, require_whole

Numbers = float | Sequence[Any] | Array


@dataclass(frozen=True)
class LatentSample:
    """n draws of the whole tree."""

    tree: LatentTree
    classes: Int[Array, "sample"]
    values: Bool[Array, "sample node"]

    @property
    def token_sets(self) -> Bool[Array, "sample token"]:
        """Which tokens occur."""
        return self.values[:, self.tree.tokens]

    def sequences(self, length: int, generator: np.random.Generator | int) -> Int[Array, "sample length"]:
        """Token numbers, drawn uniformly from the tokens that occur; only the pad `tree.vocab` if none occurs."""
        require_whole("length", length, 1)
        present = self.token_sets
        counts = present.sum(axis=1, keepdims=True)
        listed = np.argsort(~present, axis=1, kind="stable")  # the tokens that occur come first
        ranks = (np.random.default_rng(generator).random((len(present), length)) * counts).astype(np.int64)
        return np.where(counts > 0, np.take_along_axis(listed, ranks, axis=1), self.tree.vocab)


class LatentTree:
    """HBLT with one node per entry of `parents`.

    parents        the parent of each node; −1 for the children of the root
    rho            ρ of the edge above each node: one number, or one per node (ignored for the root's children)
    p_zero         P[y = 0 | class] for the root's children: one number, or an array [child of root, class]
    class_weights  P[class]; one class by default
    """

    def __init__(
        self,
        parents: Sequence[int] | Array,
        rho: Numbers,
        *,
        p_zero: Numbers = 0.5,
        class_weights: Sequence[float] | Array | None = None,
    ) -> None:
        self.parents: Int[Array, "node"] = _parents(parents)
        nodes = len(self.parents)
        weights = np.ones(1) if class_weights is None else np.asarray(class_weights, dtype=np.float64)
        good = weights.ndim == 1 and weights.size >= 1 and bool((weights >= 0).all())
        require(good and abs(weights.sum() - 1) <= 1e-8, "class_weights must not be negative and must sum to 1.")
        self.class_weights: Float[Array, "class"] = weights
        self.rho: Float[Array, "node"] = _fill("rho", rho, (nodes,), -1.0, 1.0)
        self.top: Int[Array, "top"] = np.flatnonzero(self.parents < 0)
        self.p_zero: Float[Array, "top class"] = _fill("p_zero", p_zero, (len(self.top), weights.size), 0.0, 1.0)
        self.level: Int[Array, "node"] = _levels(self.parents)

    @classmethod
    def regular(
        cls, depth: int, branching: int | Sequence[int] = 2, rho: Numbers = 0.9, *, classes: int = 1, **root: Any
    ) -> LatentTree:
        """A tree with the root at layer `depth` and the tokens at layer 0.

        `branching` is the number of children of every node, or one number per layer from the root down. `rho` may also
        have one number per layer: depth − 1 of them, from the edges below the root's children down to the tokens.
        """
        require_whole("depth", depth, 1)
        require_whole("classes", classes, 1)
        widths = list(branching) if isinstance(branching, Sequence | Array) else [branching] * depth
        require(len(widths) == depth, f"branching must have one number per layer ({depth}); got {len(widths)}.")
        for width in widths:
            require_whole("branching", width, 1)
        parents = [np.full(widths[0], -1)]
        first = 0
        for width in widths[1:]:
            parents.append(np.repeat(first + np.arange(len(parents[-1])), width))
            first += len(parents[-2])
        listed = np.asarray(rho, dtype=np.float64)
        if listed.ndim == 1 and len(listed) == depth - 1:
            rho = np.concatenate([np.full(len(p), r) for p, r in zip(parents, [0.0, *listed], strict=True)])
        weights = np.atleast_1d(root.setdefault("class_weights", np.full(classes, 1 / classes)))
        require(
            len(weights) == classes or classes == 1,
            f"class_weights must hold one number per class ({classes}); got {len(weights)}.",
        )
        return cls(np.concatenate(parents), rho, **root)

    @property
    def nodes(self) -> int:
        """How many nodes there are, without the root."""
        return len(self.parents)

    @cached_property
    def tokens(self) -> Int[Array, "token"]:
        """The leaves, in order of node number."""
        return np.setdiff1d(np.arange(self.nodes), self.parents)

    @property
    def vocab(self) -> int:
        """How many tokens there are."""
        return len(self.tokens)

    def marginals(self) -> Float[Array, "node"]:
        """P[y = 1] of every node: 2P[y = 0] − 1 is multiplied by ρ at every edge (Lemma 8)."""
        lean = np.empty(self.nodes)
        lean[self.top] = 2 * self.p_zero @ self.class_weights - 1
        for block in self._blocks[1:]:
            lean[block] = self.rho[block] * lean[self.parents[block]]
        return (1 - lean) / 2

    def posterior(
        self, evidence: Int[Array, "*batch node"]
    ) -> tuple[Float[Array, "*batch node"], Float[Array, "*batch class"], Float[Array, "*batch"]]:
        """Message passing: P[y = 1 | evidence] of every node, P[class | evidence], and ln P[evidence].

        `evidence` is 0 or 1 for each observed node and −1 for the others. One pass goes up the tree and one down, level
        by level, so the cost is linear in the number of nodes. Evidence that cannot occur gives nan.
        """
        seen = np.asarray(evidence)
        require(
            seen.shape[-1:] == (self.nodes,) and bool(np.isin(seen, (-1, 0, 1)).all()),
            f"evidence must be −1 (unknown), 0 or 1 for each of the {self.nodes} nodes.",
        )
        # ln P[evidence at and below the node | its value], values 0 and 1 on the last axis
        below = np.where((seen[..., None] == -1) | (seen[..., None] == np.arange(2)), 0.0, -np.inf)
        with np.errstate(divide="ignore"):
            edges = np.log(
                np.stack([(1 + self.rho) / 2, (1 - self.rho) / 2], -1)
            )  # ln P of the parent's value, of the other value
            table = np.log(np.stack([self.p_zero, 1 - self.p_zero], -1))  # [top, class, value]
            prior = np.log(self.class_weights)
        for block in reversed(self._blocks[1:]):
            message = _through(below[..., block, :], edges[block])
            parents, starts = np.unique(self.parents[block], return_index=True)
            below[..., parents, :] += np.add.reduceat(message, starts, axis=-2)
        from_root = table + below[..., self.top, None, :]  # ln P[value, evidence below | class]
        classes = prior + np.logaddexp(from_root[..., 0], from_root[..., 1]).sum(axis=-2)
        total = np.logaddexp.reduce(classes, axis=-1)
        impossible = ~np.isfinite(total)
        classes = np.exp(classes - np.where(impossible, 0.0, total)[..., None])
        ones = np.empty(seen.shape)
        ones[..., self.top] = (_share_of_one(from_root) * classes[..., None, :]).sum(axis=-1)
        for block in self._blocks[1:]:
            same, other = edges[block, 0], edges[block, 1]
            under_zero = _share_of_one(below[..., block, :] + np.stack([same, other], -1))
            under_one = _share_of_one(below[..., block, :] + np.stack([other, same], -1))
            parent = ones[..., self.parents[block]]
            ones[..., block] = (1 - parent) * under_zero + parent * under_one
        ones[impossible], classes[impossible] = np.nan, np.nan
        return ones, classes, np.asarray(total)

    def pair_probabilities(self, nodes: Sequence[int | np.integer] | Array) -> Float[Array, "query node"]:
        """P[y_m = 1, y_l = 1] for each m in `nodes` and every node l, by message passing."""
        nodes = self._known(nodes)
        conditional = np.concatenate([self._given(part) for part in _parts(nodes, 64)])
        return np.nan_to_num(conditional) * self.marginals()[nodes, None]

    def cooccurrence(self, nodes: Sequence[int | np.integer] | Array) -> Float[Array, "query node"]:
        """P[y_l = 1 | y_m = 1] for each m in `nodes` and every node l; nan if y_m is never 1."""
        nodes = self._known(nodes)
        return np.concatenate([self._given(part) for part in _parts(nodes, 64)])

    def enumerate_states(self) -> tuple[Bool[Array, "state node"], Float[Array, "class state"]]:
        """Every state of the nodes and P[class, state], multiplied edge by edge: a reference for small trees."""
        require(self.nodes <= 20, f"A tree of {self.nodes} nodes has too many states to list; the limit is 20 nodes.")
        states = (np.arange(2**self.nodes)[:, None] >> np.arange(self.nodes)) & 1
        probability = np.repeat(self.class_weights[:, None], len(states), axis=1)
        for number, node in enumerate(self.top):
            zero = self.p_zero[number][:, None]
            probability = probability * np.where(states[:, node] == 0, zero, 1 - zero)
        for node in np.flatnonzero(self.parents >= 0):
            same = states[:, node] == states[:, self.parents[node]]
            probability = probability * np.where(same, (1 + self.rho[node]) / 2, (1 - self.rho[node]) / 2)
        return states.astype(bool), probability

    def sample(self, n: int, generator: np.random.Generator | int) -> LatentSample:
        """Draw n trees from the root down. `generator` may be a seed."""
        require_whole("n", n, 1)
        draw = np.random.default_rng(generator)
        classes = draw.choice(self.class_weights.size, size=n, p=self.class_weights)
        uniform = draw.random((n, self.nodes))
        values = np.empty((n, self.nodes), dtype=bool)
        values[:, self.top] = uniform[:, self.top] >= self.p_zero[:, classes].T
        for block in self._blocks[1:]:
            flipped = uniform[:, block] >= (1 + self.rho[block]) / 2
            values[:, block] = values[:, self.parents[block]] ^ flipped
        return LatentSample(self, classes, values)

    def common_ancestor_layer(self, first: int | np.integer, second: int | np.integer) -> int:
        """Number of edges from the deeper of two nodes up to their common ancestor, which may be the root."""
        paths = [self._path(int(node)) for node in self._known([first, second])]
        shared = len(set(paths[0]) & set(paths[1]))  # counts the root
        return max(len(path) for path in paths) - shared

    def _known(self, nodes: Sequence[int | np.integer] | Array) -> Int[Array, "query"]:
        """Node numbers, checked: numpy would silently count a negative one from the end."""
        listed = np.asarray(nodes)
        whole = listed.ndim == 1 and listed.size >= 1 and np.issubdtype(listed.dtype, np.integer)
        good = whole and bool(((listed >= 0) & (listed < self.nodes)).all())
        require(good, f"nodes must list whole numbers from 0 to {self.nodes - 1}, at least one; got {listed.tolist()}.")
        return listed.astype(np.int64)

    def _path(self, node: int) -> list[int]:
        """The node and its ancestors, up to −1 for the root."""
        path = [node]
        while path[-1] >= 0:
            path.append(int(self.parents[path[-1]]))
        return path

    def _given(self, nodes: Array) -> Array:
        """P[y_l = 1 | y_m = 1] for each m in `nodes` and every node l."""
        evidence = np.full((len(nodes), self.nodes), -1)
        evidence[np.arange(len(nodes)), nodes] = 1
        return self.posterior(evidence)[0]

    @cached_property
    def _blocks(self) -> list[Array]:
        """The nodes level by level from the root's children down, with siblings next to each other."""
        order = np.lexsort((self.parents, self.level))
        return np.split(order, np.flatnonzero(np.diff(self.level[order])) + 1)


def _through(below: Array, edges: Array) -> Array:
    """ln P[evidence below a node | value of its parent], from ln P[evidence below the node | its own value]."""
    zero, one = below[..., 0], below[..., 1]
    same, other = edges[:, 0], edges[:, 1]
    return np.stack([np.logaddexp(zero + same, one + other), np.logaddexp(zero + other, one + same)], -1)


def _share_of_one(logs: Array) -> Array:
    """P[1] from unnormalised logs of 0 and 1; 0 if both are impossible (then the parent's weight is 0, too)."""
    zero, one = logs[..., 0], logs[..., 1]
    both = np.logaddexp(zero, one)
    return np.where(np.isfinite(both), np.exp(one - np.where(np.isfinite(both), both, 0.0)), 0.0)


def _parents(parents: Sequence[int] | Array) -> Array:
    listed = np.asarray(parents)
    require(listed.ndim == 1 and listed.size >= 1, "parents must list one parent per node, at least one.")
    require(np.issubdtype(listed.dtype, np.integer), f"parents must be whole numbers; got {listed.dtype}.")
    bad = listed[(listed < -1) | (listed >= listed.size)]
    if bad.size:
        raise InputError(f"parents must lie between −1 (the root) and {listed.size - 1}; got {bad[0]}.")
    return listed.astype(np.int64)


def _levels(parents: Array) -> Array:
    """Edges from each node up to a child of the root. Each round doubles the jump, until all jumps reach the root."""
    level, jump = (parents >= 0).astype(np.int64), parents.copy()
    for _ in range(len(parents).bit_length() + 1):
        below_root = jump >= 0
        if not below_root.any():
            return level
        level = level + np.where(below_root, level[jump], 0)
        jump = np.where(below_root, jump[jump], -1)
    raise InputError(
        f"parents must form a tree; node {np.flatnonzero(jump >= 0)[0]} never reaches the root: it is part of a cycle."
    )


def _fill(name: str, value: Numbers, shape: tuple[int, ...], low: float, high: float) -> Array:
    array = np.asarray(value, dtype=np.float64)
    if array.ndim == 1 and len(shape) == 2:
        array = array[:, None]
    try:
        full = np.array(np.broadcast_to(array, shape))
    except ValueError:
        raise InputError(f"{name} must be one number or have the shape {shape}; got {array.shape}.") from None
    bad = full[~((full >= low) & (full <= high))]
    if bad.size:
        raise InputError(f"{name} must lie between {low:g} and {high:g}; got {bad[0]:g}.")
    return full


def _parts(nodes: Array, size: int) -> Iterator[Array]:
    for start in range(0, len(nodes), size):
        yield nodes[start : start + size]
