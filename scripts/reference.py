"""Writes docs/reference.md from docstrings: `.venv/bin/python scripts/reference.py`.

Names, signatures and docstrings are read from the source, which takes no second and loads no torch. What is public is
said in ROOMS: a module's `__all__`, or every name in it without an underscore that a user calls.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src"
PAGE = ROOT / "docs" / "reference.md"

# Room, what it answers, its modules; a module may be followed by the names in it that are public.
ROOMS: list[tuple[str, str, list[str]]] = [
    (
        "Claims",
        "What a paper says, as something that can come out false; how two trajectories are compared.",
        [
            "foretrain.claim: Claim Control Assumption Verdict judge erratum_pair no_number",
            "foretrain.comparators",
            "foretrain.tolerances",
            "foretrain.check: select VerdictFolder judge_all",
        ],
    ),
    (
        "Trajectories, experiments and sweeps",
        "What a run leaves behind, and how it survives a crash.",
        [
            "foretrain.trajectory: trajectory save load config_of notes_of",
            "foretrain.experiment",
            "foretrain.sweep: sweep",
            "foretrain.runfolder: RunFolder combine",
            "foretrain.export: long_table export_run",
            "foretrain.streams",
            "foretrain.errors: InputError DamagedFile require require_positive require_at_least require_whole "
            "require_known",
            "foretrain.plotting",
        ],
    ),
    (
        "Data",
        "What goes in: tasks that can be sampled, and corpora.",
        [
            "foretrain.data",
            "foretrain.data.template_tasks",
            "foretrain.data.corpora",
            "foretrain.data.labelled_texts: LabelledTexts read_labelled read_text",
            "foretrain.data.tokens: Vocabulary TokenTexts words split_on_spaces",
            "foretrain.data.made_up_corpus",
            "foretrain.data.negation",
        ],
    ),
    (
        "Models",
        "What has parameters.",
        [
            "foretrain.models",
            "foretrain.models.joint",
            "foretrain.models.causal_transformer",
            "foretrain.models.transformer",
            "foretrain.models.transformer_runs: TransformerRuns",
            "foretrain.models.finite_transformer",
            "foretrain.models.classifiers",
            "foretrain.models.sequence_baselines: BaselineRuns",
            "foretrain.models.one_hot_mlp",
            "foretrain.models.computational_graph",
        ],
    ),
    (
        "Kernels",
        "What can be read off without training.",
        [
            "foretrain.kernels",
            "foretrain.kernels.tangent",
            "foretrain.kernels.empirical",
            "foretrain.kernels.learning_curve",
            "foretrain.kernels.sampling",
        ],
    ),
    ("Measures", "What can be read off a state.", ["foretrain.measures"]),
    (
        "Dynamics",
        "What moves parameters.",
        [
            "foretrain.dynamics",
            "foretrain.dynamics.validated: Schedule train_validated best_rate",
            "foretrain.dynamics.epochs: train_epochs",
        ],
    ),
    (
        "Papers",
        "What is true on paper: one result, one function. The experiments and claims of a paper are listed by "
        "`foretrain list` and `foretrain list --experiments`.",
        [
            "foretrain.papers",
            "foretrain.papers.scan_snap.theory",
            "foretrain.papers.joma.theory",
            "foretrain.papers.abstract_symbols.theory",
            "foretrain.papers.feature_extraction.theory",
        ],
    ),
    (
        "Forecasts and reports",
        "What a person wants to know before training, and after a check.",
        [
            "foretrain.forecast.templates: ForecastSetting forecast_templates",
            "foretrain.forecast.corpus: forecast_corpus CorpusForecast",
            "foretrain.report",
        ],
    ),
]

Definition = ast.FunctionDef | ast.ClassDef


@dataclass(frozen=True)
class Entry:
    name: str
    signature: str | None  # None: a class that is not made by calling it with values of its own
    docstring: str | None
    methods: tuple[str, ...]  # of a class, those with a docstring


@dataclass(frozen=True)
class Module:
    name: str
    docstring: str
    entries: tuple[Entry, ...]


def modules() -> Iterator[tuple[str, str, list[Module]]]:
    """(room, what it answers, its modules)."""
    for room, answers, listed in ROOMS:
        yield room, answers, [_module(*(part.strip() for part in line.partition(":")[::2])) for line in listed]


def _module(name: str, chosen: str) -> Module:
    tree = _parsed(name)
    names = chosen.split() or _all_of(tree) or _defined(tree)
    entries = (_entry(public, found) for public in names if (found := _find(name, public)) is not None)
    return Module(name, ast.get_docstring(tree) or "", tuple(entries))


def _file(module: str) -> Path:
    place = SOURCE.joinpath(*module.split("."))
    return place / "__init__.py" if place.is_dir() else place.with_suffix(".py")


@cache
def _parsed(module: str) -> ast.Module:
    return ast.parse(_file(module).read_text(encoding="utf-8"))


def _all_of(tree: ast.Module) -> list[str]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    return []


def _defined(tree: ast.Module) -> list[str]:
    return [n.name for n in tree.body if isinstance(n, Definition) and not n.name.startswith("_")]


def _find(module: str, name: str) -> Definition | None:
    """Where a name is defined; None for a constant. A name that is imported is followed to its source."""
    for node in _parsed(module).body:
        if isinstance(node, Definition) and node.name == name:
            return node
        if isinstance(node, ast.ImportFrom) and any(alias.name == name for alias in node.names):
            return _find(str(node.module), name)
        if isinstance(node, ast.Assign | ast.AnnAssign) and ast.unparse(_target(node)) == name:
            return None
    raise LookupError(f"{module} has no {name}")


def _target(node: ast.Assign | ast.AnnAssign) -> ast.expr:
    return node.target if isinstance(node, ast.AnnAssign) else node.targets[0]


def _entry(name: str, node: Definition) -> Entry:
    if isinstance(node, ast.FunctionDef):
        return Entry(name, _signature(node), ast.get_docstring(node), ())
    inside = [n for n in node.body if isinstance(n, ast.FunctionDef)]
    start = next((n for n in inside if n.name == "__init__"), None)
    signature = _signature(start).removeprefix("self").removeprefix(", ") if start else _fields(node)
    methods = tuple(n.name for n in inside if not n.name.startswith("_") and ast.get_docstring(n))
    return Entry(name, signature, ast.get_docstring(node), methods)


def _signature(node: ast.FunctionDef) -> str:
    """Names and defaults; of which kind each is, docstring and source say."""
    given = copy.deepcopy(node.args)
    for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg):
        if argument is not None:
            argument.annotation = None
    return ast.unparse(given)


def _fields(node: ast.ClassDef) -> str | None:
    """Those of a dataclass, in the order in which it takes them."""
    if not any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list):
        return None
    fields = [n for n in node.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)]
    return ", ".join(ast.unparse(f.target) + (f"={_default(f.value)}" if f.value else "") for f in fields)


def _default(value: ast.expr) -> str:
    made = isinstance(value, ast.Call) and ast.unparse(value.func) == "field"
    return "…" if made else ast.unparse(value)


def sentence(docstring: str) -> str:
    """The first paragraph, or its first sentence where it is long."""
    paragraph = " ".join(docstring.split("\n\n", 1)[0].split())
    if len(paragraph) <= 240:
        return paragraph
    return re.split(r"(?<=[a-zé0-9)\]”\"'`][.:]) (?=[A-Z`|“])", paragraph, maxsplit=1)[0]


@dataclass(frozen=True)
class Command:
    name: str
    says: str
    takes: tuple[tuple[str, str], ...]  # an argument or option, and its help


def commands() -> Iterator[Command]:
    """The commands of the command line, those behind another one included."""
    import typer

    from foretrain.cli import app

    yield from _commands(typer.main.get_command(app), "foretrain")


def _commands(command: Any, name: str) -> Iterator[Command]:
    for part, inner in getattr(command, "commands", {}).items():
        yield from _commands(inner, f"{name} {part}")
    if not hasattr(command, "commands"):
        yield Command(name, sentence(command.help), tuple(map(_parameter, command.params)))


def _parameter(parameter: Any) -> tuple[str, str]:
    if parameter.param_type_name == "argument":
        return parameter.metavar, parameter.help
    value = "" if parameter.is_flag else f" {parameter.metavar or parameter.name.upper()}"
    return max(parameter.opts, key=len) + value, parameter.help


def page() -> str:
    """The whole page, as GitHub shows it."""
    rooms = list(modules())
    names = ["Command line", *(room for room, _, _ in rooms)]
    lines = [
        "# Reference",
        "",
        "Every public name with its first sentence. Made from docstrings by `scripts/reference.py`: to change it, "
        "change them and run `.venv/bin/python scripts/reference.py`. `help(name)` in Python says the rest.",
        "",
        " · ".join(f"[{name}](#{_anchor(name)})" for name in names),
        "",
        "`from foretrain import …` gives the names used most: " + ", ".join(f"`{n}`" for n in front_door()) + ".",
        "",
        "## Command line",
        "",
    ]
    for command in commands():
        lines += [f"**`{command.name}`** {command.says}", ""]
        lines += [*(f"- `{option}` {says}" for option, says in command.takes), ""]
    for room, answers, listed in rooms:
        lines += [f"## {room}", "", answers, ""]
        for module in listed:
            place = _file(module.name).relative_to(ROOT).as_posix()
            lines += [f"### `{module.name}`", "", f"{sentence(module.docstring)} [Source](../{place})", ""]
            lines += [*map(_line, module.entries), ""]
    return "\n".join(lines)


def front_door() -> list[str]:
    """The names that `foretrain` itself gives."""
    table = next(
        n for n in _parsed("foretrain").body if isinstance(n, ast.Assign) and ast.unparse(_target(n)) == "_PUBLIC"
    )
    return sorted(ast.literal_eval(table.value))


def _line(entry: Entry) -> str:
    methods = ", ".join(f"`{name}`" for name in entry.methods)
    says = sentence(entry.docstring or "") + (f" Methods: {methods}." if methods else "")
    return f"- **`{entry.name}`**{f'`({entry.signature})`' if entry.signature is not None else ''} {says}"


def _anchor(title: str) -> str:
    return re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE}")
