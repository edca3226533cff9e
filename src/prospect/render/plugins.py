"""Which formats installed packages add, by entry points; their code is not loaded here.

An entry point ``NAME = "module:function"`` of the group `GROUP` adds the format NAME: see
docs/plugins.md, which builds one, and `plugin_report`, which calls it.
Source: the entry points specification of the Python Packaging User Guide.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

from prospect.errors import UsageError

GROUP = "prospect.formats"


def plugins() -> list[EntryPoint]:
    """Return the formats that installed packages add, by name."""
    return sorted(entry_points(group=GROUP), key=lambda one: one.name)


def plugin(name: str) -> EntryPoint | None:
    """Return who writes a format, None where nobody does.

    Raises:
        UsageError: several packages do.
    """
    found = list(entry_points(group=GROUP, name=name))
    if len(found) > 1:
        packages = ", ".join(package_of(one) for one in found)
        raise UsageError(f"format {name}: several packages have it, keep one: {packages}")
    return found[0] if found else None


def described(entry_point: EntryPoint) -> str:
    """Say which plug-in is meant."""
    return f"format {entry_point.name}, a plug-in of {package_of(entry_point)},"


def package_of(entry_point: EntryPoint) -> str:
    """Return the name of the package that an entry point is of."""
    return entry_point.dist.name if entry_point.dist else entry_point.value
