"""How large files and signatures may become."""

from __future__ import annotations

import ast
from collections import Counter

from scripts import architecture

FILES = {architecture.module_of(path): path.read_text(encoding="utf-8") for path in architecture.files()}
# Its parameters are settings that people choose among by name.
SETTINGS = {"papers.abstract_symbols.experiments.architectures.train"}


def test_no_file_needs_a_table_of_contents() -> None:
    assert {module: text.count("\n") for module, text in FILES.items() if text.count("\n") > 400} == {}


def test_no_function_takes_more_than_twelve_parameters() -> None:
    """Commands of the terminal have one for each of their options."""
    wide = {
        f"{module}.{node.name}"
        for module, text in FILES.items()
        if not module.startswith("cli.")
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and len(node.args.posonlyargs + node.args.args + node.args.kwonlyargs) > 12
    }
    assert wide == SETTINGS


def test_a_class_name_has_one_meaning() -> None:
    classes = Counter(
        node.name for text in FILES.values() for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef)
    )
    assert {name for name, count in classes.items() if count > 1} == set()
