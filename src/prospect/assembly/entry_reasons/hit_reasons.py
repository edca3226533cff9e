"""Why the CPU was in the kernel: from call chains to the entry reasons of a profile's hits.

`label_samples` finds the innermost entry point of each chain. So an interrupt within a system call
is an interrupt, and a page fault while a system call copies its arguments is an exception. Each
distinct address is named once; everything else is whole columns. `with_entry_reasons` turns the
labels of hits into the `EntryReasonTable`; if a chain has no entry point, the process or the hit
function may determine the reason.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from prospect.abi.syscall_names import called_names
from prospect.assembly.assembly_limits import MOST_ADDRESSES
from prospect.assembly.entry_reasons.entry_points import (
    IDLE,
    KERNEL_THREAD,
    NEW_TASK,
    NO_ENTRY_REASON,
    OUTSIDE_OF_CALLS,
    UNCLASSIFIED,
    UNRECORDED,
    EntryPoint,
    EntryReason,
    entry_point,
    entry_reason_of_called,
    entry_reason_of_place,
)
from prospect.assembly.stacks.chain_frames import LOWEST_CONTEXT, frame_blocks
from prospect.columns.grouping import distinct_keys
from prospect.columns.sorting import WordSet, collect_words, word_set
from prospect.profile.model import (
    CPUMODE_KERNEL,
    ENTRY_REASON_EXCEPTION,
    ENTRY_REASON_IDLE,
    ENTRY_REASON_KERNEL_THREAD,
    ENTRY_REASON_SYSCALL,
    KIND_KERNEL,
    EntryReasonTable,
)
from prospect.profile.naming import gather
from prospect.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Sequence

    from prospect.assembly.stacks.chain_frames import ChainFrames
    from prospect.columns.array_types import I32, I64, U16, U64, Bools
    from prospect.events.record_columns import Samples
    from prospect.profile.model import Profile
    from prospect.symbols.resolution import Resolution

    Resolve = Callable[[U64], Resolution]

NO_CHAIN = 0  # samples outside the kernel, and those without a kernel chain
SILENT = 1  # samples whose kernel chain has no entry point
_OWN_STATES = 2
_MOST_LABELS = 1 << 16
# Without a chain, interrupts would appear at their entry only: these few would mislead.
_SURE_KINDS = (ENTRY_REASON_SYSCALL, ENTRY_REASON_EXCEPTION, ENTRY_REASON_IDLE)
_PER_CPU = re.compile(r"/\d+$")
_WORKER = "kworker/"


class SampleEntryReasons(Record):
    """Entry reasons by the chains.

    Attributes:
        label: u16[n] row of `entry_reasons`; None if no sample has a chain: all are NO_CHAIN.
        entry_reasons: those of NO_CHAIN, of SILENT, and of chains.
    """

    label: U16 | None
    entry_reasons: list[EntryReason]


class _Names(Record):
    """Entry reasons by the names of the chains' addresses.

    A sample's *state* is NO_CHAIN, SILENT, the innermost entry point of its chain, or a pair: a
    dispatcher, and the function that it calls.

    Attributes:
        functions: names by number; the first is "", for addresses without a name, and so is the
            last, for context words.
        points: distinct entry points.
        dispatchers: rows of `points`.
        state: i32[f] state of chains with this innermost function; NO_CHAIN if no entry point.
        pair: i32[f] state of the pair of this function and function 0; -1 if no dispatcher.
        addresses: all words of the chains.
        function: i32[k + 1] number of the function of each of `addresses`; the last is 0.
        entries: the addresses in entry points, and the context words.
        entry_function: i32[e] the same of `entries`.
    """

    functions: list[str]
    points: list[EntryPoint]
    dispatchers: list[int]
    state: I32
    pair: I32
    addresses: WordSet
    function: I32
    entries: WordSet
    entry_function: I32

    @property
    def states(self) -> int:
        """Number of possible states."""
        return _OWN_STATES + len(self.points) + len(self.dispatchers) * len(self.functions)

    def entry_reason(self, state: int, calls: Container[str]) -> EntryReason:
        """Return the meaning of a state other than NO_CHAIN and SILENT."""
        pair = state - _OWN_STATES - len(self.points)
        if pair < 0:
            return self.points[state - _OWN_STATES].entry_reason
        point, function = divmod(pair, len(self.functions))
        return entry_reason_of_called(
            self.points[self.dispatchers[point]], self.functions[function], calls
        )


def label_samples(samples: Samples, resolve: Resolve, machine: str) -> SampleEntryReasons:
    """Find the entry reason of each kernel sample.

    Args:
        resolve: names kernel addresses, u64[k].
        machine: of uname(2), for the names of system calls.
    """
    if samples.chain is None:
        return SampleEntryReasons(None, [NO_ENTRY_REASON, UNCLASSIFIED])
    addresses = collect_words((frames.words for frames in frame_blocks(samples)), MOST_ADDRESSES)
    names = _read_names(addresses, resolve)
    state = np.zeros(len(samples), np.int32)
    for frames in frame_blocks(samples):
        state[frames.samples] = _states(frames, names)
    is_met = np.zeros(names.states, np.bool_)
    is_met[state] = True
    rows = {NO_ENTRY_REASON: NO_CHAIN, UNCLASSIFIED: SILENT}
    calls = called_names(machine)
    label = np.arange(names.states).astype(np.uint16)
    for met in (np.flatnonzero(is_met[_OWN_STATES:]) + _OWN_STATES).tolist():
        entry_reason = names.entry_reason(met, calls)
        label[met] = (
            rows.setdefault(entry_reason, len(rows)) if len(rows) < _MOST_LABELS else SILENT
        )
    return SampleEntryReasons(label.take(state), list(rows))


def _read_names(addresses: WordSet, resolve: Resolve) -> _Names:
    words = addresses.words
    contexts = len(words) - int(np.searchsorted(words, LOWEST_CONTEXT))
    found = resolve(words[: len(words) - contexts] - np.uint64(1))
    functions = ["", *found.named.linkage_name, ""]
    state = np.full(len(functions), NO_CHAIN, np.int32)
    state[-1] = SILENT
    pair = np.full(len(functions), -1, np.int32)
    rows = _entry_points(found)
    points = list(dict.fromkeys(rows.values()))
    dispatchers = [row for row, point in enumerate(points) if point.is_dispatcher]
    for number, point in rows.items():
        row = points.index(point)
        state[number] = _OWN_STATES + row
        if point.is_dispatcher:
            first = _OWN_STATES + len(points)
            pair[number] = first + dispatchers.index(row) * len(functions)
    function = np.concatenate(
        (found.named.function + 1, np.full(contexts, len(functions) - 1), [0])
    ).astype(np.int32)
    is_entry = state.take(function[:-1]) != NO_CHAIN
    return _Names(
        functions=functions,
        points=points,
        dispatchers=dispatchers,
        state=state,
        pair=pair,
        addresses=addresses,
        function=function,
        entries=word_set(words[is_entry]),
        entry_function=function[:-1][is_entry],
    )


def _entry_points(found: Resolution) -> dict[int, EntryPoint]:
    """Return the functions that are entry points, by number (their row and 1).

    Entry points are never in modules, nor in BPF programs, which may have any names.
    """
    named = found.named
    known = {}
    for row, path in enumerate(named.object_path):
        if path == found.path:
            for name in (named.linkage_name[row], *named.aliases[row]):
                point = entry_point(name)
                if point is not None:
                    known[row + 1] = point
                    break
    return known


def _states(frames: ChainFrames, names: _Names) -> I32:
    """Return the state of each sample of a block, i32[s]."""
    state = np.where(frames.is_kernel, np.int32(SILENT), np.int32(NO_CHAIN))
    sample, place, function = _innermost_entries(frames, names)
    state[sample] = names.state.take(function)
    pair = names.pair.take(function)
    has_called = (pair >= 0) & (place > frames.start.take(sample))
    called = frames.words.take(place[has_called] - 1)
    state[sample[has_called]] = pair[has_called] + names.function.take(names.addresses.find(called))
    return state


def _innermost_entries(frames: ChainFrames, names: _Names) -> tuple[I64, I64, I32]:
    """Return the samples with an entry point, the place of the innermost one, and its function."""
    may_be_entry = names.entries.may_hold(frames.words)
    places = np.flatnonzero(may_be_entry)
    places_before = np.zeros(len(may_be_entry) + 1, np.int32)
    np.cumsum(may_be_entry, out=places_before[1:])
    sample = np.flatnonzero(frames.is_kernel)
    candidate = places_before.take(frames.start.take(sample))
    behind = places_before.take(frames.end.take(sample))
    found = []
    # One round for nearly all samples; one more for each word that has the hash of an entry.
    while len(sample):
        is_left = candidate < behind
        sample, candidate, behind = sample[is_left], candidate[is_left], behind[is_left]
        place = places.take(candidate)
        row = names.entries.find(frames.words.take(place))
        is_entry = row >= 0
        found.append((sample[is_entry], place[is_entry], row[is_entry]))
        sample, behind = sample[~is_entry], behind[~is_entry]
        candidate = candidate[~is_entry] + np.int32(1)
    if not found:
        none = np.empty(0, np.int64)
        return none, none, np.empty(0, np.int32)
    sample, place, row = (np.concatenate(column) for column in zip(*found, strict=True))
    return sample, place, names.entry_function.take(row)


def with_entry_reasons(profile: Profile, label: U16, of_chains: Sequence[EntryReason]) -> Profile:
    """Return a profile with the entry reason of each of its hits.

    Args:
        profile: its `entry_reasons` and `hits.entry_reason_index` are replaced.
        label: u16[h] row of `of_chains`.
        of_chains: the entry reasons by chains; NO_CHAIN and SILENT are its first rows.
    """
    hits = profile.hits
    rows = np.flatnonzero(hits.mode == CPUMODE_KERNEL)
    label = label.take(rows)
    pid, is_kthread = _facts_of_processes(profile, rows)
    is_silent = label == SILENT
    is_thread = is_kthread & (is_silent | _marked(of_chains, NEW_TASK).take(label))
    is_thread |= is_kthread & _marked(of_chains, OUTSIDE_OF_CALLS).take(label)
    is_thread |= _marked(of_chains, KERNEL_THREAD).take(label)
    entry_reasons = [*of_chains, IDLE]
    entry_reason = np.where(is_silent & (pid == 0), len(of_chains), label.astype(np.int64))
    entry_reason[is_thread] = len(entry_reasons) + hits.comm_index.take(rows[is_thread])
    entry_reasons += [
        EntryReason(ENTRY_REASON_KERNEL_THREAD, _thread_name(name)) for name in profile.comms
    ]
    unnamed = np.flatnonzero((label == NO_CHAIN) | (is_silent & (pid != 0) & ~is_thread))
    places = _function_rows(profile, rows.take(unnamed)) << 1 | is_silent[unnamed]
    met, rank = distinct_keys(places + 2, 2 * len(profile.functions.linkage_name) + 2)
    entry_reason[unnamed] = len(entry_reasons) + rank
    met -= 2
    entry_reasons += _entry_reasons_of_places(profile, met.tolist())
    table, row_of = _table(entry_reasons, entry_reason, of_others=len(rows) < len(hits))
    entry_reason_index = np.full(len(hits), row_of[NO_CHAIN])
    entry_reason_index[rows] = row_of.take(entry_reason)
    return replace(
        profile, entry_reasons=table, hits=replace(hits, entry_reason_index=entry_reason_index)
    )


def _facts_of_processes(profile: Profile, rows: I64) -> tuple[I32, Bools]:
    """Return the pid of each of these hits, i32, and whether its process is a kernel thread."""
    # A row of -1, no process, takes the last entry.
    pid = np.append(profile.processes.pid, np.int32(-1))
    is_kthread = np.append(profile.processes.is_kernel_thread, False)
    process = profile.hits.process_index.take(rows)
    return pid.take(process), is_kthread.take(process)


def _marked(entry_reasons: Sequence[EntryReason], wanted: EntryReason) -> Bools:
    return np.array([entry_reason == wanted for entry_reason in entry_reasons], np.bool_)


def _thread_name(comm: str) -> str:
    """Return the common name of threads of one kind, without the CPU's number."""
    if comm.startswith(_WORKER):
        return _WORKER[:-1]
    return _PER_CPU.sub("", comm)


def _function_rows(profile: Profile, hits: I64) -> I64:
    """Return the functions of hits, -1 if there is none."""
    function = np.append(profile.locations.function_index, np.int32(-1))
    return function.take(profile.hits.location_index[hits]).astype(np.int64)


def _entry_reasons_of_places(profile: Profile, places: list[int]) -> list[EntryReason]:
    """Return entry reasons by the hit functions alone.

    `places` are rows of functions, -1 for none, times two, plus one for those with a chain.
    """
    functions, objects = profile.functions, profile.objects
    hit = {one >> 1 for one in places if one >= 0}
    own = [row for row in hit if objects.kind[functions.object_index[row]] == KIND_KERNEL]
    named = zip(own, gather(functions.aliases, own), strict=True)
    names = {row: (functions.linkage_name[row], *aliases) for row, aliases in named}
    return [
        _entry_reason_of_names(names.get(one >> 1, ()), has_chain=bool(one & 1)) for one in places
    ]


def _entry_reason_of_names(names: Sequence[str], *, has_chain: bool) -> EntryReason:
    for name in names:
        if has_chain:
            entry_reason = entry_reason_of_place(name)
        else:
            point = entry_point(name)
            entry_reason = (
                point.entry_reason if point and point.entry_reason.kind in _SURE_KINDS else None
            )
        if entry_reason is not None:
            return entry_reason
    return UNCLASSIFIED if has_chain else UNRECORDED


def _table(
    entry_reasons: Sequence[EntryReason], entry_reason: I64, *, of_others: bool
) -> tuple[EntryReasonTable, I32]:
    """Keep the entry reasons that occur, each once, after ENTRY_REASON_NONE; return their rows.

    `of_others` is whether there are hits outside the kernel, which are NO_CHAIN.
    """
    is_met = np.zeros(len(entry_reasons), np.bool_)
    is_met[entry_reason] = True
    is_met[NO_CHAIN] |= of_others
    met = np.flatnonzero(is_met).tolist()
    kept = sorted({NO_ENTRY_REASON, *(entry_reasons[row] for row in met)})
    rows = {one: row for row, one in enumerate(kept)}
    row_of = np.zeros(len(entry_reasons), np.int32)
    row_of[met] = [rows[entry_reasons[row]] for row in met]
    kinds = np.array([one.kind for one in kept], np.uint8)
    return EntryReasonTable(kinds, [one.name for one in kept]), row_of
