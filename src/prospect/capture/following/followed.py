"""Record switches and wake-ups of followed threads only: the programs, their maps and events.

`capture.following.switch_programs` says which threads are followed. Programs and maps exist as
long as this process has file descriptors of them.
"""

from __future__ import annotations

import errno
import os
import re
import struct

from prospect.abi import bpf as abi
from prospect.abi import constants as perf
from prospect.abi.attr import EventAttr
from prospect.capture.capture_limits import MOST_FOLLOWED
from prospect.capture.events.event_choice import ChosenEvent
from prospect.capture.events.tracepoints import tracepoint_format, tracepoint_id
from prospect.capture.following import switch_programs as programs
from prospect.capture.kernel import bpf_objects
from prospect.capture.kernel.kernel_types import kernel_types, switch_offsets
from prospect.capture.machine.attached_tasks import family, threads_of
from prospect.errors import CaptureError
from prospect.light import Closing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from prospect.capture.events.event_choice import EventPlan
    from prospect.capture.kernel.kernel_types import SwitchOffsets

SWITCH, WAKING = "sched:sched_switch", "sched:sched_waking"
_LAYOUTS = {
    SWITCH: (programs.SWITCH_LAYOUT, programs.SWITCH_FIELDS),
    WAKING: (programs.WAKING_LAYOUT, ()),
}
_TYPES = {4: "int", 8: "s64"}
_POSSIBLE_CPUS = 1 << 14
_FIRST_PID_NAMESPACE = 0xEFFFFFFC  # PROC_PID_INIT_INO, include/linux/proc_ns.h
_KEPT_SAMPLE_TYPE = (
    perf.PERF_SAMPLE_IDENTIFIER
    | perf.PERF_SAMPLE_TID
    | perf.PERF_SAMPLE_TIME
    | perf.PERF_SAMPLE_CPU
)
_KEPT_FLAGS = (
    perf.FLAG_DISABLED | perf.FLAG_WATERMARK | perf.FLAG_SAMPLE_ID_ALL | perf.FLAG_USE_CLOCKID
)


class FollowedSwitches(Closing):
    """Records the switches: call `load`, `events`, `start`, `finish`, `close`.

    Args:
        recorded: which of SWITCH and WAKING are recorded.
    """

    def __init__(self, recorded: tuple[str, ...] = (SWITCH, WAKING)) -> None:
        self.recorded = recorded
        self._held = bpf_objects.Held()
        self._numbers: dict[str, int] = {}
        self._formats: dict[str, bytes] = {}
        self._outputs: dict[str, int] = {}
        self._programs: dict[str, int] = {}
        self._threads = -1
        self._first: set[int] = set()
        self._every_thread = False

    def load(self, *, every_thread: bool) -> None:
        """Make the maps and load the programs, without recording anything yet.

        Raises:
            CaptureError: the kernel refuses, or lacks something; the message says what.
        """
        if os.uname().machine != "x86_64":
            raise CaptureError(
                f"programs that follow threads run on x86-64, not {os.uname().machine}"
            )
        if os.stat("/proc/self/ns/pid").st_ino != _FIRST_PID_NAMESPACE:
            raise CaptureError("threads have other numbers in this container than the kernel's")
        for name in _LAYOUTS:
            self._read_format(name)
        try:
            types = switch_offsets(kernel_types())
            self._every_thread = every_thread
            self._load(types, every_thread=every_thread)
        except ValueError as error:
            raise CaptureError(str(error)) from error
        except OSError as error:
            raise CaptureError(_refusal(error)) from error

    def _read_format(self, name: str) -> None:
        group, _, short = name.partition(":")
        number = tracepoint_id(group, short)
        known, added = _LAYOUTS[name]
        text = os.fsdecode(tracepoint_format(group, short))
        if number is None or _layout(text) != known:
            raise CaptureError(f"this kernel's tracepoint {name} has other fields than those known")
        lines = "".join(
            f"\tfield:{_TYPES[size]} {field};\toffset:{offset};\tsize:{size};\tsigned:1;\n"
            for field, offset, size in added
        )
        # The fields end at an empty line; after it is the print format.
        self._numbers[name] = number
        self._formats[name] = text.replace("\n\nprint fmt", f"\n{lines}\nprint fmt", 1).encode()

    def _load(self, types: SwitchOffsets, *, every_thread: bool) -> None:
        keep, layout = self._held.keep, bpf_objects.MapLayout
        # If every thread is in the map, it forgets the least recently used.
        kind = abi.BPF_MAP_TYPE_LRU_HASH if every_thread else abi.BPF_MAP_TYPE_HASH
        threads = layout("wall_threads", kind, 4, 8, MOST_FOLLOWED)
        self._threads = keep(bpf_objects.create_map(threads))
        shorts = {SWITCH: "wall_switches", WAKING: "wall_wakes"}
        kind = abi.BPF_MAP_TYPE_PERF_EVENT_ARRAY
        for name in self.recorded:
            output = layout(shorts[name], kind, 4, 4, _POSSIBLE_CPUS)
            self._outputs[name] = keep(bpf_objects.create_map(output))
        maps = programs.Maps(
            self._threads,
            self._outputs.get(SWITCH, -1),
            self._outputs[WAKING],
            every_thread,
            os.getpid(),
        )
        load = bpf_objects.load_raw_tracepoint_program
        codes = {
            "sched_switch": programs.switch_program(maps, types, self._numbers[SWITCH]),
            "sched_waking": programs.waking_program(maps, types, self._numbers[WAKING]),
        }
        if not every_thread:
            codes["sched_process_fork"] = programs.fork_program(maps, types)
        for tracepoint, code in codes.items():
            name = tracepoint.replace("sched", "wall").replace("process_", "")
            self._programs[tracepoint] = keep(load(name, code))

    def events(self, plan: EventPlan) -> tuple[ChosenEvent, ...]:
        """Return the events that the programs write samples of.

        A recording describes them as samples of the tracepoints, in whose layout they are. So perf
        reads them too.
        """
        clock = plan.attr
        opened = EventAttr(
            config=perf.PERF_COUNT_SW_BPF_OUTPUT,
            sample_period=1,
            sample_type=clock.sample_type & _KEPT_SAMPLE_TYPE | perf.PERF_SAMPLE_RAW,
            read_format=clock.read_format,
            flags=clock.flags & _KEPT_FLAGS,
            clockid=clock.clockid,
        )
        return tuple(
            ChosenEvent(
                name,
                opened,
                recorded=opened._replace(
                    type=perf.PERF_TYPE_TRACEPOINT, config=self._numbers[name]
                ),
                format=self._formats[name],
            )
            for name in self.recorded
        )

    def start(
        self, outputs: Mapping[str, Mapping[int, int]], pids: tuple[int, ...], command_pid: int
    ) -> None:
        """Attach the programs; they record samples as soon as the events are enabled.

        Args:
            outputs: the events of `events`, by name and CPU.
            pids: processes to follow, with their descendants.
            command_pid: the process to follow if there are none; it has no children yet.

        Raises:
            OSError: the kernel refused.
        """
        for name, fds in outputs.items():
            for cpu, fd in fds.items():
                bpf_objects.write_element(self._outputs[name], cpu, struct.pack("=I", fd))
        # Births first: a thread that starts meanwhile has a followed parent, or is found below.
        for tracepoint in reversed(self._programs):
            link = bpf_objects.attach_raw_tracepoint(tracepoint, self._programs[tracepoint])
            self._held.links.append(link)
            if tracepoint == "sched_process_fork":
                self._follow(pids, {command_pid} if not pids else set())

    def _follow(self, pids: tuple[int, ...], found: set[int]) -> None:
        found |= _threads_below(pids)
        while new := found - self._first:
            for tid in new:
                key, value = struct.pack("=I", tid), struct.pack("=q", programs.OTHER_WAIT)
                bpf_objects.write_entry(self._threads, key, value)
            self._first |= new
            found = _threads_below(pids)

    def finish(self) -> tuple[tuple[str, ...], dict[str, Any]]:
        """Stop recording; return sentences about missing records, and facts for the recording.

        The facts are `followed_threads`, those from the beginning, unless all are followed.
        """
        self._held.detach()
        try:
            missed = sum(bpf_objects.missed_runs(fd) for fd in self._programs.values())
        except OSError:
            missed = 0
        limit = f"{missed} switches and wake-ups were not recorded: their programs were busy."
        facts = {} if self._every_thread else {"followed_threads": sorted(self._first)}
        return (limit,) if missed else (), facts

    def close(self) -> None:
        """Close all descriptors; the kernel then removes everything."""
        self._held.close()


def _threads_below(pids: tuple[int, ...]) -> set[int]:
    return {tid for pid in family(pids) for tid in threads_of(pid)} if pids else set()


_FIELD = re.compile(r"^\tfield:[^;]*?(\w+(?:\[\d+\])?);\toffset:(\d+);\tsize:(\d+);", re.MULTILINE)


def _layout(text: str) -> tuple[tuple[str, int, int], ...]:
    """Return name, offset and size of each field of a tracepoint's format."""
    return tuple((name, int(offset), int(size)) for name, offset, size in _FIELD.findall(text))


def _refusal(error: OSError) -> str:
    if error.errno in (errno.EPERM, errno.EACCES):
        return "it needs root, or CAP_BPF and CAP_PERFMON, for eBPF"
    return f"this kernel cannot run the programs for it: {error.strerror}"
