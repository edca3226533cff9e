"""Starts and stops the child process that reads build ids of mapped files, and memory maps.

The kernel could put build ids into its records (``attr.build_id``). But once one recorder asks for
them, records for other recorders have the bit that announces a build id without having one
(``perf_event_mmap_output`` in ``kernel/events/core.c``, 6.18), and `perf record` aborts.

Only the reader (`mapped_file_reader`) touches files, as any file system may block it. The recorder
waits for it before COMMAND runs, until it has mapped its rings, and at the end, for a second at
most. Only the reader maps the rings: mapping one a second time adds to the user's locked memory for
ever (``perf_mmap_rb`` in ``kernel/events/core.c``, 6.18).
"""

from __future__ import annotations

import errno
import os
import select
import time

from prospect.abi import constants as abi
from prospect.abi.attr import EventAttr
from prospect.capture.capture_limits import FILES_LAST_WORD_S
from prospect.capture.events.event_choice import EVERY_TASK
from prospect.capture.kernel import perf_syscalls
from prospect.capture.kernel.rings import Ring
from prospect.capture.machine.read_files import NUMBER_BYTES, RING_BYTES, ReadFiles
from prospect.files.child import Child, tell, told
from prospect.light import Closing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from prospect.capture.machine.image_copies import ImageCopy
    from prospect.capture.machine.read_files import ReadFile
    from prospect.capture.machine.synthesis import Map

_MAPPED_MS = 500
_CLOCK_MONOTONIC = 1
_LARGEST_INODE = (1 << 63) - 1


class MappedFiles(Closing):
    """The events and the reader of one recording.

    Attributes:
        child_pids: of the children of the reader, once finished.
        python_fd: has a byte to read once Python runs, and is at its end if there is no reader;
            -1 if that is not wanted.
        jvms_fd: gives the processes that map HotSpot, as `runtime_processes` writes them.
        limits: sentences about facts that could not be read.
        documents: `memory_maps`, `groups`, `throttled` and `containers` as docs/recording.md
            describes them, once finished, without those that are empty.
        copies: files that may be gone, once finished.
        copies_fd: a file in memory with their content, -1 for none.
    """

    def __init__(  # noqa: PLR0913 - a keyword for each
        self,
        tasks: tuple[int, ...],
        cpus: Iterable[int],
        command_pid: int = -1,
        *,
        finds_python: bool = False,
        attached: tuple[int, ...] = (),
        copies: bool = False,
        of_all: bool = True,
    ) -> None:
        """Open the events and start the reader; on failure, go on without it.

        Args:
            tasks: threads to follow, EVERY_TASK alone for all.
            command_pid: COMMAND, -1 for none.
            finds_python: whether `python_fd` is wanted.
            attached: processes that the recording attached to.
            copies: whether to copy files that may be gone later.
            of_all: whether to copy those of every process.
        """
        self.reader = Child()
        self.limits: list[str] = []
        self._found = ReadFiles()
        self.documents: dict[str, object] = {}
        self.child_pids: list[int] = []
        self.copies: list[ImageCopy] = []
        self.copies_fd = os.memfd_create("mapped-copies", os.MFD_CLOEXEC) if copies else -1
        self._mapped_fd, mapped_fd = os.pipe2(os.O_CLOEXEC)
        self.python_fd, python_fd = os.pipe2(os.O_CLOEXEC) if finds_python else (-1, -1)
        self.jvms_fd, jvms_fd = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        before_fd, self._before_fd = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._before = os.memfd_create("mapped-before", os.MFD_CLOEXEC)
        fds: dict[int, list[int]] = {cpu: [] for cpu in cpus}
        begun_ns = time.time_ns()
        try:
            open_mapping_events(fds, tasks)

            def serve(stop_fd: int) -> None:
                rings = mapped_rings(fds.values(), mapped_fd)
                from prospect.capture.machine.mapped_file_reader import Watched, serve  # noqa: PLC0415 - in the child alone

                is_chosen = tasks != (EVERY_TASK,)
                processes = command_pid, is_chosen, python_fd, attached, jvms_fd
                watched = Watched(*processes, self.copies_fd, begun_ns, of_all)
                serve(rings, stop_fd, self._found, (before_fd, self._before), watched)

            opened = [fd for of_cpu in fds.values() for fd in of_cpu]
            kept = [*opened, mapped_fd, before_fd, self._before, jvms_fd]
            kept += [python_fd] * finds_python + [self.copies_fd] * copies
            self.reader.start(serve, kept)
        except OSError as error:
            self._not_read(os.strerror(error.errno or 0))
        finally:
            ours = [mapped_fd, before_fd, jvms_fd] + [python_fd] * finds_python
            for of_cpu in (*fds.values(), ours):
                for fd in of_cpu:
                    os.close(fd)

    def wait(self) -> None:
        """Wait until the rings are mapped: from then on they record all mappings."""
        poll = select.poll()
        poll.register(self._mapped_fd, select.POLLIN)
        if self.reader.pid and poll.poll(_MAPPED_MS):
            code = int.from_bytes(os.read(self._mapped_fd, NUMBER_BYTES), "little")
            if code:
                self._not_read(os.strerror(code))
                self.reader.kill()

    def look_at(
        self,
        mapped_before: Mapping[tuple[int, int, int], tuple[int, Map]],
        ticks: dict[int, int],
        pythons: Iterable[int] = (),
        jvms: Iterable[int] = (),
    ) -> None:
        """Let the reader look at files that were mapped before.

        Args:
            mapped_before: (major, minor, inode) → a process that has it mapped, and one mapping.
            ticks: pid → CPU time of processes that ran before.
            pythons: those of them that have CPython mapped.
            jvms: those of them that have HotSpot mapped.
        """
        rows = [(*file, pid, *one) for file, (pid, one) in mapped_before.items()]
        if not self.reader.pid or not rows:
            return
        try:
            size = tell(self._before, (rows, ticks, list(pythons), list(jvms)))
            os.write(self._before_fd, size.to_bytes(NUMBER_BYTES, "little"))
        except OSError as error:  # no memory, or the reader has ended
            self._not_read(os.strerror(error.errno or 0), "some")

    def finish(self) -> list[ReadFile]:
        """Stop the reader, or abandon it if it is blocked; return its results."""
        if not self.reader.pid:
            return []
        self.reader.stop()
        if not self.reader.reap(FILES_LAST_WORD_S):
            self.reader.kill()
            self._not_read("a file system did not answer in time", "some")
        elif self.reader.status:
            self._not_read(f"their reader failed with status {self.reader.status}", "some")
        else:
            self.documents = documents_in(self._before)
            self._take_copies()
        self._let_go()
        counts = self._found.counts()
        count = counts.late + counts.lost
        if count:
            self.limits.append(
                f"The build ids of {count} mapping{'s' * (count > 1)} were not read in time: inode"
                " and modification time identify the files instead."
            )
        return [row for row in self._found.rows() if row.inode <= _LARGEST_INODE]

    @property
    def has_leaked_bits(self) -> bool:
        """Whether another recorder's build ids have left their bit in these records; see above."""
        return self._found.counts().leaked > 0

    def close(self) -> None:
        """End the reader and close all descriptors."""
        self._let_go()
        if self.copies_fd >= 0:
            os.close(self.copies_fd)
            self.copies_fd = -1
        self.reader.kill()

    def _not_read(self, reason: str, which: str = "the") -> None:
        self.limits.append(
            f"The build ids of {which} mapped files were not read ({reason}): a program that is"
            " replaced before the report is made may get wrong names."
        )

    def _take_copies(self) -> None:
        told_words = told(self._before)
        rows, left_out, self.child_pids = told_words[4] if told_words else ((), 0, [])
        if rows:
            from prospect.capture.machine.image_copies import ImageCopy  # noqa: PLC0415 - few recordings have copies

            self.copies = [ImageCopy(*row) for row in rows]
        if left_out:
            self.limits.append(
                f"{left_out} mapped file{'s' * (left_out > 1)} that may be gone now found no room"
                " to be copied: samples in there may have no name."
            )

    def _let_go(self) -> None:
        ours = (self._mapped_fd, self._before_fd, self._before, self.python_fd, self.jvms_fd)
        for fd in ours:
            if fd >= 0:
                os.close(fd)
        self._mapped_fd = self._before_fd = self._before = self.python_fd = self.jvms_fd = -1


def open_mapping_events(fds: dict[int, list[int]], tasks: tuple[int, ...]) -> None:
    """Append events of each CPU and task that record executable mappings, with the time of each.

    Raises:
        OSError: the kernel refuses one.
    """
    flags = abi.FLAG_MMAP2 | abi.FLAG_SAMPLE_ID_ALL | abi.FLAG_USE_CLOCKID | abi.FLAG_WATERMARK
    flags |= abi.FLAG_EXCLUDE_KERNEL | abi.FLAG_EXCLUDE_HV
    flags |= 0 if tasks == (EVERY_TASK,) else abi.FLAG_INHERIT
    attr = EventAttr(
        config=abi.PERF_COUNT_SW_DUMMY,
        sample_type=abi.PERF_SAMPLE_TIME,
        flags=flags,
        wakeup=1,
        clockid=_CLOCK_MONOTONIC,
    ).pack()
    for cpu, opened in fds.items():
        for task in tasks:
            # One by one: the caller closes those that were opened before one failed.
            try:
                opened.append(perf_syscalls.perf_event_open(attr, task, cpu))
            except ProcessLookupError:
                continue  # it has just ended


def mapped_rings(fds: Iterable[list[int]], told_fd: int) -> dict[int, Ring]:
    """Map a ring for each CPU's events, in the reader; send the recorder 0, or the errno.

    Raises:
        OSError: there is no memory for them.
    """
    code = 0
    try:
        rings = {opened[0]: Ring(opened[0], RING_BYTES) for opened in fds if opened}
        for owner, *others in filter(None, fds):
            for fd in others:
                perf_syscalls.share_ring(fd, owner)
    except OSError as error:
        code = error.errno or errno.EIO
        raise
    else:
        return rings
    finally:
        os.write(told_fd, code.to_bytes(NUMBER_BYTES, "little"))


def documents_in(fd: int) -> dict[str, object]:
    """Return the documents that a reader wrote: see `MappedFiles.documents`."""
    rows, packed, groups, throttled, _, containers = told(fd) or ((), b"", {}, [], (), {})
    found: dict[str, object] = {
        "groups": groups,
        "throttled": throttled,
        "containers": {identity: list(facts) for identity, facts in containers.items()},
    }
    if rows:
        import binascii  # noqa: PLC0415 - at the end

        pids, read_ns, sizes = (list(column) for column in zip(*rows, strict=True))
        found["memory_maps"] = {
            "pid": pids,
            "read_ns": read_ns,
            "size_bytes": sizes,
            "zlib": binascii.b2a_base64(packed, newline=False).decode(),
        }
    return {name: one for name, one in found.items() if one}
