"""The walker in the kernel: its maps, and the events that it is attached to, until they are closed.

It also tells whether this machine lets this user read Python's frames, by trying it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct

from prospect.abi import bpf as abi
from prospect.abi import constants
from prospect.capture.kernel import bpf_objects
from prospect.capture.kernel.bpf_assembler import assemble
from prospect.capture.kernel.kernel_types import BTF_FILE, task_offsets
from prospect.capture.kernel.procfs import read_if_there
from prospect.capture.machine import python_processes
from prospect.capture.python import image_entry, walk_parts, walk_rooms
from prospect.capture.python.walker import THREAD_BYTES, THREADS_BITS, walker
from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# The oldest go when there are more: of a build that runs Python again and again.
_MOST_IMAGES = 8192
_NOT_FOR_IT = (errno.EINVAL, errno.EOPNOTSUPP, errno.EACCES)


class Walker(NamedTuple):
    """The walker, attached: descriptors of its maps.

    Attributes:
        images: `python_processes.KEY` → entry.
        seen: which names it has sent.
        rooms: see `walk_rooms`.
        links: to events; none where it stays attached as long as these are open (before 5.15).
        others: what else it needs.
    """

    images: int
    seen: int
    rooms: int
    links: tuple[int, ...]
    others: tuple[int, ...]

    def close(self) -> None:
        """Leave nothing behind, but for events that it is attached to without a link."""
        for fd in (*self.links, self.images, self.seen, self.rooms, *self.others):
            os.close(fd)

    def detach(self) -> None:
        """Let it run no more."""
        for link in self.links:
            os.close(link)

    def forget_names(self) -> None:
        """Let it send the names again of all that it meets.

        Raises:
            OSError: the kernel refused.
        """
        bpf_objects.write_element(self.seen, 0, bytes(walk_parts.SEEN_BYTES))


def attach_walker(outputs: Mapping[int, int], sampling: Sequence[int]) -> Walker:
    """Load the walker and attach it.

    Args:
        outputs: CPU → the event that its records are samples of; none to see whether it loads.
        sampling: the events at whose samples it runs; those that it cannot are left out.

    Raises:
        OSError: the kernel or its verifier refused.
        ValueError: the kernel's types are not those known.
    """
    with open(BTF_FILE, "rb") as types:
        offsets = task_offsets(types.read())
    layout = bpf_objects.MapLayout
    images = bpf_objects.create_map(
        layout(
            "py_images",
            abi.BPF_MAP_TYPE_LRU_HASH,
            python_processes.KEY.size,
            image_entry.ENTRY_BYTES,
            _MOST_IMAGES,
        )
    )
    cpus = max(outputs, default=0) + 1
    output = bpf_objects.create_map(
        layout("py_output", abi.BPF_MAP_TYPE_PERF_EVENT_ARRAY, 4, 4, cpus)
    )
    scratch = bpf_objects.create_map(
        layout("py_scratch", abi.BPF_MAP_TYPE_PERCPU_ARRAY, 4, walk_parts.SCRATCH_BYTES, 1)
    )
    seen = bpf_objects.create_map(
        layout("py_seen", abi.BPF_MAP_TYPE_ARRAY, 4, walk_parts.SEEN_BYTES, 1)
    )
    rooms = bpf_objects.create_map(
        layout("py_rooms", abi.BPF_MAP_TYPE_ARRAY, 4, walk_rooms.ROOM.size, walk_rooms.ROOM_COUNT)
    )
    threads = bpf_objects.create_map(
        layout(
            "py_threads",
            abi.BPF_MAP_TYPE_ARRAY,
            4,
            THREAD_BYTES,
            1 << THREADS_BITS,
        )
    )
    for cpu, fd in outputs.items():
        bpf_objects.write_element(output, cpu, struct.pack("=I", fd))
    maps = walk_parts.Maps(images, output, scratch, seen, rooms, threads)
    program = bpf_objects.load_perf_event_program("walk_python", assemble(walker(maps, offsets)))
    links = [_attached(program, fd) for fd in sampling]
    held = tuple(one for one in links if one >= 0)
    return Walker(images, seen, rooms, held, (output, scratch, threads, program))


def _attached(program: int, event: int) -> int:
    """Attach a program to an event; return the link, -1 where there is none."""
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
    """Return why they cannot be read, and what would change it; "" where they can."""
    if (machine := _machine()) != "x86_64":
        return f"of x86-64 programs only, not on {machine}"
    if not os.path.exists(BTF_FILE):
        return f"this kernel has no {BTF_FILE}: it takes one built with CONFIG_DEBUG_INFO_BTF"
    try:
        attach_walker({}, ()).close()
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
