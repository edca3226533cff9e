"""Names as linkers see them → names as programmers wrote them: C++ and Rust.

Names of D, Go and Swift stay as they are, and so do those of C++ where its runtime is not
installed. Names come from files of others: what one may cost is bounded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_LONGEST_NAME_BYTES = 1 << 13
_BRACKET = b"->"
# What `SymbolTable.names` adds to names; a mangled one has neither a space nor an @.
_ADDITIONS = (b" [fn ", b"@plt")


def demangle(names: Sequence[bytes]) -> list[str]:
    """Demangle names; those that are not mangled, or not soundly, stay as they are.

    Args:
        names: as `SymbolTable.name` gives them; each distinct one is demangled once. Both sides
            of a bracket, and the name before `@plt` or ` [fn 2 of 3]`, are demangled by themselves.

    Returns:
        One text a name; bytes that are not UTF-8 as surrogates (PEP 383).
    """
    # Most programs have not one mangled name: nothing is taken apart for those.
    plain = {name for name in names if b"_Z" not in name and b"_R" not in name}
    parts = {
        name: [_without_addition(part) for part in name.split(_BRACKET)]
        for name in set(names) - plain
    }
    texts = _demangle_each({part for both in parts.values() for part, _ in both})
    whole = {name: _as_text(name) for name in plain}
    for name, both in parts.items():
        whole[name] = "->".join(texts[part] + _as_text(addition) for part, addition in both)
    return [whole[name] for name in names]


def _without_addition(name: bytes) -> tuple[bytes, bytes]:
    """Split a name as in a symbol table from what was added to it."""
    for addition in _ADDITIONS:
        part, found, rest = name.partition(addition)
        if found:
            return part, found + rest
    return name, b""


def _demangle_each(names: Iterable[bytes]) -> dict[bytes, str]:
    texts = {name: _demangle_one(name) for name in names}
    costly = [name for name, text in texts.items() if text is None]
    answers: dict[bytes, bytes] = {}
    if costly:
        from prospect.symbols.demangling.cxx_names import demangle_costly  # noqa: PLC0415 - as below

        answers = demangle_costly(costly)
    return {
        name: _as_text(answers.get(name, name)) if text is None else text
        for name, text in texts.items()
    }


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
