"""Formulas in pages: LaTeX becomes MathML, which browsers typeset without any script."""

from __future__ import annotations

from functools import cache
from xml.etree import ElementTree

from latex2mathml.converter import convert
from markupsafe import Markup, escape

MATHML = "{http://www.w3.org/1998/Math/MathML}"


@cache
def typeset(latex: str) -> Markup:
    """A formula as MathML; as escaped text if it cannot be converted, or if the result is not pure MathML."""
    try:
        text = convert(latex, display="block")
        root = ElementTree.fromstring(text)
    except Exception:  # the converter has an error of its own for every kind of mistake
        return Markup("<code>{}</code>").format(escape(latex))
    if not all(str(element.tag).startswith(MATHML) and not _scripted(element) for element in root.iter()):
        return Markup("<code>{}</code>").format(escape(latex))
    return Markup(text)


def _scripted(element: ElementTree.Element) -> bool:
    return any(name.lower().startswith("on") or "href" in name.lower() for name in element.attrib)
