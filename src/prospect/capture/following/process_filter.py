"""Let a recording copy the stacks of some processes and their descendants only, or each piece once.

`process_programs` has the programs. They and their maps exist as long as this process has file
descriptors of them; the program at an event is detached when the event is closed.
"""

from __future__ import annotations

import fcntl
import struct

from prospect.abi import bpf as abi
from prospect.abi import constants as perf
from prospect.capture.capture_limits import MOST_CHOSEN_PROCESSES, MOST_WAIT_PIECES
from prospect.capture.following import process_programs as programs
from prospect.capture.following import wait_stacks
from prospect.capture.kernel import bpf_objects
from prospect.capture.kernel.kernel_types import TaskFields
from prospect.capture.kernel.procfs import possible_cpus
from prospect.capture.machine.attached_tasks import descendants
from prospect.light import Closing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from prospect.capture.events.cpu_events import EventSet


class ProcessFilter(Closing):
    """The programs, their maps, and the followed processes."""

    def __init__(
        self,
        periods: tuple[int, ...],
        *,
        copies: bool,
        at_events: bool = True,
        copies_of_waits: int = 0,
        every_process: bool = False,
    ) -> None:
        """Load all of it.

        Args:
            copies: whether events with copies write the samples of followed processes.
            at_events: whether a program runs at events; else there is only the map of processes.
            copies_of_waits: bytes of a stack that samples of switches copy, if a program writes
                these samples; 0 if not.
            every_process: whether every process is followed.

        Raises:
            OSError: the kernel refused.
        """
        self._held = bpf_objects.Held()
        self._tracepoints: dict[str, int] = {}
        followed = -1
        try:
            if not every_process:
                followed = self._load_followed()
            self._load(followed, periods, copies_of_waits, copies=copies, at_events=at_events)
        except OSError:
            self.close()
            raise

    def _load_followed(self) -> int:
        """Return the map of followed processes, whose programs are loaded too."""
        keep = self._held.keep
        kind = abi.BPF_MAP_TYPE_HASH
        layout = bpf_objects.MapLayout("followed", kind, 4, 4, MOST_CHOSEN_PROCESSES)
        followed = keep(bpf_objects.create_map(layout))
        fields = TaskFields()
        keep(fields.fd)
        load = fields.load_raw_tracepoint_program
        self._tracepoints = {
            "sched_process_fork": keep(load("forks", programs.fork_program(followed))),
            "sched_process_free": keep(load("ends", programs.free_program(followed))),
        }
        return followed

    def _load(
        self,
        followed: int,
        periods: tuple[int, ...],
        copies_of_waits: int,
        *,
        copies: bool,
        at_events: bool,
    ) -> None:
        keep, layout = self._held.keep, bpf_objects.MapLayout
        cpus = possible_cpus()
        create = bpf_objects.create_map
        walker = outputs = self._at_events = self._of_waits = -1
        if at_events:
            walker = keep(create(layout("walker", abi.BPF_MAP_TYPE_PROG_ARRAY, 4, 4, 2)))
        if copies:
            kind, entries = abi.BPF_MAP_TYPE_PERF_EVENT_ARRAY, len(periods) * cpus
            outputs = keep(create(layout("copies", kind, 4, 4, entries)))
        of_waits = bool(copies_of_waits)
        self.maps = programs.Maps(followed, outputs, walker, cpus, periods, of_waits)
        if copies_of_waits:
            self._load_copies_of_waits(copies_of_waits)
        if at_events:
            code = programs.sample_program(self.maps)
            self._at_events = keep(bpf_objects.load_perf_event_program("samples", code))

    def _load_copies_of_waits(self, copied_bytes: int) -> None:
        keep, layout = self._held.keep, bpf_objects.MapLayout
        raw_bytes = wait_stacks.scratch_bytes(copied_bytes)
        layouts = (
            layout("waits", abi.BPF_MAP_TYPE_PERF_EVENT_ARRAY, 4, 4, self.maps.cpus),
            layout("pieces", abi.BPF_MAP_TYPE_LRU_HASH, 8, 8, MOST_WAIT_PIECES),
            layout("waits_raw", abi.BPF_MAP_TYPE_PERCPU_ARRAY, 4, raw_bytes, 1),
        )
        outputs, seen, scratch = (keep(bpf_objects.create_map(one)) for one in layouts)
        self._of_waits = outputs
        maps = wait_stacks.WaitMaps(outputs, seen, scratch, copied_bytes)
        code = wait_stacks.switch_program(maps)
        program = keep(bpf_objects.load_perf_event_program("waits", code))
        element = struct.pack("=I", program)
        bpf_objects.write_element(self.maps.walker, programs.OF_SWITCHES, element)

    def start(self, events: EventSet, pids: tuple[int, ...]) -> None:
        """Follow these processes and their descendants, and choose samples from now on.

        Args:
            events: of a plan with `copies` or with events that are filtered.
            pids: processes, unless every one is followed; those that have ended are left out.

        Raises:
            OSError: the kernel refused.
        """
        for tracepoint, program in self._tracepoints.items():
            self._held.links.append(bpf_objects.attach_raw_tracepoint(tracepoint, program))
        # Births first: a process that starts meanwhile has a followed parent, or is found below.
        followed: set[int] = set()
        while self._tracepoints and (new := set(descendants(pids)) - followed):
            for pid in new:
                key, value = struct.pack("=I", pid), bytes(4)
                bpf_objects.write_entry(self.maps.followed, key, value)
            followed |= new
        if self._at_events >= 0:
            events.use_filter(self.attach)

    def attach(self, cpu: int, copies: list[int], filtered: list[int], of_waits: list[int]) -> None:
        """Choose the samples of a CPU's events.

        Args:
            copies: events that write copies, one for each clock.
            filtered: the events whose samples are chosen.
            of_waits: the event that writes samples of switches; empty if it is in `filtered`.

        Raises:
            OSError: the kernel refused.
        """
        for clock, fd in enumerate(copies):
            at = clock * self.maps.cpus + cpu
            bpf_objects.write_element(self.maps.copies, at, struct.pack("=I", fd))
        for fd in of_waits:
            bpf_objects.write_element(self._of_waits, cpu, struct.pack("=I", fd))
        for fd in filtered:
            fcntl.ioctl(fd, perf.PERF_EVENT_IOC_SET_BPF, self._at_events)

    def close(self) -> None:
        """Close all descriptors; the kernel then removes everything."""
        self._held.close()
