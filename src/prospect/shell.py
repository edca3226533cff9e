"""Quote words so that a shell reads them back from a command line.

`shlex.quote` leaves control characters and undecodable bytes as they are: a terminal acts on them,
or shows escapes that the shell does not understand. Words with such characters become `$'...'`.

Source: POSIX.1-2024, Shell Command Language, 2.2.4 "Dollar-Single-Quotes"; bash and zsh have it.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_PLAIN = str.maketrans("", "", "/.-_+,:=@%")
_APOSTROPHE, _BACKSLASH = b"'\\"


def shell_line(words: Iterable[str]) -> str:
    """Return words quoted for a shell, printable and on one line."""
    return " ".join(map(shell_word, words))


def shell_word(word: str) -> str:
    """Return a word quoted for a shell, printable and on one line."""
    if word.isascii() and word.translate(_PLAIN).isalnum():
        return word  # the module below is slow to import
    if not word.isprintable():
        return f"$'{''.join(map(_in_dollar_quotes, os.fsencode(word)))}'"
    from shlex import quote  # noqa: PLC0415 - slow to import, rarely needed

    return quote(word)


def shell_operand(path: str) -> str:
    """Return a path quoted for a shell, which no command takes for an option."""
    return shell_word(operand(path))


def operand(path: str) -> str:
    """Return a path that no command takes for an option or for standard input."""
    return f"./{path}" if path.startswith("-") else path


def _in_dollar_quotes(byte: int) -> str:
    if byte in (_APOSTROPHE, _BACKSLASH):
        return f"\\{byte:c}"
    # A hexadecimal escape would include digits after it.
    return chr(byte) if 0x20 <= byte < 0x7F else f"\\{byte:03o}"
