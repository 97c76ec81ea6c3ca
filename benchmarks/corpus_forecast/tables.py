"""The results of the evaluation as Markdown tables, as they stand in docs/forecast-a-corpus.md."""

from __future__ import annotations

from typing import Any

TITLES = {"sst2": "SST-2", "imdb": "IMDB", "ag_news": "AG News", "authors": "four authors", "books": "two books"}


def agreement_table(result: dict[str, Any]) -> str:
    """Rank correlation / overlap of the 200 strongest with trained networks: forecast and best baseline of each."""
    rows = [
        "| corpus | MLP: forecast | best baseline | CNN: forecast | best baseline |",
        "| --- | --- | --- | --- | --- |",
    ]
    for corpus, values in result.items():
        cells = [TITLES[corpus]]
        for network in ("MLP ReLU", "CNN ReLU"):
            agreement = values[network]["agreement"]
            others = {name: both for name, both in agreement.items() if name != "forecast"}
            own = agreement["forecast"]
            rank = max(others, key=lambda name: others[name]["rank_correlation"])
            overlap = max(others, key=lambda name: others[name]["overlap"])
            names = rank if rank == overlap else f"{rank}; {overlap}"
            cells.append(f"{own['rank_correlation']:.3f} / {own['overlap']:.2f}")
            cells.append(f"{others[rank]['rank_correlation']:.3f} / {others[overlap]['overlap']:.2f} ({names})")
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def classifier_table(result: dict[str, Any]) -> str:
    """Accuracy on test rows that nothing was chosen on."""
    names = ("MLP ReLU", "CNN ReLU", "logistic regression", "log-odds", "signed χ²")
    rows = [f"| corpus | {' | '.join(names)} |", f"| --- |{' --- |' * len(names)}"]
    for corpus, values in result.items():
        cells = [f"{values['test_accuracy'][name]:.3f}" for name in names]
        rows.append(f"| {TITLES[corpus]} | {' | '.join(cells)} |")
    return "\n".join(rows)


def recall_table(result: dict[str, Any]) -> str:
    """How many of the planted shortcuts each list has, by kind, over all corpora."""
    found: dict[str, list[tuple[bool, bool, bool]]] = {}
    for values in result["judged"].values():
        for plant in values["planted"].values():
            hits = (plant["found"], plant["by word classes"], plant["by log-odds"])
            found.setdefault(plant["kind"], []).append(hits)
    rows = ["| planted | found by place and effect | by word class | among the first 10 by log-odds |"]
    rows.append("| --- | --- | --- | --- |")
    every = [hits for kind in found.values() for hits in kind]
    for kind, all_hits in [*found.items(), ("all", every)]:
        counts = [sum(hits[k] for hits in all_hits) for k in range(3)]
        rows.append(f"| {kind} | {' | '.join(f'{count} of {len(all_hits)}' for count in counts)} |")
    return "\n".join(rows)


def untouched_table(result: dict[str, Any]) -> str:
    """What is listed where nothing was planted."""
    rows = [
        "| corpus as it is | listed by place and effect | by word class | by log-odds |",
        "| --- | --- | --- | --- |",
    ]
    for corpus, values in result["judged"].items():
        lists = values["untouched"]
        phrases = ", ".join(f"`{s['phrase']}`" for s in lists["shortcuts"]) or "nothing"
        count = f"{len(lists['shortcuts'])}: {phrases}" if lists["shortcuts"] else phrases
        rows.append(f"| {TITLES[corpus]} | {count} | {len(lists['word classes'])} | {len(lists['log-odds'])} |")
    return "\n".join(rows)
