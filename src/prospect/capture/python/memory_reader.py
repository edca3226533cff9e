"""Frames for users who may not load eBPF programs: read from memory, after each sample.

The recorder's loop calls `MemoryFrames.look` when samples have arrived. It reads the frames of each
sampled thread, and inserts before the sample the record that the walker would have written. The
recorder itself reads, not a child of it: if Yama restricts ptrace(2), a process may only read the
memory of its descendants.

`memory_walk` reads CPython's frames; `v8.sampled_stacks` reads V8's, from the copies in samples;
`runtimes.memory_machine` reads those of other runtimes, with the instructions for the kernel.

The thread may have gone on since the sample, so this is less exact than the walker. The delay is
measured, and the CPU time for it is bounded.

Defined by: `abi.runtime_frames`; ``include/uapi/linux/perf_event.h`` for the records.
"""

from __future__ import annotations

import errno
import math
import struct
import time

from prospect.abi import constants as abi
from prospect.abi import runtime_frames as wire
from prospect.abi.record_layout import HEADER, layout_of
from prospect.capture.capture_limits import MOST_NAMED_CODE, MOST_NEW_NAMES, MOST_READING_NS
from prospect.capture.kernel.own_process import SHORTEST_SLICE_NS, ask_for_slice
from prospect.capture.python.interpreters import layouts_of
from prospect.capture.python.sampled_processes import SampledProcesses
from prospect.capture.runtimes.image_entry import image_record
from prospect.capture.runtimes.known_runtimes import walk_of
from prospect.capture.runtimes.memory_machine import MemoryMachine
from prospect.capture.runtimes.name_bounds import NAME_COST, OF_IMAGE, Room
from prospect.capture.runtimes.process_memory import UnreadableError
from prospect.capture.runtimes.runtime_reader import left_out
from prospect.capture.runtimes.walk_state import WalkState
from prospect.light import Closing, monotonic_ns
from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from prospect.abi.attr import EventAttr
    from prospect.abi.cpython import CodeLayout
    from prospect.capture.events.cpu_events import EventSet
    from prospect.capture.kernel.rings import Ring
    from prospect.capture.python.memory_walk import Codes, FrameReader
    from prospect.capture.python.sampled_processes import SampledProcess
    from prospect.capture.runtimes.process_memory import ProcessMemory
    from prospect.capture.v8.sampled_stacks import SampleReader, StackWalker

# CPU time for all this, as a share of one CPU.
_SHARE = 0.1
_LONGEST_REST_S = 0.005
# A reading that is later than this, or of a thread that waits by then, may show other frames than
# the sample's: the sample gets the frames of an earlier reading, if that is not too old.
_SOON_NS, _EARLIER_NS = 500_000, 100_000_000
# Without an earlier one, a sample gets the frames of a reading that is at most so much later.
_LATEST_NS = 50_000_000
# The time between two looks at the rings if the kernel does not wake the reader at each sample.
_LOOK_MS = 2
_USER = 1
_HEADER = struct.Struct("=" + HEADER)
_TASKS = struct.Struct("=IIII")
_WORD = struct.Struct("=Q")
_ID_OFFSET = 8
_PADDED = 8
_MOST_WALK_NS = (1 << 32) - 1
_DELAYS_AN_OCTAVE, _MOST_DELAY_BITS = 4, 40
# Fewer samples without functions are not worth a note.
_LEAST_SAMPLES, _LEAST_SHARE = 10, 0.02
_LESS_EXACT = (
    "{languages} functions were read from memory {delay} after each sample (median), which is less"
    " exact than in the sample itself: that takes eBPF (root, or CAP_BPF and CAP_PERFMON)."
)
_WITHOUT_COPIES = (
    "JavaScript functions: samples without them, because they have no copies of the stack"
    " (--call-graph auto): {}."
)


class _Sample(NamedTuple):
    """A new sample: its place in a ring, and among the records that were read."""

    pid: int
    tid: int
    time_ns: int
    cpu: int
    ring: Ring
    position: int
    attr: EventAttr
    records: bytes
    at: int


class _Budget:
    """CPU time that may be used: a share of the time that passes."""

    def __init__(self) -> None:
        self._left_ns = float(MOST_READING_NS)
        self._at_ns = monotonic_ns()

    def use(self, used_ns: int) -> None:
        """Count what was used."""
        self._left_ns -= used_ns

    def missing_ns(self) -> float:
        """Return the time that is missing before more may be used; 0 or less if some is left."""
        now_ns = monotonic_ns()
        self._left_ns = min(MOST_READING_NS, self._left_ns + _SHARE * (now_ns - self._at_ns))
        self._at_ns = now_ns
        return -self._left_ns


class _Delays:
    """The delays from samples to the reading of their threads: counts by logarithm."""

    def __init__(self) -> None:
        self._counts = [0] * (_DELAYS_AN_OCTAVE * _MOST_DELAY_BITS)

    def add(self, delay_ns: int) -> None:
        """Count one."""
        place = int(_DELAYS_AN_OCTAVE * math.log2(max(1, delay_ns)))
        self._counts[min(place, len(self._counts) - 1)] += 1

    def median_ns(self) -> float:
        """Return the median, to 10%; 0 without delays."""
        below, half = 0, sum(self._counts) / 2
        for place, count in enumerate(self._counts):
            below += count
            if count and below >= half:
                return float(2 ** ((place + 0.5) / _DELAYS_AN_OCTAVE))
        return 0.0


class MemoryFrames(Closing):
    """Reads frames for the samples of one recording."""

    def __init__(self, events: EventSet) -> None:
        """Prepare."""
        self._events = events
        self._polls = not events.plan.wakes_at_samples
        self._state = WalkState()
        self._processes = SampledProcesses(self._state)
        self._names: dict[int, NameReader] = {}
        self._machines: dict[int, MemoryMachine] = {}
        self._v8: SampleReader | None = None
        self._without_copies = 0
        self._images: dict[int, int] = {}
        self._runtimes: set[int] = set()
        self._described: set[int] = set()
        self._names_again_ns = 0
        self._budget = _Budget()
        self._delays = _Delays()
        self._unread = self._sampled = 0
        self._places: dict[int, tuple[int, int, EventAttr]] = {}
        (self._frames,) = (
            one for one in events.descriptions() if wire.is_frames_event(one.attr, one.name)
        )
        self._fields = tuple(layout_of(self._frames.attr).sample)
        ask_for_slice(SHORTEST_SLICE_NS)

    def look(self) -> None:
        """Read the frames of the threads that were sampled since the last look."""
        begun_ns = time.thread_time_ns()
        samples: list[_Sample] = []
        for cpu, ring in self._events.rings():
            position, records = ring.unseen()
            if records:
                self._look_through(cpu, ring, position, records, samples)
        threads: dict[tuple[int, int], list[_Sample]] = {}
        for sample in samples:
            threads.setdefault((sample.pid, sample.tid), []).append(sample)
        for (pid, tid), taken in threads.items():
            if self._budget.missing_ns() > 0:
                unread = len(taken) * self._processes.may_be_runtime(pid)
                self._unread += unread
                self._sampled += unread
                continue
            process = self._processes.of(pid)
            if process and process.v8:
                self._read_copies(process, process.v8, tid, taken)
            elif process:
                self._read(process, tid, taken)
            used_ns = time.thread_time_ns()
            self._budget.use(used_ns - begun_ns)
            begun_ns = used_ns
        self._budget.use(time.thread_time_ns() - begun_ns)

    def rest(self) -> None:
        """Sleep for a moment if too much CPU time was used."""
        missing_ns = self._budget.missing_ns()
        if missing_ns > 0:
            time.sleep(min(_LONGEST_REST_S, missing_ns / _SHARE / 1e9))

    def wait_ms(self) -> int | None:
        """Return the longest time until the next look; None if each sample wakes the reader."""
        return _LOOK_MS if self._polls else None

    @property
    def limits(self) -> list[str]:
        """Sentences on what could not be read so far."""
        return self.limits_since({})

    @property
    def counts(self) -> dict[str, int]:
        """Counts of what was left out so far, for `limits_since`."""
        refused = {image: names.refused for image, names in self._names.items()}
        for image, runtime in self._images.items():
            refused[image] = self._machines[runtime].refused(image)
        refused |= self._v8.refused if self._v8 else {}
        if total := sum(refused.values()):
            most = max(refused, key=lambda image: refused[image])
            self._state.refused(total, self._processes.pid_of(most))
        unread = {"unread": self._unread, "without_copies": self._without_copies}
        return self._state.counts | unread

    def limits_since(self, counts: Mapping[str, int]) -> list[str]:
        """Return these sentences, without what earlier `counts` have."""
        said = []
        if median_ns := self._delays.median_ns():
            languages = _languages(self._runtimes - {wire.V8})
            said.append(_LESS_EXACT.format(languages=languages, delay=_in_words(median_ns)))
        unread = self.counts["unread"] - counts.get("unread", 0)
        if unread > max(_LEAST_SAMPLES, _LEAST_SHARE * self._sampled):
            said.append(
                f"{_languages(self._runtimes)} functions: samples without them, because they could"
                " not be read in time, or with the CPU time that may be used:"
                f" {unread} (at most {_SHARE:.0%} of a CPU)."
            )
        if without := self.counts["without_copies"] - counts.get("without_copies", 0):
            said.append(_WITHOUT_COPIES.format(without))
        said += self._processes.refusals
        return said + left_out(self._state, counts)

    @property
    def pids(self) -> list[int]:
        """The processes that work for it."""
        return [pid for pid in (self._state["reader"],) if pid]

    @property
    def used_s(self) -> tuple[float, float]:
        """User and system time of those that have ended."""
        return self._processes.used_s

    @property
    def dropped_share(self) -> float:
        """The part of the samples that this loses: none."""
        return 0.0

    @property
    def is_attached(self) -> bool:
        """Whether the kernel writes records: no."""
        return False

    def stop(self) -> None:
        """Do nothing: `finish` takes a moment."""

    def finish(self) -> None:
        """End the child that reads files."""
        self._processes.close()

    def close(self) -> None:
        """Leave nothing behind."""
        ask_for_slice(0)
        self._processes.close()

    def _look_through(
        self, cpu: int, ring: Ring, position: int, records: bytes, samples: list[_Sample]
    ) -> None:
        """Append the samples among some records; follow processes by the others."""
        at = 0
        while at + _HEADER.size <= len(records):
            kind, misc, size = _HEADER.unpack_from(records, at)
            if size < _HEADER.size:
                return
            if kind == abi.PERF_RECORD_SAMPLE:
                places = self._places_of(records, at)
                if places:
                    pid, tid = struct.unpack_from("=II", records, at + places[0])
                    (time_ns,) = _WORD.unpack_from(records, at + places[1])
                    where = cpu, ring, position + at, places[2], records, at
                    samples.append(_Sample(pid, tid, time_ns, *where))
            elif kind in (abi.PERF_RECORD_FORK, abi.PERF_RECORD_EXIT):
                pid, parent, tid, _ = _TASKS.unpack_from(records, at + _HEADER.size)
                if kind == abi.PERF_RECORD_EXIT:
                    self._processes.ended(pid, tid)
                elif pid != parent:
                    self._processes.forked(pid, parent)
            elif kind == abi.PERF_RECORD_COMM and misc & abi.PERF_RECORD_MISC_COMM_EXEC:
                (pid,) = struct.unpack_from("=I", records, at + _HEADER.size)
                self._processes.executed(pid)
            elif kind == abi.PERF_RECORD_MMAP2:
                (pid,) = struct.unpack_from("=I", records, at + _HEADER.size)
                self._processes.mapped(pid, records[at : at + size])
            at += size

    def _places_of(self, records: bytes, at: int) -> tuple[int, int, EventAttr] | None:
        """Return the places of a sample's thread and time, and its event; None if it has none."""
        (number,) = _WORD.unpack_from(records, at + _ID_OFFSET)
        if number not in self._places:
            # This is the first sample, or a CPU has come online.
            for event in self._events.descriptions():
                fields = layout_of(event.attr).sample
                place = 8 * fields.get("tid", 0), 8 * fields.get("time", 0), event.attr
                self._places.update(dict.fromkeys(event.ids, place))
        found = self._places.get(number)
        return found if found and all(found[:2]) else None

    def _read(self, process: SampledProcess, tid: int, samples: list[_Sample]) -> None:
        self._send_again()
        try:
            read_ns, (*names, stack) = self._records_of(process, tid)
        except OSError as error:
            if error.errno in (errno.EPERM, errno.EACCES):
                self._processes.refused(process.pid)
            return
        self._runtimes.add(process.placed.runtime)
        runs = process.runs(tid)
        for sample in samples:
            delay_ns = read_ns - sample.time_ns
            self._delays.add(delay_ns)
            found: bytes | None = stack
            if delay_ns > _SOON_NS or not runs:
                before_ns, found = process.before.get(tid, (0, b""))
                if sample.time_ns - before_ns > _EARLIER_NS:
                    found = stack if delay_ns <= _LATEST_NS else None
            else:
                process.note(tid, sample.time_ns, stack)
            self._unread += found is None
            self._sampled += 1
            payloads = names if found is None else [*names, found]
            records = b"".join(self._record(one, sample) for one in payloads)
            sample.ring.insert(sample.position, records)
            names = []

    def _read_copies(
        self, process: SampledProcess, walker: StackWalker, tid: int, samples: list[_Sample]
    ) -> None:
        """Read a thread's frames for each of its samples, from their copies."""
        if self._v8 is None:
            from prospect.capture.v8.sampled_stacks import SampleReader  # noqa: PLC0415 - once V8 is met

            self._v8 = SampleReader()
        self._send_again()
        for sample in samples:
            copied = self._v8.copied(sample.attr, sample.records, sample.at)
            self._sampled += 1
            if copied is None:
                self._without_copies += 1
                continue
            try:
                payloads = self._v8.read(walker, tid, copied)
            except OSError as error:
                if error.errno in (errno.EPERM, errno.EACCES):
                    self._processes.refused(process.pid)
                    return
                self._unread += 1
                continue
            self._runtimes.add(wire.V8)
            records = b"".join(self._record(one, sample) for one in payloads)
            sample.ring.insert(sample.position, records)

    def _records_of(self, process: SampledProcess, tid: int) -> tuple[int, list[bytes]]:
        """Return the time of reading, and the records as the walker writes them, the stack last."""
        own_tid = process.own_tid(tid)
        if process.python:
            return self._python_records(process, process.python, own_tid)
        runtime, image = process.placed.runtime, process.image
        if runtime not in self._machines:
            self._machines[runtime] = MemoryMachine(walk_of(runtime))
        self._images[image] = runtime
        pointer = process.pointers.of(own_tid) if runtime in (wire.RUBY, wire.PHP) else 0
        # The innermost frame is read first. Walks of deep stacks end later: with the time of their
        # ends they would be left out more often.
        read_ns = monotonic_ns()
        found = self._machines[runtime].walk(
            image, process.placed, process.memory, (process.pid, tid), pointer
        )
        if not found:
            raise UnreadableError
        return read_ns, found

    def _python_records(
        self, process: SampledProcess, python: FrameReader, tid: int
    ) -> tuple[int, list[bytes]]:
        begun_ns = monotonic_ns()
        walk = python.walk(tid)
        took_ns = min(monotonic_ns() - begun_ns, _MOST_WALK_NS)
        head = wire.HEADER.pack(
            *(wire.MAGIC, wire.KIND_STACK, walk.status, len(walk.rows)),
            *(took_ns, process.image, 0, 0),
        )[: wire.STACK_BYTES]
        names = self._names.get(process.image)
        if names is None:
            layout = layouts_of(process.placed).code
            names = self._names[process.image] = NameReader(process.image, layout)
        records = names.read(process.memory, walk.codes)
        if process.image not in self._described:
            self._described.add(process.image)
            records.insert(0, image_record(process.image, process.placed, _USER))
        return walk.read_ns, [*records, head + b"".join(walk.rows)]

    def _send_again(self) -> None:
        """Forget from time to time which names were recorded, so that they are recorded again."""
        now_ns = monotonic_ns()
        if now_ns >= self._names_again_ns:
            self._names_again_ns = now_ns + wire.SENT_AGAIN_S * 1_000_000_000
            for names in self._names.values():
                names.forget()
            for machine in self._machines.values():
                machine.forget()
            if self._v8:
                self._v8.forget()
            self._described.clear()

    def _record(self, payload: bytes, sample: _Sample) -> bytes:
        """Return a sample of the event of Python frames, as the kernel would write it."""
        room = wire.LEAST_RECORD_BYTES - _HEADER.size - len(self._fields) * _WORD.size
        size = max(-(-(len(payload) + 4) // _PADDED) * _PADDED, room) - 4
        raw = size.to_bytes(4, "little") + payload.ljust(size, b"\0")
        facts = {
            "identifier": self._events.python_id(sample.cpu),
            "tid": sample.pid | sample.tid << 32,
            "time": sample.time_ns,
            "cpu": sample.cpu,
        }
        words = b"".join(_WORD.pack(facts[name]) for name in self._fields)
        length = _HEADER.size + len(words) + len(raw)
        type_ = self._events.frames_type
        head = _HEADER.pack(type_, abi.PERF_RECORD_MISC_USER, length)
        return head + words + raw


def _languages(runtimes: set[int]) -> str:
    *others, last = (wire.LANGUAGES[one] for one in sorted(runtimes or {wire.CPYTHON}))
    return f"{', '.join(others)} and {last}" if others else last


def _in_words(time_ns: float) -> str:
    if time_ns < 1_000_000:
        return f"{time_ns / 1000:.0f} µs"
    return f"{time_ns / 1_000_000:.1f} ms"


# Defined by: `abi.cpython`; ``Include/cpython/unicodeobject.h`` of CPython for the state of a
# str.

_KIND_SHIFT, _KIND_MASK, _ASCII = 2, 7, 64
_KINDS = (1, 2, 4)  # bytes a character
_HEAD_BYTES = 24  # of a str: its length, its hash, its state
_HEAD = struct.Struct("<QQQ")
_PARTS = ((wire.KIND_NAME, wire.MOST_NAME_BYTES), (wire.KIND_FILE, wire.MOST_FILE_BYTES))


class NameReader:
    """Reads names, files and lines of one interpreter's code objects, when they are first met.

    Forked processes share it. Its records and their bounds are those of the walker in the kernel.
    """

    def __init__(self, image: int, layout: CodeLayout) -> None:
        self._image = image
        self._layout = layout
        self._known: set[tuple[int, int]] = set()
        self._room = Room(OF_IMAGE)
        self.refused = 0

    def forget(self) -> None:
        """Read the names of all code objects again at their next samples."""
        self._known.clear()

    def read(self, memory: ProcessMemory, codes: Codes) -> list[bytes]:
        """Return records on the new code objects among `codes`."""
        new = [code for code, (tag, _) in codes.items() if (code, tag) not in self._known]
        found: list[bytes] = []
        for number, code in enumerate(new[:MOST_NEW_NAMES]):
            if self._room.is_full():
                self.refused += len(new) - number
                break
            tag, beginning = codes[code]
            try:
                records = self._records(memory, code, tag, _WORD.unpack(beginning)[0])
            except UnreadableError:
                continue  # it is gone, or is another object
            self._room.fill(NAME_COST + sum(map(len, records)))
            found += records
            if len(self._known) >= MOST_NAMED_CODE:
                self._known.clear()
            self._known.add((code, tag))
        return found

    def _records(
        self, memory: ProcessMemory, code: int, signature: int, beginning: int
    ) -> list[bytes]:
        layout = self._layout
        fields = [(code + offset, 8) for offset in (layout.name, layout.file, layout.lines)]
        places = [_WORD.unpack(one)[0] for one in memory.read_pieces(fields)]
        heads = [
            _HEAD.unpack(one)
            for one in memory.read_pieces([(one + layout.length, _HEAD_BYTES) for one in places])
        ]
        texts: list[tuple[int, int, bytes]] = []
        for (kind, most), place, (length, _, state) in zip(_PARTS, places[:2], heads, strict=False):
            texts.append((kind, *self._text(memory, place, length, state, most)))
        place, (length, *_) = places[2], heads[2]
        size = min(length, wire.MOST_LINES_BYTES)
        lines = memory.read(place + layout.bytes, size) if size else b""
        texts.append((wire.KIND_LINES, 1 | wire.CUT * (size < length), lines))
        facts = signature, self._image, code, beginning
        return [
            wire.HEADER.pack(wire.MAGIC, kind, status, len(text), *facts) + text
            for kind, status, text in texts
        ]

    def _text(
        self, memory: ProcessMemory, place: int, length: int, state: int, most: int
    ) -> tuple[int, bytes]:
        """Return the `status` of a str's record, and its text."""
        state >>= self._layout.state_shift
        width = state >> _KIND_SHIFT & _KIND_MASK
        if width not in _KINDS:
            raise UnreadableError
        status, begin = width, self._layout.compact
        if state & _ASCII:
            status, begin = width | wire.IS_ASCII, self._layout.ascii
        size = length * width
        if size > most:
            status, size = status | wire.CUT, most
        return status, memory.read(place + begin, size) if size else b""
