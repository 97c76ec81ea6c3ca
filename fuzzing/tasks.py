"""Template tasks in TOML files."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from foretrain.data.template_examples import NAMED
from foretrain.data.template_files import read_task
from fuzzing.mutations import HOSTILE, changed, changed_bytes, changed_text
from fuzzing.places import place
from fuzzing.running import Target

EXAMPLES = Path(__file__).parent.parent / "examples"
RAW = (
    "1" * 5000,
    "1e400",
    "-inf",
    "nan",
    "0x" + "f" * 400,
    "1979-05-27",
    "07:32:00",
    "[" * 3000 + "]" * 3000,
    "'''\n'''",
)


def targets() -> tuple[Target, ...]:
    return (Target("task", st.one_of(_structured(), _structured(), _written()), _read, share=2),)


def _files() -> list[Path]:
    return sorted(EXAMPLES.glob("*.toml"))


@st.composite
def _structured(draw: st.DrawFn) -> bytes:
    """A valid task with values changed, written as TOML again."""
    valid = [tomllib.loads(file.read_text(encoding="utf-8")) for file in _files()]
    valid += [{"named": name, "arguments": {}} for name in NAMED] + [
        {"named": n, "arguments": {"length": 3}} for n in NAMED
    ]
    content = draw(changed(draw(st.sampled_from(valid))))
    lines = content.items() if isinstance(content, dict) else [("template", content)]
    text = "\n".join(f"{json.dumps(key)} = {_toml(value)}" for key, value in lines)
    if draw(st.integers(0, 9)) == 0:
        text += f"\n{draw(st.sampled_from(['noise', 'alphabet', 'extra', 'weight']))} = {draw(st.sampled_from(RAW))}"
    return text.encode("utf-8", "surrogatepass")


@st.composite
def _written(draw: st.DrawFn) -> bytes:
    """A file of the examples with its text or its bytes changed."""
    content = draw(st.sampled_from([file.read_bytes() for file in _files()]))
    if draw(st.booleans()):
        return draw(changed_bytes(content))
    return draw(changed_text(content.decode())).encode("utf-8", "surrogatepass")


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)} = {_toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=value in HOSTILE[:12]).replace("\x7f", "\\u007f")
    return "{}" if value is None else repr(value)


def _read(content: bytes) -> None:
    file = place("task.toml")
    file.write_bytes(content)
    task = read_task(file).task
    for template, label in zip(task.templates, task.labels, strict=True):
        f"{template} {label}"
    repr(task)
