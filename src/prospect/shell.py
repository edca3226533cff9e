"""Words → a command line that a shell reads back as these words.

`shlex.quote` leaves control characters and undecodable bytes as they are: a terminal acts on them,
and their escapes are not what they mean. Words with such characters are written as `$'...'`.

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
    """Return words as a shell takes them, printable and on one line."""
    return " ".join(map(shell_word, words))


def shell_word(word: str) -> str:
    """Return one word as a shell takes it, printable and on one line."""
    if word.isascii() and word.translate(_PLAIN).isalnum():
        return word  # most are: the module below is slow to import
    if not word.isprintable():
        return f"$'{''.join(map(_in_dollar_quotes, os.fsencode(word)))}'"
    from shlex import quote  # noqa: PLC0415 - slow to import, rarely needed

    return quote(word)


def shell_operand(path: str) -> str:
    """Return the path of a file as a shell takes it, and no command for an option."""
    return shell_word(operand(path))


def operand(path: str) -> str:
    """Return the path of a file so that no command takes it for an option or for standard input."""
    return f"./{path}" if path.startswith("-") else path


def _in_dollar_quotes(byte: int) -> str:
    if byte in (_APOSTROPHE, _BACKSLASH):
        return f"\\{byte:c}"
    # Octal: a hexadecimal escape would take the digits after it, too.
    return chr(byte) if 0x20 <= byte < 0x7F else f"\\{byte:03o}"
