"""Prospect: a whole-system sampling profiler for Linux.

`prospect.record(command)` and `prospect.open(path)` return a `Profile`; see docs/python.md.
They are imported at their first use: the command line must not wait for numpy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.version import __version__

if TYPE_CHECKING:
    from prospect.api import Profile, open, record

__all__ = ["Profile", "__version__", "open", "record"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'prospect' has no attribute '{name}'")
    from prospect import api

    return getattr(api, name)


def __dir__() -> list[str]:
    return __all__
