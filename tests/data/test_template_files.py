"""Task files: every example reads, and every mistake is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from foretrain.core.errors import InputError
from foretrain.data.template_examples import majority, print_program, print_symbol, same_different
from foretrain.data.template_files import read_task

EXAMPLES = Path(__file__).parents[2] / "examples"


def written(folder: Path, text: str) -> Path:
    path = folder / "task.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_examples_say_what_the_constructors_make() -> None:
    assert read_task(EXAMPLES / "same_different.toml").task.templates == same_different().templates
    program = read_task(EXAMPLES / "print_program.toml")
    assert [str(t) for t in program.task.templates] == [str(t) for t in print_program().templates]
    assert (program.alphabet, program.task.noise, program.task.kind) == (500, 0.1, "regression")
    symbol = read_task(EXAMPLES / "print_symbol.toml").task
    assert (symbol.templates, symbol.labels) == (print_symbol().templates, print_symbol().labels)
    named = read_task(EXAMPLES / "majority.toml").task
    assert (named.templates, named.labels, named.noise) == (majority(4).templates, majority(4).labels, 0.2)


def test_words_weights_and_own_wildcards() -> None:
    task = read_task(EXAMPLES / "word_problem.toml").task
    assert task.weights == (0.4, 0.2, 0.4)
    assert task.templates[0].wildcards == ("GIVER", "TAKER", "THINGS")
    assert task.length == 14
    assert task.name == "who has how many"


def test_symbols_may_be_listed(tmp_path: Path) -> None:
    path = written(tmp_path, '[[template]]\nstring = ["α", "gives", "α"]\nlabel = 1\n')
    assert read_task(path).task.templates[0].tokens == ("gives",)


def test_capitals_are_wildcards_in_a_file_without_greek_letters(tmp_path: Path) -> None:
    text = '[[template]]\nstring = "{}"\nlabel = 1\n[[template]]\nstring = "{}"\nlabel = -1\n'
    capitals = read_task(written(tmp_path, text.format("ABA", "ABB"))).task
    greek = read_task(written(tmp_path, text.format("αβα", "αββ"))).task
    assert [t.pattern for t in capitals.templates] == [t.pattern for t in greek.templates]
    assert [len(t.wildcards) for t in capitals.templates] == [len(t.wildcards) for t in greek.templates] == [2, 2]
    mixed = read_task(written(tmp_path, text.format("αAα", "αAA"))).task
    assert [t.tokens for t in mixed.templates] == [("A",), ("A",)]


TWO = '[[template]]\nstring = "αα"\nlabel = 1\n[[template]]\nstring = "αβ"\nlabel = -1\n'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[[template]]\nstring = "αβ"\nlabel = 1\n[[template]]\nstring = "βα"\nlabel = 1\n', "αβ and βα .* string AB"),
        ("alphabet = 1\n" + TWO, "αβ has 2 and the alphabet 1"),
        ('alphabet = "many"\n' + TWO, "whole number of tokens"),
        ("name = 'x'\n", "at least one"),
        ("", "at least one"),
        ("template = []\n", "at least one"),
        ('kind = "next-token"\n' + TWO, "must be a symbol in next-token; got 1"),
        ('[[template]]\nstring = "αα"\nlabel = "α"\n', "must be a number in regression; got 'α'"),
        ('[[template]]\nstring = "αα"\n', "αα has no label"),
        (TWO + '[[template]]\nstring = "αβγ"\nlabel = 1\n', "equal lengths"),
        ('[[template]]\nstring = "αα"\nlabel = 1e200\n', "a number of at most 1e[+]100 in size"),
        (TWO + "weight = 1e-320\n", "must be at least 1e-12"),
        ('[[template]]\nstring = ["", "α"]\nlabel = 1\n', "at least one character"),
        ("[[template]]\nlabel = 1\n", "needs a string"),
        ('[[template]]\nstring = ""\nlabel = 1\n', "at least one symbol"),
        ('[[template]]\nstring = "αα"\nlabel = 1\nweight = -1\n', "above 0; got -1"),
        ('[[template]]\nstring = "αα"\nlabel = 1\nwieght = 1\n', "got 'wieght'"),
        ("knid = 'regression'\n" + TWO, "got 'knid'"),
        ("kind = 'classification'\n" + TWO, "no kind of task 'classification'"),
        ("symbols = 'bytes'\n" + TWO, "no way to split"),
        ("wildcards = 3\n" + TWO, "list of symbols"),
        ("noise = -1\n" + TWO, "noise must be at least 0"),
        ("noise = 'much'\n" + TWO, "noise must be a number"),
        ("name = 3\n" + TWO, "name must be text"),
        ("named = 'majorty'\n", "nearest names are majority"),
        ("named = 'majority'\n", "takes length"),
        ("named = 'majority'\narguments = {size = 3}\n", "takes length"),
        ("named = 'majority'\narguments = 3\n", "must be a table"),
        ("named = 'majority'\nkind = 'regression'\n", "got 'kind'"),
        ('[[template]]\nstring = "aba"\nlabel = 1\n', "No template has a wildcard.*first is aba.*or name them"),
        ('wildcards = ["x"]\n[[template]]\nstring = "ABA"\nlabel = 1\n', "No template has a wildcard"),
        ("named = 'random_templates'\narguments = {wildcards = 0}\n", "No template has a wildcard"),
        ('[[template]]\nstring = "AB"\nlabel = 1\n[[template]]\nstring = "BA"\nlabel = 2\n', "AB and BA .*disjoint"),
        ("this is not TOML", "not a TOML file"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as refused:
        read_task(written(tmp_path, text))
    assert "\n" not in str(refused.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"Cannot read .*nothing\.toml"):
        read_task(tmp_path / "nothing.toml")
