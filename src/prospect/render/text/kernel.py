"""The kernel's profiles: the global one for `-V 4`; it and its parts, summed up, for `-V k`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.render.text.routines import Rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.figures.report.routines import KernelProfiles
    from prospect.render.text.page import Page
    from prospect.render.text.routines import RoutineFormatter

_WHOLE_TITLE = "Global KERNEL Profile"
_PART_TITLES = {
    "kernel threads": "KERNEL Profile due to Kernel Threads",
    "user processes": "KERNEL Profile due to User Processes",
    "process zero": "KERNEL Profile of Process Zero (idle and interrupts)",
    "no process": "KERNEL Profile of Hits without a Process",
}


def kernel_lines(page: Page, kernel: KernelProfiles, routines: RoutineFormatter) -> Iterator[str]:
    """Yield the global profile, and with `-V k` its parts and their sum."""
    profiles = [(_WHOLE_TITLE, _whole(page, kernel))]
    if page.report.detail == "k":
        profiles += _parts(page, kernel)
    for title, rows in profiles:
        yield from page.style.section(title)
        yield from routines.lines(rows, "-k", page.report.kernel_threshold_s)
        if title == _WHOLE_TITLE and page.event.code is not None:
            from prospect.render.text.disassembly import kernel_disassembly  # noqa: PLC0415 - seldom asked for

            yield from kernel_disassembly(page, rows)
        yield ""
    if page.report.detail == "k":
        terms = " + ".join(str(table.total_hits) for _, table in kernel.parts)
        names = " + ".join(name for name, _ in kernel.parts)
        yield f"{_WHOLE_TITLE} = {names}:"
        yield f"{kernel.whole.total_hits} = {terms} hits, routine by routine."
        yield ""


def _whole(page: Page, kernel: KernelProfiles) -> Rows:
    estimates = page.event.estimates.kernel
    assert estimates is not None  # noqa: S101 - made wherever the view has the kernel's profiles
    return Rows(kernel.whole, estimates, page.event.late.kernel if page.event.late else None)


def _parts(page: Page, kernel: KernelProfiles) -> list[tuple[str, Rows]]:
    parts = []
    of_parts = page.event.late.kernel_parts if page.event.late else (None,) * len(kernel.parts)
    for (name, table), estimates, late in zip(
        kernel.parts, page.event.estimates.kernel_parts, of_parts, strict=True
    ):
        parts.append((_PART_TITLES[name], Rows(table, estimates, late)))
    return parts
