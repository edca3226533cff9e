"""Events by the names that CPU vendors give them, from libpfm4.

Text such as ``MEM_LOAD_RETIRED:L3_MISS`` or ``skl::INST_RETIRED:ANY_P:c=1`` becomes a
`ChosenEvent`. Names of the kernel come first. The library is Debian's ``libpfm.so.4``, if it is
installed, called by ctypes.

Defined by: libpfm(3) of libpfm 4.13 for the language; ``include/perfmon/pfmlib.h`` and
``pfmlib_perf_event.h``; pfm_get_os_event_encoding(3), pfm_get_event_info(3),
pfm_get_event_attr_info(3).
"""

from __future__ import annotations

import ctypes
import functools
from typing import TYPE_CHECKING, ClassVar

from prospect.abi import constants as abi
from prospect.abi.attr import EventAttr
from prospect.capture.capture_limits import MOST_PFM_UNITS
from prospect.capture.events import pmus
from prospect.capture.events.event_choice import ChosenEvent
from prospect.errors import UsageError
from prospect.records import NamedTuple
from prospect.spelling import nearest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

NOT_SUPPORTED, NOT_FOUND, NEEDS_MASK, NO_ATTRIBUTE = -1, -4, -6, -8

_FILE = "libpfm.so.4"
# PFM_OS_PERF_EVENT: the CPU's modifiers, and the counted modes. PFM_OS_PERF_EVENT_EXT would add
# periods, precision and pinned counters, which every event here can have (docs/events.md).
_PERF_EVENT = 1
_USER, _KERNEL, _HYPERVISOR = 0x8, 0x1, 0x10  # PFM_PLM3, PFM_PLM0, PFM_PLMH
_CORE, _UNCORE = 1, 2  # PFM_PMU_TYPE_*; the others are perf_events' generic names
_UNIT_MASK = 1  # PFM_ATTR_UMASK; other attributes are modifiers
_ATTR_BYTES = 4096  # more than any struct perf_event_attr that the library may know


def _members(kind: type[Any], names: str) -> list[tuple[str, type[Any]]]:
    return [(name, kind) for name in names.split()]


class _Unit(ctypes.Structure):
    """The library's pfm_pmu_info_t."""

    _fields_: ClassVar[Sequence[tuple[str, type[Any]]]] = [
        *_members(ctypes.c_char_p, "name desc"),
        *_members(ctypes.c_size_t, "size"),
        *_members(ctypes.c_int, "pmu type nevents first_event max_encoding"),
        *_members(ctypes.c_int, "num_cntrs num_fixed_cntrs"),
        *_members(ctypes.c_uint32, "flags"),
    ]


class _Event(ctypes.Structure):
    """The library's pfm_event_info_t."""

    _fields_: ClassVar[Sequence[tuple[str, type[Any]]]] = [
        *_members(ctypes.c_char_p, "name desc equiv"),
        *_members(ctypes.c_size_t, "size"),
        *_members(ctypes.c_uint64, "code"),
        *_members(ctypes.c_int, "pmu dtype idx nattrs reserved"),
        *_members(ctypes.c_uint32, "flags"),
    ]


class _Attribute(ctypes.Structure):
    """The library's pfm_event_attr_info_t, with the largest member of its union."""

    _fields_: ClassVar[Sequence[tuple[str, type[Any]]]] = [
        *_members(ctypes.c_char_p, "name desc equiv"),
        *_members(ctypes.c_size_t, "size"),
        *_members(ctypes.c_uint64, "code"),
        *_members(ctypes.c_int, "type idx ctrl"),
        *_members(ctypes.c_uint32, "flags"),
        *_members(ctypes.c_uint64, "default"),
    ]


class _Encoding(ctypes.Structure):
    """The library's pfm_perf_encode_arg_t."""

    _fields_: ClassVar[Sequence[tuple[str, type[Any]]]] = [
        *_members(ctypes.c_void_p, "attr fstr"),
        *_members(ctypes.c_size_t, "size"),
        *_members(ctypes.c_int, "idx cpu flags pad0"),
    ]


class VendorUnit(NamedTuple):
    """Counters that libpfm knows: of a kind of core, or of a socket.

    Attributes:
        name: before ``::``, such as ``skl``.
        description: such as ``Intel Skylake``.
        is_present: whether this machine has them.
        counters, fixed_counters: the numbers of those for any event, and for one event each.
        first_event: the library's number, -1 for none.
    """

    name: str
    description: str
    is_present: bool
    counters: int
    fixed_counters: int
    first_event: int


class VendorEvent(NamedTuple):
    """An event by its vendor's name.

    Attributes:
        masks: name and description of each unit mask.
        modifiers: name and description of each modifier that takes a value.
    """

    name: str
    description: str
    masks: tuple[tuple[str, str], ...]
    modifiers: tuple[tuple[str, str], ...]


class EncodingError(Exception):
    """The library refuses an event's text: its error code and message."""

    def __init__(self, code: int, words: str) -> None:
        super().__init__(words)
        self.code = code


@functools.cache
def library() -> Library | None:
    """Return the library, None if it is not installed or does not start."""
    try:
        found = ctypes.CDLL(_FILE)
        return None if found.pfm_initialize() else Library(found)
    except (OSError, AttributeError):
        return None


class Library:
    """The started library."""

    def __init__(self, found: ctypes.CDLL) -> None:
        self._found = found
        found.pfm_strerror.restype = ctypes.c_char_p

    def encode(self, text: str) -> EventAttr:
        """Return the attributes of an event, by default in user space, kernel and hypervisor.

        Args:
            text: ``[UNIT::]EVENT[:MASK…][:MODIFIER[=VALUE]…]``.

        Raises:
            EncodingError: the library refuses it.
        """
        attr = ctypes.create_string_buffer(_ATTR_BYTES)
        asked = _Encoding(ctypes.addressof(attr), None, ctypes.sizeof(_Encoding))
        code = self._found.pfm_get_os_event_encoding(
            text.encode(errors="replace"),
            _USER | _KERNEL | _HYPERVISOR,
            _PERF_EVENT,
            ctypes.byref(asked),
        )
        if code:
            raise EncodingError(code, _text(self._found.pfm_strerror(code)))
        return EventAttr.unpack(attr.raw)

    @functools.cached_property
    def units(self) -> tuple[VendorUnit, ...]:
        """The counters of all CPU models, without perf_events' generic names."""
        found = []
        for number in range(MOST_PFM_UNITS):
            unit = _Unit(size=ctypes.sizeof(_Unit))
            if self._found.pfm_get_pmu_info(number, ctypes.byref(unit)):
                continue
            if unit.type in (_CORE, _UNCORE):
                found.append(
                    VendorUnit(
                        _text(unit.name),
                        _text(unit.desc),
                        bool(unit.flags & 1),
                        unit.num_cntrs,
                        unit.num_fixed_cntrs,
                        unit.first_event,
                    )
                )
        return tuple(found)

    def events(self, unit: VendorUnit) -> Iterator[VendorEvent]:
        """Yield the events of a unit, present here or not, in the vendor's order."""
        number = unit.first_event
        while number >= 0:
            event = _Event(size=ctypes.sizeof(_Event))
            if not self._found.pfm_get_event_info(number, _PERF_EVENT, ctypes.byref(event)):
                masks, modifiers = self._attributes(number, event.nattrs)
                yield VendorEvent(_text(event.name), _text(event.desc), masks, modifiers)
            number = self._found.pfm_get_event_next(number)

    def _attributes(
        self, event: int, count: int
    ) -> tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]:
        """Return an event's unit masks and its modifiers, each with its description."""
        masks: list[tuple[str, str]] = []
        modifiers: list[tuple[str, str]] = []
        for number in range(count):
            found = _Attribute(size=ctypes.sizeof(_Attribute))
            if not self._found.pfm_get_event_attr_info(
                event, number, _PERF_EVENT, ctypes.byref(found)
            ):
                kind = masks if found.type == _UNIT_MASK else modifiers
                kind.append((_text(found.name), _text(found.desc)))
        return tuple(masks), tuple(modifiers)


def _text(said: bytes | None) -> str:
    """Return a text of the library on one line."""
    return " ".join((said or b"").decode(errors="replace").split())


NOT_INSTALLED = (
    "names by the CPU's vendor need libpfm4 (Debian and Ubuntu: apt install libpfm4; Fedora:"
    " dnf install libpfm)"
)
_OF_UNIT = "::"
_MOST_NAMES = 12
# As with `cycles`, a guest's events count only if the user asks for them.
_GUEST_MODIFIERS = (":mg", ":mh")


def vendor_event(name: str) -> ChosenEvent | None:
    """Return the event to which a vendor gives this name, None if no vendor does.

    Raises:
        UsageError: the event is known, but its masks or modifiers are wrong, or this machine does
            not have its unit.
    """
    pfm = library()
    if pfm is None:
        if _OF_UNIT in name:
            raise UsageError(f"{name}: {NOT_INSTALLED}")
        return None
    try:
        attr = pfm.encode(name)
    except EncodingError as error:
        problem = _problem(pfm, name, error)
        if problem:
            raise UsageError(problem) from None
        return None
    if not any(modifier in name.lower() for modifier in _GUEST_MODIFIERS):
        attr = attr._replace(flags=attr.flags & ~abi.FLAG_EXCLUDE_GUEST)
    return ChosenEvent(name, attr, cpus=_cpus(attr.type))


def listed_events(pattern: str) -> Iterator[tuple[VendorUnit, VendorEvent]]:
    """Yield the events of this machine's units, or of the unit in a pattern.

    The library chooses units by the CPU's model. In a virtual machine the kernel may lack some of
    them, which are listed only if the pattern has their name.

    Args:
        pattern: as for `list_events`; before ``::`` is a unit, present or not.
    """
    pfm = library()
    if pfm is None:
        return
    asked = pattern.partition(_OF_UNIT)[0].lower() if _OF_UNIT in pattern else ""
    for unit in pfm.units:
        if unit.name.lower() == asked or (not asked and _is_in_kernel(pfm, unit)):
            for event in pfm.events(unit):
                yield unit, event


def vendor_names() -> list[str]:
    """Return the names of this machine's events, without unit masks."""
    return [event.name for _unit, event in listed_events("")]


def _is_in_kernel(library: Library, unit: VendorUnit) -> bool:
    """Return whether this machine has a unit, and its kernel a driver, by trying one event."""
    event = next(iter(library.events(unit)), None) if unit.is_present else None
    if event is None:
        return False
    mask = f":{event.masks[0][0]}" if event.masks else ""
    try:
        library.encode(f"{unit.name}{_OF_UNIT}{event.name}{mask}")
    except EncodingError as error:
        return error.code != NOT_SUPPORTED
    return True


def _problem(library: Library, name: str, error: EncodingError) -> str:
    """Return the error in `name`, "" if it is no vendor's."""
    prefix, of_unit, rest = name.rpartition(_OF_UNIT)
    units = [u for u in library.units if u.name == prefix or (u.is_present and not of_unit)]
    if of_unit and not units:
        near = nearest(prefix, (unit.name for unit in library.units))
        return f"no processor's counters are called '{prefix}'" + _meant(near)
    if of_unit and not units[0].is_present:
        present = (unit for unit in library.units if unit.is_present)
        here = ", ".join(f"{unit.name} ({unit.description})" for unit in present)
        return f"{name}: this machine has no {units[0].description}; it has {here or 'none'}"
    stem, _, attributes = rest.replace(".", ":").partition(":")
    known = {event.name.upper(): event for unit in units for event in library.events(unit)}
    event = known.get(stem.upper())
    if event is not None:
        return _wrong_attributes(name, attributes, event, error)
    return f"{prefix} has no event '{stem}'" + _meant(nearest(stem, known)) if of_unit else ""


def _wrong_attributes(name: str, attributes: str, event: VendorEvent, error: EncodingError) -> str:
    """Return the error in the text after an event."""
    if error.code == NEEDS_MASK and not attributes:
        return f"{name} needs a unit mask: {_some(event.masks)}"
    if error.code == NO_ATTRIBUTE:
        masks = _some(event.masks) or "none"
        return f"{name}: its unit masks are {masks}; its modifiers {_some(event.modifiers)}"
    if error.code == NOT_SUPPORTED:
        return f"{name}: this kernel has no such unit, see /sys/bus/event_source/devices"
    return f"{name}: {error}"


def _meant(near: str) -> str:
    return f"; did you mean {near}?" if near else "; see prospect list"


def _some(described: tuple[tuple[str, str], ...]) -> str:
    """Return the first names, for an error of one line."""
    rest = len(described) - _MOST_NAMES
    more = f" and {rest} more, see prospect list" if rest > 0 else ""
    return ", ".join(f":{name}" for name, _description in described[:_MOST_NAMES]) + more


def _cpus(kind: int) -> bytes:
    """Return the CPUs that count for a unit outside of the cores, empty for a core's."""
    for unit in pmus.pmu_names() if kind > abi.PERF_TYPE_BREAKPOINT else ():
        if pmus.pmu_type(unit) == kind:
            return pmus.pmu_cpus(unit)
    return b""
