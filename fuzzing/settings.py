"""What is typed: `--set name=value`, and queries for claims and experiments."""

from __future__ import annotations

from functools import cache
from typing import Any

from hypothesis import strategies as st

from foretrain.api.grid_values import read_grid
from foretrain.cli.language import read_setting
from foretrain.cli.values import read_settings
from foretrain.ledger.parameters import Parameter
from fuzzing.mutations import changed_text, numbers, texts
from fuzzing.running import Target

QUERIES = (
    "scan_snap/lemma6", "Theorem 3", "Theorems 3 to 7", "Lemma G.7", "Lemmas G.7-G.9", "fig22", "identity", "scan*",
    "scan_snap/theorem[0-9]*", "Corollary 2 (a)", "eq. 11", "joma", "Theorem 1 to 999999999", "[!a]*", "*" * 60,
)  # fmt: skip
VALUES = (
    "1", ".5,1", "(1, 2)", "[3]", "none", "1e4001", "1e308,1e308", "true", "'a','b'", "1if", "0x10", "1_000", "--", ",",
    "1:10:log5", ".1:1:3", "1:2:1000000000", "1:2:100000", "1:9:log1000000",
    "0:1:log3", "1:1e308:log99", "1:inf:3", "2:1:2", "-5:5:11",
    "1e-400", "nan", "inf", "9" * 400, "1," * 3000 + "1", "()", "(1,)", "seeds=1",
)  # fmt: skip


def targets() -> tuple[Target, ...]:
    return (
        Target("set", _assignments(), _read, share=2),
        Target("grid", _assignments(), _read_grid, share=1),
        Target("query", _queries(), _find, share=1),
    )


@cache
def _parameters() -> dict[str, dict[str, Parameter]]:
    from foretrain import papers

    return {id: experiment.parameters() for id, experiment in papers.experiments().items()}


@st.composite
def _assignments(draw: st.DrawFn) -> tuple[str, list[str]]:
    """Arguments of an experiment with values near valid ones; "language" stands for `foretrain lab language`."""
    experiment = draw(st.sampled_from(["language", *_parameters()]))
    names = sorted(_language() if experiment == "language" else _parameters()[experiment]) or ["none"]
    given = []
    for _ in range(draw(st.integers(1, 2))):
        name = draw(st.sampled_from(names)) if draw(st.integers(0, 9)) else draw(texts)
        value = draw(_value(_default(experiment, name)))
        given.append(f"{name}={value}" if draw(st.integers(0, 19)) else draw(changed_text(f"{name}={value}")))
    return experiment, given


def _value(default: str) -> st.SearchStrategy[str]:
    valid = st.sampled_from((default, *VALUES))
    listed = st.lists(numbers.map(_written), min_size=1, max_size=3).map(",".join)
    return st.one_of(valid, valid.flatmap(changed_text), numbers.map(_written), listed, texts)


def _written(number: Any) -> str:
    return repr(number)


def _default(experiment: str, name: str) -> str:
    defaults = _language() if experiment == "language" else _parameters()[experiment]
    value = defaults.get(name)
    return str(value.default if isinstance(value, Parameter) else value)


@cache
def _language() -> dict[str, Any]:
    from dataclasses import asdict

    from foretrain.language.setting import LanguageSetting

    return asdict(LanguageSetting())


def _read(given: tuple[str, list[str]]) -> None:
    experiment, assignments = given
    if experiment == "language":
        read_setting(assignments)
    else:
        read_settings(assignments, _parameters()[experiment])


def _read_grid(given: tuple[str, list[str]]) -> None:
    experiment, assignments = given
    if experiment != "language":
        read_grid(assignments, _parameters()[experiment])


@st.composite
def _queries(draw: st.DrawFn) -> str:
    query = draw(st.one_of(st.sampled_from(QUERIES), texts))
    return draw(changed_text(query)) if draw(st.integers(0, 3)) else query


def _find(query: str) -> None:
    from foretrain.api.find import find

    for kind in (None, "claim", "experiment"):
        find(query, kind=kind)
