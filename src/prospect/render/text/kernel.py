"""The kernel's profiles: the global one for `-V 4`; it and its parts, summed up, for `-V k`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.profile.kernel import KernelProfiles
    from prospect.profile.view import ReportView
    from prospect.render.text.routines import RoutineFormatter
    from prospect.render.text.style import Style

_WHOLE_TITLE = "Global KERNEL Profile"
_PART_TITLES = {
    "kernel threads": "KERNEL Profile due to Kernel Threads",
    "user processes": "KERNEL Profile due to User Processes",
    "process zero": "KERNEL Profile of Process Zero (idle and interrupts)",
    "no process": "KERNEL Profile of Hits without a Process",
}


def kernel_lines(
    view: ReportView, kernel: KernelProfiles, routines: RoutineFormatter, style: Style
) -> Iterator[str]:
    """Yield the global profile, and with `-V k` its parts and their sum."""
    profiles = [(_WHOLE_TITLE, kernel.whole)]
    if view.detail == "k":
        profiles += [(_PART_TITLES[name], table) for name, table in kernel.parts]
    for title, table in profiles:
        yield from style.section(title)
        yield from routines.lines(table, "-k", view.kernel_threshold_s)
        yield ""
    if view.detail == "k":
        terms = " + ".join(str(table.total_hits) for _, table in kernel.parts)
        names = " + ".join(name for name, _ in kernel.parts)
        yield f"{_WHOLE_TITLE} = {names}:"
        yield f"{kernel.whole.total_hits} = {terms} hits, routine by routine."
        yield ""
