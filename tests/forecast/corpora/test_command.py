"""foretrain forecast corpus as typed: what it prints and writes, and what it refuses in one sentence."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from foretrain.cli import main

REVIEWS = Path(__file__).parents[3] / "examples" / "reviews.csv"
ROWS = "good film,1\nbad film,0\n" * 6


def typed(*arguments: object) -> int:
    with pytest.raises(SystemExit) as stop:
        main(["forecast", "corpus", *map(str, arguments)])
    return int(stop.value.code or 0)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "x.csv"
    path.write_text("text,label\n" + ROWS)
    return path


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        (["x.csv", "--text", "²"], "no column '²'"),
        (["x.csv", "--text", "0", "--label", "1"], "add --header if"),
        (["x.csv", "--label", "7"], "no column 7"),
        (["x.csv", "--classes", "0,0,1"], "'0' is named 2 times"),
        (["x.csv", "--time", "1e9"], "time must be at most 100000, because computing grows with it; got 1e+09"),
        (["x.csv", "--optimizer", "adma"], "There is no optimizer 'adma'; the nearest names are adaptive, sgd"),
        (["x.csv", "--test", "absent.csv"], "There is no file absent.csv."),
        (["x.csv", "--test", "other.csv"], "the label '7' is not one of 0, 1"),
        (["x.csv", "--least", "0"], "least must be a whole number of at least 1"),
        (["x.csv", "--least", "99"], "No token occurs 99 times"),
        (["x.csv", "--report", "f.pdf"], "got f.pdf; give a name that ends in .html"),
        (["x.csv", "--report", "f.html", "--json", "./f.html"], "--json and --report both write f.html"),
        (["x.csv", "--json", "x.csv"], "--json x.csv would overwrite the texts"),
        (["./x.csv", "--report", "link.html"], "--report link.html would overwrite the texts"),
        (["stt2"], "There is no file stt2; did you mean sst2?"),
        (["quite_else"], "There is no file quite_else; the built-in corpora are sst2, imdb, ag_news."),
        (["absent.csv"], "There is no file absent.csv."),
        (["imdb", "--text", "text"], "--text is for files; the columns and classes of imdb are known."),
        (["imdb", "--classes", "0,1"], "--classes is for files"),
        (["imdb", "--no-header"], "--header is for files"),
        (["imdb", "--data", "."], "There is no imdb/train.csv.gz"),
        (["./imdb"], "./imdb is a folder; give a file in it."),
    ],
)
def test_refused_in_one_sentence(
    file: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], printed: str
) -> None:
    before = file.read_bytes()
    (file.parent / "imdb").mkdir()  # a folder of that name is no file
    (file.parent / "link.html").symlink_to(file)
    (file.parent / "other.csv").write_text("text,label\ngood film,7\n")
    assert typed(*arguments) == 2
    output = capsys.readouterr().err
    assert printed in output
    assert output.count("\n") == 1
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    ("labels", "printed"),
    [
        ([k // 2 for k in range(3000)], "x.csv: there are 1500 classes, and a forecast takes at most 100"),
        ([max(k, 9) for k in range(40)], "x.csv: 30 of 31 classes have a single text"),
    ],
)
def test_a_column_that_is_no_label_is_refused_at_once(
    file: Path, capsys: pytest.CaptureFixture[str], labels: list[int], printed: str
) -> None:
    file.write_text("text,label\n" + "".join(f"good film,{label}\n" for label in labels))
    assert typed(file.name) == 2
    output = capsys.readouterr().err
    assert printed in output
    assert output.endswith("is --label the right column?\n")


def test_files_have_as_many_as_were_asked_for(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = " ".join(f"w{k}" for k in range(40))
    file.write_text("text,label\n" + f"{words},1\nbad film,0\nshort,0\n" * 60)
    assert typed(file, "--top", "35", "--json", "f.json", "--report", "f.html") == 0
    written = json.loads(Path("f.json").read_text())
    assert len(written["tokens"]["MLP ReLU"]["1"]) == 35
    page = Path("f.html").read_text(encoding="utf-8")
    lists = page[page.index("<summary>MLP ReLU") :]
    assert lists[: lists.index("</details>")].count("<tr>") == 1 + 35 + 1 + 3  # with a head per class
    assert len(written["notes"]) == 61
    assert "56 more notes (--json has all)" in capsys.readouterr().err
    assert "The first 50 of 61; every row is kept." in page


@pytest.mark.parametrize("name", ["imdb", "stanfordnlp/imdb"])
@pytest.mark.parametrize("option", ["--json", "--report"])
def test_a_corpus_known_by_name_is_not_overwritten(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str, option: str
) -> None:
    corpus = file.parent / "imdb" / "train.csv.gz"
    corpus.parent.mkdir()
    corpus.write_bytes(gzip.compress(file.read_bytes()))
    (file.parent / "f.html").symlink_to(corpus)
    before = corpus.read_bytes()
    monkeypatch.setenv("FORETRAIN_DATA", str(file.parent))
    assert typed(name, option, corpus if option == "--json" else "f.html") == 2
    assert "would overwrite the texts" in capsys.readouterr().err
    assert corpus.read_bytes() == before


def test_control_characters_are_escaped_on_the_terminal(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text("text,label\n" + ROWS.replace(",1", ",\x1b[31mgood") + "\x1b \u202e end,0\n" * 6, encoding="utf-8")
    assert typed(file, "--json", "f.json", "--report", "f.html") == 0
    shown = capsys.readouterr()
    written = Path("f.html").read_text(encoding="utf-8")
    for text in (shown.out, shown.err, written[: written.index("<script")]):
        assert not {"\x1b", "\u202e"} & set(text)
    assert r"\x1b[31mgood: 6" in shown.out
    assert "\x1b[31mgood" in json.loads(Path("f.json").read_text(encoding="utf-8"))["classes"]


def test_the_answer_comes_first_and_fits_two_screens(capsys: pytest.CaptureFixture[str]) -> None:
    assert typed(REVIEWS) == 0
    output = capsys.readouterr().out
    assert len(output.splitlines()) < 75
    assert output.startswith("A classifier will get about")
    order = [output.index(part) for part in ("Fix these first:", "Trust:", "logistic regression  ", "rely on", "Bias:")]
    assert order == sorted(order)
    assert "See lines 6, 12, 18." in " ".join(output.split())
    assert "54 tokens, 149 2-grams that occur at least 5 times" in output
    assert "Scores above 0 are for positive, below 0 for negative." in " ".join(output.split())
    assert "e-1" not in output  # rounding errors are not a forecast


def test_a_small_file_takes_rarer_tokens_and_says_so(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text("text,label\none two three,a\nfour five six,b\nseven,a\n")
    assert typed(file, "--json", "f.json") == 0
    printed = capsys.readouterr().err
    assert "Few tokens occur 5 times, so all are scored." in printed
    assert "Few 2-grams occur 5 times, so all are scored." in printed
    assert "CNN ReLU" in json.loads(Path("f.json").read_text())["ngrams"]
    file.write_text("text,label\none,a\ntwo,b\n")
    assert typed(file) == 0
    assert "No 2-gram occurs" in capsys.readouterr().err


@pytest.mark.parametrize(("rows", "answer"), [(300, "No signal: "), (7, "7 texts are too few")])
def test_without_a_signal_it_does_not_say_that_there_is_nothing_to_fix(
    file: Path, capsys: pytest.CaptureFixture[str], rows: int, answer: str
) -> None:
    """Random labels, and seven rows, say nothing about shortcuts."""
    draw = np.random.default_rng(3)
    texts = [" ".join(draw.choice(list("abcdefghijklmnopqrstuvwxyz"), 12)) for _ in range(rows)]
    file.write_text("\n".join(["text,label", *(f"{text},{draw.integers(2)}" for text in texts)]))
    assert typed(file, "--least", "1", "--report", "f.html") == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert printed.startswith(answer)
    for shown in (printed, Path("f.html").read_text(encoding="utf-8")):
        assert "Whether there is anything to fix is unknown" in shown
        assert "There is nothing to fix" not in shown
        assert "Nothing was found" not in shown
