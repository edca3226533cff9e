"""Texts of /proc/PID/maps that the recorder read → the whole map of a process at that moment.

Comes in: the key ``memory_maps`` of Prospect's own feature section, which anybody may have written
(docs/recording.md). Goes out: `WholeMaps`; nothing is unpacked before the first process is asked.
Defined by: proc(5); show_map_vma() in ``fs/proc/task_mmu.c`` (Linux 6.18).
"""

from __future__ import annotations

import functools
import re
from itertools import accumulate
from typing import Any

import numpy as np

from prospect.abi import constants as abi
from prospect.assembly.extras import counts_of, mapping_of, unpacked
from prospect.profile.memory_map import MemoryMap

_MOST_BYTES = 1 << 24
# What the records of mappings call memory without a file.
_ANONYMOUS = "//anon"
_LINE = re.compile(
    rb"^([0-9a-f]{1,16})-([0-9a-f]{1,16}) ([r-])([w-])([x-])[ps] ([0-9a-f]{1,16})"
    rb" [0-9a-f]{1,8}:[0-9a-f]{1,8} [0-9]{1,20} *(.*)$",
    re.MULTILINE,
)


class WholeMaps:
    """The maps that a recording holds."""

    def __init__(self, extras: dict[str, Any]) -> None:
        """Prepare; a document that is not as ours has no maps."""
        document = mapping_of(extras.get("memory_maps"))
        self._packed = document.get("zlib")
        columns = [counts_of(document.get(key)) for key in ("pid", "read_ns", "size_bytes")]
        pids, times, sizes = columns if len(set(map(len, columns))) == 1 else ((), (), ())
        begins = accumulate(sizes, initial=0)
        self._rows: dict[int, list[tuple[int, int, int]]] = {}
        for pid, read_ns, begin, size in zip(pids, times, begins, sizes, strict=False):
            self._rows.setdefault(pid, []).append((read_ns, begin, size))

    def of(self, pid: int, start_ns: int, end_ns: int) -> MemoryMap | None:
        """Return the map of what a pid was between two times, None where none was read."""
        found = [row for row in self._rows.get(pid, ()) if start_ns <= row[0] <= end_ns]
        if not found:
            return None
        read_ns, begin, size = max(found)
        return _parsed(self._text[begin : begin + size], read_ns)

    @functools.cached_property
    def _text(self) -> bytes:
        return unpacked(self._packed, _MOST_BYTES) if isinstance(self._packed, str) else b""


def _parsed(text: bytes, read_ns: int) -> MemoryMap | None:
    """Return what a text says; None where it says nothing."""
    start, end, pgoff, prot, path = [], [], [], [], []
    for found in _LINE.finditer(text):
        first, behind, read, write, execute, offset, name = found.groups()
        if int(first, 16) >= int(behind, 16):
            continue
        start.append(int(first, 16))
        end.append(int(behind, 16))
        pgoff.append(int(offset, 16))
        prot.append(
            abi.PROT_READ * (read == b"r")
            | abi.PROT_WRITE * (write == b"w")
            | abi.PROT_EXEC * (execute == b"x")
        )
        # Only the newline is escaped there (seq_path with "\n").
        path.append(name.replace(b"\\012", b"\n").decode("utf-8", "surrogateescape") or _ANONYMOUS)
    if not path:
        return None
    return MemoryMap(
        start=np.array(start, np.uint64),
        end=np.array(end, np.uint64),
        pgoff=np.array(pgoff, np.uint64),
        prot=np.array(prot, np.int8),
        hits=np.zeros(len(path), np.int64),
        path=path,
        read_ns=read_ns,
    )
