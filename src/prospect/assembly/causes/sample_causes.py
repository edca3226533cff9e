"""Kernel call chains of samples → why the CPU was in the kernel, a label for each sample.

Comes in: sample columns with chains, and a way to name kernel addresses. Goes out: `SampleCauses`.
The innermost entry point of a chain decides: an interrupt within a system call is an interrupt, a
page fault while a system call copies its arguments is an exception. Each distinct address is named
once; all else is whole columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.abi.syscall_names import called_names
from prospect.assembly.causes.entry_points import (
    NO_CAUSE,
    UNCLASSIFIED,
    Cause,
    EntryPoint,
    cause_of_called,
    entry_point,
)
from prospect.assembly.stacks.chain_frames import LOWEST_CONTEXT, frame_blocks
from prospect.columns.hashing import WordSet, collect_words, word_set
from prospect.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from numpy.typing import NDArray

    from prospect.assembly.stacks.chain_frames import ChainFrames
    from prospect.events.columns import Samples
    from prospect.symbols.resolution import Resolution

    Resolve = Callable[[NDArray[np.uint64]], Resolution]

NO_CHAIN = 0  # samples outside the kernel, and those without a kernel chain
SILENT = 1  # samples whose kernel chain has no entry point
_OWN_STATES = 2
# Far more than a kernel's busy paths have calls: a made-up recording must not name any number.
_MOST_ADDRESSES = 1 << 19
_MOST_LABELS = 1 << 16


class SampleCauses(Record):
    """What the chains say.

    Attributes:
        label: u16[n] row of `causes`; None where no sample has a chain: all are NO_CHAIN.
        causes: of NO_CHAIN, of SILENT, and those that chains have.
    """

    label: NDArray[np.uint16] | None
    causes: list[Cause]


class _Names(Record):
    """What the names of the chains' addresses say.

    A sample's *state* is NO_CHAIN, SILENT, the entry point that its chain has innermost, or a pair:
    an entry point that hands on, and the function called by it.

    Attributes:
        functions: names by number; the first is "", of addresses without a name, and so is the
            last, of context words.
        points: distinct entry points.
        handing: rows of `points`: those that hand on.
        state: i32[f] by function: of chains that have it innermost; NO_CHAIN if no entry point.
        pair: i32[f] by function: the state of its pair with function 0; -1 if it does not hand on.
        addresses: all words of the chains.
        function: i32[k + 1] number of the function of each of `addresses`; the last is 0.
        entries: those of the addresses that are in entry points, and the context words.
        entry_function: i32[e] likewise of `entries`.
    """

    functions: list[str]
    points: list[EntryPoint]
    handing: list[int]
    state: NDArray[np.int32]
    pair: NDArray[np.int32]
    addresses: WordSet
    function: NDArray[np.int32]
    entries: WordSet
    entry_function: NDArray[np.int32]

    @property
    def states(self) -> int:
        """Number of possible states."""
        return _OWN_STATES + len(self.points) + len(self.handing) * len(self.functions)

    def cause(self, state: int, calls: Container[str]) -> Cause:
        """Return what a state other than NO_CHAIN and SILENT stands for.

        Args:
            state: of a sample.
            calls: names of the machine's system calls.
        """
        pair = state - _OWN_STATES - len(self.points)
        if pair < 0:
            return self.points[state - _OWN_STATES].cause
        point, function = divmod(pair, len(self.functions))
        return cause_of_called(self.points[self.handing[point]], self.functions[function], calls)


def label_samples(samples: Samples, resolve: Resolve, machine: str) -> SampleCauses:
    """Find out why each kernel sample was in the kernel.

    Args:
        samples: of a recording.
        resolve: names kernel addresses, u64[k].
        machine: of the kernel, as uname(2) has it: whose system calls have which names.
    """
    if samples.chain is None:
        return SampleCauses(None, [NO_CAUSE, UNCLASSIFIED])
    addresses = collect_words((frames.words for frames in frame_blocks(samples)), _MOST_ADDRESSES)
    names = _read_names(addresses, resolve)
    state = np.zeros(len(samples), np.int32)
    for frames in frame_blocks(samples):
        state[frames.samples] = _states(frames, names)
    is_met = np.zeros(names.states, np.bool_)
    is_met[state] = True
    rows = {NO_CAUSE: NO_CHAIN, UNCLASSIFIED: SILENT}
    calls = called_names(machine)
    label = np.arange(names.states).astype(np.uint16)
    for met in (np.flatnonzero(is_met[_OWN_STATES:]) + _OWN_STATES).tolist():
        cause = names.cause(met, calls)
        label[met] = rows.setdefault(cause, len(rows)) if len(rows) < _MOST_LABELS else SILENT
    return SampleCauses(label.take(state), list(rows))


def _read_names(addresses: WordSet, resolve: Resolve) -> _Names:
    words = addresses.words
    contexts = len(words) - int(np.searchsorted(words, LOWEST_CONTEXT))
    found = resolve(words[: len(words) - contexts] - np.uint64(1))
    functions = ["", *found.named.raw_name, ""]
    state = np.full(len(functions), NO_CHAIN, np.int32)
    state[-1] = SILENT
    pair = np.full(len(functions), -1, np.int32)
    rows = _entry_points(found)
    points = list(dict.fromkeys(rows.values()))
    handing = [row for row, point in enumerate(points) if point.hands_on]
    for number, point in rows.items():
        row = points.index(point)
        state[number] = _OWN_STATES + row
        if point.hands_on:
            first = _OWN_STATES + len(points)
            pair[number] = first + handing.index(row) * len(functions)
    function = np.concatenate(
        (found.named.function + 1, np.full(contexts, len(functions) - 1), [0])
    ).astype(np.int32)
    is_entry = state.take(function[:-1]) != NO_CHAIN
    return _Names(
        functions=functions,
        points=points,
        handing=handing,
        state=state,
        pair=pair,
        addresses=addresses,
        function=function,
        entries=word_set(words[is_entry]),
        entry_function=function[:-1][is_entry],
    )


def _entry_points(found: Resolution) -> dict[int, EntryPoint]:
    """Return the functions that are entry points, by number (their row and 1).

    Entry points are never in modules, nor in BPF programs, which people name as they like.
    """
    named = found.named
    known = {}
    for row, path in enumerate(named.object_path):
        if path == found.path:
            for name in (named.raw_name[row], *named.aliases[row]):
                point = entry_point(name)
                if point is not None:
                    known[row + 1] = point
                    break
    return known


def _states(frames: ChainFrames, names: _Names) -> NDArray[np.int32]:
    """Return the state of each sample of a block, i32[s]."""
    state = np.where(frames.is_kernel, np.int32(SILENT), np.int32(NO_CHAIN))
    sample, place, function = _innermost_entries(frames, names)
    state[sample] = names.state.take(function)
    pair = names.pair.take(function)
    hands_on = (pair >= 0) & (place > frames.start.take(sample))
    called = frames.words.take(place[hands_on] - 1)
    state[sample[hands_on]] = pair[hands_on] + names.function.take(names.addresses.find(called))
    return state


def _innermost_entries(
    frames: ChainFrames, names: _Names
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]:
    """Return the samples that have an entry, the place of each's innermost, and its function."""
    may_be_entry = names.entries.may_hold(frames.words)
    places = np.flatnonzero(may_be_entry)
    places_before = np.zeros(len(may_be_entry) + 1, np.int32)
    np.cumsum(may_be_entry, out=places_before[1:])
    sample = np.flatnonzero(frames.is_kernel)
    candidate = places_before.take(frames.start.take(sample))
    behind = places_before.take(frames.end.take(sample))
    found = []
    # One round for nearly all samples; another for each word that only has the hash of an entry.
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
