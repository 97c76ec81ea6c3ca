"""The run-time type checker of the tests: every annotation of foretrain is enforced; an int is a float.

jaxtyping's import hook puts `jaxtyping.jaxtyped` before every function and dataclass. Its own version binds and checks
the arguments of each call twice, which takes longer than most functions here; `enforced` takes its place: beartype
checks arguments and result once, within one scope for the names of axes where there are any.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import is_dataclass
from types import FunctionType
from typing import Any, TypeVar, get_args, get_type_hints

import jaxtyping
from beartype import BeartypeConf, FrozenDict, beartype
from numpy.typing import ArrayLike

# numpy's ArrayLike is a union of protocols that takes longer to check than most formulas take to compute.
check = beartype(conf=BeartypeConf(is_pep484_tower=True, hint_overrides=FrozenDict({ArrayLike: object})))
axes_of_a_call = jaxtyping.jaxtyped  # of "context": until it is left, a name of an axis stands for one length

Checked = TypeVar("Checked", bound=Callable[..., Any])


def enforced(*, typechecker: object) -> Callable[[Checked], Checked]:
    """In the place of `jaxtyping.jaxtyped`, for what its import hook decorates."""
    return _enforced


def _enforced(item: Any) -> Any:
    if isinstance(item, FunctionType):
        return _checked(item)
    if is_dataclass(item) and isinstance(item.__init__, FunctionType) and "__init__" in vars(item):
        item.__init__ = _checked(item.__init__)
    return item


def _checked(function: FunctionType) -> Callable[..., Any]:
    if not function.__annotations__:
        return function
    checked: Callable[..., Any] | None = None

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal checked
        if jaxtyping.config.jaxtyping_disable:
            return function(*args, **kwargs)
        if checked is None:  # made on the first call: most functions are not called by most tests
            checked = _with_checks(function)
        return checked(*args, **kwargs)

    return call


def _with_checks(function: FunctionType) -> Callable[..., Any]:
    hints = {name: _hint(name, function) for name in function.__annotations__}
    function.__annotations__ = hints
    checked = check(function)
    if not any(map(_names_axes, hints.values())):
        return checked

    def in_a_scope_of_its_own(*args: Any, **kwargs: Any) -> Any:
        with axes_of_a_call("context"):
            return checked(*args, **kwargs)

    return in_a_scope_of_its_own


def _hint(name: str, function: FunctionType) -> Any:
    """An annotation as a type; anything goes where it means something to a reader only."""

    def alone() -> None: ...

    alone.__annotations__ = {name: function.__annotations__[name]}
    try:
        return get_type_hints(alone, function.__globals__, include_extras=True)[name]
    except (NameError, AttributeError, ValueError):  # ValueError: two groups of axes, "*run token *run"
        return Any


def _names_axes(hint: Any) -> bool:
    if isinstance(hint, type) and issubclass(hint, jaxtyping.AbstractArray):
        return True
    return any(map(_names_axes, get_args(hint)))
