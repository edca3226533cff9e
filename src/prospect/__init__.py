"""Prospect: a whole-system sampling profiler for Linux.

`prospect.record(command)` and `prospect.open(path)` return a `Profile`, `prospect.annotate(path)`
the text of an annotation, `prospect.calls(path)` who called whom, `prospect.diff(before, after)` a
`Difference`, `prospect.count(command)` counts of events; `prospect.archive(path)` makes a file to
report on elsewhere. See docs/python.md.
They are imported at their first use: the command line must not wait for numpy.
"""

from __future__ import annotations

# Without typing: Ctrl-C while it were imported would be a traceback, before __main__ can catch it.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from prospect.api.annotations import annotate
    from prospect.api.archives import archive
    from prospect.api.call_views import calls
    from prospect.api.count import count
    from prospect.api.differences import Difference, diff
    from prospect.api.recorded_profile import Profile, open, record
    from prospect.version import __version__

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
    "__version__": "version",
    "Difference": "api.differences",
    "Profile": "api.recorded_profile",
    "annotate": "api.annotations",
    "archive": "api.archives",
    "calls": "api.call_views",
    "count": "api.count",
    "diff": "api.differences",
    "open": "api.recorded_profile",
    "record": "api.recorded_profile",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'prospect' has no attribute '{name}'")
    import importlib  # noqa: PLC0415 - not for the command line

    found = getattr(importlib.import_module(f"prospect.{_HOMES[name]}"), name)
    return importlib.import_module("prospect.api.keywords").written_out(found)


def __dir__() -> list[str]:
    return __all__
