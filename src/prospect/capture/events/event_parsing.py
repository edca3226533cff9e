"""The text of ``--event`` → events that can be opened.

Text such as ``cycles:u,{instructions,branches},sched:sched_switch/filter=prev_pid>0/`` becomes
`ChosenEvent`s in the same order; docs/events.md describes the language. Names come from the tables
of this module, sysfs (`pmus`), tracefs (`tracepoints`), the files of probes (`probe_places`) and
libpfm4 (`vendor_events`).

Software, hardware and cache events have the same names as in `perf list`. Source: enum
perf_sw_ids, perf_hw_id, perf_hw_cache_id, perf_hw_cache_op_id and perf_hw_cache_op_result_id in
``include/uapi/linux/perf_event.h``, Linux 6.18.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prospect.abi import constants as abi
from prospect.abi.attr import EventAttr
from prospect.capture.capture_limits import MOST_EVENT_CHARACTERS
from prospect.capture.events import pmus
from prospect.capture.events.event_choice import ALONE, MOST_PRECISE, PRECISE_IP_SHIFT, ChosenEvent
from prospect.capture.events.tracepoints import tracepoint_id, tracepoints
from prospect.errors import CaptureError, UsageError
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SOFTWARE = "software"
HARDWARE = "hardware"
CACHE = "cache"


class NamedEvent(NamedTuple):
    """An event of the tables: its names, the usual one first, and the counted things."""

    kind: str
    names: tuple[str, ...]
    type: int
    config: int
    description: str


_SOFTWARE = (
    (0, ("cpu-clock",), "time that a CPU's clock ran, in ns"),
    (1, ("task-clock",), "time that tasks ran, in ns"),
    (2, ("page-faults", "faults"), "page faults"),
    (3, ("context-switches", "cs"), "switches from one task to another"),
    (4, ("cpu-migrations", "migrations"), "moves of a task to another CPU"),
    (5, ("minor-faults",), "page faults that read nothing from a disk"),
    (6, ("major-faults",), "page faults that waited for a disk"),
    (7, ("alignment-faults",), "unaligned accesses that the kernel completed"),
    (8, ("emulation-faults",), "instructions that the kernel emulated"),
    (9, ("dummy",), "nothing: carries records of mappings and tasks"),
    (10, ("bpf-output",), "records that BPF programs write"),
    (11, ("cgroup-switches",), "switches to a task of another control group"),
)
_HARDWARE = (
    (0, ("cycles", "cpu-cycles"), "cycles that a CPU worked"),
    (1, ("instructions",), "instructions retired"),
    (2, ("cache-references",), "accesses of the last-level cache, usually"),
    (3, ("cache-misses",), "misses of the last-level cache, usually"),
    (4, ("branches", "branch-instructions"), "branches retired"),
    (5, ("branch-misses",), "branches that were predicted wrongly"),
    (6, ("bus-cycles",), "cycles of the bus"),
    (
        7,
        ("stalled-cycles-frontend", "idle-cycles-frontend"),
        "cycles without an instruction to issue",
    ),
    (8, ("stalled-cycles-backend", "idle-cycles-backend"), "cycles without room to issue one"),
    (9, ("ref-cycles",), "cycles at a rate that does not change with the frequency"),
)
_LOAD, _STORE, _PREFETCH = 0, 1, 2
# Name, description, and accesses of each cache.
_CACHES = (
    ("L1-dcache", "the first data cache", (_LOAD, _STORE, _PREFETCH)),
    ("L1-icache", "the first instruction cache", (_LOAD, _PREFETCH)),
    ("LLC", "the last cache", (_LOAD, _STORE, _PREFETCH)),
    ("dTLB", "the data TLB", (_LOAD, _STORE, _PREFETCH)),
    ("iTLB", "the instruction TLB", (_LOAD,)),
    ("branch", "the branch predictor", (_LOAD,)),
    ("node", "the memory of the node", (_LOAD, _STORE, _PREFETCH)),
)
_ACCESSES = (("load", "loads"), ("store", "stores"), ("prefetch", "prefetches"))
_ACCESS_SHIFT = 8
_MISS = 1 << 16


def named_events() -> Iterator[NamedEvent]:
    """Yield every event of the tables, even if this machine does not have it."""
    for config, names, description in _SOFTWARE:
        yield NamedEvent(SOFTWARE, names, abi.PERF_TYPE_SOFTWARE, config, description)
    for config, names, description in _HARDWARE:
        yield NamedEvent(HARDWARE, names, abi.PERF_TYPE_HARDWARE, config, description)
    for cache, (name, place, accesses) in enumerate(_CACHES):
        for access in accesses:
            one, many = _ACCESSES[access]
            config = cache | access << _ACCESS_SHIFT
            yield _cache_event(f"{name}-{many}", config, f"{many}, {place}")
            misses = f"{many} that miss, {place}"
            yield _cache_event(f"{name}-{one}-misses", config | _MISS, misses)


def find_named(name: str) -> NamedEvent | None:
    """Return the event of this name, None if the tables have none."""
    return next((event for event in named_events() if name in event.names), None)


def _cache_event(name: str, config: int, description: str) -> NamedEvent:
    return NamedEvent(CACHE, (name,), abi.PERF_TYPE_HW_CACHE, config, description)


_MOST_VALUE = (1 << 64) - 1
# With "=" for the modifiers of vendors' events, such as c=2.
_NAME = re.compile(r"[\w.:-]+(?:=\w+[\w.:-]*)*", re.ASCII)
_RAW = re.compile(r"r([0-9a-fA-F]{1,16})\Z")
_MODIFIERS = re.compile(r"[ukhpD]+\Z")
_TERM = re.compile(r"""([\w.-]+)(?:=("[^"]*"|'[^']*'|[^,]*))?(?:,|\Z)""", re.ASCII)
_FILE = re.compile(r"(?:\.{0,2}/)[^,{}]*")
_PRIVILEGES = {"u": abi.FLAG_EXCLUDE_USER, "k": abi.FLAG_EXCLUDE_KERNEL, "h": abi.FLAG_EXCLUDE_HV}


def parse_events(text: str) -> tuple[ChosenEvent, ...]:
    """Parse events separated by commas, groups in braces.

    Raises:
        UsageError: this machine does not know an event; suggests another one.
        CaptureError: tracefs cannot be read for a tracepoint.
    """
    if not text or len(text) > MOST_EVENT_CHARACTERS or "\0" in text:
        raise UsageError("give events, such as cycles,page-faults; prospect list shows them")
    found: list[ChosenEvent] = []
    group, groups, at = ALONE, 0, 0
    while at < len(text):
        if text[at] == "{" and group == ALONE:
            group, groups, at = groups, groups + 1, at + 1
            first = len(found)
        event, at = _one_event(text, at)
        found.append(event._replace(group=group))
        if text[at : at + 1] == "}" and group != ALONE:
            group, at = ALONE, at + 1
            modifiers = re.compile(r":([ukhpD]+)").match(text, at)
            if modifiers:
                at = modifiers.end()
                found[first:] = [_with_modifiers(e, modifiers[1]) for e in found[first:]]
        if at < len(text) and text[at] != ",":
            raise UsageError(f"'{text[at:]}' after {event.name} is not understood")
        at += 1
    if group != ALONE or text.endswith(","):
        raise UsageError(f"'{text}' is not complete")
    return tuple(found)


def _one_event(text: str, at: int) -> tuple[ChosenEvent, int]:
    """Parse the event that begins at `at`; return it and its end."""
    file = _FILE.match(text, at)
    if file:
        from prospect.capture.events.probe_places import probe_event  # noqa: PLC0415 - rarely asked for

        return probe_event(file[0]), file.end()
    name = _NAME.match(text, at)
    if not name:
        raise UsageError(f"'{text[at:]}' does not begin with an event; prospect list shows them")
    at = name.end()
    terms, modifiers = None, ""
    if text[at : at + 1] == "/":
        terms, at = _terms_text(text, at + 1)
        following = re.compile(r":?([ukhpD]*)").match(text, at)
        if following:
            modifiers, at = following[1], following.end()
    event = _named_event(name[0], terms)
    return _with_modifiers(event, modifiers) if modifiers else event, at


def _terms_text(text: str, at: int) -> tuple[str, int]:
    """Return the text up to the next slash outside of quotes, and the end of that slash."""
    match = re.compile(r"""((?:[^/"']|"[^"]*"|'[^']*')*)/""").match(text, at)
    if not match:
        raise UsageError(f"'{text}': the parameters do not end with a slash")
    return match[1], match.end()


def _named_event(name: str, terms: str | None) -> ChosenEvent:
    """Return the event of a name, which may end with modifiers, with parameters."""
    stem, colon, last = name.rpartition(":")
    candidates = [(name, "")]
    if colon and _MODIFIERS.match(last):
        candidates.insert(0, (stem, last))
    for find in (_known_event, _vendor_event):
        for candidate, modifiers in candidates:
            event = find(candidate, terms)
            if event:
                return _with_modifiers(event, modifiers) if modifiers else event
    if ":" in name:
        tracepoint_id(*name.split(":", 1))  # raises if only root may read the answer
    raise UsageError(_unknown(name, has_terms=terms is not None))


def _vendor_event(name: str, terms: str | None) -> ChosenEvent | None:
    """Return the event to which the CPU's vendor gives a name."""
    from prospect.capture.events.vendor_events import vendor_event  # noqa: PLC0415 - rarely asked for

    event = vendor_event(name)
    return _with_terms(event, terms, {}) if event else None


def _known_event(name: str, terms: str | None) -> ChosenEvent | None:
    """Return the event to which the kernel gives a name."""
    named = find_named(name)
    if named:
        attr = EventAttr(type=named.type, config=named.config)
        unit = "ns" if name.endswith("-clock") else ""
        return _with_terms(ChosenEvent(name, attr, unit=unit), terms, {})
    group, colon, point = name.partition(":")
    if colon:
        number = _tracepoint(group, point)
        attr = EventAttr(type=abi.PERF_TYPE_TRACEPOINT, config=number or 0)
        return _with_terms(ChosenEvent(name, attr), terms, {}) if number is not None else None
    kind = pmus.pmu_type(name)
    if kind is not None:
        if terms is None:
            raise UsageError(f"{name} is a unit, not an event: give {name}/EVENT/")
        return _unit_event(name, kind, terms)
    raw = _RAW.match(name)
    if raw:
        attr = EventAttr(type=abi.PERF_TYPE_RAW, config=int(raw[1], 16))
        return _with_terms(ChosenEvent(name, attr), terms, {})
    owners = [p for p in pmus.pmu_names() if any(e.name == name for e in pmus.pmu_events(p))]
    if owners:
        kind = pmus.pmu_type(owners[0])
        event = _unit_event(owners[0], kind or 0, ",".join(filter(None, (name, terms))))
        return event._replace(name=name)
    return None


def _tracepoint(group: str, name: str) -> int | None:
    try:
        return tracepoint_id(group, name)
    except CaptureError:
        return None  # it may be a vendor's event, whose masks follow colons too


def _unit_event(unit: str, kind: int, terms: str) -> ChosenEvent:
    """Return an event of a unit, by the kernel's names and parameters."""
    event = ChosenEvent(f"{unit}/{terms}/", EventAttr(type=kind), cpus=pmus.pmu_cpus(unit))
    parameters = pmus.pmu_parameters(unit)
    for named in pmus.pmu_events(unit):
        # The name comes first, then parameters that change it.
        first, comma, rest = terms.partition(",")
        if named.name == first:
            terms = f"{named.terms},{rest}" if comma else named.terms
            event = event._replace(unit=named.unit, scale=named.scale)
            break
    return _with_terms(event, terms, parameters)


def _with_terms(
    event: ChosenEvent, terms: str | None, parameters: dict[str, pmus.Parameter]
) -> ChosenEvent:
    """Apply the parameters between an event's slashes."""
    at = 0
    while terms and at < len(terms):
        match = _TERM.match(terms, at)
        if not match:
            raise UsageError(f"{event.name}: '{terms[at:]}' is not NAME=VALUE")
        at = match.end()
        value = match[2] or ""
        if value[:1] in ("'", '"'):
            value = value[1:-1]
        event = _with_term(event, match[1], value, parameters)
    return event


def _with_term(
    event: ChosenEvent, key: str, value: str, parameters: dict[str, pmus.Parameter]
) -> ChosenEvent:
    attr = event.attr
    if key in parameters:
        parameter = parameters[key]
        try:
            placed = parameter.placed(_number(event, key, value or "1"))
        except ValueError:
            most = (1 << len(parameter.bits)) - 1
            raise UsageError(f"{event.name}: {key} is at most {most:#x}") from None
        changed = {parameter.field: getattr(attr, parameter.field) | placed}
        return event._replace(attr=attr._replace(**changed))
    if parameters and key in ("config", "config1", "config2", "config3"):
        return event._replace(attr=attr._replace(**{key: _number(event, key, value)}))
    if key in ("period", "freq"):
        number = _number(event, key, value)
        if not 0 < number < 1 << 63:
            raise UsageError(f"{event.name}: {key} is at least 1")
        flags = attr.flags | (abi.FLAG_FREQ if key == "freq" else 0)
        return event._replace(attr=attr._replace(sample_period=number, flags=flags))
    if key == "name" and value:
        return event._replace(name=value)
    if key == "filter" and value and attr.type == abi.PERF_TYPE_TRACEPOINT:
        return event._replace(filter=value)
    known = [*parameters, "period", "freq", "name"]
    known += ["filter"] if attr.type == abi.PERF_TYPE_TRACEPOINT else []
    raise UsageError(f"{event.name}: no parameter '{key}', there are {', '.join(known)}")


def _number(event: ChosenEvent, key: str, value: str) -> int:
    try:
        number = int(value, 0)
    except ValueError:
        number = -1
    if not 0 <= number <= _MOST_VALUE:
        raise UsageError(f"{event.name}: {key} needs a number, not '{value}'")
    return number


def _with_modifiers(event: ChosenEvent, modifiers: str) -> ChosenEvent:
    """Apply modifiers, which mean the same as for ``perf``."""
    flags = event.attr.flags
    wanted = set(modifiers) & set(_PRIVILEGES)
    if wanted:
        for letter, flag in _PRIVILEGES.items():
            flags |= 0 if letter in wanted else flag
    precise = modifiers.count("p")
    if precise > MOST_PRECISE:
        raise UsageError(f"{event.name}: give p at most {MOST_PRECISE} times")
    flags |= precise << PRECISE_IP_SHIFT
    if "D" in modifiers:
        flags |= abi.FLAG_PINNED
    return event._replace(name=f"{event.name}:{modifiers}", attr=event.attr._replace(flags=flags))


def _unknown(name: str, *, has_terms: bool) -> str:
    """Return a message that there is no such event, with a suggestion."""
    from prospect.capture.events.vendor_events import vendor_names  # noqa: PLC0415 - only on the way to an error
    from prospect.spelling import nearest  # noqa: PLC0415 - only on the way to an error

    if has_terms and not find_named(name) and ":" not in name:
        known: Iterable[str] = pmus.pmu_names()
        message = f"no unit '{name}' here; a file begins with / or ./"
    else:
        known = _all_names(name)
        message = f"no event '{name}' here"
    near = nearest(name, known) or nearest(re.split("[:.]", name)[0], vendor_names())
    if near:
        return f"{message}; did you mean {near}?"
    return f"{message}; see prospect list{_without_vendors(name)}"


def _without_vendors(name: str) -> str:
    """Return a hint that a name in capitals may be a vendor's, if libpfm4 is missing."""
    from prospect.capture.events import vendor_events  # noqa: PLC0415 - only on the way to an error

    if vendor_events.library() or not any(letter.isupper() for letter in name):
        return ""
    return f"; {vendor_events.NOT_INSTALLED}"


def _all_names(like: str) -> list[str]:
    names = [name for event in named_events() for name in event.names]
    for unit in pmus.pmu_names():
        names += [event.name for event in pmus.pmu_events(unit)]
    if ":" in like:
        try:
            names += [f"{group}:{name}" for group, name in tracepoints()]
        except CaptureError:
            return names
    return names
