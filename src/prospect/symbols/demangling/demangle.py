"""Names as linkers see them → names as programmers wrote them: C++ and Rust.

Names of D, Go and Swift stay as they are, and so do those of C++ where its runtime is not
installed. Names come from files of others: what one may cost is bounded.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    Answers = dict[bytes, bytes]

_LONGEST_NAME_BYTES = 1 << 13
_BRACKET = b"->"
# What `SymbolTable.names` adds to names; a mangled one has neither a space nor an @.
_ADDITIONS = (b" [fn ", b"@plt")


def demangle(
    names: Sequence[bytes], ask: Callable[[Sequence[bytes]], Answers] | None = None
) -> list[str]:
    """Demangle names; those that are not mangled, or not soundly, stay as they are.

    Args:
        names: as `SymbolTable.name` gives them; each distinct one is demangled once. Both sides
            of a bracket, and the name before `@plt` or ` [fn 2 of 3]`, are demangled by themselves.
        ask: demangles what is too costly to be tried in this process; a child unless said.

    Returns:
        One text a name; bytes that are not UTF-8 as surrogates (PEP 383).
    """
    # Most programs have not one mangled name: nothing is taken apart for those.
    plain = {name for name in names if not _may_be_mangled(name)}
    parts = {name: _parts(name) for name in set(names) - plain}
    texts = _demangle_each({part for both in parts.values() for part, _ in both}, ask or _ask_child)
    whole = {name: _as_text(name) for name in plain}
    for name, both in parts.items():
        whole[name] = "->".join(texts[part] + _as_text(addition) for part, addition in both)
    return [whole[name] for name in names]


class LateNames:
    """Names that are demangled as they are asked for; what takes a child, all at once."""

    def __init__(self, names: Sequence[bytes]) -> None:
        self._names = names

    def texts(self, names: Sequence[bytes]) -> list[str]:
        """Demangle some of the names, as `demangle` would all of them."""
        return demangle(names, lambda _: self._answers)

    @cached_property
    def _answers(self) -> Answers:
        mangled = (name for name in self._names if _may_be_mangled(name))
        parts = {part for name in mangled for part, _ in _parts(name)}
        return _ask_child([part for part in parts if _demangle_one(part) is None])


def _may_be_mangled(name: bytes) -> bool:
    return b"_Z" in name or b"_R" in name


def _parts(name: bytes) -> list[tuple[bytes, bytes]]:
    return [_without_addition(part) for part in name.split(_BRACKET)]


def _without_addition(name: bytes) -> tuple[bytes, bytes]:
    """Split a name as in a symbol table from what was added to it."""
    for addition in _ADDITIONS:
        part, found, rest = name.partition(addition)
        if found:
            return part, found + rest
    return name, b""


def _demangle_each(
    names: Iterable[bytes], ask: Callable[[Sequence[bytes]], Answers]
) -> dict[bytes, str]:
    texts = {name: _demangle_one(name) for name in names}
    costly = [name for name, text in texts.items() if text is None]
    answers = ask(costly) if costly else {}
    return {
        name: _as_text(answers.get(name, name)) if text is None else text
        for name, text in texts.items()
    }


def _ask_child(names: Sequence[bytes]) -> Answers:
    from prospect.symbols.demangling.cxx_names import demangle_costly  # noqa: PLC0415 - as below

    return demangle_costly(names)


def _demangle_one(name: bytes) -> str | None:
    """Demangle what is cheap; None for what is for a child to try."""
    text = _as_text(name)
    if len(name) > _LONGEST_NAME_BYTES or not name.startswith((b"_Z", b"_R")):
        return text
    # Each demangler is loaded for the first name that is mangled so: most programs have none.
    if name.startswith(b"_R"):
        from prospect.symbols.demangling.rust_v0 import demangle_v0  # noqa: PLC0415 - see above

        return demangle_v0(text) or text
    from prospect.symbols.demangling import cxx_names, rust_legacy  # noqa: PLC0415 - see above

    # Rust's legacy names first: they are C++ names too, but not readable ones.
    rust = rust_legacy.demangle_legacy(text)
    if rust is not None:
        return rust
    return None if cxx_names.is_costly(name) else _as_text(cxx_names.demangle_cxx(name) or name)


def _as_text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")
