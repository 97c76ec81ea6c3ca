"""JoMA's latent tree: which tokens occur together, and what Theorem 5 says about it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy import ndarray as Array

from foretrain.core.errors import require
from foretrain.data.latent_tree import LatentTree
from foretrain.explore.figure_theme import BELOW
from foretrain.explore.sliders import Slider, State
from foretrain.explore.view import Formula, Picture, Places, TextTable, View, python_call
from foretrain.papers.joma import theory
from foretrain.show.plotting import INK, PALETTE, measurement_marks, new_figure, prediction_line

FORMULAS = (
    Formula(
        r"P[y_l = 1 \mid y_m = 1] = \frac12\,\frac{1+\rho^{2H}-2\rho^{L-1}\rho_0}{1-\rho^{L-1}\rho_0},"
        r"\qquad \rho_0 = 2P[y=0]-1",
        "Theorem 5, corrected: H is the layer of the lowest common ancestor, L the depth of the tree.",
        "joma/theorem5_corrected",
    ),
    Formula(
        r"\rho_0 = P[y=0]",
        "Theorem 5 as printed has this in place of ρ0, and is off unless P[y = 0] = 1.",
        "joma/theorem5",
    ),
)
MOST_TOKENS = 64


def controls(_: Places) -> Sequence[Slider]:
    return (
        Slider("rho", "ρ, correlation with the parent", "number", 0.8, low=0, high=1,
                says="A node takes its parent's value with probability (1 + ρ)/2."),
        Slider("depth", "L, layers", "whole", 4, low=2, high=6, says="From the tokens up to the class."),
        Slider("branching", "children of a node", "whole", 2, low=1, high=4),
        Slider("p_zero", "P[y = 0] below the root", "number", 0.7, low=0.05, high=0.99,
                says="How often a child of the root is 0: a token occurs if its leaf is 1."),
    )  # fmt: skip


def tree_of(state: State) -> LatentTree:
    tokens = state["branching"] ** state["depth"]
    require(
        tokens <= MOST_TOKENS, f"That makes {tokens:,} tokens; at most {MOST_TOKENS} can be drawn: take fewer layers."
    )
    return LatentTree.regular(state["depth"], state["branching"], state["rho"], p_zero=state["p_zero"])


def draw(state: State, _: None, places: Places) -> Picture:
    tree = tree_of(state)
    together = tree.cooccurrence(tree.tokens)[:, tree.tokens]
    heights = np.array([tree.common_ancestor_layer(tree.tokens[0], token) for token in tree.tokens])
    shown = sorted(set(heights.tolist()))
    exact = [float(together[0, heights == height].mean()) for height in shown]
    below = [height for height in shown if height < state["depth"]]  # Theorem 5 leaves out pairs that meet in the root
    given = (state["rho"], state["depth"], below, state["p_zero"])
    corrected, printed = theory.cooccurrence(*given), theory.cooccurrence_printed(*given)
    limit = theory.cooccurrence_limit(state["depth"], below)
    off = float(np.abs(printed - np.asarray(exact[: len(below)])).max())
    return Picture(
        answer=f"{_in_words(exact)} Theorem 5 as printed is off by up to {off:.2f}; corrected, it is exact.",
        sentences=() if len(below) == len(shown) else (
            "Theorem 5 is about tokens with a common ancestor below the class. Those that meet only in the class "
            f"(layer {state['depth']}) occur independently of each other.",
        ),
        figures={
            "tree": _tree_figure(tree),
            "map": _map_figure(together),
            "law": _law_figure(shown, exact, below, corrected, printed),
        },
        tables=(
            TextTable(
                "P[token | query] by the layer of their common ancestor",
                ("layer H", "exact", "Theorem 5, corrected", "as printed", "1 − H/L"),
                tuple(
                    (
                        str(h),
                        f"{exact[k]:.4f}",
                        *(f"{law[k]:.4f}" if h in below else "–" for law in (corrected, printed, limit)),
                    )
                    for k, h in enumerate(shown)
                ),
                numbers=(1, 2, 3, 4),
            ),
        ),
        formulas=FORMULAS,
        python=_python(state, places),
    )  # fmt: skip


def _in_words(exact: Sequence[float]) -> str:
    """How often the nearest and the farthest token occur beside the query; `exact` begins with the query itself."""
    if len(exact) == 1:
        return "There is only one token, so that none can occur beside it."
    return (
        f"Of the texts with the query token, {exact[1]:.0%} have a given token with the same parent, and "
        f"{exact[-1]:.0%} one from the far end of the tree."
    )


def _tree_figure(tree: LatentTree) -> go.Figure:
    """Root on top, tokens below; each node stands in the middle of its children."""
    across = np.zeros(tree.nodes)
    across[tree.tokens] = np.arange(tree.vocab)
    for level in range(int(tree.level.max()) - 1, -1, -1):
        for node in np.flatnonzero(tree.level == level).tolist():
            children = np.flatnonzero(tree.parents == node)
            if children.size:
                across[node] = across[children].mean()
    height = tree.level.max() - tree.level
    root = (float(across[tree.top].mean()), float(height.max() + 1))
    x: list[float | None] = []
    y: list[float | None] = []
    for node in range(tree.nodes):
        parent = tree.parents[node]
        above = root if parent < 0 else (float(across[parent]), float(height[parent]))
        x += [float(across[node]), above[0], None]
        y += [float(height[node]), above[1], None]
    chance = tree.marginals()
    figure = new_figure("The tree; darker nodes are more often 1", x="", y="layer")
    figure.add_scatter(x=x, y=y, mode="lines", line={"color": PALETTE[7], "width": 1}, hoverinfo="skip")
    figure.add_scatter(
        x=across.tolist(), y=height.tolist(), mode="markers", hoverinfo="text",
        text=[f"P[1] = {p:.3f}" for p in chance],
        marker={"size": 11, "color": chance.tolist(), "colorscale": "Blues", "cmin": 0, "cmax": 1,
                "line": {"color": PALETTE[7], "width": 1}},
    )  # fmt: skip
    figure.add_scatter(x=[root[0]], y=[root[1]], mode="markers+text", text=["class"], textposition="top center",
                       marker={"size": 12, "color": INK, "symbol": "square"}, hoverinfo="skip")  # fmt: skip
    figure.update_xaxes(visible=False)
    figure.update_yaxes(dtick=1, showgrid=False, range=[-0.5, root[1] + 0.7])
    return figure.update_layout(height=330, showlegend=False)


def _map_figure(together: Array) -> go.Figure:
    figure = new_figure("Co-occurrence: P[token | query]", x="token", y="query")
    figure.add_heatmap(z=together.tolist(), colorscale="Cividis", zmin=0, zmax=1, colorbar={"thickness": 14})
    figure.update_yaxes(autorange="reversed")
    return figure.update_layout(height=440)


def _law_figure(shown: list[int], exact: list[float], below: list[int], corrected: Array, printed: Array) -> go.Figure:
    figure = new_figure("Co-occurrence by the layer of the common ancestor", x="layer H", y="P[token | query]")
    figure.add_trace(prediction_line(below, printed, "Theorem 5 as printed", 7).update(line={"dash": "dot"}))
    figure.add_trace(prediction_line(below, corrected, "Theorem 5, corrected", 0))
    figure.add_trace(measurement_marks(shown, exact, "exact, by message passing", 1).update(marker={"size": 9}))
    figure.update_xaxes(dtick=1)
    figure.update_yaxes(range=[0, 1.05])
    return figure.update_layout(height=390, **BELOW)


def _python(state: State, places: Places) -> str:
    given = ", ".join(f"{name}={state[name]!r}" for name in ("depth", "branching", "rho", "p_zero"))
    return (
        "from foretrain.data.latent_tree import LatentTree\n\n"
        f"tree = LatentTree.regular({given})\n"
        "print(tree.cooccurrence(tree.tokens[:1])[0, tree.tokens])  # beside the first token\n\n"
        + python_call(VIEW.path, controls(places), state)
    )


VIEW = View(
    path="latent-tree",
    title="Latent tree",
    question="Which tokens occur together in JoMA's hierarchy?",
    controls=controls,
    draw=draw,
)
