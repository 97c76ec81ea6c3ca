"""Every page forbids what it does not need, and leads nowhere."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

import foretrain
from foretrain.show.pages import POLICY
from safety.pages import PAGES

SOURCE = Path(foretrain.__file__).parent
TEMPLATES = SOURCE / "show" / "templates"
LOADING = ("src", "href", "srcset", "data", "action", "formaction", "poster", "background", "xlink:href", "ping")


class _Tags(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.all: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.all.append((tag, dict(attrs)))


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_the_policy_first_and_no_way_out(name: str, made: str) -> None:
    tags = _Tags(made).all
    policies = [k for k, (tag, own) in enumerate(tags) if own.get("http-equiv") == "Content-Security-Policy"]
    assert len(policies) == 1
    assert tags[policies[0]][1]["content"] == POLICY
    before = {tag for tag, _ in tags[: policies[0]]}
    assert before <= {"html", "head", "meta"}  # what comes before the policy is not under it
    assert not {tag for tag, _ in tags} & {"iframe", "object", "embed", "base", "form", "link", "img"} - {"form"}
    for tag, own in tags:
        assert not [key for key in own if key.startswith("on")], (tag, own)
        for key in LOADING:
            assert (own.get(key) or "#").startswith("#") or tag == "data", (tag, own)


def test_the_policy_allows_nothing_from_outside() -> None:
    rules = dict(rule.strip().split(" ", 1) for rule in POLICY.split(";"))
    assert rules["default-src"] == "'none'"
    assert {"base-uri", "form-action"} <= set(rules)  # these two do not follow default-src
    allowed = {word for rule in rules.values() for word in rule.split()}
    assert allowed <= {"'none'", "'unsafe-inline'", "data:", "blob:"}


def test_every_template_is_tried_here() -> None:
    """A template that is added needs a page in `pages.py`."""
    whole = {path.name for path in TEMPLATES.glob("*.html") if "extends" in path.read_text(encoding="utf-8")}
    assert whole == {
        "report.html", "figure.html", "corpus.html", "templates.html", "finetune.html", "monitor.html",
        "checkpoints.html", "neurons.html", "several.html",
    }  # fmt: skip
    bases = {re.search(r'extends "(.+?)"', (TEMPLATES / name).read_text(encoding="utf-8"))[1] for name in whole}  # type: ignore[index]
    assert bases == {"base.html"}


def test_no_other_code_writes_whole_pages() -> None:
    """The head of a page stands in base.html alone, and Plotly never writes a page of its own."""
    for path in SOURCE.rglob("*.py"):
        if path.is_relative_to(SOURCE / "explore"):  # an application that Dash serves, not a page that is written
            continue
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"<html|<!doctype|<head", text, re.IGNORECASE), path
        assert not re.search(r"\.write_html\(|full_html=True|include_plotlyjs=[\"']", text), path
        assert "to_html(" not in text or path.name == "pages.py", path
