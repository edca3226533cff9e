"""Make functions of the Python interface from their arguments, and return reports from them.

A function takes a record of `prospect.options.Options`, which declares its arguments: names, types,
defaults and meanings. The record inherits the options that the command line has too. `takes` turns
it into the function that users call. `written_out` adds a signature and a docstring for `help` and
editors. Documented in docs/python.md.
"""

from __future__ import annotations

import functools
import io
import textwrap
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from prospect.files.outputs import ReportFile
from prospect.options import NEEDED, Options, declared_in, option

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import BinaryIO

    from prospect.announcing import Announce

    Written = Callable[[BinaryIO], object]
    """Writes a report to a file that is open."""

_P = ParamSpec("_P")
_R = TypeVar("_R")
_Of = TypeVar("_Of")
_Asked = TypeVar("_Asked", bound="Options")
_INDENT = " " * 4
_WIDTH = 96  # a docstring's, without the indentation of its function


class AnnouncedOptions(Options):
    """Keywords of every function that reads recordings."""

    announce: Announce | None = option(
        default=None, doc="called with what is being done, and how far it is"
    )


class ReturnedOptions(AnnouncedOptions):
    """Keywords of every function that returns a report."""

    output: str = option(default="", doc='a file to write it to as well, "" for none')


def takes(kind: Callable[_P, _Asked]) -> Callable[[Callable[[_Asked], _R]], Callable[_P, _R]]:
    """Turn a function of a record into a function of the record's fields."""

    def decorate(function: Callable[[_Asked], _R]) -> Callable[_P, _R]:
        @functools.wraps(function)
        def called(*places: _P.args, **keywords: _P.kwargs) -> _R:
            return function(_asked(kind, function.__name__, places, keywords))

        called.__dict__["__kind__"] = kind
        return called

    return decorate


def method_takes(
    kind: Callable[_P, _Asked],
) -> Callable[[Callable[[_Of, _Asked], _R]], Callable[Concatenate[_Of, _P], _R]]:
    """Turn a method that takes a record into a method that takes the record's fields."""

    def decorate(function: Callable[[_Of, _Asked], _R]) -> Callable[Concatenate[_Of, _P], _R]:
        @functools.wraps(function)
        def called(self: _Of, /, *places: _P.args, **keywords: _P.kwargs) -> _R:
            return function(self, _asked(kind, function.__name__, places, keywords))

        called.__dict__["__kind__"] = kind
        return called

    return decorate


def _asked(kind: Any, function: str, places: tuple[Any, ...], keywords: Mapping[str, Any]) -> Any:
    """Return the record of a call's arguments; lists become tuples."""
    declared = declared_in(kind)
    names = [name for name, one in declared.items() if not one.is_keyword]
    if len(places) > len(names):
        raise TypeError(f"{function}() takes {len(names)} positional arguments, not {len(places)}")
    given = dict(zip(names, places, strict=False))
    for name, value in keywords.items():
        if name not in declared:
            raise TypeError(f"{function}() got an unexpected keyword argument '{name}'")
        if name in given:
            raise TypeError(f"{function}() got multiple values for argument '{name}'")
        given[name] = value
    for name, one in declared.items():
        if one.default is NEEDED and name not in given:
            raise TypeError(f"{function}() missing a required argument: '{name}'")
    return kind(
        **{name: tuple(one) if isinstance(one, list) else one for name, one in given.items()}
    )


def written_out(shown: Any) -> Any:
    """Give a function, or the methods of a class, a signature and a docstring with each keyword."""
    if isinstance(shown, type):
        for method in vars(shown).values():
            written_out(method)
        return shown
    kind = getattr(shown, "__dict__", {}).get("__kind__")
    if kind is None or "__signature__" in shown.__dict__:
        return shown
    import inspect  # takes as long to import as half of a short report

    *own, _ = inspect.signature(shown).parameters.values()
    types = {
        name: one
        for base in reversed(kind.__mro__)
        for name, one in getattr(base, "__annotations__", {}).items()
    }
    described = []
    for name, one in declared_in(kind).items():
        own.append(
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY
                if one.is_keyword
                else inspect.Parameter.POSITIONAL_OR_KEYWORD,
                default=inspect.Parameter.empty if one.default is NEEDED else one.default,
                annotation=types[name],
            )
        )
        described += _described(name, one.doc)
    shown.__signature__ = inspect.signature(shown).replace(parameters=own)
    # CPython keeps the indentation of docstrings before 3.13, and -OO none of them.
    lines = inspect.cleandoc(shown.__doc__ or "").split("\n")
    if any(lines):
        at = lines.index("Raises:") if "Raises:" in lines else len(lines)
        shown.__doc__ = "\n".join([*lines[:at], "Args:", *described, "", *lines[at:]]).rstrip("\n")
    return shown


def _described(name: str, meaning: str) -> list[str]:
    return textwrap.wrap(
        f"{name}: {meaning}.",
        _WIDTH,
        initial_indent=_INDENT,
        subsequent_indent=2 * _INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )


def returned_report(output: str, make: Callable[[], Written]) -> bytes:
    """Return a report, and write it to a file as well.

    `output` is the file, "" for none. It is opened before `make` computes the report.

    Raises:
        RenderError: the file cannot be written.
    """
    target = ReportFile(output) if output else None
    text = io.BytesIO()
    try:
        make()(text)
        if target:
            target.put(lambda out: out.write(text.getvalue()))
    finally:
        if target:
            target.close()
    return text.getvalue()


def as_text(report: bytes) -> str:
    """Return a report's text; names of processes and files may be invalid UTF-8."""
    return report.decode(errors="backslashreplace")
