"""The decoder's stages on synthetic recordings, and on one by `perf record` if asked.

    python benchmarks/decode.py [--samples N ...] [--recording FILE | --record SECONDS] [--runs N]

Prints, for each recording, the median processor seconds of each stage, nanoseconds a sample, and
the peak of memory beyond the recording itself. Synthetic recordings are
made in memory; `--record` has `perf record -a -F 20000` make one of a load on every CPU.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from prospect.abi import constants as abi
from prospect.abi.attr import EventAttr, EventDescription
from prospect.abi.recorded_facts import RecordBlock
from prospect.events import decode as decoder
from prospect.perfdata.reader import open_recording

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

RUNS = 7
SAMPLES = (10_000, 100_000, 2_000_000, 10_000_000)
FIRST_ID = 1000
# perf 6.1's -a: ip, tid, time, id, cpu, period, and a call chain with -g.
FLAT = 0x1C7
CHAINED = FLAT | abi.PERF_SAMPLE_CALLCHAIN
FIXED_WORDS = 7
STAGES = ("samples", "side records", "side tables", "all")


class Form(NamedTuple):
    """What a synthetic recording consists of.

    Attributes:
        fork_every: samples between two FORK records, 0 for none.
        chain_words: mean length of a call chain.
        block_bytes: size of a block, 0 for one.
    """

    name: str
    fork_every: int = 0
    chain_words: int = 0
    block_bytes: int = 0


FORMS = (
    Form("flat"),
    Form("flat, a side record in 300", fork_every=300),
    Form("flat, a side record in 10", fork_every=10),
    Form("flat, blocks of 64 KiB", fork_every=300, block_bytes=1 << 16),
    Form("call chains of 20", fork_every=300, chain_words=20),
)


def synthetic(form: Form, count: int) -> NDArray[np.uint64]:
    """Return the words of a recording of `count` samples."""
    random = np.random.default_rng(1)
    chain = np.zeros(count, np.int64)
    if form.chain_words:
        chain = random.integers(1, 2 * form.chain_words, count)
    size = FIXED_WORDS + chain + (1 if form.chain_words else 0)
    forks = np.zeros(count, np.int64)
    fork = np.array([7 | 64 << 48, 5 | 1 << 32, 5 | 1 << 32, 9, 5, 9, FIRST_ID, 0], np.uint64)
    if form.fork_every:
        forks[form.fork_every - 1 :: form.fork_every] = len(fork)
    start = np.cumsum(size + forks) - size - forks
    words = random.integers(1 << 40, 1 << 47, int((size + forks).sum())).astype(np.uint64)
    words[start] = np.uint64(9 | 1 << 32) | (size.astype(np.uint64) << np.uint64(51))
    words[start + 2] = np.repeat(random.integers(1, 1 << 20, count // 16 + 1), 16)[:count] * (
        1 + (1 << 32)
    )
    words[start + 3] = np.cumsum(random.integers(1, 1000, count))
    words[start + 4] = FIRST_ID + random.integers(0, 2, count)
    words[start + 5] = random.integers(0, 64, count)
    words[start + 6] = 250_000
    if form.chain_words:
        words[start + 7] = chain
    if form.fork_every:
        at = (start + size)[forks > 0]
        words[at[:, None] + np.arange(len(fork))] = fork
    return words


def blocks_of(words: NDArray[np.uint64], form: Form) -> list[RecordBlock]:
    data = memoryview(words).cast("B")
    if not form.block_bytes:
        return [RecordBlock(data)]
    group = (form.fork_every * FIXED_WORDS + 8) * 8
    step = max(1, form.block_bytes // group) * group
    return [RecordBlock(data[at : at + step]) for at in range(0, len(data), step)]


class Stopwatch:
    """Processor seconds by stage, taken where `decode` calls its stages."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(STAGES, 0.0)

    def around(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return `function`, whose time counts as the stage's."""

        def timed(*arguments: Any) -> Any:
            begin = time.process_time()
            try:
                return function(*arguments)
            finally:
                self.seconds[stage] += time.process_time() - begin

        return timed

    @contextmanager
    def running(self) -> Iterator[None]:
        """Take the time of every stage of `decode` for as long as this lasts."""
        find, describe = decoder.find_records, decoder.SideRecords.finish
        tables = decoder.side_tables
        decoder.find_records = self.around("samples", find)
        decoder.SideRecords.finish = self.around("side records", describe)
        decoder.side_tables = self.around("side tables", tables)
        begin = time.process_time()
        yield
        self.seconds["all"] = time.process_time() - begin
        decoder.find_records, decoder.side_tables = find, tables
        decoder.SideRecords.finish = describe


def measure(
    name: str, blocks: Sequence[RecordBlock], events: Sequence[EventDescription], runs: int
) -> None:
    """Print a line; in a process of its own, so that its peak of memory is its own, too."""
    sys.stdout.flush()
    if child := os.fork():
        os.waitpid(child, 0)
        return
    begin_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    watches = []
    for _ in range(runs):
        watch = Stopwatch()
        with watch.running():
            found = decoder.decode(blocks, events)
        watches.append(watch.seconds)
        samples, records = len(found.samples), sum(found.counts.values())
        del found
    peak_mb = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - begin_kib) / 1024
    median = {stage: statistics.median(seen[stage] for seen in watches) for stage in STAGES}
    size_mb = sum(len(block.data) for block in blocks) / 1e6
    print(
        f"{name:26} {samples:11,} {records - samples:10,} {size_mb:8.1f}"
        + "".join(f" {median[stage]:12.4f}" for stage in STAGES)
        + f" {median['all'] / max(samples, 1) * 1e9:7.1f} {peak_mb:7.0f}"
    )
    sys.stdout.flush()
    os._exit(0)


def measure_recording(path: str, runs: int) -> None:
    with open_recording(path) as recording:
        measure(Path(path).name, list(recording.blocks()), recording.info.events, runs)


def measure_perf(seconds: int, runs: int) -> None:
    """Have perf record a load on every CPU."""
    load = f"timeout {seconds} sh -c 'while :; do ls -R /usr/lib >/dev/null; done'"
    everywhere = " & ".join([load] * (os.cpu_count() or 1)) + " & wait"
    with tempfile.TemporaryDirectory() as scratch:
        path = str(Path(scratch) / "perf.data")
        command = ["perf", "record", "-q", "-a", "-F", "20000", "-o", path, "--", "sh", "-c"]
        # perf 6.1 now and then aborts at its end: the records are there all the same.
        subprocess.run([*command, everywhere], check=False, stderr=subprocess.DEVNULL)
        measure_recording(path, runs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--samples", type=int, nargs="+", default=SAMPLES)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--recording", help="measure this recording instead")
    parser.add_argument("--record", type=int, metavar="SECONDS", help="have perf record one")
    arguments = parser.parse_args()
    print(
        f"{'':26} {'samples':>11} {'others':>10} {'MB':>8}"
        + "".join(f" {stage:>12}" for stage in STAGES)
        + f" {'ns each':>7} {'+ MB':>7}"
    )
    if arguments.recording:
        measure_recording(arguments.recording, arguments.runs)
        return
    if arguments.record:
        measure_perf(arguments.record, arguments.runs)
        return
    for form in FORMS:
        types = CHAINED if form.chain_words else FLAT
        attr = EventAttr(sample_type=types, flags=abi.FLAG_SAMPLE_ID_ALL | abi.FLAG_FREQ)
        events = [EventDescription(attr, (FIRST_ID, FIRST_ID + 1))]
        for count in arguments.samples:
            words = synthetic(form, count)
            measure(form.name, blocks_of(words, form), events, arguments.runs)
            del words


if __name__ == "__main__":
    main()
