"""What kind of profile a file is, by its first bytes; its name says nothing."""

from __future__ import annotations

import re
from typing import Literal

from prospect.foreign.gmon import is_gmon
from prospect.foreign.gzipped import is_gzipped, unpacked_head
from prospect.foreign.perf_script import is_perf_script
from prospect.foreign.protobuf import begins_as_message
from prospect.foreign.unread import unread_format

Kind = Literal["", "folded", "gmon", "perf script", "pprof"]

_PERF_MAGICS = (b"PERFILE2", b"2ELIFREP", b"PERFFILE", b"ELIFFREP")
_COUNT = re.compile(rb"[0-9]+(?:\.[0-9]*)?")
_FOLDED_LINES = 1 << 10
_LAST_PPROF_FIELD = 15  # doc_url


def is_recording(head: bytes) -> bool:
    """Return whether a file begins as perf.data of any version."""
    return head.startswith(_PERF_MAGICS)


def foreign_kind(head: bytes) -> Kind:
    """Return which reader a file is for, "" for that of recordings.

    A gzipped file is for the reader of its contents.

    Args:
        head: the first 64 KiB, or all bytes of a shorter file.
    """
    if is_gzipped(head):
        head = unpacked_head(head)
    if is_recording(head) or not head.strip():
        return ""
    if is_gmon(memoryview(head)):
        return "gmon"
    if unread_format(head):
        return ""
    if b"\0" not in head:
        if is_perf_script(head):
            return "perf script"
        if _is_folded(head):
            return "folded"
    return "pprof" if begins_as_message(head, _LAST_PPROF_FIELD) else ""


def _is_folded(head: bytes) -> bool:
    """Return whether most lines are folded stacks; a few comments and odd ones may be between."""
    if head.startswith(b"#!"):
        return False
    lines = head.split(b"\n", _FOLDED_LINES)
    if len(lines) > 1:
        lines.pop()  # what the head ends with may be cut off
    said = [line for line in map(bytes.strip, lines) if line and not line.startswith(b"#")]
    folded = sum(_ends_with_count(line) for line in said)
    return 2 * folded > len(said)


def _ends_with_count(line: bytes) -> bool:
    # As the reader takes them apart. A pattern for all of it would try each blank as the last.
    words = line.rsplit(None, 1)
    return len(words) == 2 and _COUNT.fullmatch(words[1]) is not None
