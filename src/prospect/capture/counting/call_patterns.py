"""The value of --count-calls, ``NAME*,IMAGE:NAME*``: pairs of an image and a pattern.

A single colon ends the image; two of them belong to a name of C++ or Rust.
"""

from __future__ import annotations

import re

from prospect.errors import UsageError
from prospect.records import NamedTuple

_COLON = re.compile(r"(?<!:):(?!:)")


class CallPattern(NamedTuple):
    """Functions to count: a shell pattern of names in an image, "" for COMMAND's."""

    image: str
    name: str


def parse_call_patterns(text: str) -> tuple[CallPattern, ...]:
    """Parse the patterns.

    Raises:
        UsageError: a name is missing.
    """
    found = []
    for part in text.split(","):
        match = _COLON.search(part)
        image, name = (part[: match.start()], part[match.end() :]) if match else ("", part)
        if not name or (match and not image) or "\0" in part:
            raise UsageError("give names of functions, as 'parse_*' or 'libz.so.1:deflate*'")
        found.append(CallPattern(image, name))
    return tuple(found)
