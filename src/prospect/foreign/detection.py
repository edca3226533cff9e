"""What kind of profile a file is, by its first bytes; its name says nothing."""

from __future__ import annotations

import re
from typing import Literal

from prospect.foreign.gmon import is_gmon
from prospect.foreign.protobuf import begins_as_message

Kind = Literal["", "folded", "gmon", "pprof"]

HEAD_BYTES = 1 << 16
_PERF_MAGICS = (b"PERFILE2", b"2ELIFREP", b"PERFFILE", b"ELIFFREP")
_GZIP_MAGIC = b"\x1f\x8b"
_FOLDED_LINE = re.compile(rb"[^\n]*[^\s][ \t]+[0-9]+[ \t]*\r?(?:\n|$)")
_LAST_PPROF_FIELD = 15  # doc_url


def foreign_kind(head: bytes) -> Kind:
    """Return which reader a file is for, "" for that of recordings.

    Args:
        head: the first `HEAD_BYTES`, or all bytes of a shorter file.
    """
    if head.startswith(_PERF_MAGICS) or not head.strip():
        return ""
    if is_gmon(memoryview(head)):
        return "gmon"
    if head.startswith(_GZIP_MAGIC):
        return "pprof"
    if b"\0" not in head and _FOLDED_LINE.match(head.lstrip()):
        return "folded"
    return "pprof" if begins_as_message(head, _LAST_PPROF_FIELD) else ""
