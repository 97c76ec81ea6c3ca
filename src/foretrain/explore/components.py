"""The page's own parts, drawn by assets/explore.js: controls, formulas, and a button that copies."""

from __future__ import annotations

from typing import Any, ClassVar
from xml.etree import ElementTree

from dash.development.base_component import Component

from foretrain.show.formulas import MATHML, typeset


class _Part(Component):
    _namespace = "foretrain_explore"
    _children_props: list[str] = []  # noqa: RUF012
    _base_nodes: list[str] = ["children"]  # noqa: RUF012
    available_properties: ClassVar[list[str]] = []
    available_wildcard_properties: list[str] = []  # noqa: RUF012

    def __init__(self, **given: Any) -> None:
        self._prop_names = list(self.available_properties)
        self._valid_wildcard_attributes: list[str] = []
        super().__init__(**{key: value for key, value in given.items() if value is not None})


class SliderPart(_Part):
    """A control as its specification says; `value` is what it is set to."""

    _type = "Slider"
    available_properties: ClassVar[list[str]] = ["id", "spec", "value"]


class FormulaPart(_Part):
    """A formula as a tree of MathML elements, which the script builds one by one: no HTML is read."""

    _type = "Formula"
    available_properties: ClassVar[list[str]] = ["id", "tree", "latex"]


class CopyPart(_Part):
    """A button that copies a text."""

    _type = "Copy"
    available_properties: ClassVar[list[str]] = ["id", "text", "label"]


def formula(latex: str) -> FormulaPart:
    """A formula for the page; what cannot be typeset is shown as it is written."""
    text = str(typeset(latex))
    if not text.startswith("<math"):
        return FormulaPart(latex=latex)
    return FormulaPart(latex=latex, tree=_tree(ElementTree.fromstring(text)))


def _tree(element: ElementTree.Element) -> list[Any]:
    """[tag, attributes, text, children]."""
    allowed = {key: value for key, value in element.attrib.items() if key in ("display", "stretchy", "mathvariant")}
    return [element.tag.removeprefix(MATHML), allowed, element.text or "", [_tree(child) for child in element]]
