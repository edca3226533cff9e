"""Every process that runs as the events begin: its parent, its threads' names, its code.

FORK, COMM and MMAP2 records of time 0 come in portions, so that the recorder can drain the rings
between them on a machine with very many processes.

Defined by: proc(5); ``fs/proc/array.c`` (do_task_stat), ``fs/proc/task_mmu.c`` (show_map_vma).
"""

from __future__ import annotations

from prospect.abi import constants as abi
from prospect.capture.kernel.procfs import list_pids, names_in, read_maps, read_short
from prospect.capture.machine.runtime_processes import is_jvm, may_be_runtime
from prospect.capture.machine.synthesis import Map, comm_record, fork_record, user_map_record
from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    _Place = tuple[int, int, int, int, int, int, bytes]

_PORTION_PROCESSES = 32

# include/linux/sched.h
_PF_KTHREAD = 0x00200000
_PF_WQ_WORKER = 0x00000020

_MAP_SHARED, _MAP_PRIVATE = 1, 2
# The name of memory without a file in the kernel's records, whether or not prctl() named it.
_ANONYMOUS = b"//anon"
_MOST_INODE_DIGITS = 19


class Stat(NamedTuple):
    """Fields of /proc/PID/stat; `ticks` is user and system time."""

    comm: bytes
    ppid: int
    pgrp: int
    session: int
    is_kernel_thread: bool
    threads: int
    ticks: int


class Snapshot:
    """The processes read so far.

    Attributes:
        processes: pid → [parent, process group, session, 1 for a kernel thread].
        unreadable: pid → name of processes whose mappings this user may not read.
        files: (major, minor, inode) of a file with mapped code → a process and its mapping.
        ticks: pid → CPU time of processes other than kernel threads.
        pythons: processes that have CPython mapped.
        jvms: processes that have HotSpot mapped.
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
            command_pid: left out, as its own records describe it from the start.
            with_data: whether to include mappings without code, as FLAG_MMAP_DATA does.
            only: pids of the wanted processes, possibly among other tids; () for all.
        """
        self._proc = proc
        self._command_pid = command_pid
        self._with_data = with_data
        self._only = frozenset(only)
        self.processes: dict[int, list[int]] = {}
        self.unreadable: dict[int, bytes] = {}
        self.files: dict[tuple[int, int, int], tuple[int, Map]] = {}
        self.ticks: dict[int, int] = {}
        self.pythons: set[int] = set()
        self.jvms: set[int] = set()
        # The text after a mapping's addresses → its fields, None if the mapping is not wanted:
        # most processes map the same few libraries.
        self._known: dict[bytes, _Place | None] = {}

    def portions(self) -> Iterator[bytes]:
        """Yield the records of all processes in portions, some of them empty.

        The newest processes are read first, as they are the likeliest to end soon. Names come
        before mappings, and births in the order of pids: mostly parents before children.
        """
        listed = set(list_pids(self._proc))
        listed = listed & self._only if self._only else listed
        pids = sorted(listed - {self._command_pid}, reverse=True)
        found: list[tuple[int, Stat]] = []
        for first in range(0, len(pids), _PORTION_PROCESSES):
            for pid in pids[first : first + _PORTION_PROCESSES]:
                try:
                    found.append((pid, parse_stat(read_short(f"{self._proc}/{pid}/stat"))))
                except (OSError, ValueError):
                    continue  # it ended between the listing and now
            yield b""
        births = []
        for pid, stat in reversed(found):
            births += [fork_record(pid, stat.ppid), comm_record(pid, pid, stat.comm)]
            of_kernel = int(stat.is_kernel_thread)
            self.processes[pid] = [stat.ppid, stat.pgrp, stat.session, of_kernel]
        yield b"".join(births)
        programs = [(pid, stat) for pid, stat in found if not stat.is_kernel_thread]
        self.ticks = {pid: stat.ticks for pid, stat in programs}
        for first in range(0, len(programs), _PORTION_PROCESSES):
            portion: list[bytes] = []
            for pid, stat in programs[first : first + _PORTION_PROCESSES]:
                portion += self._code_and_threads(pid, stat)
            yield b"".join(portion)

    def _code_and_threads(self, pid: int, stat: Stat) -> list[bytes]:
        try:
            text = read_maps(pid, self._proc)
        except PermissionError:
            self.unreadable[pid] = stat.comm
            text = b""
        except OSError:
            return []  # it has ended
        maps = self.wanted_maps(text)
        for one in maps:
            if one.inode and one.prot & abi.PROT_EXEC:
                self.files.setdefault((one.major, one.minor, one.inode), (pid, one))
                if may_be_runtime(one.name):
                    self.pythons.add(pid)
                elif is_jvm(one.name):
                    self.jvms.add(pid)
        records = [user_map_record(pid, one) for one in maps]
        if stat.threads > 1:
            records.extend(_thread_names(f"{self._proc}/{pid}", pid))
        return records

    def wanted_maps(self, text: bytes) -> list[Map]:
        """Return the wanted mappings of a /proc/PID/maps text, named as in MMAP2 records."""
        maps = []
        for line in text.split(b"\n") if self._with_data else _lines_with_code(text):
            addresses, _, rest = line.partition(b" ")
            if rest not in self._known:
                self._known[rest] = self._place(rest)
            place = self._known[rest]
            if place:
                begin, _, end = addresses.partition(b"-")
                start = _hexadecimal(begin, 16)
                length = _hexadecimal(end, 16) - start
                if start >= 0 and length > 0:
                    maps.append(Map(start, length, *place))
        return maps

    def _place(self, rest: bytes) -> _Place | None:
        """Parse the text after a mapping's addresses; return None if it is not wanted."""
        fields = rest.split(b" ", 4)
        if len(fields) < 4 or len(fields[0]) != 4:
            return None
        letters, pgoff, device, inode = fields[:4]
        name = fields[4].lstrip(b" ") if len(fields) > 4 else b""
        prot = abi.PROT_EXEC if letters[2:3] == b"x" else 0
        prot |= abi.PROT_READ if letters[:1] == b"r" else 0
        prot |= abi.PROT_WRITE if letters[1:2] == b"w" else 0
        is_data = self._with_data and prot & abi.PROT_READ and name.startswith(b"/")
        if not (prot & abi.PROT_EXEC or is_data):
            return None
        major, _, minor = device.partition(b":")
        numbers = _hexadecimal(pgoff, 16), _hexadecimal(major, 8), _hexadecimal(minor, 8)
        if min(numbers) < 0 or not inode.isdigit() or len(inode) > _MOST_INODE_DIGITS:
            return None
        if not name or name.startswith(b"[anon"):
            name = _ANONYMOUS
        sharing = _MAP_SHARED if letters[3:] == b"s" else _MAP_PRIVATE
        # Only the newline is escaped there (seq_path with "\n").
        return (*numbers, int(inode), prot, sharing, name.replace(b"\\012", b"\n"))


def _lines_with_code(text: bytes) -> Iterator[bytes]:
    """Yield the lines of mappings with code, about one in ten."""
    if b"xs " in text:
        # There may be shared mappings with code.
        for line in text.split(b"\n"):
            at = line.find(b" ") + 3
            if line[at : at + 1] == b"x":
                yield line
        return
    end = 0
    while (at := text.find(b"xp ", end)) >= 0:
        begin = text.rfind(b"\n", 0, at) + 1
        end = text.find(b"\n", at)
        end = end if end >= 0 else len(text)
        # The same letters may be in a name.
        if text.find(b" ", begin, at) + 3 == at:
            yield text[begin:end]


def _hexadecimal(digits: bytes, most: int) -> int:
    """Return a number of at most `most` digits, -1 if it is none or has a sign."""
    try:
        return int(digits, 16) if len(digits) <= most and digits.isalnum() else -1
    except ValueError:
        return -1


def parse_stat(text: bytes) -> Stat:
    """Parse /proc/PID/stat; the process's name may have any characters.

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
        # Its current work is appended, after '-' or '+' (wq_worker_comm).
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
    for name in names_in(f"{directory}/task"):
        if not name.isdecimal() or int(name) == pid:
            continue
        try:
            # The last newline is the file's; others are the name's.
            comm = read_short(f"{directory}/task/{name}/comm")[:-1]
        except OSError:
            continue
        yield comm_record(pid, int(name), comm)
