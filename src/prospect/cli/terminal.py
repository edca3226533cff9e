"""Write lines to stderr and pages to stdout, and replace closed standard files."""

from __future__ import annotations

import os

from prospect.errors import RenderError, UsageError

_STDOUT = 1
_STDERR = 2


def occupy_closed_standard_files() -> None:
    """Open /dev/null instead of a closed stdin, stdout or stderr.

    Otherwise the next file would get its number, and the recording COMMAND's output. For COMMAND
    the file stays closed: these descriptors end at exec.
    """
    for descriptor in (0, _STDOUT, _STDERR):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDONLY if descriptor else os.O_WRONLY)


def takes_escapes(descriptor: int) -> bool:
    """Return whether a descriptor is a terminal that understands colours and erasing."""
    return os.isatty(descriptor) and os.environ.get("TERM") != "dumb"


def refuse_binary(name: str, descriptor: int) -> None:
    """Refuse to write a binary format to a terminal.

    Raises:
        UsageError: the descriptor is a terminal.
    """
    if name == "text":
        return
    from prospect.render.registry import format_of

    if format_of(name).is_binary and os.isatty(descriptor):
        raise UsageError(f"--format {name} is not text for a terminal: name a file with -f")


def is_ascii_locale() -> bool:
    """Return whether the locale is that of POSIX, by name: Python itself uses UTF-8 for it."""
    names = (os.environ.get(name) for name in ("LC_ALL", "LC_CTYPE", "LANG"))
    return next(filter(None, names), "") in {"C", "POSIX"}


def fit_for(descriptor: int, report: bytes, form: str) -> bytes:
    """Return a report in the format `form`, adapted to a descriptor.

    For a terminal it is made safe; on standard output in an ASCII locale it has no ``±``.
    """
    if form == "text" and descriptor == _STDOUT and is_ascii_locale():
        report = report.replace("  ±".encode(), b"+/-").replace("±".encode(), b"+/-")
    if not os.isatty(descriptor):
        return report
    from prospect.render.escape import for_terminal
    from prospect.render.registry import format_of

    return for_terminal(report, is_json=format_of(form).is_json, has_colours=form == "text")


def say(message: str) -> None:
    """Print one line on stderr, with unprintable characters escaped; ignore a closed stderr."""
    if "://" in message:
        from prospect.fleet.store_places import without_credentials

        message = without_credentials(message)
    line = "".join(c if c.isprintable() else _written_out(c) for c in f"prospect: {message}")
    say_all(f"{line}\n")


def _written_out(char: str) -> str:
    """Return an escape; an undecodable byte shows as this byte, not as Python's surrogate."""
    byte = ord(char) - 0xDC00  # PEP 383
    return f"\\x{byte:02x}" if 0x80 <= byte <= 0xFF else repr(char)[1:-1]


def say_all(text: str) -> None:
    """Print trusted text on stderr; ignore a closed stderr."""
    try:
        os.write(_STDERR, text.encode(errors="backslashreplace"))
    except OSError:
        return


def show(text: str) -> None:
    """Print a page on stdout.

    Raises:
        RenderError: stdout cannot be written; the cause is the OSError.
    """
    rest = memoryview(text.encode(errors="backslashreplace"))
    try:
        while rest:
            rest = rest[os.write(_STDOUT, rest) :]
    except OSError as error:
        raise RenderError(f"cannot write to standard output: {error.strerror}") from error
