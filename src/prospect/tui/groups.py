"""The rows of each table: the row of each hit, its name, and the rows that fit a filter.

`table_pages` adds the groups up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.figures.entry_reasons import ENTRY_REASON_KIND_NAMES
from prospect.figures.hit_keys import hit_keys
from prospect.figures.modes import is_kernel_mode
from prospect.figures.stacks.frames import KERNEL_KINDS, object_label
from prospect.profile.group_names import service_names
from prospect.profile.model import ENTRY_REASON_INTERRUPT, ENTRY_REASON_SOFTIRQ
from prospect.records import NamedTuple
from prospect.tui.rows import (
    CALLERS,
    ENTRY_REASONS,
    FUNCTIONS,
    INTERRUPT,
    KERNEL,
    PROCESSES,
    THREADS,
    USER,
    EntryReason,
    Function,
    Place,
    Row,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prospect.columns.array_types import I64, Bools
    from prospect.profile.complete import CompleteProfile
    from prospect.profile.model import Profile
    from prospect.tui.figures import LiveFigures

# Digits of the largest pid, PID_MAX_LIMIT in include/linux/threads.h.
_DIGITS = 7
KERNEL_PATH = "[kernel.kallsyms]"
# The owner of interrupts' time; the kernel's names of processes are shorter.
INTERRUPTS = "[all interrupts]"


class Group(NamedTuple):
    """A way to group hits.

    Attributes:
        of_hit: i64[h] the group's number, 0 and more.
        row: gives the row of a number, without figures.
    """

    of_hit: I64
    row: Callable[[int], Row]


class _Names(NamedTuple):
    """Distinct names, interrupts after them, and the name of each hit, i64[h]."""

    distinct: list[str]
    number: I64


def _with_interrupts(figures: LiveFigures, dimension: str) -> _Names:
    keys = hit_keys(figures.profile, dimension)
    number = np.where(figures.is_interrupt, len(keys.names), keys.number)
    return _Names([*keys.names, INTERRUPTS], number)


def function_of(profile: Profile, function: int) -> Function:
    """Return the identity of a row of the functions, which outlives refreshes."""
    functions = profile.functions
    path = profile.objects.path[int(functions.object_index[function])]
    name = functions.name[function]
    return Function(
        name=name,
        object_path=path,
        address=int(functions.address[function]) if name else 0,
        source=int(functions.source[function]),
        label=name or f"[{object_label(path)}]",
    )


def place_label(path: str) -> str:
    """Return the name of a function's object in a column."""
    return "kernel" if path == KERNEL_PATH else object_label(path)


def functions_of(profile: CompleteProfile, named: Function) -> I64:
    """Return the rows that a function has in this profile, i64; none if it has no hit here."""
    found = [
        row
        for row, name in enumerate(profile.functions.name)
        if name == named.name and function_of(profile, row) == named
    ]
    return np.array(found, np.int64)


def _by_function(figures: LiveFigures, place: Place, _chosen: Bools) -> Group:
    profile = figures.profile
    names = _with_interrupts(figures, "program")
    functions = max(len(profile.functions), 1)
    is_kernel = np.isin(profile.objects.kind, KERNEL_KINDS).take(profile.functions.object_index)

    def row(number: int) -> Row:
        process, function = names.distinct[number // functions], number % functions
        named = function_of(profile, function)
        paint = KERNEL if is_kernel[function] else USER
        return Row(
            key=(process, named),
            name=named.label,
            process=process,
            place=place_label(named.object_path),
            paint=INTERRUPT if process == INTERRUPTS else paint,
            target=Place(CALLERS, process, place.thread, place.entry_reason, named),
        )

    return Group(names.number * functions + figures.function, row)


def _by_process(figures: LiveFigures, place: Place, chosen: Bools) -> Group:
    names = _with_interrupts(figures, "program")
    pids = _pids(figures, chosen)

    def row(number: int) -> Row:
        name = names.distinct[number]
        return Row(
            key=(name,),
            name=name,
            place="" if name == INTERRUPTS else pids.get(name, ""),
            paint=INTERRUPT if name == INTERRUPTS else USER,
            target=Place(FUNCTIONS, name, place.thread, place.entry_reason),
        )

    return Group(names.number, row)


def _pids(figures: LiveFigures, chosen: Bools) -> dict[str, str]:
    """Return by name the busiest process, the number of others of that name, and its service."""
    processes = figures.profile.processes
    index = figures.profile.hits.process_index[chosen]
    hits = np.bincount(index, figures.design.hits[chosen], len(processes))
    numbers: dict[str, list[int]] = {}
    services: dict[str, str] = {}
    service_of = service_names(processes)
    for row in np.argsort(-hits, kind="stable")[: np.count_nonzero(hits)].tolist():
        name = processes.name[row]
        services.setdefault(name, service_of[row])
        pids = numbers.setdefault(name, [])
        if int(processes.pid[row]) not in pids[:1]:
            pids.append(int(processes.pid[row]))
    tells_apart = len(set(services.values())) > 1
    return {
        name: f"pid {first}"
        + (f" + {len(set(more))}" if more else "")
        + (f", {services[name]}" if tells_apart and services[name] else "")
        for name, (first, *more) in numbers.items()
    }


def _by_thread(figures: LiveFigures, place: Place, _chosen: Bools) -> Group:
    threads = _with_interrupts(figures, "comm")
    names = _with_interrupts(figures, "program")
    owners = len(names.distinct)

    def row(number: int) -> Row:
        name, process = threads.distinct[number // owners], names.distinct[number % owners]
        is_interrupt = process == INTERRUPTS
        return Row(
            key=(name, process),
            name=name,
            process="" if is_interrupt else process,
            paint=INTERRUPT if is_interrupt else USER,
            target=Place(FUNCTIONS, process, "" if is_interrupt else name, place.entry_reason),
        )

    return Group(threads.number * owners + names.number, row)


def _by_entry_reason(figures: LiveFigures, place: Place, _chosen: Bools) -> Group:
    """Group kernel time by entry reason; user mode is one row, so that the rows add up."""
    entry_reasons = figures.profile.entry_reasons
    labels = [
        entry_reason_label(int(kind), name)
        for kind, name in zip(entry_reasons.kind.tolist(), entry_reasons.name, strict=True)
    ]
    in_kernel = is_kernel_mode(figures.mode)
    user = len(entry_reasons)

    def row(number: int) -> Row:
        if number == user:
            return Row(key=("user",), name="the programs themselves (user mode)", paint=USER)
        kind = int(entry_reasons.kind[number])
        entry_reason = EntryReason(kind, entry_reasons.name[number], labels[number])
        is_interrupt = kind in (ENTRY_REASON_INTERRUPT, ENTRY_REASON_SOFTIRQ)
        return Row(
            key=tuple(entry_reason),
            name=entry_reason.label,
            paint=INTERRUPT if is_interrupt else KERNEL,
            target=Place(FUNCTIONS, place.process, place.thread, entry_reason),
        )

    of_hit = np.where(in_kernel, figures.profile.hits.entry_reason_index.astype(np.int64), user)
    return Group(of_hit, row)


def entry_reason_label(kind: int, name: str) -> str:
    """Return an entry reason in words: its kind, and which of its kind."""
    return f"{ENTRY_REASON_KIND_NAMES[kind]} {name}".rstrip()


GROUPS: dict[str, Callable[[LiveFigures, Place, Bools], Group]] = {
    FUNCTIONS: _by_function,
    PROCESSES: _by_process,
    ENTRY_REASONS: _by_entry_reason,
    THREADS: _by_thread,
}


def in_scope(figures: LiveFigures, place: Place) -> Bools:
    """Return bool[h]: the hits of a place."""
    profile, hits = figures.profile, figures.profile.hits
    chosen = np.ones(len(hits), np.bool_)
    if place.process == INTERRUPTS:
        chosen &= figures.is_interrupt
    elif place.process:
        chosen &= _equal(profile.processes.name, place.process).take(hits.process_index)
        chosen &= ~figures.is_interrupt
    if place.thread:
        chosen &= _equal(profile.comms, place.thread).take(hits.comm_index)
    if place.entry_reason:
        is_entry_reason = profile.entry_reasons.kind == place.entry_reason.kind
        is_entry_reason &= _equal(profile.entry_reasons.name, place.entry_reason.name)
        chosen &= is_entry_reason.take(hits.entry_reason_index) & is_kernel_mode(figures.mode)
    return chosen


def _equal(names: Sequence[str], wanted: str) -> Bools:
    return np.array([name == wanted for name in names], np.bool_)


def of_pid(profile: CompleteProfile, words: str) -> Bools:
    """Return bool[p]: the process whose pid `words` are; none if they are not a number."""
    pid = profile.processes.pid
    number = int(words) if words.isdecimal() and words.isascii() and len(words) <= _DIGITS else -1
    found: Bools = (pid == number) & (pid > 0)
    return found


def fitting(figures: LiveFigures, page: str, words: str) -> Bools:
    """Return bool[h]: the hits in rows of a page with `words` in a name.

    The pid of a process with hits selects that process, not names with these digits.
    """
    profile, hits = figures.profile, figures.profile.hits
    words = words.casefold()
    of_number = of_pid(profile, words)
    if of_number.any():
        return of_number.take(hits.process_index) & ~figures.is_interrupt

    def has(names: Sequence[str]) -> Bools:
        return np.array([words in name.casefold() for name in names], np.bool_)

    if page == ENTRY_REASONS:
        kinds = profile.entry_reasons.kind.tolist()
        labels = [
            entry_reason_label(kind, name)
            for kind, name in zip(kinds, profile.entry_reasons.name, strict=True)
        ]
        return has(labels).take(hits.entry_reason_index) & is_kernel_mode(figures.mode)
    of_process = has(profile.processes.name).take(hits.process_index)
    chosen = np.where(figures.is_interrupt, words in INTERRUPTS, of_process)
    if page == THREADS:
        chosen |= has(profile.comms).take(hits.comm_index) & ~figures.is_interrupt
    if page == FUNCTIONS:
        of_object = has([object_label(path) for path in profile.objects.path])
        of_function = has(profile.functions.name)
        of_function |= of_object.take(profile.functions.object_index)
        chosen |= of_function.take(figures.function)
    return chosen
