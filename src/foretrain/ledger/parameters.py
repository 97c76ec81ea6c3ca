"""What an experiment takes: every parameter with its type, range, unit and one sentence.

The description is part of the signature: `Annotated[type, about("What it is.", unit="steps")]`. The command line reads
`--set` with it, `foretrain show` prints it, and a page can build its controls from `Parameter.schema()`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from reprlib import repr as short_repr
from typing import Annotated, Any, get_type_hints

from pydantic import ConfigDict, Field, PydanticSchemaGenerationError, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from foretrain.core.errors import InputError, nearest

Count = Annotated[int, Field(ge=1, le=10**9)]  # more of anything does not fit into memory
WholeNumber = Annotated[int, Field(ge=0, le=10**9)]
Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]

# What settings were called before, beside plurals such as "kinds" for kind; only for the hint in an error.
FORMER_NAMES = {"layers": "depth", "samples": "n", "corpora": "corpus", "ridges": "rule", "ratios": "rule"}


def about(says: str, *, unit: str | None = None, file: bool = False, examples: Sequence[Any] = ()) -> Any:
    """The description of a parameter, to be written into its annotation.

    A value of a `file` parameter may be the path of a file; then what is in the file counts, not only its name.
    """
    more = {"unit": unit, "file": file or None}
    return Field(
        description=says,
        examples=list(examples) or None,
        json_schema_extra={key: value for key, value in more.items() if value is not None},
    )


Seeds = Annotated[
    Count | Annotated[Sequence[WholeNumber], Field(min_length=1)],
    about("How many seeds (N means 1 to N), or a list of them; each seed is one repetition."),
]


@dataclass(frozen=True)
class Parameter:
    """One parameter of an experiment."""

    name: str
    type: Any  # with its bounds and description
    default: Any

    def along(self, name: str, values: Any) -> Parameter:
        """The parameter whose values are those of an axis, of which this one takes a single value."""
        if name == "seeds":
            return Parameter(name, Seeds, values)
        says = about(self.says, unit=self.unit or None, file=self.is_file)
        return Parameter(name, Annotated[Sequence[self.type], Field(min_length=1), says], values)  # type: ignore[name-defined]

    def with_default(self, default: Any) -> Parameter:
        """The same parameter with another default."""
        return replace(self, default=default)

    @cached_property
    def _adapter(self) -> Any:
        return TypeAdapter(self.type, config=ConfigDict(allow_inf_nan=False, coerce_numbers_to_str=True))

    @cached_property
    def _schema(self) -> dict[str, Any]:
        try:
            return self._adapter.json_schema()
        except PydanticSchemaGenerationError:
            return {}

    def schema(self) -> dict[str, Any]:
        """Type, bounds, description and unit as a JSON schema."""
        return dict(self._schema)

    @property
    def says(self) -> str:
        """What it means, in a sentence."""
        return str(self.schema().get("description", ""))

    @property
    def unit(self) -> str:
        """Its unit, such as "steps"; empty if it has none."""
        return str(self.schema().get("unit", ""))

    @property
    def is_file(self) -> bool:
        """Whether a value may be the path of a file."""
        return bool(self.schema().get("file"))

    @property
    def takes(self) -> str:
        """What may be given, in words: "numbers above 0"."""
        return _in_words(self.schema())

    @property
    def several(self) -> bool:
        """Whether it takes more than one value."""
        return any(part.get("type") == "array" for part in _alternatives(self.schema()))

    @property
    def _takes_one(self) -> bool:
        return any(part.get("type") not in ("array", "null") for part in _alternatives(self.schema()))

    def read(self, text: str) -> Any:
        """The value that `--set name=text` means. InputError if it is not one that this parameter takes."""
        self._require_no_gaps(text.strip())
        for value in self._readings(text.strip()):
            try:
                return _frozen(self._adapter.validate_python(value))
            except (ValidationError, OverflowError):
                continue
        number = _number(text.strip())
        limit = "; a whole number can be 1,000,000,000 at most" if isinstance(number, float) and number > 1e9 else ""
        raise InputError(f"{self.name} takes {self.takes}; got {_shortened(text)}{limit}.")

    def take(self, value: Any) -> Any:
        """A value given from Python, as it is; InputError if it is not one that this parameter takes.

        A single value where a list belongs becomes a list of one. Only what the type reads as something else, such as
        "8" or 8.0 for a whole number, is replaced by what it means.
        """
        plain = _as_plain(value)
        single = self.several and not self._takes_one and value is not None and not isinstance(plain, list)
        given, plain = ([plain], [plain]) if single else (value, plain)
        try:
            meant = self._adapter.validate_python(plain)
        except PydanticSchemaGenerationError:  # a type of a cell from elsewhere, which says nothing about its values
            return given
        except (ValidationError, OverflowError):
            raise InputError(f"{self.name} takes {self.takes}; got {_shortened(value)}.") from None
        return given if _is_as_meant(plain, _as_plain(meant)) else _frozen(meant)

    def _require_no_gaps(self, text: str) -> None:
        parts = [part.strip() for part in text.split(",")]
        if self.several and len(parts) > 1 and not all(parts):
            written = ",".join(filter(None, parts))
            raise InputError(f"{self.name} has an empty value in {_shortened(text)}; write {self.name}={written}.")

    def _readings(self, text: str) -> list[Any]:
        """What a text may mean, the likeliest first; the type decides."""
        if text.lower() in ("none", "null"):
            return [None, text]
        quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
        scalars = [text[1:-1] if quoted else text, _number(text)]
        if not self.several or (self._takes_one and "," not in text and text[:1] not in ("(", "[")):
            return scalars
        bracketed = text[:1] + text[-1:] in ("()", "[]")
        parts = [part.strip().strip("'\"") for part in (text[1:-1] if bracketed else text).split(",")]
        if len(parts) > 1 and not parts[-1] and text[-1] in ")]":
            parts.pop()  # Python writes a tuple of one as (1,)
        parts = [] if parts == [""] else parts
        return [parts, [_number(part) for part in parts]]


def parameters_of(function: Callable[..., Any]) -> dict[str, Parameter]:
    """The parameters of an experiment's function by name."""
    hints = get_type_hints(inspect.unwrap(function), include_extras=True)
    return {
        p.name: Parameter(p.name, hints.get(p.name, Any), p.default)
        for p in inspect.signature(function).parameters.values()
    }


def require_setting(name: str, known: Iterable[str]) -> None:
    """Require the name of a setting; a plural or a former name leads to the one it has now."""
    known = list(known)
    if name in known:
        return
    renamed = [new for new in (name.removesuffix("s"), FORMER_NAMES.get(name)) if new in known]
    near = list(dict.fromkeys([*renamed, *nearest(name, known)]))[:3]
    raise InputError(f"There is no setting {name!r}; the nearest names are {', '.join(near)}.")


def is_described(parameter: Parameter) -> bool:
    """Whether the annotation has a sentence about the parameter."""
    notes = getattr(parameter.type, "__metadata__", ())
    return any(isinstance(note, FieldInfo) and note.description for note in notes)


def _alternatives(schema: dict[str, Any]) -> list[dict[str, Any]]:
    return schema.get("anyOf") or [schema]


def _in_words(schema: dict[str, Any], plural: bool = False) -> str:
    if "anyOf" in schema:
        return " or ".join(_in_words(part, plural) for part in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        names = list(map(str, schema.get("enum", [schema.get("const")])))
        return f"{'any' if plural else 'one'} of {', '.join(names)}"
    kind = schema.get("type")
    if kind == "array":
        if "prefixItems" in schema:
            return f"{len(schema['prefixItems'])} values with commas between them"
        return f"{_in_words(schema.get('items', {}), plural=True)} with commas between them"
    one = {"integer": "a whole number", "number": "a number", "boolean": "true or false", "null": "none"}
    many = {"integer": "whole numbers", "number": "numbers", "string": "names"}
    words = many.get(str(kind), "values") if plural else one.get(str(kind), "text")
    return words + _bounds(schema)


def _bounds(schema: dict[str, Any]) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    high = None if high == 10**9 else high  # the bound of Count, which is there for memory
    if low is not None and high is not None:
        return f" from {low:,} to {high:,}"
    words = [
        f"of at least {low:,}" if low is not None else "",
        f"above {above:g}" if above is not None else "",
        f"of at most {high:,}" if high is not None else "",
        f"below {below:g}" if below is not None else "",
    ]
    return " " + " and ".join(word for word in words if word) if any(words) else ""


def _number(text: str) -> Any:
    """1e3 may be meant for a whole number, and .5 is a number too."""
    if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?", text) is None:
        return text
    return float(text)


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _as_plain(value: Any) -> Any:
    """A value with lists in place of arrays, tuples and ranges, and text in place of paths."""
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, list | tuple | range):
        return [_as_plain(part) for part in value]
    return str(value) if isinstance(value, Path) else value


def _is_as_meant(given: Any, meant: Any) -> bool:
    """Whether a value may stay as it was given: 1 for 1.0, but neither "1" nor 1.0 for 1, nor 1 for true."""
    if isinstance(given, list) and isinstance(meant, list):
        return len(given) == len(meant) and all(map(_is_as_meant, given, meant))
    retyped = isinstance(meant, int) and type(given) is not type(meant)  # 1.0 and True are equal to 1
    return given is meant or (given == meant and not retyped)


def _shortened(value: Any, most: int = 60) -> str:
    if isinstance(value, str):
        return repr(value if len(value) <= most else f"{value[: most - 1]}…")
    return " ".join(short_repr(value).split())  # an array has a line for every row
