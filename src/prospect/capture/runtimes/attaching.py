"""The walkers in the kernel: their maps, and the events that they are attached to.

`obstacle` returns whether this user may read frames on this machine, by loading Python's walker.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct

from prospect.abi import bpf as abi
from prospect.abi import constants
from prospect.abi import runtime_frames as wire
from prospect.capture.capture_limits import MOST_IMAGES
from prospect.capture.kernel import bpf_objects
from prospect.capture.kernel.bpf_assembler import assemble, bounded
from prospect.capture.kernel.kernel_types import BTF_FILE, kernel_types, task_offsets
from prospect.capture.kernel.procfs import read_if_there
from prospect.capture.machine import runtime_processes
from prospect.capture.runtimes import image_entry, walk_parts, walk_rooms
from prospect.capture.runtimes.known_runtimes import walk_of
from prospect.capture.runtimes.walker import dispatcher, walker
from prospect.light import Closing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prospect.capture.following.process_programs import Maps as Chosen
    from prospect.capture.kernel.kernel_types import TaskOffsets
    from prospect.capture.runtimes.walk_parts import Maps

_MOST_RUNTIMES = 16
_ENTRY = runtime_processes.KEY.size, image_entry.ENTRY_BYTES
_FIRST = bytes(4)  # the key of an array's first element
_NOT_FOR_IT = (errno.EINVAL, errno.EOPNOTSUPP, errno.EACCES)


class Walker(Closing):
    """The walkers, attached: descriptors of their maps.

    Attributes:
        images: `runtime_processes.KEY` → entry.
        seen: the names that were sent.
        rooms: see `walk_rooms`.
        news: messages of walks to the watcher.
        output: the events of the recording.
        links: to events; none before Linux 5.15, where they stay attached while events are open.
    """

    def __init__(self, maps: Maps, task: TaskOffsets, chosen: Chosen | None = None) -> None:
        """Prepare; `chosen` are maps of a program that calls the walkers, None without."""
        self.images, self.seen, self.rooms = maps.images, maps.seen, maps.rooms
        self.news, self.output = maps.news, maps.output
        self.links: tuple[int, ...] = ()
        self._maps, self._task = maps, task
        self._programs: dict[int, int] = {}
        self._dispatcher = -1
        self._chosen = chosen
        self._caller = chosen.walker if chosen else -1

    @property
    def can_detach(self) -> bool:
        """Whether `detach` has an effect."""
        return self._caller >= 0 or bool(self.links)

    def attach(self, events: Sequence[int]) -> None:
        """Attach it to events, except those that cannot run it.

        Raises:
            OSError: the kernel or its verifier refused.
        """
        code = assemble(dispatcher(self._maps, self._task, self._chosen))
        self._dispatcher = bpf_objects.load_perf_event_program("walk_runtimes", code)
        if self._caller >= 0:
            bpf_objects.write_element(self._caller, 0, struct.pack("=I", self._dispatcher))
            return
        links = [_attached(self._dispatcher, fd) for fd in events]
        self.links = tuple(one for one in links if one >= 0)

    def load(self, runtime: int) -> None:
        """Load the walk of a runtime.

        Raises:
            OSError: the kernel or its verifier refused.
            KeyError: the runtime is unknown.
        """
        if runtime not in self._programs:
            code = walker(self._maps, self._task, walk_of(runtime), self._chosen)
            load, name = bpf_objects.load_perf_event_program, f"walk_runtime_{runtime}"
            try:
                program = load(name, assemble(code))
            except OSError:
                # The verifier then takes 0.1 s for all steps of all loops.
                program = load(name, assemble(bounded(code)))
            self._programs[runtime] = program
            bpf_objects.write_element(self._maps.walks, runtime, struct.pack("=I", program))

    def close(self) -> None:
        """Close everything; without links, events stay attached until they are closed."""
        for fd in (*self.links, *self._programs.values(), self._dispatcher, *self._maps):
            if fd >= 0:
                os.close(fd)

    def detach(self) -> None:
        """Detach it, if `can_detach`."""
        for link in self.links:
            os.close(link)
        self.links = ()
        if self._caller >= 0:
            bpf_objects.delete_entry(self._caller, _FIRST)

    def forget_names(self) -> None:
        """Have all names sent again.

        Raises:
            OSError: the kernel refused.
        """
        bpf_objects.write_element(self.seen, 0, bytes(walk_parts.SEEN_BYTES))


def attach_walker(
    outputs: Mapping[int, int],
    sampling: Sequence[int],
    runtimes: Sequence[int] = (),
    chosen: Chosen | None = None,
) -> Walker:
    """Load the walker and attach it.

    Args:
        outputs: CPU → the event that its records are samples of; empty to test loading.
        sampling: the events at whose samples it runs, except those that cannot run it.
        runtimes: the runtimes to load at once.
        chosen: maps of the program that already runs at these events, and calls the walker in
            followed processes; None if there is none.

    Raises:
        OSError: the kernel or its verifier refused.
        ValueError: the kernel's types are unknown.
    """
    offsets = task_offsets(kernel_types())
    array = abi.BPF_MAP_TYPE_ARRAY
    cpus = max(outputs, default=0) + 1
    layouts = (
        ("images", abi.BPF_MAP_TYPE_LRU_HASH, *_ENTRY, MOST_IMAGES),
        ("walks", abi.BPF_MAP_TYPE_PROG_ARRAY, 4, 4, _MOST_RUNTIMES),
        ("output", abi.BPF_MAP_TYPE_PERF_EVENT_ARRAY, 4, 4, cpus),
        ("scratch", abi.BPF_MAP_TYPE_PERCPU_ARRAY, 4, walk_parts.SCRATCH_BYTES, 1),
        ("recalled", abi.BPF_MAP_TYPE_PERCPU_ARRAY, 4, walk_parts.RECALLED_BYTES, 1),
        ("seen", array, 4, walk_parts.SEEN_BYTES, 1),
        ("rooms", array, 4, walk_rooms.ROOM.size, walk_rooms.ROOM_COUNT),
        ("threads", array, 4, walk_parts.THREAD_BYTES, 1 << walk_parts.THREADS_BITS),
        ("news", abi.BPF_MAP_TYPE_RINGBUF, 0, 0, walk_parts.NEWS_BYTES),
    )
    maps = walk_parts.Maps(
        **{
            name: bpf_objects.create_map(
                bpf_objects.MapLayout(f"walk_{name}", kind, key_bytes, value_bytes, entries)
            )
            for name, kind, key_bytes, value_bytes, entries in layouts
        }
    )
    for cpu, fd in outputs.items():
        bpf_objects.write_element(maps.output, cpu, struct.pack("=I", fd))
    found = Walker(maps, offsets, chosen)
    found.attach(sampling)
    for runtime in runtimes:
        found.load(runtime)
    return found


def _attached(program: int, event: int) -> int:
    """Attach a program to an event; return the link, -1 if there is none."""
    try:
        return bpf_objects.attach_to_event(program, event)
    except OSError as error:
        if error.errno not in _NOT_FOR_IT:
            raise
    try:
        fcntl.ioctl(event, constants.PERF_EVENT_IOC_SET_BPF, program)
    except OSError as error:
        if error.errno not in _NOT_FOR_IT:
            raise
    return -1


_LOCKDOWN = "/sys/kernel/security/lockdown"
NEEDS_RIGHTS = "needs root, or CAP_BPF and CAP_PERFMON, for eBPF"


def obstacle() -> str:
    """Return why frames cannot be read, and the remedy; "" if they can."""
    if (machine := _machine()) != "x86_64":
        return f"of x86-64 programs only, not on {machine}"
    if not os.path.exists(BTF_FILE):
        return f"this kernel has no {BTF_FILE}: it takes one built with CONFIG_DEBUG_INFO_BTF"
    try:
        attach_walker({}, (), (wire.CPYTHON,)).close()
    except ValueError as error:
        return str(error)
    except OSError as error:
        return _refusal(error)
    return ""


def _refusal(error: OSError) -> str:
    if error.errno in (errno.EPERM, errno.EACCES):
        return NEEDS_RIGHTS
    if b"[confidentiality]" in read_if_there(_LOCKDOWN):
        return "the kernel is locked down (confidentiality): boot with lockdown=integrity"
    return f"the kernel refuses the program: {error.strerror}"


def _machine() -> str:
    return os.uname().machine
