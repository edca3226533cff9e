"""The machine and its state before the command began: kernel, processes, control groups, calls.

Facts for the header of a report and of a perf.data file are from uname(2), /proc/cpuinfo,
/proc/meminfo and /proc/stat. Defined by proc(5); ``tools/perf/util/header.c`` for perf's wording of
the CPU's identity.

Records of processes and control groups go to a drain loop's sink between two looks at the rings.

The kernel writes records of control groups that are made later; this module writes those that exist
as the events begin, by the ids in samples. Defined by cgroups(7): controller perf_event, which
version 2 always has unless version 1 has it. An id is the inode of the group's directory:
kernfs_id_ino() in ``include/linux/kernfs.h`` (Linux 6.18), if inodes have 64 bits.

A wait that began before the recording has no switch in it, so no sample shows it. The system calls
that threads are in come from ``/proc/PID/task/TID/syscall``, proc(5): a number, six arguments, the
stack pointer and the place; "running"; or -1 for a thread that is blocked outside a call. Reading
it takes PTRACE_MODE_ATTACH.
"""

from __future__ import annotations

import os

from prospect.abi import constants as abi
from prospect.capture.capture_limits import MOST_CONTROL_GROUPS, MOST_THREADS_IN_CALLS
from prospect.capture.events.event_choice import SCOPE_SYSTEM
from prospect.capture.kernel.procfs import list_pids, names_in, read_file, read_if_there
from prospect.capture.machine.kernel_maps import KernelMaps, read_kernel_maps
from prospect.capture.machine.process_snapshot import Snapshot
from prospect.capture.machine.synthesis import (
    FINISHED_ROUND,
    comm_record,
    control_group_record,
    fork_record,
)
from prospect.light import monotonic_ns
from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any, Protocol

    from prospect.capture.events.event_choice import EventPlan

    class Loop(Protocol):
        """The loop that drains the rings meanwhile; see `DrainLoop`."""

        @property
        def done(self) -> bool:
            """Whether the loop has ended."""

        def write(self, records: bytes) -> None:
            """Add records that do not come from a ring."""

        def step(self, *, wait: bool) -> None:
            """Handle events and records."""

        def begin_rounds(self, end: bytes) -> None:
            """Write `end` after each pass from now on: all later records are newer."""


# The paragraph of one CPU in /proc/cpuinfo is enough; all of them are slow on large machines.
_CPUINFO_BYTES = 2048
_MIDR = "/sys/devices/system/cpu/cpu0/regs/identification/midr_el1"
_PORTION = 256


class Machine(NamedTuple):
    """Facts for perf's feature sections and the line `Uname:`; unknown ones are empty or zero."""

    hostname: str
    os_release: str
    arch: str
    uname: str
    cpus_online: int
    cpus_available: int
    cpu_description: str
    cpuid: str
    cpu_mhz: float
    total_memory_kib: int
    counters_are_nmis: bool = False


def describe_machine(proc: str = "/proc") -> Machine:
    """Return the facts about this machine."""
    uname = os.uname()
    cpu = _colon_fields(read_if_there(f"{proc}/cpuinfo", _CPUINFO_BYTES))
    memory = _colon_fields(read_if_there(f"{proc}/meminfo"))
    identity = [cpu.get(key, "") for key in ("vendor_id", "cpu family", "model", "stepping")]
    return Machine(
        hostname=uname.nodename,
        os_release=uname.release,
        arch=uname.machine,
        uname=" ".join(uname),
        cpus_online=os.sysconf("SC_NPROCESSORS_ONLN"),
        cpus_available=os.sysconf("SC_NPROCESSORS_CONF"),
        cpu_description=cpu.get("model name", ""),
        cpuid=",".join(identity) if all(identity) else os.fsdecode(read_if_there(_MIDR).strip()),
        cpu_mhz=_number(cpu.get("cpu MHz", "")),
        total_memory_kib=int(_number(memory.get("MemTotal", ""))),
        counters_are_nmis=counters_are_nmis(uname.machine, read_if_there(f"{proc}/cmdline")),
    )


def counters_are_nmis(machine: str, kernel_command_line: bytes) -> bool:
    """Return whether hardware counters are known to interrupt code that runs with interrupts off.

    Those of x86 do; those of arm64 only if the kernel's command line asks for pseudo-NMIs.

    Args:
        machine: as in uname(2).
        kernel_command_line: the last setting counts.

    Source: ``drivers/irqchip/irq-gic-v3.c`` gicv3_nmi_enable, ``lib/kstrtox.c`` kstrtobool().
    """
    pseudo_nmi = False
    for word in kernel_command_line.split():
        name, _, value = word.partition(b"=")
        if name == b"irqchip.gicv3_pseudo_nmi":
            pseudo_nmi = value[:1].lower() in (b"1", b"y", b"t") or value[:2].lower() == b"on"
    return machine == "x86_64" or (machine == "aarch64" and pseudo_nmi)


def accounting(start: dict[str, list[int]], end: dict[str, list[int]]) -> dict[str, Any]:
    """Return two readings of `procfs.read_cpu_times` as in docs/recording.md."""
    return {"hz": os.sysconf("SC_CLK_TCK"), "start": start, "end": end}


def _colon_fields(text: bytes) -> dict[str, str]:
    """Return ``name : value`` lines, the first of each name."""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        name, colon, value = line.partition(b":")
        if colon:
            fields.setdefault(os.fsdecode(name.strip()), os.fsdecode(value.strip()))
    return fields


def _number(text: str) -> float:
    try:
        return float(text.partition(" ")[0])
    except ValueError:
        return 0.0


def control_group_records(mountinfo: str = "/proc/self/mountinfo") -> Iterator[bytes]:
    """Yield the records of all control groups, in portions; none if no hierarchy is visible."""
    portion: list[bytes] = []
    for id_, path in control_groups(mountinfo):
        portion.append(control_group_record(id_, path))
        if len(portion) == _PORTION:
            yield b"".join(portion)
            portion = []
    yield b"".join(portion)


def _root(mountinfo: bytes) -> bytes:
    """Return the mount point of the hierarchy, empty if it is not mounted."""
    unified = b""
    for line in mountinfo.splitlines():
        where, _, what = line.partition(b" - ")
        kind, _, options = what.partition(b" ")
        point = where.split()[4] if len(where.split()) > 4 else b""
        if kind == b"cgroup" and b"perf_event" in options.split()[-1].split(b","):
            return point
        if kind == b"cgroup2" and not unified:
            unified = point
    return unified


def control_groups(mountinfo: str = "/proc/self/mountinfo") -> Iterator[tuple[int, bytes]]:
    """Yield ids and paths below the root, parents before their children."""
    root = _root(read_if_there(mountinfo))
    waiting = [b""] if root else []
    for _ in range(MOST_CONTROL_GROUPS):
        if not waiting:
            break
        path = waiting.pop()
        try:
            yield os.stat(root + path).st_ino, path or b"/"
            with os.scandir(root + path) as entries:
                waiting += [
                    path + b"/" + entry.name
                    for entry in entries
                    if entry.is_dir(follow_symlinks=False)
                ]
        except OSError:
            continue  # somebody has just removed it


_COMPAT_LIMIT = 1 << 32
_WORDS = 9


def calls_before(pids: Iterable[int], proc: str = "/proc") -> dict[str, Any]:
    """Return `calls_before` of docs/recording.md, for the threads of processes, () for all."""
    calls: dict[int, list[int]] = {}
    for pid in list(pids) or list_pids(proc):
        for name in names_in(f"{proc}/{pid}/task"):
            if name.isdecimal() and len(calls) < MOST_THREADS_IN_CALLS:
                call = _call(read_if_there(f"{proc}/{pid}/task/{name}/syscall"))
                if call:
                    calls[int(name)] = call
    return {"read_ns": monotonic_ns(), "calls": calls}


def _call(text: bytes) -> list[int]:
    """Return [number, 1 for a 32-bit call, by the stack's address]; [] for no call."""
    words = text.split()
    if len(words) != _WORDS or not words[0].isdigit():
        return []
    return [int(words[0]), int(int(words[-2], 16) < _COMPAT_LIMIT)]


NO_COMMAND = -1
# The beginning of a sentence; pids and names follow.
UNREADABLE_MAPPINGS = "The kernel did not show the mappings of process "
_SHOWN_PROCESSES = 3


class Background(NamedTuple):
    """Facts read while the command runs, and sentences about hidden facts."""

    kernel: KernelMaps
    snapshot: Snapshot
    machine: Machine
    limits: tuple[str, ...]


def describe_surroundings(
    loop: Loop, plan: EventPlan, pid: int = NO_COMMAND, tasks: tuple[int, ...] = ()
) -> Background:
    """Record the state before the command `pid`, draining the rings between the portions.

    Args:
        pid: the command, which waits for its exec; NO_COMMAND for none.
        tasks: threads that ran before and are followed, unless the whole system is.
    """
    limits: tuple[str, ...] = ()
    kernel = KernelMaps(b"", (), ())
    if not plan.attr.flags & abi.FLAG_EXCLUDE_KERNEL:
        kernel = read_kernel_maps()
        limits += kernel.limits
    loop.write(kernel.records)
    if plan.attr.flags & abi.FLAG_CGROUP:
        _write_portions(loop, control_group_records())
    # perf unwinds stack copies by mappings of data; only COMMAND's samples may have copies.
    has_copies = plan.copies is None or pid == NO_COMMAND or bool(tasks)
    with_data = has_copies and bool(plan.attr.flags & abi.FLAG_MMAP_DATA)
    only = tasks if plan.scope != SCOPE_SYSTEM else ()
    snapshot = Snapshot(command_pid=pid, with_data=with_data, only=only)
    if plan.scope == SCOPE_SYSTEM or only:
        _write_portions(loop, snapshot.portions())
    if pid != NO_COMMAND:
        snapshot.processes[pid] = [os.getpid(), os.getpgrp(), os.getsid(0), 0]
        # Until its exec it runs the recorder's code, under the recorder's name.
        own_name = read_file("/proc/self/comm")[:-1]
        loop.write(fork_record(pid, os.getpid()) + comm_record(pid, pid, own_name))
    if snapshot.unreadable:
        limits += (_unreadable_maps(snapshot.unreadable),)
    loop.begin_rounds(FINISHED_ROUND)
    return Background(kernel, snapshot, describe_machine(), limits)


def _write_portions(loop: Loop, portions: Iterator[bytes]) -> None:
    for portion in portions:
        loop.write(portion)
        if not loop.done:
            loop.step(wait=False)


def _unreadable_maps(unreadable: dict[int, bytes]) -> str:
    named = [f"{pid} ({os.fsdecode(comm)})" for pid, comm in sorted(unreadable.items())]
    shown = ", ".join(named[:_SHOWN_PROCESSES])
    more = len(named) - _SHOWN_PROCESSES
    return (
        f"{UNREADABLE_MAPPINGS}{shown}"
        + (f" and {more} more" if more > 0 else "")
        + ": code that was mapped before the start has no names. This takes root with"
        " CAP_SYS_PTRACE, which containers often lack."
    )
