"""The memory map of a process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.announcing import counted
from prospect.render.escape import escaped
from prospect.render.text.columns import Column, table_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from prospect.figures.report.view import ReportView
    from prospect.profile.memory_map import MemoryMap
    from prospect.render.text.style import Style

# A browser has thousands: the largest are listed, those with code or hits all.
_MOST_OF_DATA = 64


def memory_map_lines(view: ReportView, process: int, style: Style) -> Iterator[str]:
    """Yield the section; nothing for a process that had nothing mapped."""
    mapped = view.memory_map(process)
    if not len(mapped):
        return
    processes = view.profile.processes
    name, pid = escaped(processes.name[process]), int(processes.pid[process])
    yield from style.section(style.words.memory_map(name, pid))
    rows = _listed(mapped)
    start, end, pgoff = (
        [f"0x{value:08x}" for value in column[rows].tolist()]
        for column in (mapped.start, mapped.end, mapped.pgoff)
    )
    may_do = mapped.permissions
    yield from table_lines(
        [
            Column("Hits", [str(hits) for hits in mapped.hits[rows].tolist()]),
            Column("Start", start),
            Column("End", end),
            Column("KiB", [_kibibytes(size) for size in mapped.size_bytes[rows].tolist()]),
            Column("Perm", [may_do[row] or "?" for row in rows.tolist()], right=False),
            Column("Offset", pgoff),
            Column("Filename", [escaped(mapped.path[row]) for row in rows.tolist()], right=False),
        ]
    )
    skipped = len(mapped) - len(rows)
    if skipped:
        smaller = counted(skipped, "smaller mapping")
        size = _kibibytes(int(mapped.size_bytes.sum() - mapped.size_bytes[rows].sum()))
        yield style.cut(f"- Left out: {smaller} of data, {size} KiB")
    total = f"- {counted(len(mapped), 'mapping')}, {_kibibytes(mapped.mapped_bytes)} KiB"
    if mapped.read_ns is None:
        yield f"{total}; executable ones only: the recording has none of data"
    else:
        read_s = (mapped.read_ns - view.profile.run.begin_ns) / 1e9
        yield f"{total}; those of data as they were {read_s:.2f} s after recording began"
    yield ""


def _listed(mapped: MemoryMap) -> NDArray[np.int64]:
    """Return the rows that are shown."""
    data = np.flatnonzero(mapped.is_data & (mapped.hits == 0))
    smaller = np.argsort(-mapped.size_bytes[data].astype(np.float64), kind="stable")[_MOST_OF_DATA:]
    is_listed = np.ones(len(mapped), np.bool_)
    is_listed[data[smaller]] = False
    return np.flatnonzero(is_listed)


def _kibibytes(size_bytes: int) -> str:
    """Return a size without decimals where it is whole pages, as all but a JIT's code is."""
    return str(size_bytes // 1024) if size_bytes % 1024 == 0 else f"{size_bytes / 1024:.1f}"
