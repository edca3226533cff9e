"""Probes at the entries of functions, and the kernel's table of their calls.

Comes in: functions as places in open files. Goes out: probes that come and go, and what was added
to the table since it was last read. All there is hangs on file descriptors of this process.

Source: bpf_uprobe_multi_link_attach() in ``kernel/trace/bpf_trace.c``, Linux 6.18.
"""

from __future__ import annotations

import errno
import mmap
import os
from collections import defaultdict
from typing import TYPE_CHECKING

from prospect.abi import bpf as abi
from prospect.capture.cost.probe_cost import ProbeCost, measure_probe_cost
from prospect.capture.counting import bpf_call_program as program
from prospect.capture.counting.syscall_counts import pid_namespace
from prospect.capture.kernel import bpf
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from prospect.capture.counting.entry_hook import EntryHook

_ENTRIES = 1 << 16
# Its ENOTSUPP, which user space has no name for. Source: include/linux/errno.h
_KERNEL_ENOTSUPP = 524
_CANNOT_PROBE = (errno.EINVAL, errno.EOPNOTSUPP, errno.EIO, _KERNEL_ENOTSUPP)


class Function(NamedTuple):
    """A function to count.

    Attributes:
        file: descriptor of its image, open for reading.
        object_path: where that lies.
        name: as in the symbol table.
        address: SVMA.
        offset: in the file.
        code: its first bytes.
    """

    file: int
    object_path: str
    name: bytes
    address: int
    offset: int
    code: bytes


class CallRow(NamedTuple):
    """A row of the table: who called what, how often.

    Attributes:
        function: row of the functions.
        is_open: whether that was while the gate was open.
        pid: process.
        caller: return address.
        calls: how many.
        first_ns: when the first of them was, CLOCK_MONOTONIC.
    """

    function: int
    is_open: bool
    pid: int
    caller: int
    calls: int
    first_ns: int


class CallProbes:
    """The probes: `open`, then `place` and `remove` as often as needed, `close`.

    The kernel takes some milliseconds to place and to remove them. `open_gate` and `close_gate` say
    at once from when to when calls count.

    Attributes:
        hook: is run where the probes are, as long as they are there.
    """

    def __init__(self, functions: Sequence[Function]) -> None:
        self.hook: EntryHook | None = None
        self._functions = functions
        self._held = bpf.Held()
        self._maps = program.Maps(-1, -1, -1)
        self._program_fd = -1
        self._taken: dict[tuple[int, int, int], int] = {}

    def open(self) -> None:
        """Make the table and load the program; the gate is closed.

        Raises:
            OSError: the kernel refused.
        """
        self._maps = program.Maps(*(self._held.keep(bpf.create_map(one)) for one in _layouts()))
        code = program.call_program(self._maps, pid_namespace())
        self._program_fd = self._held.keep(bpf.load_uprobes_program("prospect_calls", code))
        self.close_gate()

    def close(self) -> None:
        """Let go of everything; the kernel then takes it away."""
        self._held.close()

    def measure_cost(self, kind: str) -> ProbeCost:
        """Measure what a call costs that is counted, for a kind of first instruction."""
        number = len(self._functions)  # which is none of them
        return measure_probe_cost(
            kind, lambda path, at: bpf.attach_uprobes(self._program_fd, path, [at], [number])
        )

    def find_impossible(self) -> list[int]:
        """Return the functions that the kernel cannot probe.

        Each file is mapped here meanwhile: for an unmapped file the kernel validates the probed
        instruction at a later mmap and does not report a failure.
        Source: uprobe_mmap() in ``kernel/events/uprobes.c``, Linux 6.18.

        Raises:
            OSError: it can probe none, for another reason than their instructions.
        """
        found: list[int] = []
        for file, numbers in self._by_file(range(len(self._functions))).items():
            size = os.fstat(file).st_size
            with mmap.mmap(file, size, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC):
                found += self._impossible_of(file, numbers)
        return found

    def place(self, numbers: Iterable[int]) -> None:
        """Place probes at these functions.

        Raises:
            OSError: the kernel refused.
        """
        for file, of_file in self._by_file(numbers).items():
            self._held.links.append(self._attach(file, of_file))
            if self.hook:
                self._held.links += self.hook.attach(*self._places(file, of_file))

    def remove(self) -> None:
        """Take the probes away."""
        self._held.detach()

    @property
    def are_placed(self) -> bool:
        """Whether there are any."""
        return bool(self._held.links)

    def open_gate(self) -> None:
        """Let calls count from now on."""
        bpf.write_element(self._maps.gate, 0, bytes(4))

    def close_gate(self) -> None:
        """Let calls count apart from now on."""
        bpf.write_element(self._maps.gate, 0, program.CLOSED_BIT.to_bytes(4, "little"))

    def rows(self) -> Iterator[CallRow]:
        """Yield the table.

        Raises:
            OSError: the kernel refused.
        """
        known = range(len(self._functions))
        dump = bpf.read_hash(self._maps.counts, program.KEY.size, program.VALUE.size)
        for keys, values in dump:
            pairs = zip(
                program.KEY.iter_unpack(keys), program.VALUE.iter_unpack(values), strict=True
            )
            for (place, pid, caller), (calls, first_ns) in pairs:
                function = place & ~program.CLOSED_BIT
                if function in known:
                    yield CallRow(function, function == place, pid, caller, calls, first_ns)

    def take(self) -> list[CallRow]:
        """Return rows of what was added since the last time.

        Raises:
            OSError: the kernel refused.
        """
        added = []
        for row in self.rows():
            key = (row.function | (not row.is_open) << 31, row.pid, row.caller)
            if more := row.calls - self._taken.get(key, 0):
                self._taken[key] = row.calls
                added.append(row._replace(calls=more))
        return added

    def dropped(self) -> int:
        """Return how many calls are in no row.

        Raises:
            OSError: the kernel refused.
        """
        return bpf.read_percpu_sum(self._maps.dropped, 0) + bpf.missed_runs(self._program_fd)

    def _by_file(self, numbers: Iterable[int]) -> dict[int, list[int]]:
        found: dict[int, list[int]] = defaultdict(list)
        for number in numbers:
            found[self._functions[number].file].append(number)
        return found

    def _attach(self, file: int, numbers: list[int]) -> int:
        return bpf.attach_uprobes(self._program_fd, *self._places(file, numbers))

    def _places(self, file: int, numbers: list[int]) -> tuple[bytes, list[int], list[int]]:
        """Return what is attached to: path, offsets, and a number for each."""
        offsets = [self._functions[number].offset for number in numbers]
        return b"/proc/self/fd/%d" % file, offsets, numbers

    def _impossible_of(self, file: int, numbers: list[int]) -> list[int]:
        try:
            os.close(self._attach(file, numbers))
        except OSError as error:
            if error.errno not in _CANNOT_PROBE:
                raise
            if len(numbers) == 1:
                return numbers
            half = len(numbers) // 2
            first, second = numbers[:half], numbers[half:]
            return [*self._impossible_of(file, first), *self._impossible_of(file, second)]
        return []


def _layouts() -> tuple[bpf.MapLayout, ...]:
    return (
        bpf.MapLayout(
            "prospect_calls",
            abi.BPF_MAP_TYPE_HASH,
            program.KEY.size,
            program.VALUE.size,
            _ENTRIES,
            abi.BPF_F_NO_PREALLOC,
        ),
        bpf.MapLayout(
            "prospect_full", abi.BPF_MAP_TYPE_PERCPU_ARRAY, key_bytes=4, value_bytes=8, entries=1
        ),
        bpf.MapLayout(
            "prospect_gate", abi.BPF_MAP_TYPE_ARRAY, key_bytes=4, value_bytes=4, entries=1
        ),
    )
