"""Linkage names of C++ and Rust → names of the source.

Names of D, Go and Swift stay as they are, and so do those of C++ if its runtime is not installed.
Names come from other users' files: the cost of each is bounded.
"""

from __future__ import annotations

from functools import cache, cached_property
from typing import TYPE_CHECKING

from prospect.symbols.symbols_limits import LONGEST_MANGLED_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import ModuleType

    Answers = dict[bytes, bytes]

_BRACKET = b"->"
# Text that `SymbolTable.names` adds to names; a mangled name has neither a space nor an @.
_ADDITIONS = (b" [fn ", b"@plt")


def demangle(
    names: Sequence[bytes], ask: Callable[[Sequence[bytes]], Answers] | None = None
) -> list[str]:
    """Demangle names; names that are not mangled, or not soundly, stay as they are.

    Args:
        names: as from `SymbolTable.names`. Both sides of a bracket, and the name before `@plt` or
            ` [fn 2 of 3]`, are demangled by themselves.
        ask: demangles names that are too costly for this process; by default a child does.

    Returns:
        One text a name; bytes that are not UTF-8 as surrogates (PEP 383).
    """
    # In their order, which is that of memory too: twice as fast as a set.
    mangled = [name for name in dict.fromkeys(names) if _may_be_mangled(name)]
    if not mangled:
        return [_as_text(name) for name in names]
    parts = {name: _parts(name) for name in mangled if _is_completed(name)}
    each = [name for name in mangled if name not in parts] if parts else mangled
    each += dict.fromkeys(part for both in parts.values() for part, _ in both)
    texts = _demangle_each(each, ask or _ask_child)
    for name, both in parts.items():
        texts[name] = "->".join([texts[part] + _as_text(more) for part, more in both])
    return [texts[name] if name in texts else _as_text(name) for name in names]


class LazyNames:
    """Names that are demangled on request; a child demangles all costly ones at once."""

    def __init__(self, names: Sequence[bytes]) -> None:
        self._names = names

    def texts(self, names: Sequence[bytes]) -> list[str]:
        """Demangle some of the names as `demangle` does."""
        return demangle(names, lambda _: self._answers)

    @cached_property
    def _answers(self) -> Answers:
        mangled = (name for name in self._names if _may_be_mangled(name))
        parts = {part for name in mangled for part, _ in _parts(name)}
        return _ask_child([part for part in parts if _demangle_one(part) is None])


def _may_be_mangled(name: bytes) -> bool:
    return b"_Z" in name or b"_R" in name


def _is_completed(name: bytes) -> bool:
    # Written out, as it runs for thousands of names.
    return b"->" in name or b" [fn " in name or b"@plt" in name


def _parts(name: bytes) -> list[tuple[bytes, bytes]]:
    return [_without_addition(part) for part in name.split(_BRACKET)]


def _without_addition(name: bytes) -> tuple[bytes, bytes]:
    """Split a name of a symbol table into the linkage name and the addition."""
    for addition in _ADDITIONS:
        if addition in name:
            part, found, rest = name.partition(addition)
            return part, found + rest
    return name, b""


def _demangle_each(
    names: Iterable[bytes], ask: Callable[[Sequence[bytes]], Answers]
) -> dict[bytes, str]:
    texts = {name: _demangle_one(name) for name in names}
    costly = [name for name, text in texts.items() if text is None]
    if costly:
        answers = ask(costly)
        texts.update((name, _as_text(answers.get(name, name))) for name in costly)
    return texts  # type: ignore[return-value]  # each has a text now


def _ask_child(names: Sequence[bytes]) -> Answers:
    answers: Answers = _cxx_names().demangle_costly(names)
    return answers


def _demangle_one(name: bytes) -> str | None:
    """Demangle a name if that is cheap; None if a child must try."""
    text = _as_text(name)
    if len(name) > LONGEST_MANGLED_BYTES or not name.startswith((b"_Z", b"_R")):
        return text
    if name.startswith(b"_R"):
        rust: str | None = _rust_names().demangle_v0(text)
        return rust or text
    # Rust's legacy names first: they are C++ names too, but not readable ones.
    rust = _rust_names().demangle_legacy(text)
    if rust is not None:
        return rust
    cxx = _cxx_names()
    return None if cxx.is_costly(name) else _as_text(cxx.demangle_cxx(name) or name)


# Each demangler is loaded for its first name: most programs have none.
@cache
def _rust_names() -> ModuleType:
    from prospect.symbols.demangling import rust_names  # noqa: PLC0415 - for the first such name

    return rust_names


@cache
def _cxx_names() -> ModuleType:
    from prospect.symbols.demangling import cxx_names  # noqa: PLC0415 - for the first such name

    return cxx_names


def _as_text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")
