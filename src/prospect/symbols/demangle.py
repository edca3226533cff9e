"""Names as linkers see them → names as programmers wrote them: C++ and Rust.

C++ by `__cxa_demangle` of the system's C++ runtime (Itanium C++ ABI, 5.1 "External Names"), Rust
here. Names of D, Go and Swift stay as they are, and so do those of C++ where the runtime is not
installed. Names come from files of others: what they may cost is bounded before they are handed to
code that bounds nothing.
"""

from __future__ import annotations

import ctypes
import re
from functools import cache
from typing import TYPE_CHECKING

from prospect.symbols.rust_legacy import demangle_legacy
from prospect.symbols.rust_v0 import demangle_v0

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_LIBRARY = "libstdc++.so.6"
_LONGEST_NAME_BYTES = 1 << 13
# The runtime prints a substitution (S1_) or template parameter (T_) in full, and what is printed
# may hold others: a name of 300 bytes can ask for gigabytes. Of 74,000 names of libLLVM, libclang
# and libstdc++ 22 have more references than this.
_MOST_REFERENCES = 24
_REFERENCE = re.compile(rb"[ST][0-9A-Z]*_")
_PACK_EXPANSION = b"Dp"
_MOST_PACK_EXPANSIONS = 1

_BRACKET = b"->"
_STUB = b"@plt"


def available() -> bool:
    """Whether names of C++ can be demangled on this machine."""
    return _load_demangler() is not None


def demangle(names: Sequence[bytes]) -> list[str]:
    """Demangle names; those that are not mangled, or not soundly, stay as they are.

    Args:
        names: as `SymbolTable.name` gives them; each distinct one is demangled once. Both sides
            of a bracket, and the name before `@plt`, are demangled by themselves.

    Returns:
        One text a name; bytes that are not UTF-8 as surrogates (PEP 383).
    """
    texts = {name: _demangle_parts(name) for name in set(names)}
    return [texts[name] for name in names]


def _demangle_parts(name: bytes) -> str:
    if b"_Z" not in name and b"_R" not in name:
        return name.decode("utf-8", "surrogateescape")
    if _BRACKET in name:
        return _BRACKET.decode().join(_demangle_parts(part) for part in name.split(_BRACKET))
    if name.endswith(_STUB):
        return _demangle_one(name.removesuffix(_STUB)) + _STUB.decode()
    return _demangle_one(name)


def _demangle_one(name: bytes) -> str:
    text = name.decode("utf-8", "surrogateescape")
    if len(name) > _LONGEST_NAME_BYTES:
        return text
    if name.startswith(b"_R"):
        return demangle_v0(text) or text
    if not name.startswith(b"_Z"):
        return text
    # Rust's legacy names first: they are C++ names too, but not readable ones.
    return demangle_legacy(text) or _demangle_cxx(name) or text


def _demangle_cxx(name: bytes) -> str | None:
    references = sum(1 for _ in _REFERENCE.finditer(name))
    if references > _MOST_REFERENCES or name.count(_PACK_EXPANSION) > _MOST_PACK_EXPANSIONS:
        return None
    call = _load_demangler()
    return call(name) if call else None


@cache
def _load_demangler() -> Callable[[bytes], str | None] | None:
    """Bind `char *__cxa_demangle(const char *, char *, size_t *, int *)`, None if not there."""
    try:
        function = ctypes.CDLL(_LIBRARY)["__cxa_demangle"]
        free = ctypes.CDLL(None)["free"]
    except (OSError, AttributeError):
        return None
    function.restype = ctypes.c_void_p
    function.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    free.restype = None
    free.argtypes = [ctypes.c_void_p]

    def call(name: bytes) -> str | None:
        text = function(name, None, None, None)
        if not text:
            return None
        try:
            return ctypes.string_at(text).decode("utf-8", "surrogateescape")
        finally:
            free(text)

    return call
