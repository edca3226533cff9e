"""Events by the names that processors' vendors give them.

Comes in: text such as ``MEM_LOAD_RETIRED:L3_MISS`` or ``skl::INST_RETIRED:ANY_P:c=1``, and libpfm4
(`libpfm`). Goes out: a `ChosenEvent`, or why there is none; units and events to list.

Defined by: libpfm4's libpfm(3), whose language this is. The kernel's own names are asked first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.abi import constants as abi
from prospect.capture.events import libpfm, pmus
from prospect.capture.events.event_choice import ChosenEvent
from prospect.errors import UsageError
from prospect.spelling import nearest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.capture.events.libpfm import Library, VendorEvent, VendorUnit

NOT_INSTALLED = (
    "names of processors' vendors need libpfm4 (Debian and Ubuntu: apt install libpfm4; Fedora:"
    " dnf install libpfm)"
)
_OF_UNIT = "::"
_MOST_NAMES = 12
# As of `cycles`: a guest's events count only if that is asked for.
_GUEST_MODIFIERS = (":mg", ":mh")


def vendor_event(name: str) -> ChosenEvent | None:
    """Return the event that a vendor calls `name`, None where none does.

    Raises:
        UsageError: the event is known, and something about `name` is wrong; says what there is. Or
            `name` has a unit that this machine does not have.
    """
    library = libpfm.library()
    if library is None:
        if _OF_UNIT in name:
            raise UsageError(f"{name}: {NOT_INSTALLED}")
        return None
    try:
        attr = library.encode(name)
    except libpfm.EncodingError as error:
        problem = _problem(library, name, error)
        if problem:
            raise UsageError(problem) from None
        return None
    if not any(modifier in name.lower() for modifier in _GUEST_MODIFIERS):
        attr = attr._replace(flags=attr.flags & ~abi.FLAG_EXCLUDE_GUEST)
    return ChosenEvent(name, attr, cpus=_cpus(attr.type))


def present_units() -> tuple[VendorUnit, ...]:
    """Return the counters of this machine, none where libpfm does not know it or is missing."""
    library = libpfm.library()
    return tuple(unit for unit in library.units if unit.is_present) if library else ()


def listed_events(pattern: str) -> Iterator[tuple[VendorUnit, VendorEvent]]:
    """Yield the events of this machine's units, and of the unit that a pattern names.

    The library chooses units by the processor's model; in a virtual machine the kernel may lack
    some of them. Those are listed only by their name.

    Args:
        pattern: as of `list_events`; before ``::`` stands a unit, present or not.
    """
    library = libpfm.library()
    if library is None:
        return
    asked = pattern.partition(_OF_UNIT)[0].lower() if _OF_UNIT in pattern else ""
    for unit in library.units:
        if unit.name.lower() == asked or (not asked and _is_in_kernel(library, unit)):
            for event in library.events(unit):
                yield unit, event


def vendor_names() -> list[str]:
    """Return the names of this machine's events, without unit masks."""
    return [event.name for _unit, event in listed_events("")]


def _is_in_kernel(library: Library, unit: VendorUnit) -> bool:
    """Whether this machine has a unit, and its kernel a driver for it: one event stands for all."""
    event = next(iter(library.events(unit)), None) if unit.is_present else None
    if event is None:
        return False
    mask = f":{event.masks[0][0]}" if event.masks else ""
    try:
        library.encode(f"{unit.name}{_OF_UNIT}{event.name}{mask}")
    except libpfm.EncodingError as error:
        return error.code != libpfm.NOT_SUPPORTED
    return True


def _problem(library: Library, name: str, error: libpfm.EncodingError) -> str:
    """Say what is wrong with `name`, "" where it is no vendor's at all."""
    prefix, of_unit, rest = name.rpartition(_OF_UNIT)
    units = [u for u in library.units if u.name == prefix or (u.is_present and not of_unit)]
    if of_unit and not units:
        near = nearest(prefix, (unit.name for unit in library.units))
        return f"no processor's counters are called '{prefix}'" + _meant(near)
    if of_unit and not units[0].is_present:
        here = ", ".join(f"{unit.name} ({unit.description})" for unit in present_units())
        return f"{name}: this machine has no {units[0].description}; it has {here or 'none'}"
    stem, _, attributes = rest.replace(".", ":").partition(":")
    known = {event.name.upper(): event for unit in units for event in library.events(unit)}
    event = known.get(stem.upper())
    if event is not None:
        return _wrong_attributes(name, attributes, event, error)
    return f"{prefix} has no event '{stem}'" + _meant(nearest(stem, known)) if of_unit else ""


def _wrong_attributes(
    name: str, attributes: str, event: VendorEvent, error: libpfm.EncodingError
) -> str:
    """Say what is wrong with what stands behind an event, or is missing there."""
    if error.code == libpfm.NEEDS_MASK and not attributes:
        return f"{name} needs a unit mask: {_some(event.masks)}"
    if error.code == libpfm.NO_ATTRIBUTE:
        masks = _some(event.masks) or "none"
        return f"{name}: its unit masks are {masks}; its modifiers {_some(event.modifiers)}"
    if error.code == libpfm.NOT_SUPPORTED:
        return f"{name}: this kernel has no such unit, see /sys/bus/event_source/devices"
    return f"{name}: {error}"


def _meant(near: str) -> str:
    return f"; did you mean {near}?" if near else "; see prospect list"


def _some(described: tuple[tuple[str, str], ...]) -> str:
    """Return names for one line of an error."""
    rest = len(described) - _MOST_NAMES
    more = f" and {rest} more, see prospect list" if rest > 0 else ""
    return ", ".join(f":{name}" for name, _description in described[:_MOST_NAMES]) + more


def _cpus(kind: int) -> bytes:
    """Return the CPUs that count for a unit outside of the cores, empty for a core's."""
    for unit in pmus.pmu_names() if kind > abi.PERF_TYPE_BREAKPOINT else ():
        if pmus.pmu_type(unit) == kind:
            return pmus.pmu_cpus(unit)
    return b""
