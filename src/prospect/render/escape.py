"""Make untrusted names safe for a terminal, on one line; the width of text there.

Source: Unicode Standard Annex 9 (bidirectional controls), Annex 11 (East Asian width).
"""

from __future__ import annotations

import re
import unicodedata

# os.fsdecode() makes an undecodable byte 0xNN U+DCNN (PEP 383).
_ESCAPED_BYTES = range(0xDC80, 0xDD00)
# Colours (SGR, ECMA-48 8.3.117), and all else that is not printable ASCII.
_UNSAFE = re.compile(r"\x1b\[[0-9;]*m|[^ -~]")
_ELLIPSIS = "..."
_DELETE = 0x7F  # which JSON does not escape


def escaped(text: str) -> str:
    r"""Return `text` on one line without a character that a terminal acts on.

    Control, formatting (bidirectional ones among them), unassigned and line-breaking characters
    become ``\x1b`` or ``\u202e``; an undecodable byte becomes ``\xff``.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escape(ord(char)) for char in text)


def _escape(code: int) -> str:
    if code in _ESCAPED_BYTES:
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def for_terminal(report: bytes, *, is_json: bool = False, has_colours: bool = True) -> bytes:
    r"""Return a report made safe for a terminal; the colours of a report that has some stay.

    If a report has no colours, an escape sequence in it is part of a name.

    Names in CSV and JSON are as they were recorded: programs need them so, and a terminal must not
    obey them. JSON stays the same document: ``\u009b`` is one character.
    """
    text = report.decode("utf-8", "surrogateescape")
    escape = _escape_in_json if is_json else _escape

    def escape_unsafe(found: re.Match[str]) -> str:
        """Keep colours, tabs and ends of lines; escape all else that is not printable."""
        unsafe = found.group()
        if len(unsafe) > 1:
            return unsafe if has_colours else escape(ord(unsafe[0])) + unsafe[1:]
        is_kept = unsafe in "\t\n" or unsafe.isprintable()
        return unsafe if is_kept else escape(ord(unsafe))

    return _UNSAFE.sub(escape_unsafe, text).encode()


def _escape_in_json(code: int) -> str:
    """Return the escape of RFC 8259, section 7: beyond 16 bits, a pair of surrogates."""
    import json  # noqa: PLC0415 - of JSON only

    return json.dumps(chr(code))[1:-1] if code != _DELETE else f"\\u{code:04x}"


def display_width(text: str) -> int:
    """Return how many terminal columns escaped text takes."""
    if text.isascii():
        return len(text)
    return sum(map(_char_width, text))


def _char_width(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def shortened(text: str, width: int) -> str:
    """Return escaped text; if it is wider than `width` columns, cut, with ``...`` at its end."""
    if display_width(text) <= width:
        return text
    room = width - len(_ELLIPSIS)
    if text.isascii():
        return text[:room] + _ELLIPSIS
    used = 0
    for position, char in enumerate(text):
        used += _char_width(char)
        if used > room:
            return text[:position] + _ELLIPSIS
    return text


def padded(text: str, width: int, *, right: bool) -> str:
    """Return escaped text filled with spaces to `width` columns; on its left if `right`."""
    fill = " " * (width - display_width(text))
    return fill + text if right else text + fill
