"""Labelled files and counts: no row lost, no row merged, and a line number for whatever is wrong."""

from __future__ import annotations

import csv
import gzip
import sys
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretrain.core.errors import InputError
from foretrain.data.corpora import LABELLED, labelled_corpus, text_corpus
from foretrain.data.labelled_texts import read_labelled
from foretrain.data.tokens import TokenTexts, Vocabulary, words

# a file with a zero byte is refused
cells = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\x00"), min_size=1, max_size=20)


@given(rows=st.lists(st.tuples(cells, st.sampled_from("ab")), min_size=2, max_size=8))
def test_csv_brings_every_text_back_whatever_is_in_it(rows, tmp_path_factory) -> None:
    path = tmp_path_factory.mktemp("csv") / "x.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([("text", "label"), *rows])
    read = read_labelled(path, classes=("a", "b"))
    assert list(read.texts) == [text for text, _ in rows]
    assert [read.classes[k] for k in read.labels] == [label for _, label in rows]


def test_the_same_rows_from_every_kind_of_file(tmp_path: Path) -> None:
    rows = [("good <br /> film", "1"), ("bad film", "0")]
    table = "text,label\n" + "".join(f'"{t}",{y}\n' for t, y in rows)
    (tmp_path / "a.csv").write_text("\ufeff" + table, encoding="utf-8")
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(table.encode()))
    (tmp_path / "c.tsv").write_text("text\tlabel\n" + "".join(f"{t}\t{y}\n" for t, y in rows))
    arrow = pyarrow.table({"label": [1, 0], "text": [t for t, _ in rows]})
    pyarrow.parquet.write_table(arrow, tmp_path / "d.parquet")
    for name in ("a.csv", "b.csv.gz", "c.tsv", "d.parquet"):
        read = read_labelled(tmp_path / name)
        assert (read.texts, read.labels.tolist(), read.classes) == (tuple(t for t, _ in rows), [1, 0], ("0", "1"))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("text,label\na,1\nb,\n", r"line 3: the label is missing; fill it in or delete the row\.$"),
        ("text,label\na,1\nb,NaN\n", r"line 3: the label is 'NaN', a missing value; .* delete the row, .* --classes"),
        (
            "text,label\na,Pos\nb,0\nc,pos\n",
            r"line 4: the label 'pos' differs from 'Pos' only in its capitals; .* --cl",
        ),
        ('text,label\n"a\nb",1\nc\n', r"line 4: 1 column where 2"),
        ('text,label\na,1\n"b,0\n', r"line 3"),
        ("text,label\na,1\nb,1\n", r"line 2 and after: there is only one class \('1'\)"),
        ("text,label\n", r"line 1: no rows"),
        ("", r"line 1: the file is empty"),
        (
            "words,label\na,1\n",
            r"line 1: there is no column 'text'; the columns are 'words', 'label'; for a file without a header",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_line(text: str, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=sentence):
        read_labelled(path)


def test_wrong_bytes_labels_and_endings(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(b"text,label\na,1\ncaf\xe9,0\n")
    with pytest.raises(InputError, match=r"line 3: byte 0xe9 is not UTF-8"):
        read_labelled(path)
    path.write_text("text,label\na,1\nb,2\n")
    with pytest.raises(InputError, match=r"line 3: the label '2' is not one of 0, 1"):
        read_labelled(path, classes=("0", "1"))
    path.write_bytes(b"text,label\na,1\nb\x00,0\n")
    with pytest.raises(InputError, match="line 3: there is a zero byte"):
        read_labelled(path)
    path.write_bytes("text,label\na,1\nb,0\n".encode("utf-16"))
    with pytest.raises(InputError, match="line 1: byte 0xff is not UTF-8"):
        read_labelled(path)
    (tmp_path / "x.docx").write_text("")
    with pytest.raises(InputError, match=r"x\.docx ends in '\.docx'"):
        read_labelled(tmp_path / "x.docx")
    with pytest.raises(InputError, match="There is no file"):
        read_labelled(tmp_path / "absent.csv")
    (tmp_path / "x.parquet").write_text("no")
    with pytest.raises(InputError, match="cannot be read as a parquet file"):
        read_labelled(tmp_path / "x.parquet")
    (tmp_path / "y.csv.gz").write_bytes(gzip.compress(b"text,label\na,1\nb,0\n")[:-9])
    with pytest.raises(InputError, match="not a complete gzip"):
        read_labelled(tmp_path / "y.csv.gz")


def test_an_empty_text_is_kept_and_told(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("text,label\na,1\n,0\n")
    read = read_labelled(path)
    assert len(read) == 2
    assert "line 3: the text is empty" in read.notes[0]


def test_texts_know_their_line_also_behind_quoted_newlines(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text('text,label\n"a\n\nb",1\nc,0\n')
    read = read_labelled(path)
    assert [read.place(i) for i in range(2)] == [f"{path}, line 2", f"{path}, line 5"]
    assert read.select([1]).place(0) == f"{path}, line 5"
    assert read.select([1]).texts == ("c",)


@given(st.lists(st.lists(st.integers(0, 3), max_size=4), min_size=1, max_size=5), st.data())
def test_chosen_and_joined_texts_are_those_of_lists(texts: list[list[int]], data: st.DataObject) -> None:
    whole = TokenTexts.of_lists(texts, 4)
    rows = data.draw(st.lists(st.integers(0, len(texts) - 1), max_size=4))
    chosen = whole.select(np.array(rows, dtype=np.int64))
    both = whole.followed_by(chosen)
    assert [both[i].tolist() for i in range(len(both))] == [*texts, *(texts[i] for i in rows)]


def test_words_keep_markup_and_apostrophes_whole() -> None:
    assert words("Don't<br />GO, 3 < 4!") == ["don't", "<br />", "go", ",", "3", "<", "4", "!"]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("AT&amp;T &#39;x&quot; R&D; a&b", "at &amp; t &#39; x &quot; r & d ; a & b"),
        ("the world #39;s quot;best quot; amp;", "the world #39; s quot; best quot; amp ;"),
        ("(see http://www.A.com:80/b?c=d#e, www.foo.org/x.)", "( see http://www.a.com , www.foo.org . )"),
        ("awww. http:// www.", "awww . http : / / www ."),
        ('<A HREF="http://x.com/a b">x</A><br/><BR clear=all>', "<a> x </a> <br/> <br>"),
        ("&lt;A HREF='x?a&b'&gt;x&lt;/A&gt; 3 &lt; 4 &gt; 2", "&lt;a&gt; x &lt;/a&gt; 3 &lt; 4 &gt; 2"),
        ("I <3 this, and 5 > 4", "i < 3 this , and 5 > 4"),
    ],
)
def test_what_is_written_for_programs_is_one_token(text: str, tokens: str) -> None:
    assert words(text) == tokens.split()


def test_the_vocabulary_knows_only_what_it_was_given() -> None:
    vocabulary = Vocabulary.of([["a", "b", "a"], ["c"]], least=1)
    assert vocabulary.tokens[0] == "a"
    assert vocabulary.tokens[-1] == "<unk>"
    encoded = vocabulary.encode([["a", "new"], []])
    assert [vocabulary.tokens[k] for k in encoded[0]] == ["a", "<unk>"]
    assert encoded.lengths.tolist() == [2, 0]
    with pytest.raises(InputError, match="No token occurs 3 times"):
        Vocabulary.of([["a"]], least=3)


@given(st.lists(st.lists(st.integers(0, 3), max_size=6), min_size=1, max_size=6), st.integers(1, 3))
def test_counts_and_ngrams_are_those_of_a_plain_loop(texts: list[list[int]], n: int) -> None:
    flat = np.array([k for text in texts for k in text], dtype=np.int64)
    starts = np.concatenate([[0], np.cumsum([len(text) for text in texts])]).astype(np.int64)
    tokens = TokenTexts(flat, starts, 4)
    np.testing.assert_array_equal(tokens.counts.toarray(), [[text.count(k) for k in range(4)] for text in texts])
    grams, counts = tokens.ngrams(n)
    looped = [[tuple(text[i : i + n]) for i in range(len(text) - n + 1)] for text in texts]
    assert [tuple(g) for g in grams.tolist()] == sorted({g for text in looped for g in text})
    expected = [[text.count(tuple(g)) for g in grams.tolist()] for text in looped]
    np.testing.assert_array_equal(counts.toarray().reshape(len(texts), -1), np.array(expected).reshape(len(texts), -1))


def test_known_corpora_are_whole(data_dir: Path) -> None:
    """Row and class counts as their sources give them."""
    sizes = {("sst2", "train"): [3310, 3610], ("sst2", "test"): [912, 909], ("ag_news", "test"): [1900] * 4}
    for (name, split), counts in sizes.items():
        assert labelled_corpus(name, split, data=data_dir).class_counts.tolist() == counts
    assert len(text_corpus("wikitext-2", "dev", data=data_dir).split()) == 213_886
    assert LABELLED["imdb"].files.keys() == {"train", "test"}


def test_known_classes_have_their_names_in_every_split(tmp_path: Path) -> None:
    (tmp_path / "ag_news").mkdir()
    (tmp_path / "ag_news" / "train_5000.csv").write_text("label,text\n3,chip\n0,vote\n")
    (tmp_path / "ag_news" / "test.csv").write_text('"4","chip","fast"\n"1","vote","held"\n')
    for split in ("train", "test"):
        read = labelled_corpus("ag_news", split, data=tmp_path)
        assert [read.classes[k] for k in read.labels] == ["Sci/Tech", "World"]


def test_plain_text_is_read_from_its_file(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\ufeffone two\n", encoding="utf-8")
    assert text_corpus(str(tmp_path / "a.txt")) == "one two\n"
    with pytest.raises(InputError, match="no text corpus 'wikitext-3'"):
        text_corpus("wikitext-3")


def test_a_corpus_that_is_not_there_names_the_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"There is no .*sst2"):
        labelled_corpus("sst2", data=tmp_path)
    with pytest.raises(InputError, match="no split of sst2 'valid'"):
        labelled_corpus("sst2", "valid", data=tmp_path)
    monkeypatch.delenv("FORETRAIN_DATA", raising=False)
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(InputError, match=r"--data"):
        labelled_corpus("sst2")


def _parquet(path: Path, **columns: object) -> Path:
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return path


def test_columns_are_names_first_and_then_numbers(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("2020,1,label\nfirst,second,a\nthird,fourth,b\n")
    assert read_labelled(path, text="2020").texts == ("first", "third")
    assert read_labelled(path, text="1").texts == ("second", "fourth")
    assert read_labelled(path, text="0").texts == ("first", "third")  # no such name: a place
    assert read_labelled(path, text="2020", label="1", header=True).classes == ("fourth", "second")
    with pytest.raises(InputError, match=r"no column 2020; the 3 columns are numbered from 0; add --header if"):
        read_labelled(path, text="2020", label="2")
    with pytest.raises(InputError, match="no column '²'"):
        read_labelled(path, text="²")
    with pytest.raises(InputError, match=r"no column 7; the 3 columns are numbered from 0\."):
        read_labelled(path, text="label", label="7")
    with pytest.raises(InputError, match="cannot be both the text and the label"):
        read_labelled(path, text="label")
    path.write_text("text,text,label\na,b,0\nc,d,1\n")
    with pytest.raises(InputError, match=r"line 1: 2 columns are called 'text'; rename one, or give its number"):
        read_labelled(path)
    assert read_labelled(path, text="1").texts == ("b", "d")


def test_a_header_among_the_rows_is_asked_about(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("text,label\na,1\nb,0\nc,1\nd,0\n")
    with pytest.raises(InputError, match=r"line 1: no other row has the label 'label'; add --header .* --no-header"):
        read_labelled(path, text=0, label=1)
    assert read_labelled(path, text=0, label=1, header=True).classes == ("0", "1")
    assert read_labelled(path, text=0, label=1, header=False).classes == ("0", "1", "label")
    path.write_text("a,1\nb,0\nc,1\nd,0\n")
    assert len(read_labelled(path, text=0, label=1)) == 4
    with pytest.raises(InputError, match=r"the columns are 'a', '1'; for a file without a header give numbers from 0"):
        read_labelled(path)
    path.write_text("text;label\na, and b;1\nb;0\n")
    assert read_labelled(path).texts == ("a, and b", "b")
    path.write_text("text|label\na|1\nb|0\n")
    with pytest.raises(InputError, match=r"separated by '\|'\? Save the file with commas"):
        read_labelled(path)


@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
def test_tab_separated_text_is_read_as_it_was_quoted(quoting: int, tmp_path: Path) -> None:
    rows = [('she said "no"', "a"), ("two\nlines\tand a tab", "b"), ("plain", "a")]
    path = tmp_path / "x.tsv"
    with path.open("w", newline="") as file:
        csv.writer(file, delimiter="\t", quoting=quoting).writerows([("text", "label"), *rows])
    assert read_labelled(path).texts == tuple(text for text, _ in rows)


def test_quotation_marks_of_unquoted_tab_separated_text_join_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "x.tsv"
    path.write_text('text\tlabel\n"he said\t1\nnothing\t0\nat all"\t1\n')
    assert read_labelled(path).texts == ('"he said', "nothing", 'at all"')


def test_parquet_speaks_of_rows_and_knows_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"x\.parquet, row 3: the label is missing"):
        read_labelled(_parquet(tmp_path / "x.parquet", text=["a", "b", "c"], label=[0.0, 1.0, float("nan")]))
    read = read_labelled(_parquet(tmp_path / "x.parquet", text=["a", None], label=[0.0, 1.0]))
    assert (read.texts, read.classes, read.place(1)) == (("a", ""), ("0", "1"), f"{tmp_path / 'x.parquet'}, row 2")
    assert "row 2: the text is empty" in read.notes[0]
    with pytest.raises(InputError, match="'text' holds binary, not text"):
        read_labelled(_parquet(tmp_path / "x.parquet", text=[b"a", b"b"], label=[0, 1]))


def test_an_open_quotation_mark_is_found_where_it_opens(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text('text,label\na,1\n"b,0\n' + "c,1\n" * 50)
    with pytest.raises(InputError, match=r"line 3: .*a quotation mark is never closed"):
        read_labelled(path)


def test_classes_are_named_once(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("text,label\na,1\nb,0\n")
    with pytest.raises(InputError, match="'0' is named 2 times"):
        read_labelled(path, classes=("0", "0", "1"))
    with pytest.raises(InputError, match="A class has no name"):
        read_labelled(path, classes=("0", "", "1"))


def test_classes_that_look_like_a_mistake_can_be_named(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("text,label\na,nan\nb,Nan\nc,none\n")
    assert read_labelled(path, classes=("nan", "Nan", "none")).labels.tolist() == [0, 1, 2]
    path.write_text("text,label\na,none\nb,NA\n")
    assert read_labelled(path).classes == ("NA", "none")


def test_a_hub_without_network_fails_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hub:
        @staticmethod
        def load_dataset(name: str, configuration: str | None, split: str) -> list[dict[str, object]]:
            if split == "train":
                raise ConnectionError(f"HTTPSConnectionPool: cannot reach {name}\nmany lines")
            return [{"text": "fine", "label": 1}, {"text": "poor", "label": 0}]

    monkeypatch.delenv("FORETRAIN_DATA", raising=False)
    monkeypatch.setitem(sys.modules, "datasets", Hub)
    for name in ("imdb", "stanfordnlp/imdb"):
        with pytest.raises(InputError) as refused:
            labelled_corpus(name)
        assert str(refused.value) == (
            "stanfordnlp/imdb could not be fetched (ConnectionError); give a folder that has imdb/ with --data, or set "
            "FORETRAIN_DATA."
        )
    there = labelled_corpus("imdb", "test")
    assert (there.texts, there.labels.tolist(), there.classes) == (("fine", "poor"), [1, 0], ("negative", "positive"))
    with pytest.raises(InputError, match=r"Salesforce/wikitext could not be fetched .* --data"):
        text_corpus("wikitext-2")
