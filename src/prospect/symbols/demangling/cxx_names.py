"""Mangled C++ names → names of the source, by the C++ runtime of this machine.

Defined by the Itanium C++ ABI, 5.1 "External Names (a.k.a. Mangling)" and 3.4 "Demangler API"
(`__cxa_demangle`). The runtime prints each substitution (S1_), template parameter (T_) and element
of a pack (Dp) in full: a name of 300 bytes can ask for gigabytes. A child with limits on time and
memory demangles the names that refer back that often. This file is the child's program too, so it
imports no other module of Prospect.
"""

from __future__ import annotations

import ctypes
import re
import resource
import sys
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_LIBRARY = "libstdc++.so.6"
_REFERENCE = re.compile(rb"[ST][0-9A-Z]*_")
_PACK_EXPANSION = b"Dp"
# A name within these limits takes at most some 50 ms.
_CHEAP_REFERENCES = 16
_CHEAP_PACK_EXPANSIONS = 1
_LONGEST_TEXT_BYTES = 1 << 16

_CHILD_SECONDS = 1
_CHILD_BYTES = 512 << 20
_MOST_CHILDREN = 4
_PATIENCE_SECONDS = 20


def available() -> bool:
    """Return whether this machine has the runtime."""
    return _load_demangler() is not None


def is_costly(name: bytes) -> bool:
    """Return whether a name may take so much time or memory that a child must try it."""
    if name.count(_PACK_EXPANSION) > _CHEAP_PACK_EXPANSIONS:
        return True
    # A reference has an S or a T; counting those first spares most names the slower search.
    if name.count(b"S") + name.count(b"T") <= _CHEAP_REFERENCES:
        return False
    return sum(1 for _ in _REFERENCE.finditer(name)) > _CHEAP_REFERENCES


def demangle_cxx(name: bytes) -> bytes | None:
    """Demangle a name that is not costly; None if it is not mangled, or its text is too long."""
    call = _load_demangler()
    text = call(name) if call else None
    return text if text and len(text) <= _LONGEST_TEXT_BYTES else None


def demangle_costly(names: Sequence[bytes]) -> dict[bytes, bytes]:
    """Demangle names in a child; leave out those that are too costly or not mangled."""
    waiting = [name for name in names if b"\n" not in name]
    texts: dict[bytes, bytes] = {}
    for _ in range(_MOST_CHILDREN):
        if not waiting or not available():
            break
        # A killed child has answered for all names before the one that it was killed for.
        answers = _ask_child(waiting)
        texts.update((name, text) for name, text in zip(waiting, answers, strict=False) if text)
        waiting = waiting[len(answers) + 1 :]
    return texts


def _ask_child(names: list[bytes]) -> list[bytes]:
    import subprocess  # noqa: PLC0415 - rarely needed, and slow to import

    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", __file__],
            input=b"\n".join(names),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_PATIENCE_SECONDS,
            check=False,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return [b""] * len(names)
    return done.stdout.split(b"\n")[:-1]


def _serve() -> None:
    """Write a line for each name as soon as it is demangled."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (_CHILD_BYTES, _CHILD_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (_CHILD_SECONDS, _CHILD_SECONDS))
    for name in sys.stdin.buffer.read().split(b"\n"):
        sys.stdout.buffer.write((demangle_cxx(name) or b"") + b"\n")
        sys.stdout.buffer.flush()


@cache
def _load_demangler() -> Callable[[bytes], bytes | None] | None:
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

    def call(name: bytes) -> bytes | None:
        text = function(name, None, None, None)
        if not text:
            return None
        try:
            return ctypes.string_at(text)
        finally:
            free(text)

    return call


if __name__ == "__main__":
    _serve()
