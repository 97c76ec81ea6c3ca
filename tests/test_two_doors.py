"""Two doors: no tool for people's own models and data loads a paper or the ledger, directly or through others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from scripts import architecture

TOOLS = ("monitor", "callbacks", "checkpoints", "patches", "forecast", "language", "doctor")
THEORY = ("papers", "ledger")
WATCHING = """
import torch, foretrain
model = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
with foretrain.Monitor(model, every=1, file="training.jsonl") as monitor:
    for step in range(3):
        loss = model(torch.randn(2, 4, 8)).square().mean()
        loss.backward()
        monitor.step(loss=loss)
monitor.report("training.html")
foretrain.load("training.jsonl")
"""
FINETUNING = """
import torch, foretrain
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
x = torch.randn(60, 4)
forecast = foretrain.forecast.finetune(model, (x, (x[:, 0] > 0).long()), n=30, test=20, steps=4, orders=1)
forecast.summary, forecast.table
forecast.report("finetune.html")
"""
CORPUS = """
import foretrain
texts = ("bad night now", "good day today")
with open("rows.csv", "w") as file:
    file.write("text,label\\n" + "".join(f"{texts[i % 2]} {i % 7},{i % 2}\\n" for i in range(60)))
forecast = foretrain.forecast.corpus("rows.csv", text="text", label="label")
forecast.summary
forecast.report("corpus.html")
"""
TEMPLATES = """
import foretrain
from foretrain.data import template_examples
forecast = foretrain.forecast.templates(template_examples.same_different(), samples=(64,))
forecast.summary
forecast.report("templates.html")
"""
PROGRAMS = {"a watched training": WATCHING, "fine-tuning": FINETUNING, "a corpus": CORPUS, "templates": TEMPLATES}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_a_tool_and_its_page_load_neither_papers_nor_the_ledger(program: str, tmp_path: Path) -> None:
    ending = "\nimport sys\nprint(*[name for name in sys.modules if name.startswith('foretrain.')])"
    done = subprocess.run(
        [sys.executable, "-c", program + ending],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    loaded = done.stdout.splitlines()[-1].split()
    assert len(loaded) > 10
    assert [name for name in loaded if name.split(".")[1] in THEORY] == []


def test_no_import_leads_from_a_tool_to_papers_or_the_ledger() -> None:
    """Imports in functions and for type checkers count, so the test above could not have run the wrong lines."""
    graph = {architecture.module_of(path): architecture.inner_imports(path) for path in architecture.files()}
    reached = {module: "" for module in graph if module.split(".")[0] in TOOLS}
    waiting = list(reached)
    while waiting:
        module = waiting.pop()
        for imported in graph.get(module, []):
            if imported not in reached:  # what a package's __init__ imports is seen by the test above
                reached[imported] = module
                waiting.append(imported)
    ways = {module: reached[module] for module in reached if module.split(".")[0] in THEORY}
    assert ways == {}


def test_importing_a_paper_s_theory_loads_nothing_else() -> None:
    program = (
        "import sys, foretrain.papers.scan_snap.theory\n"
        "print(*[name for name in sys.modules if name.startswith('foretrain.')])"
    )
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    allowed = ("foretrain.core", "foretrain.papers.scan_snap")
    assert [name for name in loaded if name != "foretrain.papers" and not name.startswith(allowed)] == []
