"""Prospect: a whole-system sampling profiler for Linux.

`prospect.record(command)` and `prospect.open(path)` return a `Profile`, `prospect.annotate(path)`
the text of an annotation, `prospect.calls(path)` who called whom, `prospect.diff(before, after)` a
`Difference`, `prospect.count(command)` counts of events; `prospect.archive(path)` makes a file to
report on elsewhere. See docs/python.md.
They are imported at their first use: the command line must not wait for numpy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from prospect.version import __version__

if TYPE_CHECKING:
    from prospect.annotation_report import annotate
    from prospect.api import Profile, open, record
    from prospect.archiving import archive
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


_HOMES = {
    "Difference": "differences",
    "annotate": "annotation_report",
    "archive": "archiving",
    "calls": "call_report",
    "count": "counting",
    "diff": "differences",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'prospect' has no attribute '{name}'")
    return getattr(importlib.import_module(f"prospect.{_HOMES.get(name, 'api')}"), name)


def __dir__() -> list[str]:
    return __all__
