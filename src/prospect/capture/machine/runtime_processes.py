"""Detects whether Python, another runtime or a JVM runs, for which a reader must start.

It looks at the names of mapped files, and at the processes that use the CPU. Most recordings need
no more than this, so it imports nothing slow.

Defined by: proc(5), /proc/pid/stat and /proc/pid/task/tid/children.
"""

from __future__ import annotations

import os
import struct
import time

from prospect.abi.runtime_frames import CPYTHON, PHP, RUBY, V8
from prospect.capture.capture_limits import MOST_JVM_MAP_BYTES
from prospect.capture.kernel.procfs import (
    list_pids,
    living_thread,
    names_in,
    read_if_there,
    read_maps,
    stat_fields,
)
from prospect.light import Descriptor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from prospect.capture.machine.mapping_records import MappingRecord

# start_code, start_stack and start_brk of a process's memory: only its forks have the same three.
KEY = struct.Struct("=QQQ")
_KEY_FIELDS = (26, 28, 47)  # proc(5), /proc/pid/stat

# The name of a file that may be a runtime's contains one of these.
PYTHON = b"python3"
WORDS = (PYTHON, b"ruby", b"php", b"node")
# The runtimes that an ordinary user's recorder reads. V8 needs registers and the stack of the
# sample; this reads V8's registers on x86-64 only.
READ_FROM_MEMORY = (CPYTHON, RUBY, PHP) + (V8,) * (os.uname().machine == "x86_64")
_VERSION = b".0123456789"
_PHPS = (b"php", b"php-fpm", b"php-cgi", b"phpdbg")
_NAMED = {b"ruby": RUBY, b"node": V8, b"nodejs": V8} | dict.fromkeys(_PHPS, PHP)
_IN_SCRIPTS = {b"python": CPYTHON, b"ruby": RUBY, b"php": PHP, b"node": V8}
# The kernel reads as much of a script, BINPRM_BUF_SIZE.
_SCRIPT_BYTES = 256
# The time between two looks at idle processes: their age, within bounds.
_SOON_S, _LATER_S = 0.03, 0.25
_LONG_S, _IDLE_S = 60.0, 2.0


def may_be_runtime(path: bytes) -> bool:
    """Return whether a mapped file may be a runtime or its library by its name."""
    return runtime_of(path) >= 0


def runtime_of(path: bytes) -> int:
    """Return the runtime that a file may be by its name (`abi.runtime_frames`), -1 for none.

    Builds of CPython without the global lock end with t (python3.13t), those for debugging with d,
    and those before 3.8 with m.
    """
    if not any(word in path for word in WORDS):
        return -1
    name = path.rpartition(b"/")[2].removesuffix(b" (deleted)")
    stem, shared, _ = name.removeprefix(b"lib").partition(b".so")
    if bool(shared) and not name.startswith(b"lib"):
        return -1
    if stem.startswith(PYTHON):
        version = stem.removeprefix(PYTHON).rstrip(b"tdm")
        return CPYTHON if version.strip(_VERSION) == b"" else -1
    return _NAMED.get(stem.rstrip(_VERSION).rstrip(b"-"), -1)


def image_key(stat: bytes) -> bytes:
    """Return the key of a process from its /proc/pid/stat; empty if that is not readable."""
    fields = stat.rpartition(b") ")[2].split()
    try:
        # The first field after the name is the third.
        return KEY.pack(*(int(fields[number - 3]) for number in _KEY_FIELDS))
    except (IndexError, ValueError, struct.error):
        return b""


def executes_runtime(pid: int) -> bool:
    """Return whether a child has executed a runtime; before, it is the recorder's own Python."""
    try:
        path = os.readlink(b"/proc/%d/exe" % pid)
    except OSError:
        return False
    return may_be_runtime(path) and process_key(pid) != process_key(os.getpid())


def run_from_memory(command: Sequence[str | bytes], pids: Iterable[int] = ()) -> set[int]:
    """Return the runtimes of COMMAND, which may be a script, and of processes.

    Only those in READ_FROM_MEMORY count.
    """
    files = [b"/proc/%d/exe" % pid for pid in pids]
    if command:
        files.append(_found_file(os.fsencode(command[0])))
    return set(READ_FROM_MEMORY) & {_runtime_that_runs(file) for file in files}


def _found_file(name: bytes) -> bytes:
    """Return the file that execvp(3) would execute."""
    if b"/" in name:
        return name
    for directory in os.environb.get(b"PATH", os.fsencode(os.defpath)).split(b":"):
        path = os.path.join(directory or b".", name)
        if os.access(path, os.X_OK):
            return path
    return name


def _runtime_that_runs(path: bytes) -> int:
    """Return the runtime that a file is, or that its first line names; -1 for none."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
    try:
        # This fails for the executable of another user's process.
        runtime = runtime_of(os.path.realpath(path))
        if runtime >= 0:
            return runtime
        with Descriptor(os.open(path, flags)) as fd:
            first, _, _ = os.read(fd, _SCRIPT_BYTES).partition(b"\n")
    except OSError:
        return -1
    named = (runtime for word, runtime in _IN_SCRIPTS.items() if word in first)
    return next(named, -1) if first.startswith(b"#!") else -1


class IdleRuntimes:
    """Watches processes that had mapped a runtime before, until one of them runs."""

    def __init__(self, pids: Iterable[int]) -> None:
        """Watch them, in a child of the recorder."""
        recorder = os.getppid()
        # Forks of the recorder have its key, COMMAND too as long as it has executed nothing.
        own = process_key(recorder)
        self._seen = {pid: _activity(pid) for pid in pids if process_key(pid) != own}
        parents = (stat_fields(f"/proc/{pid}")[1:2] for pid in self._seen)
        self._has_begun = [b"%d" % recorder] in parents
        self._begun = self._due = time.monotonic()

    def has_run(self) -> bool:
        """Return whether one of them has used the CPU or forked since, or is COMMAND."""
        now = time.monotonic()
        if self._has_begun or now < self._due:
            return self._has_begun
        age_s = now - self._begun
        self._due = now + (max(_SOON_S, min(age_s, _LATER_S)) if age_s < _LONG_S else _IDLE_S)
        self._has_begun = any(_has_advanced(pid, seen) for pid, seen in self._seen.items())
        return self._has_begun

    def wait_ms(self) -> int | None:
        """Return the time until the next look, None without processes."""
        if not self._seen:
            return None
        return max(0, int(1000 * (self._due - time.monotonic()))) + 1


class FirstRuntime:
    """Writes to a pipe once, when a runtime runs."""

    def __init__(self, told_fd: int) -> None:
        """Prepare; `told_fd` is the pipe's end, -1 for none."""
        self._told_fd = told_fd
        self._idle: IdleRuntimes | None = None

    def see_before(self, pids: Iterable[int]) -> None:
        """Watch processes that had mapped a runtime before."""
        if self._told_fd >= 0:
            self._idle = IdleRuntimes(pids)

    def look(self, mappings: Iterable[MappingRecord], *, is_all: bool) -> None:
        """Look at new mappings, without some if not `is_all`, and at processes from before."""
        if self._told_fd < 0:
            return
        runs = not is_all or (self._idle is not None and self._idle.has_run())
        if runs or any(may_be_runtime(mapping.path) for mapping in mappings):
            os.write(self._told_fd, b"!")
            self._told_fd = -1

    def wait_ms(self) -> int | None:
        """Return the time until the next look, None if there is none."""
        return self._idle.wait_ms() if self._idle and self._told_fd >= 0 else None


def _has_advanced(pid: int, seen: tuple[int, frozenset[bytes]]) -> bool:
    """Return whether a process has used another clock tick of the CPU, or has new children.

    A kernel without CONFIG_PROC_CHILDREN does not list children.
    """
    ticks, children = _activity(pid)
    return ticks > seen[0] or not children <= seen[1]


def _activity(pid: int) -> tuple[int, frozenset[bytes]]:
    """Return the clock ticks that a process has used, fields 14 and 15, and its children."""
    ticks = sum(map(int, stat_fields(f"/proc/{pid}")[11:13]))
    directory = f"/proc/{pid}/task"
    children: set[bytes] = set()
    for tid in names_in(directory):
        children.update(read_if_there(f"{directory}/{tid}/children").split())
    return ticks, frozenset(children)


def process_key(pid: int) -> bytes:
    """Return the key of a process, even if its main thread has ended."""
    stat = read_if_there(f"/proc/{pid}/stat")
    if stat.rpartition(b") ")[2][:1] == b"Z":
        stat = read_if_there(f"/proc/{living_thread(pid)}/stat")
    return image_key(stat)


JVM = b"/libjvm.so"
PID = struct.Struct("=I")
# A JVM has a dozen threads before it runs a program.
_LEAST_THREADS = 8
_THREADS_FIELD = 17  # of /proc/pid/stat, counted from the third
_DELETED = b" (deleted)"


def is_jvm(path: bytes) -> bool:
    """Return whether a mapped file is HotSpot's library by its name."""
    return path.removesuffix(_DELETED).endswith(JVM)


class JvmNews:
    """Sends the processes that map a JVM to the reader of their functions."""

    def __init__(self, news_fd: int) -> None:
        """Prepare; `news_fd` is a pipe's end that does not block, -1 for none."""
        self._fd = news_fd

    def see_before(self, pids: Iterable[int]) -> None:
        """Send processes that had mapped one before."""
        for pid in pids:
            self._send(pid)

    def look(self, mappings: Iterable[MappingRecord]) -> None:
        """Look at new mappings."""
        if self._fd >= 0:
            for pid in {one.pid for one in mappings if is_jvm(one.path)}:
                self._send(pid)

    def _send(self, pid: int) -> None:
        if self._fd < 0:
            return
        try:
            os.write(self._fd, PID.pack(pid))
        except BlockingIOError:
            return  # the reader looks through /proc as well
        except OSError:
            self._fd = -1  # it has ended


def jvm_base(pid: int) -> int:
    """Return the address of a JVM's library in a process, 0 for none."""
    try:
        text = read_maps(pid, most_bytes=MOST_JVM_MAP_BYTES)
    except OSError:
        return 0
    at = text.find(JVM)
    if at < 0:
        return 0
    # The first mapping of the library has its headers.
    for line in text[text.rfind(b"\n", 0, at) + 1 :].splitlines():
        if is_jvm(line):
            begin, _, _ = line.partition(b"-")
            fields = line.split(None, 5)
            return int(begin, 16) if fields[2].strip(b"0") == b"" else 0
    return 0


class NewProcesses:
    """Finds processes that may be JVMs, each once it has as many threads as a JVM has."""

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def look(self) -> list[int]:
        """Return such processes that were not returned before."""
        pids = set(list_pids())
        self._seen &= pids
        found = [pid for pid in pids - self._seen if _threads(pid) >= _LEAST_THREADS]
        self._seen.update(found)
        return found


def _threads(pid: int) -> int:
    fields = stat_fields(f"/proc/{pid}")
    return int(fields[_THREADS_FIELD]) if len(fields) > _THREADS_FIELD else 0
