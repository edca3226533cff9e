"""Keywords that functions of the Python interface share with the command line.

A function takes those of `prospect.options` as ``**keywords`` that a type checker knows, and names
their classes by `takes`. `written_out` gives what `prospect` offers their names, defaults and
meanings, for `help` and for editors. Documented in docs/python.md.
"""

from __future__ import annotations

import functools
import textwrap
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from prospect.options import declared_in

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from prospect.records import Record

_P = ParamSpec("_P")
_R = TypeVar("_R")
_Kind = TypeVar("_Kind", bound="Record")
_INDENT = " " * 4
_WIDTH = 96  # a docstring's, without the indentation of its function


def takes(*kinds: type[Record]) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Mark a function as one whose ``**keywords`` are the fields of some classes of options."""

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        code = function.__code__
        own = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        known = {*own, *(name for kind in kinds for name in kind.__record_fields__)}

        @functools.wraps(function)
        def checked(*args: _P.args, **keywords: _P.kwargs) -> _R:
            for name in keywords:
                if name not in known:
                    raise TypeError(
                        f"{function.__name__}() got an unexpected keyword argument '{name}'"
                    )
            return function(*args, **keywords)

        checked.__dict__["__kinds__"] = kinds
        return checked

    return decorate


def chosen(kind: type[_Kind], keywords: Mapping[str, Any]) -> _Kind:
    """Make options of those keywords that are fields of their class; lists become tuples."""
    return kind(
        **{
            name: tuple(value) if isinstance(value, list) else value
            for name, value in keywords.items()
            if name in kind.__record_fields__
        }
    )


def written_out(function: Any) -> Any:
    """Give a function that `takes` keywords a signature and a docstring that have each of them."""
    kinds = function.__dict__.get("__kinds__", ())
    if not kinds or "__signature__" in function.__dict__:
        return function
    import inspect  # takes as long to import as half of a short report

    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())[:-1]
    described = []
    for kind in kinds:
        for name, declared in declared_in(kind).items():
            described += _described(name, declared.doc)
            default, annotation = declared.default, kind.__annotations__[name]
            parameters.append(
                inspect.Parameter(
                    name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
                )
            )
    function.__signature__ = signature.replace(parameters=parameters)
    lines = _docstring(function).split("\n")
    if any(lines):
        at = next(at for at, line in enumerate(lines) if line.startswith(f"{_INDENT}**"))
        function.__doc__ = "\n".join([*lines[:at], *described, *lines[at + 1 :]])
    return function


def _described(name: str, meaning: str) -> list[str]:
    return textwrap.wrap(
        f"{name}: {meaning}.",
        _WIDTH,
        initial_indent=_INDENT,
        subsequent_indent=2 * _INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _docstring(described: Any) -> str:
    """Return a docstring without the indentation that CPython keeps before 3.13; none with -OO."""
    import inspect

    return inspect.cleandoc(described.__doc__ or "")
