"""Two columns in a docstring become a list on the site; everything else stays as it is."""

from scripts.docstrings import with_lists


def test_two_columns_become_a_list() -> None:
    text = 'A model.\n\nstart     "zero"\nresidual  adds the query,\n          once more\n\nThe end.'
    listed = 'A model.\n\n\n- `start`: "zero"\n\n- `residual`: adds the query,\n          once more\n\nThe end.'
    assert with_lists(text) == listed


def test_a_sentence_before_the_columns_is_kept_apart() -> None:
    assert with_lists("Two rates.\na  first\nb  second") == "Two rates.\n\n- `a`: first\n\n- `b`: second"


def test_sentences_and_code_are_left_alone() -> None:
    for text in ("With D = n:  a = n.\nAnd more.", "Use it:\n\n    a = 1  # one\n    b = 2", "- one\n- two"):
        assert with_lists(text) == text
