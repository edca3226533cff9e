"""Find plug-ins of installed packages by their entry points; their code is loaded only if used.

An entry point ``NAME = "module:function"`` of one of the groups of `KINDS` is a plug-in: see
docs/plugins.md. Names of Prospect's own plug-ins take precedence.
Source: the entry points specification of the Python Packaging User Guide.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.errors import PluginError, UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint
    from typing import Any

FORMATS = "prospect.formats"
EVENTS = "prospect.events"
LABELS = "prospect.labels"
HOOKS = "prospect.hooks"
KINDS = {FORMATS: "format", EVENTS: "event source", LABELS: "label source", HOOKS: "entry hook"}
# Plug-ins that come with Prospect.
_OWN = {
    (EVENTS, "ibs_op"): "prospect.assembly.raw.amd_ibs:decode",
    (LABELS, "marks"): "prospect.assembly.labels:label_by_marks",
}


def plugins(group: str) -> list[EntryPoint]:
    """Return the plug-ins of installed packages in a group, by name."""
    from importlib.metadata import entry_points  # noqa: PLC0415 - most runs ask for none

    return sorted(entry_points(group=group), key=lambda one: one.name)


def plugin(group: str, name: str) -> EntryPoint | None:
    """Return the plug-in of a name in a group, None for none.

    Raises:
        UsageError: several packages have it.
    """
    from importlib.metadata import EntryPoint, entry_points  # noqa: PLC0415 - most runs ask for none

    if (group, name) in _OWN:
        return EntryPoint(name, _OWN[group, name], group)
    found = list(entry_points(group=group, name=name))
    if len(found) > 1:
        packages = ", ".join(package_of(one) for one in found)
        raise UsageError(f"{KINDS[group]} {name}: several packages have it, keep one: {packages}")
    return found[0] if found else None


def names(group: str) -> list[str]:
    """Return all names of a group, Prospect's own first."""
    own = [name for kind, name in _OWN if kind == group]
    return [*own, *(one.name for one in plugins(group) if one.name not in own)]


def called(entry_point: EntryPoint, *arguments: Any) -> Any:
    """Load a plug-in's function and call it.

    Raises:
        PluginError: it failed; the message names it.
    """
    try:
        return entry_point.load()(*arguments)
    except Exception as error:  # a plug-in may raise anything
        what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise PluginError(f"{described(entry_point)} failed: {what}") from error


def described(entry_point: EntryPoint) -> str:
    """Return the name of a plug-in and its package, for a message."""
    kind = KINDS.get(entry_point.group, entry_point.group)
    return f"{kind} {entry_point.name}, a plug-in of {package_of(entry_point)},"


def package_of(entry_point: EntryPoint) -> str:
    """Return the name of an entry point's package."""
    if entry_point.dist:
        return entry_point.dist.name
    is_own = (entry_point.group, entry_point.name) in _OWN
    return "Prospect" if is_own else entry_point.value
