"""Every process that runs as the events begin: its family, its threads' names, its code.

Comes in: /proc. Goes out: FORK, COMM and MMAP2 records of time 0, in portions, so that the rings
can be drained between them on a machine with very many processes.

Defined by: proc(5); ``fs/proc/array.c`` (do_task_stat), ``fs/proc/task_mmu.c`` (show_map_vma).
"""

from __future__ import annotations

import os
import re

from prospect.abi import constants as abi
from prospect.capture.kernel.procfs import read_file
from prospect.capture.machine.synthesis import Map, comm_record, fork_record, user_map_record
from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_PORTION_PROCESSES = 32

# include/linux/sched.h
_PF_KTHREAD = 0x00200000
_PF_WQ_WORKER = 0x00000020

_MAP_SHARED, _MAP_PRIVATE = 1, 2
# What the kernel's own records call memory without a file, named by prctl() or not.
_ANONYMOUS = b"//anon"


class Stat(NamedTuple):
    """What of /proc/PID/stat is needed; `ticks` is user and system time."""

    comm: bytes
    ppid: int
    pgrp: int
    session: int
    is_kernel_thread: bool
    threads: int
    ticks: int


class Snapshot:
    """The processes met so far.

    Attributes:
        processes: pid → [parent, process group, session, 1 for a kernel thread].
        unreadable: pid → name of processes whose mappings this user may not read.
        files: (major, minor, inode) of files with mapped code → a process that has it, and where.
        ticks: pid → CPU time that processes of programs had used.
    """

    def __init__(
        self,
        proc: str = "/proc",
        command_pid: int = -1,
        *,
        with_data: bool = False,
        only: tuple[int, ...] = (),
    ) -> None:
        """Prepare.

        Args:
            proc: where /proc is.
            command_pid: left out, as its own records describe it from the start.
            with_data: whether mappings of files without code are wanted as well, as
                FLAG_MMAP_DATA has them.
            only: the wanted processes, other numbers may be among theirs; none for all.
        """
        self._proc = proc
        self._command_pid = command_pid
        self._with_data = with_data
        self._only = frozenset(only)
        self.processes: dict[int, list[int]] = {}
        self.unreadable: dict[int, bytes] = {}
        self.files: dict[tuple[int, int, int], tuple[int, Map]] = {}
        self.ticks: dict[int, int] = {}
        self._execute = (b"x", b"-") if with_data else (b"x",)
        # Compiled here, after the command has started, rather than at import.
        self._mapping = re.compile(
            rb"([0-9a-f]{1,16})-([0-9a-f]{1,16}) ([r-])([w-])([x-])([ps]) ([0-9a-f]{1,16})"
            rb" ([0-9a-f]{1,8}):([0-9a-f]{1,8}) ([0-9]{1,19}) *(.*)"
        )

    def portions(self) -> Iterator[bytes]:
        """Yield the records of all processes, some at a time, possibly none.

        The newest come first, as they are the likeliest to end soon, and names before mappings;
        births are written in the order of pids, parents before children as a rule.
        """
        listed = {int(name) for name in os.listdir(self._proc) if name.isdecimal()}
        listed = listed & self._only if self._only else listed
        pids = sorted(listed - {self._command_pid}, reverse=True)
        found: list[tuple[int, Stat]] = []
        for first in range(0, len(pids), _PORTION_PROCESSES):
            for pid in pids[first : first + _PORTION_PROCESSES]:
                try:
                    found.append((pid, parse_stat(read_file(f"{self._proc}/{pid}/stat"))))
                except (OSError, ValueError):
                    continue  # it ended between the listing and now
            yield b""
        self.processes = {
            pid: [stat.ppid, stat.pgrp, stat.session, int(stat.is_kernel_thread)]
            for pid, stat in reversed(found)
        }
        yield b"".join(
            fork_record(pid, stat.ppid) + comm_record(pid, pid, stat.comm)
            for pid, stat in reversed(found)
        )
        programs = [(pid, stat) for pid, stat in found if not stat.is_kernel_thread]
        self.ticks = {pid: stat.ticks for pid, stat in programs}
        for first in range(0, len(programs), _PORTION_PROCESSES):
            portion: list[bytes] = []
            for pid, stat in programs[first : first + _PORTION_PROCESSES]:
                portion += self._code_and_threads(pid, stat)
            yield b"".join(portion)

    def _code_and_threads(self, pid: int, stat: Stat) -> list[bytes]:
        directory = f"{self._proc}/{pid}"
        try:
            text = read_file(f"{directory}/maps")
        except PermissionError:
            self.unreadable[pid] = stat.comm
            text = b""
        except OSError:
            return []  # it has ended by now
        maps = self.wanted_maps(text)
        for one in maps:
            if one.inode and one.prot & abi.PROT_EXEC:
                self.files.setdefault((one.major, one.minor, one.inode), (pid, one))
        records = [user_map_record(pid, one) for one in maps]
        if stat.threads > 1:
            records.extend(_thread_names(directory, pid))
        return records

    def wanted_maps(self, text: bytes) -> list[Map]:
        """Return the wanted mappings of a /proc/PID/maps text, named as in MMAP2 records."""
        maps = []
        for line in text.split(b"\n"):
            # Most lines are of data: they are passed over by one letter.
            at = line.find(b" ") + 3
            if line[at : at + 1] not in self._execute:
                continue
            found = self._mapping.fullmatch(line)
            if not found:
                continue
            begin, end, read, write, execute, sharing, *place, name = found.groups()
            pgoff, major, minor, inode = place
            if execute != b"x" and (read != b"r" or not name.startswith(b"/")):
                continue
            start = int(begin, 16)
            length = int(end, 16) - start
            if length <= 0:
                continue  # no kernel writes that
            prot = (
                (abi.PROT_EXEC if execute == b"x" else 0)
                | (abi.PROT_READ if read == b"r" else 0)
                | (abi.PROT_WRITE if write == b"w" else 0)
            )
            if not name or name.startswith(b"[anon"):
                name = _ANONYMOUS
            maps.append(
                Map(
                    start,
                    length,
                    int(pgoff, 16),
                    int(major, 16),
                    int(minor, 16),
                    int(inode),
                    prot,
                    _MAP_SHARED if sharing == b"s" else _MAP_PRIVATE,
                    # Only the newline is escaped there (seq_path with "\n").
                    name.replace(b"\\012", b"\n"),
                )
            )
        return maps


def parse_stat(text: bytes) -> Stat:
    """Parse /proc/PID/stat, whatever the process calls itself.

    Raises:
        ValueError: the text is cut off.
    """
    begin, end = text.find(b"(") + 1, text.rfind(b")")
    fields = text[end + 2 :].split()
    if not 0 < begin <= end or len(fields) < 18:
        raise ValueError("not a /proc/PID/stat")
    flags = int(fields[6])
    comm = text[begin:end]
    if flags & _PF_WQ_WORKER and not comm.startswith(b"kworker/R-"):
        # What it works on just now is appended, behind '-' or '+' (wq_worker_comm).
        comm = comm.replace(b"+", b"-").partition(b"-")[0]
    return Stat(
        comm=comm,
        ppid=int(fields[1]),
        pgrp=int(fields[2]),
        session=int(fields[3]),
        is_kernel_thread=bool(flags & _PF_KTHREAD),
        threads=int(fields[17]),
        ticks=int(fields[11]) + int(fields[12]),
    )


def _thread_names(directory: str, pid: int) -> Iterator[bytes]:
    try:
        tids = [int(name) for name in os.listdir(f"{directory}/task") if name.isdecimal()]
    except OSError:
        return
    for tid in tids:
        if tid == pid:
            continue
        try:
            # One newline is the file's own, more may be the name's.
            comm = read_file(f"{directory}/task/{tid}/comm")[:-1]
        except OSError:
            continue
        yield comm_record(pid, tid, comm)
