"""Prospect: a whole-system sampling profiler for Linux.

`prospect.record(command)` and `prospect.open(path)` return a `Profile`, `prospect.annotate(path)`
the text of an annotation, `prospect.calls(path)` who called whom, `prospect.diff(before, after)` a
`Difference`, `prospect.count(command)` counts of events; `prospect.archive(path)` makes a file to
report on elsewhere. See docs/python.md.
They are imported at their first use: the command line must not wait for numpy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.version import __version__

if TYPE_CHECKING:
    from prospect.annotation_report import annotate
    from prospect.api import Profile, archive, open, record
    from prospect.call_report import calls
    from prospect.counting import count
    from prospect.differences import Difference, diff

__all__ = [
    "Difference",
    "Profile",
    "__version__",
    "annotate",
    "archive",
    "calls",
    "count",
    "diff",
    "open",
    "record",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'prospect' has no attribute '{name}'")
    if name in ("Difference", "diff"):
        from prospect import differences

        return getattr(differences, name)
    if name == "count":
        from prospect import counting

        return counting.count
    if name == "annotate":
        from prospect import annotation_report

        return annotation_report.annotate
    if name == "calls":
        from prospect import call_report

        return call_report.calls
    from prospect import api

    return getattr(api, name)


def __dir__() -> list[str]:
    return __all__
