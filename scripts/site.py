"""Makes the pages of the site that are not written by hand, while MkDocs builds it (`hooks` in mkdocs.yml).

README, changelog and contributing live at the top of the repository; papers come from the ledger, the reference from
docstrings. Links that lead out of docs/ are bent so that the same page reads well on the site and in the repository.
"""

from __future__ import annotations

import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))  # MkDocs loads this file by its path

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from scripts.architecture import ROOT
from scripts.paper_pages import in_order, introduction_of, page
from scripts.reference import all_undocumented, page_of_commands, page_of_package, public_names

from foretrain.papers import claims, names

TOP = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")
SEARCH = {"reference": 0.1, "reference.md": 0.1, "changelog.md": 0.1, "papers": 0.5}  # guides come first
CLAIM = re.compile(r"<code>(?P<id>[a-z0-9_]+/[A-Za-z0-9_]+)</code>")


def on_config(config: Any) -> Any:
    """Put the papers and the packages into the navigation."""
    missing = all_undocumented()
    if missing:
        raise PluginError(f"Public names without a docstring: {', '.join(missing)}.")
    sections = {"PAPERS": _paper_navigation(), "REFERENCE": _reference_navigation()}
    config.nav = [
        {title: sections.get(value, value) if isinstance(value, str) else value for title, value in entry.items()}
        for entry in config.nav
    ]
    return config


def _paper_navigation() -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = []
    for paper in in_order():
        written = introduction_of(paper)
        pages = [{"What it says, what we found": written}] if written else []
        listed.append({paper.short: [*pages, {"Claims and figures": f"papers/{paper.name}.md"}]})
    return listed


def _reference_navigation() -> list[Any]:
    pages = ["Command line", *public_names()]
    return [{"Overview": "reference.md"}, *({title: _reference_page(title)} for title in pages)]


def _reference_page(title: str) -> str:
    return f"reference/{title.lower().replace(' ', '-')}.md"


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are made here."""
    pages = {place: (ROOT / name).read_text(encoding="utf-8") for name, place in TOP.items()}
    pages |= {f"papers/{paper.name}.md": page(paper) for paper in in_order()}
    pages |= {_reference_page(title): page_of_package(title, listed) for title, listed in public_names().items()}
    pages |= {_reference_page("Command line"): page_of_commands()}
    for place, text in pages.items():
        files.append(File.generated(config, place, content=text))
    return files


def on_page_markdown(text: str, page: Any, **_: Any) -> str:
    """Bend links that are right in the repository and would be wrong here."""
    source = page.file.src_uri
    at_top = source in TOP.values()
    if page.parent is None:  # no neighbours to navigate to
        page.meta["hide"] = ["navigation"]
    heading = re.match(r"# (.+)", text)
    if heading and "/" in source:  # the navigation's title is short: "Claims and figures" of which paper?
        page.meta["title"] = heading[1]
    kind = source.partition("/")[0]
    page.meta["search"] = {"boost": SEARCH.get(kind, 1)}

    def bent(match: re.Match[str]) -> str:
        target, hash, anchor = match["target"].partition("#")
        if at_top and target.startswith("docs/"):
            return f"{match['image']}[{match['text']}]({target.removeprefix('docs/')}{hash}{anchor})"
        name = target.removeprefix("../") if not at_top else target
        if name in TOP:
            return f"[{match['text']}]({TOP[name]}{hash}{anchor})"
        if name and "/" not in source and (ROOT / name).exists() and (at_top or target.startswith("../")):
            return match["text"] if name in match["text"] else f"{match['text']} (`{name}`)"  # not on the site
        return match[0]

    return LINK.sub(bent, text)


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Make a claim's id a link to the claim."""
    up = "../" * page.file.src_uri.count("/")

    def linked(match: re.Match[str]) -> str:
        paper = match["id"].split("/")[0]
        if match["id"] not in _known(paper) or f"papers/{paper}.md" == page.file.src_uri:
            return match[0]
        return f'<a href="{up}papers/{paper}.html#{match["id"]}">{match[0]}</a>'

    return CLAIM.sub(linked, html)


@cache
def _known(paper: str) -> frozenset[str]:
    return frozenset(claims(paper)) if paper in names() else frozenset()
