"""Names that rustc mangled in its legacy scheme → what the source calls them.

The scheme is C++'s nested name with a hash for its last part; what an identifier of C++ cannot hold
is escaped. Defined by ``compiler/rustc_symbol_mangling/src/legacy.rs``. The hash is left out.
"""

from __future__ import annotations

import re

_NAME = re.compile(r"_ZN([A-Za-z0-9_.$]+)17h[0-9a-f]{16}E((?:\.[A-Za-z0-9_.@$]+)?)")
_PART = re.compile(r"[0-9]{1,5}")
_LLVM_SUFFIX = re.compile(r"\.llvm\.[0-9A-Fa-f@]+$")
_ESCAPE = re.compile(r"\$(?:([A-Z]{1,2})|u([0-9a-f]{1,6}))\$|\.\.")
_CHARACTERS = {
    "SP": "@",
    "BP": "*",
    "RF": "&",
    "LT": "<",
    "GT": ">",
    "LP": "(",
    "RP": ")",
    "C": ",",
}


def demangle_legacy(name: str) -> str | None:
    """Return the source's name, None for what is not of this scheme."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    path, suffix = match.groups()
    parts: list[str] = []
    position = 0
    while position < len(path):
        digits = _PART.match(path, position)
        if digits is None:
            return None
        start, position = digits.end(), digits.end() + int(digits[0])
        if position > len(path):
            return None
        part = path[start:position]
        # An identifier of C++ may not begin with a dollar: rustc puts an underscore before it.
        parts.append(_ESCAPE.sub(_character, part[1:] if part.startswith("_$") else part))
    return "::".join(parts) + _LLVM_SUFFIX.sub("", suffix)


def _character(escape: re.Match[str]) -> str:
    short, code = escape.groups()
    if short is not None:
        return _CHARACTERS.get(short, escape[0])
    if code is not None:
        character = chr(min(int(code, 16), 0x10FFFF))
        return character if character.isprintable() else escape[0]
    return "::"
