"""--count-syscalls: every system call of the machine, counted in the kernel.

Comes in: nothing but the privilege. Goes out: what docs/recording.md describes under `syscalls`.
The kernel adds up; nothing is read before the end. Raw tracepoints rather than perf events of the
same name: they cost less a call, and are found by name, so that tracefs need not be mounted.
All there is hangs on file descriptors of this process and ends with it.

Source: ``kernel/trace/bpf_trace.c`` and ``kernel/bpf/hashtab.c``, Linux 6.18.
"""

from __future__ import annotations

import errno
import os
import time
from typing import Any

from prospect.abi import bpf as abi
from prospect.capture.counting import bpf_syscall_programs as programs
from prospect.capture.kernel import bpf
from prospect.capture.kernel.cpus import parse_cpu_list
from prospect.capture.kernel.procfs import read_file
from prospect.errors import CaptureError
from prospect.light import monotonic_ns
from prospect.records import NamedTuple

_POSSIBLE_CPUS = "/sys/devices/system/cpu/possible"
# PROC_PID_INIT_INO, include/linux/proc_ns.h
_FIRST_PID_NAMESPACE = 0xEFFFFFFC
# An entry for so much memory: it takes about 100 bytes, and a full map an 80th of the machine's.
# With 25 different calls a process that is 40,000 processes with 8 GiB, 160,000 with 32.
_BYTES_AN_ENTRY = 1 << 13
_FEWEST_ENTRIES, _MOST_ENTRIES = 1 << 16, 1 << 22
# Before 6.1 programs that trace can only use memory that was set aside for them.
# Source: check_map_prog_compatibility() in kernel/bpf/verifier.c, Linux 5.15
_ALLOCATES_SINCE = (6, 1)
_SET_ASIDE_SHARE = 8
_IMAGES = 1 << 16
_OTHER_NAMESPACES = (
    "System calls of processes in other pid namespaces are counted, but"
    " not by process: run outside of the container to see their processes."
)
_ROUNDS, _CALLS_A_ROUND = 20, 500


class Calls(NamedTuple):
    """What became of counting: the document for the recording, and sentences on its limits."""

    document: dict[str, Any]
    limits: tuple[str, ...]


class SyscallCounter:
    """The kernel's counters of system calls: `open`, `start`, `finish`, `close`."""

    def __init__(self) -> None:
        self._held = bpf.Held()
        self._maps = programs.Maps(-1, -1, -1, -1)
        self._enter_fd = self._exit_fd = -1
        self._is_first_namespace = True
        self._interval_ns = (0, 0)

    def open(self) -> None:
        """Make the maps and load the programs; nothing is counted yet.

        Raises:
            CaptureError: this kernel or this user cannot count; the message says what to do.
        """
        machine = programs.MACHINES.get(os.uname().machine)
        if machine is None:
            known = " and ".join(sorted(programs.MACHINES))
            raise CaptureError(f"--count-syscalls works on {known}, not on {os.uname().machine}")
        try:
            namespace = pid_namespace()
            self._is_first_namespace = namespace is None
            self._maps = self._create_maps()
            enter = programs.enter_program(self._maps, machine, _cpu_shift(), namespace)
            leave = programs.exit_program(self._maps, machine)
            load = bpf.load_raw_tracepoint_program
            self._enter_fd = self._held.keep(load("prospect_enter", enter))
            self._exit_fd = self._held.keep(load("prospect_exit", leave))
        except OSError as error:
            raise CaptureError(_refusal(error)) from error

    def start(self) -> None:
        """Begin to count.

        Raises:
            CaptureError: the kernel refused after all.
        """
        try:
            self._attach()
        except OSError as error:
            raise CaptureError(_refusal(error)) from error
        self._interval_ns = (monotonic_ns(), 0)

    def finish(self) -> Calls:
        """Count no more; return what was counted, and measure what that cost, for about 20 ms."""
        self._held.detach()
        self._interval_ns = (self._interval_ns[0], monotonic_ns())
        try:
            return self._read()
        except OSError as error:
            return Calls({}, (f"The counts of system calls cannot be read: {error.strerror}.",))

    def _read(self) -> Calls:
        dropped = bpf.read_percpu_sum(self._maps.dropped, 0)
        dropped += bpf.missed_runs(self._enter_fd)
        document = {
            "interval_ns": list(self._interval_ns),
            "dropped": dropped,
            **columns_of(
                bpf.read_hash(
                    self._maps.counts, programs.COUNTS_KEY.size, programs.COUNTS_VALUE.size
                )
            ),
            "cost_ns": self._measure_cost_ns(),
        }
        limits: tuple[str, ...] = ()
        if dropped:
            limits += (
                f"{dropped} system calls found no room in the kernel's table and are not counted.",
            )
        if not self._is_first_namespace:
            limits += (_OTHER_NAMESPACES,)
        return Calls(document, limits)

    def close(self) -> None:
        """Let go of everything; the kernel then takes it away."""
        self._held.close()

    def _create_maps(self) -> programs.Maps:
        entries, flags = _room(
            os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), os.uname().release
        )
        words = bpf.load_words_type(programs.STATE_WORDS)
        self._held.keep(words.types_fd)
        layouts = (
            bpf.MapLayout(
                "prospect_thread",
                abi.BPF_MAP_TYPE_TASK_STORAGE,
                key_bytes=4,
                value_bytes=programs.STATE_WORDS * 8,
                entries=0,
                flags=abi.BPF_F_NO_PREALLOC,
                types=words,
            ),
            bpf.MapLayout(
                "prospect_images",
                abi.BPF_MAP_TYPE_LRU_HASH,
                programs.IMAGES_KEY_BYTES,
                programs.IMAGES_VALUE_BYTES,
                _IMAGES,
            ),
            bpf.MapLayout(
                "prospect_counts",
                abi.BPF_MAP_TYPE_HASH,
                programs.COUNTS_KEY.size,
                programs.COUNTS_VALUE.size,
                entries,
                flags,
            ),
            bpf.MapLayout(
                "prospect_full",
                abi.BPF_MAP_TYPE_PERCPU_ARRAY,
                key_bytes=4,
                value_bytes=8,
                entries=1,
            ),
        )
        return programs.Maps(*(self._held.keep(bpf.create_map(layout)) for layout in layouts))

    def _attach(self) -> None:
        # The end first: a call that begins in between is then passed over, not left without end.
        self._held.links.append(bpf.attach_raw_tracepoint("sys_exit", self._exit_fd))
        self._held.links.append(bpf.attach_raw_tracepoint("sys_enter", self._enter_fd))

    def _measure_cost_ns(self) -> float:
        """Return by how much a short call takes longer while calls are counted.

        All of it, which the kernel's own statistics of programs would not show: with a tracepoint
        in use, each call takes the kernel's slow path. Caches are warm here, so it is the least.
        """
        plain_ns = _call_ns()
        self._attach()
        counted_ns = _call_ns()
        self._held.detach()
        return max(counted_ns - plain_ns, 0.0)


def columns_of(portions: list[tuple[bytes, bytes]]) -> dict[str, dict[str, list[int]]]:
    """Turn a dump of the counters into columns: `images` and `counts` of docs/recording.md.

    Groups of CPUs are added up. Process 0 stands for all that are in no namespace of ours, and
    becomes -1.
    """
    images: dict[tuple[int, int], int] = {}
    sums: dict[tuple[int, int], list[int]] = {}
    for keys, values in portions:
        for key, value in zip(
            programs.COUNTS_KEY.iter_unpack(keys),
            programs.COUNTS_VALUE.iter_unpack(values),
            strict=True,
        ):
            pid, call, since_ns = key
            own = (pid, since_ns) if pid else (-1, 0)
            image = images.setdefault(own, len(images))
            row = sums.setdefault((image, call & programs.CALL_MASK), [0, 0, 0])
            for column, number in enumerate(value):
                row[column] += number
    compat = programs.COMPAT_BIT
    return {
        "images": {
            "pid": [pid for pid, _ in images],
            "since_ns": [since_ns for _, since_ns in images],
        },
        "counts": {
            "image": [image for image, _ in sums],
            "number": [call & programs.NUMBER_MASK for _, call in sums],
            "compat": [int(bool(call & compat)) for _, call in sums],
            "calls": [row[0] for row in sums.values()],
            "ended": [row[1] for row in sums.values()],
            "time_ns": [row[2] for row in sums.values()],
        },
    }


def _call_ns() -> float:
    """Return what the cheapest of many rounds of a short system call takes, per call."""
    shortest = float("inf")
    for _ in range(_ROUNDS):
        begin_ns = time.perf_counter_ns()
        for _ in range(_CALLS_A_ROUND):
            os.getppid()
        shortest = min(shortest, (time.perf_counter_ns() - begin_ns) / _CALLS_A_ROUND)
    return shortest


def _room(memory_bytes: int, release: str) -> tuple[int, int]:
    """Return how many counters there may be, and the map's flags, for a kernel release."""
    wanted = max(_FEWEST_ENTRIES, min(memory_bytes // _BYTES_AN_ENTRY, _MOST_ENTRIES))
    entries = 1 << (wanted.bit_length() - 1)
    numbers = release.replace("-", ".").split(".")[:2]
    version = tuple(int(number) if number.isdecimal() else 0 for number in numbers)
    if version >= _ALLOCATES_SINCE:
        return entries, abi.BPF_F_NO_PREALLOC
    return entries // _SET_ASIDE_SHARE, 0


def _cpu_shift() -> int:
    """Return by how much to shift a CPU's number so that neighbours form MOST_GROUPS groups."""
    last = parse_cpu_list(read_file(_POSSIBLE_CPUS))[-1]
    return max(0, last.bit_length() - (programs.MOST_GROUPS - 1).bit_length())


def pid_namespace() -> programs.Namespace | None:
    """Return this process's pid namespace, None if it is the first one.

    Processes have the same numbers then as in the records of perf events.
    """
    file = os.stat("/proc/self/ns/pid")
    if file.st_ino == _FIRST_PID_NAMESPACE:
        return None
    # MKDEV() of include/linux/kdev_t.h: user space sees another packing.
    device = os.major(file.st_dev) << 20 | os.minor(file.st_dev)
    return programs.Namespace(device, file.st_ino)


def _refusal(error: OSError) -> str:
    if error.errno in (errno.EPERM, errno.EACCES):
        return (
            "--count-syscalls: the kernel does not allow it: run as root, or with CAP_BPF and"
            " CAP_PERFMON, in a container that allows bpf(); a kernel in lockdown never does"
        )
    if error.errno in (errno.ENOSYS, errno.EINVAL, errno.E2BIG, errno.ENOTSUP, errno.ENOENT):
        return (
            "--count-syscalls: this kernel cannot: it takes Linux 5.13 or later, built with"
            " CONFIG_BPF_SYSCALL, CONFIG_DEBUG_INFO_BTF and CONFIG_FTRACE_SYSCALLS"
            f" ({error.strerror})"
        )
    return f"--count-syscalls: the kernel has no room for the counters: {error.strerror}"
