"""How time and memory of ``prospect report`` grow with samples and with processes.

    python benchmarks/scale.py [--quick] [--repeats N]

Recordings are made up: the objects are those that this interpreter has mapped, at other addresses
in each process, beside the kernel's text; hits fall as on real programs, most of them on few
addresses. First the samples grow (a fixed number of processes), then the processes: each is
forked, execs, maps ten objects, is hit some times and exits, and process ids come round again.

Each figure is of a whole ``prospect report --format csv``, symbol tables cached: processor seconds
(median) and peak memory. `further` is what one more sample or process costs beyond the row above,
free of the start-up that all rows share; where it stays the same, time grows in proportion.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from prospect.abi import constants as abi
from prospect.abi.attr import EventAttr, EventDescription
from prospect.abi.recorded_facts import RecordingInfo
from prospect.perfdata.writer import RecordingWriter

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from builders.perfdata import MISC_KERNEL, MISC_USER, USUAL, RecordBuilder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

SAMPLES = (10_000, 100_000, 1_000_000, 10_000_000)
PROCESSES = (1_000, 10_000, 100_000)
REPEATS = 3
CSV = ("--format", "csv")
# A row whose further cost is this much above that of the row before it is marked.
TOLERANCE = 1.25

SAMPLED_PROCESSES = 200
SAMPLES_OF_A_PROCESS = 20
CPUS = 4
PERIOD_NS = 1_000_000
LIFE_NS = 50_000_000
KERNEL_SHARE = 0.3
RUN_SAMPLES = 12  # samples of one task before another has the CPU
ROUND_SAMPLES = 2_000  # samples of all CPUs between two drains of the buffers
HOT_EXPONENT = 1.3
MAPPINGS = 10
FIRST_PID = 300
PIDS = 30_000  # then they come round, as with the usual pid_max
PIECE = 1 << 20  # samples that are made at once

RECORDS = RecordBuilder(USUAL)
FLAGS = abi.FLAG_FREQ | abi.FLAG_SAMPLE_ID_ALL
EVENT = EventDescription(
    EventAttr(sample_period=1_000_000_000 // PERIOD_NS, sample_type=USUAL, flags=FLAGS),
    ids=(1,),
    name="cpu-clock",
)

# What stands in a record behind its header; side records end in TAIL (sample_id).
# Source: include/uapi/linux/perf_event.h, enum perf_event_type.
SAMPLE = [
    ("id", "u8"),
    ("ip", "u8"),
    ("pid", "u4"),
    ("tid", "u4"),
    ("time", "u8"),
    ("cpu", "u8"),
    ("period", "u8"),
]
FORK = [("pid", "u4"), ("ppid", "u4"), ("tid", "u4"), ("ptid", "u4"), ("time", "u8")]
COMM = [("pid", "u4"), ("tid", "u4"), ("name", "V8")]
MMAP2 = [("pid", "u4"), ("tid", "u4"), ("start", "u8"), ("rest", "V48")]
TAIL = [
    ("tail_pid", "u4"),
    ("tail_tid", "u4"),
    ("tail_time", "u8"),
    ("tail_cpu", "u8"),
    ("tail_id", "u8"),
]
HEADER_BYTES = 8
MMAP2_BYTES = HEADER_BYTES + np.dtype(MMAP2).itemsize + np.dtype(TAIL).itemsize


class Mapping(NamedTuple):
    """An executable mapping of this process, as /proc/self/maps has it."""

    start: int
    length: int
    pgoff: int
    inode: int
    device: tuple[int, int]
    path: str


class Series(NamedTuple):
    """What grows, in which unit a piece of it is given (a second's worth), and what is run."""

    what: str
    scale: float
    sizes: tuple[int, ...]
    write: Callable[[Path, int], None]
    options: tuple[str, ...]


class Row(NamedTuple):
    """Cost of one report."""

    size: int
    megabytes: float
    seconds: float
    peak_mb: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="leave out the largest sizes")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    arguments = parser.parse_args()
    samples, processes = SAMPLES, PROCESSES
    if arguments.quick:
        samples, processes = samples[:-1], processes[:-1]
    everything = (*CSV, "-m", "0", "-k", "0")
    for series in (
        Series("sample", 1e9, samples, write_samples, CSV),
        Series("process", 1e6, processes, write_processes, CSV),
        Series("process", 1e6, processes, write_processes, everything),
    ):
        print_growth(series, arguments.repeats)


def print_growth(series: Series, repeats: int) -> None:
    """Print a table with a row for each size."""
    unit = {1e9: "ns", 1e6: "us"}[series.scale]
    print(f"\nprospect report {' '.join(series.options)}")
    print(
        f"{series.what:>10} {'MB':>6} {'CPU s':>7} {'peak MB':>8} {'size x':>7} {'time x':>7}"
        f"  {f'further {unit}/{series.what}':>18}"
    )
    before: Row | None = None
    further_before = 0.0
    for size in series.sizes:
        row = measure(series, size, repeats)
        line = f"{size:10,} {row.megabytes:6.0f} {row.seconds:7.2f} {row.peak_mb:8.0f}"
        if before:
            further = (row.seconds - before.seconds) / (size - before.size) * series.scale
            grown = row.seconds / before.seconds
            line += f" {size / before.size:7.1f} {grown:7.1f} {further:19.0f}"
            if further_before and further > further_before * TOLERANCE:
                line += f"  {further / further_before:.1f} times that of the row above"
            further_before = further
        print(line, flush=True)
        before = row


def measure(series: Series, size: int, repeats: int) -> Row:
    """Write a recording, report on it some times, and remove it."""
    with tempfile.TemporaryDirectory() as scratch:
        recording = Path(scratch) / "perf.data"
        # Linux counts the memory of whoever starts a process to the process's own peak.
        writing = multiprocessing.get_context("fork").Process(
            target=series.write, args=(recording, size)
        )
        writing.start()
        writing.join()
        if writing.exitcode:
            sys.exit(f"cannot write a recording of {size} pieces")
        command = [sys.executable, "-m", "prospect", "report", *series.options, str(recording)]
        run(command)  # fills the cache of symbol tables
        runs = [run(command) for _ in range(repeats)]
        return Row(
            size,
            recording.stat().st_size / 1e6,
            statistics.median(seconds for seconds, _ in runs),
            max(peak for _, peak in runs),
        )


def run(command: list[str]) -> tuple[float, float]:
    """Return the processor seconds and the peak memory (MB) of a command that must succeed."""
    null = os.open(os.devnull, os.O_WRONLY)
    pid = os.posix_spawn(
        command[0], command, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, null, 1)]
    )
    _, status, usage = os.wait4(pid, 0)
    os.close(null)
    if status:
        sys.exit(f"{' '.join(command)}: status {os.waitstatus_to_exitcode(status)}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / 1e6


def write_samples(path: Path, samples: int) -> None:
    """Write `samples` samples of a fixed number of processes that live all the time."""
    mappings = own_mappings()
    pid = np.arange(FIRST_PID, FIRST_PID + SAMPLED_PROCESSES)
    birth_ns = np.arange(SAMPLED_PROCESSES) * 1_000 + 1
    births = side_by_side(birth_records(mappings, pid, birth_ns))
    ends = exit_records(pid, birth_ns + LIFE_NS + samples * PERIOD_NS // CPUS)
    write_recording(path, (kernel_record(), births), sample_pieces(mappings, samples), ends)


def write_processes(path: Path, processes: int) -> None:
    """Write short-lived processes, forty of them alive at a time."""
    mappings = own_mappings()
    number = np.arange(processes)
    pid = FIRST_PID + number % PIDS
    birth_ns = number * (LIFE_NS // 40) + 1
    each = np.repeat(number, SAMPLES_OF_A_PROCESS)
    turn = np.tile(np.arange(SAMPLES_OF_A_PROCESS), processes)
    time_ns = birth_ns[each] + 100_000 + turn * (LIFE_NS // SAMPLES_OF_A_PROCESS)
    random = np.random.default_rng(2)
    hits = sample_records(mappings, pid[each], time_ns, each % CPUS, random)
    ends = exit_records(pid, birth_ns + LIFE_NS + 200_000)
    lives = [*birth_records(mappings, pid, birth_ns), hits.reshape(processes, -1), ends]
    write_recording(path, (kernel_record(),), iter([side_by_side(lives)]), b"")


def write_recording(
    path: Path,
    head: tuple[bytes | NDArray[np.generic], ...],
    pieces: Iterator[NDArray[np.generic]],
    tail: bytes | NDArray[np.generic],
) -> None:
    """Write a file whose data section is what `head`, `pieces` and `tail` hold, in this order."""
    info = RecordingInfo(
        hostname=os.uname().nodename,
        os_release=os.uname().release,
        arch=os.uname().machine,
        cpus_online=CPUS,
        cpus_available=CPUS,
    )
    with path.open("wb", buffering=0) as file:
        writer = RecordingWriter(file.fileno(), [EVENT])
        for part in (*head, *pieces, tail):
            file.write(part if isinstance(part, bytes) else part.tobytes())
        writer.finish(info, [EVENT])


def own_mappings() -> list[Mapping]:
    """Return the largest executable mappings of files in this process."""
    mappings = []
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, access, pgoff, device, inode, *path = line.split(maxsplit=5)
        if "x" in access and path and path[0].startswith("/"):
            start, end = (int(address, 16) for address in span.split("-"))
            major, minor = (int(number, 16) for number in device.split(":"))
            mappings.append(
                Mapping(start, end - start, int(pgoff, 16), int(inode), (major, minor), path[0])
            )
    return sorted(mappings, key=lambda mapping: -mapping.length)[:MAPPINGS]


def kernel_text() -> tuple[int, int]:
    """Return first and last address of the kernel's text, made up where they are hidden."""
    bounds = {}
    for line in Path("/proc/kallsyms").read_text().splitlines():
        address, _, name = line.split(maxsplit=2)
        if name in ("_text", "_etext"):
            bounds[name] = int(address, 16)
    first = bounds.get("_text") or 0xFFFFFFFF81000000
    return first, bounds.get("_etext") or first + (16 << 20)


def kernel_record() -> bytes:
    first, last = kernel_text()
    name = "[kernel.kallsyms]_text"
    return RECORDS.mmap(-1, 0, first, last - first, name, pgoff=first, misc=MISC_KERNEL)


def address_shift(pid: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where address space layout randomisation moves the mappings of each process."""
    return (pid * 7919 % (1 << 20)) << 12


def copies(
    template: bytes, body: list[tuple[str, str]], rows: int, **columns: object
) -> NDArray[np.void]:
    """Return `rows` copies of a record, each with fields of its own.

    Args:
        template: the record, whose other fields stay as they are.
        body: name and type of what stands between the record's header and its tail.
        rows: how many.
        columns: values of fields, an array or one for all.
    """
    layout = np.dtype([("header", "u8"), *body])
    if layout.itemsize < len(template):
        layout = np.dtype([("header", "u8"), *body, *TAIL])
    records = np.frombuffer(template * rows, layout).copy()
    for name, column in columns.items():
        records[name] = column
    return records


def side_by_side(columns: list[NDArray[np.void]]) -> NDArray[np.uint8]:
    """Return the bytes of several records of each process, process by process."""
    rows = len(columns[0])
    return np.concatenate([column.view(np.uint8).reshape(rows, -1) for column in columns], axis=1)


def birth_records(
    mappings: list[Mapping], pid: NDArray[np.int64], birth_ns: NDArray[np.int64]
) -> list[NDArray[np.void]]:
    """Return fork, comm by exec and the mappings, each an array with a record for a process."""
    rows = len(pid)
    fork = RECORDS.fork(0, FIRST_PID - 1, id=1)
    comm = RECORDS.comm(0, 0, "program", is_exec=True, id=1)
    tail = {"tail_pid": pid, "tail_tid": pid}
    records = [
        copies(fork, FORK, rows, pid=pid, tid=pid, time=birth_ns, tail_time=birth_ns),
        copies(comm, COMM, rows, pid=pid, tid=pid, tail_time=birth_ns + 10_000, **tail),
    ]
    shift = address_shift(pid)
    for number, mapping in enumerate(mappings):
        template = RECORDS.mmap2(
            0,
            0,
            0,
            mapping.length,
            mapping.path,
            pgoff=mapping.pgoff,
            device=mapping.device,
            inode=mapping.inode,
            id=1,
        )
        start = mapping.start - shift
        time_ns = birth_ns + 20_000 + number * 1_000
        tail["tail_time"] = time_ns
        body = [*MMAP2, ("name", f"V{len(template) - MMAP2_BYTES}")]
        records.append(copies(template, body, rows, pid=pid, tid=pid, start=start, **tail))
    return records


def exit_records(pid: NDArray[np.int64], time_ns: NDArray[np.int64]) -> NDArray[np.void]:
    """Return the end of each process."""
    template = RECORDS.exit(0, FIRST_PID - 1, id=1)
    own = {"pid": pid, "tid": pid, "tail_pid": pid, "tail_tid": pid}
    return copies(template, FORK, len(pid), time=time_ns, tail_time=time_ns, **own)


def sample_pieces(mappings: list[Mapping], samples: int) -> Iterator[NDArray[np.void]]:
    """Yield samples of all the processes, piece by piece, in the order of a drained recording."""
    random = np.random.default_rng(1)
    for first in range(0, samples, PIECE):
        number = np.arange(first, min(first + PIECE, samples))
        runs = random.integers(0, SAMPLED_PROCESSES, len(number) // RUN_SAMPLES + CPUS)
        cpu = number % CPUS
        # Each CPU has a run of its own.
        run = (number - first) // (CPUS * RUN_SAMPLES) * CPUS + cpu
        # Within a round a buffer is read to its end, then the next: times jump back.
        order = np.lexsort((number, cpu, number // ROUND_SAMPLES))
        time_ns = LIFE_NS + number // CPUS * PERIOD_NS + cpu * 1_000
        pid = FIRST_PID + runs[run]
        yield sample_records(mappings, pid[order], time_ns[order], cpu[order], random)


def sample_records(
    mappings: list[Mapping],
    pid: NDArray[np.int64],
    time_ns: NDArray[np.int64],
    cpu: NDArray[np.int64],
    random: np.random.Generator,
) -> NDArray[np.void]:
    """Return samples of tasks at times; addresses and modes are drawn."""
    rows = len(pid)
    length = np.array([mapping.length for mapping in mappings])
    start = np.array([mapping.start for mapping in mappings])
    chosen = random.integers(0, len(mappings), rows)
    hot = random.zipf(HOT_EXPONENT, rows)
    # An odd factor scatters the hottest addresses over the whole text.
    scattered = hot % (1 << 20) * 0x9E3779B1
    user_ip = start[chosen] - address_shift(pid) + scattered % length[chosen]
    first, last = kernel_text()
    kernel_ip = np.uint64(first) + (scattered % (last - first)).astype(np.uint64)
    is_kernel = random.random(rows) < KERNEL_SHARE
    template = RECORDS.sample(id=1, period=PERIOD_NS)
    records = copies(template, SAMPLE, rows, pid=pid, tid=pid, time=time_ns, cpu=cpu)
    records["ip"] = np.where(is_kernel, kernel_ip, user_ip.astype(np.uint64))
    of_mode = [RECORDS.sample(misc=misc)[:HEADER_BYTES] for misc in (MISC_USER, MISC_KERNEL)]
    records["header"] = np.frombuffer(b"".join(of_mode), np.uint64)[is_kernel.astype(np.intp)]
    return records


if __name__ == "__main__":
    main()
