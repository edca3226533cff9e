"""`record` on a target that has perf but no Python.

``perf record`` there writes to a pipe. This appends the kernel's build id, and then fetches files
by build id, for names. The recording comes through standard output, so COMMAND's output comes
through standard error.
"""

from __future__ import annotations

import os
import select
import subprocess
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from prospect.abi import constants as abi
from prospect.abi.recorded_facts import BuildId
from prospect.capture.machine.kernel_maps import KERNEL_NAME, gnu_build_id
from prospect.capture.sink import default_bound_bytes
from prospect.errors import CaptureError, UsageError
from prospect.light import Closing
from prospect.options import RecordingOptions
from prospect.perfdata import format as fmt
from prospect.perfdata.feature_encoding import build_id_record
from prospect.recording.interval import RecordingResult
from prospect.records import asdict
from prospect.target.relay import write_all
from prospect.target.relay_stream import greeting_lines
from prospect.target.ssh import NO_CONNECTION, Connection, pipe_of
from prospect.target.target_limits import END_S, LARGEST_WHOLE_FILE_BYTES, QUIET_S
from prospect.target.target_process import signals_to

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import IO, Any

    from prospect.recording.opened_events import RecordOptions

# Prints its pid, and becomes perf. Linux 5.12 was the first with build ids in records of mappings.
_SCRIPT = (
    "command -v perf >/dev/null || exit 127; b=--buildid-mmap;"
    ' perf record -q $b -o - true >/dev/null 2>&1 || b=; [ "$(id -u)" = 0 ] || a=;'
    ' echo $$; exec perf record -q $b $a -k CLOCK_MONOTONIC -o - "$@"'
)
_COMMAND = 'exec "$@" >&2'
# Options that perf has too, and those that it does not need.
_FOLLOWED = ("pids", "for_s", "frequency_hz", "call_graph", "events", "max_bytes")
_OURS = ("python", "clocks", "of_all", "flush_centiseconds", "count_budget_percent")
_PIPE_BYTES = 1 << 16
_NOTES = "/sys/kernel/notes"


def record_by_perf(
    target: str, options: RecordOptions, output_fd: int, say: Callable[[], None]
) -> RecordingResult:
    """Let perf record on a target.

    Args:
        target: ``USER@HOST``, as ssh takes it.
        output_fd: a regular file, opened for writing and reading; the caller closes it.
        say: called once perf has begun.

    Raises:
        UsageError: perf does not have an option.
        CaptureError: there is no perf either, or no connection.
    """
    words = _perf_words(options)
    with _Perf(target, words) as perf:
        say()
        bound = options.max_bytes or default_bound_bytes(output_fd)
        status, cut = perf.record(output_fd, bound)
        build_id = gnu_build_id(perf.content(_NOTES))
        if build_id and not cut and os.pread(output_fd, 8, 0) == fmt.MAGIC:
            kernel = BuildId(KERNEL_NAME, build_id, cpumode=abi.PERF_RECORD_MISC_KERNEL)
            write_all(output_fd, build_id_record(kernel, fmt.PERF_RECORD_HEADER_BUILD_ID))
        result = RecordingResult(status, 0, (cut,) if cut else (), {}, cut=cut)
        if not cut:
            from prospect.target.target_names import fetch_names  # noqa: PLC0415 - once COMMAND has ended

            fetch_names(output_fd, target, perf.fetch)
        return result


def _perf_words(options: RecordOptions) -> list[str]:
    """Return the operands of the script: its options for perf, and COMMAND."""
    usual = asdict(RecordingOptions())
    for name, value in usual.items():
        if name not in (*_FOLLOWED, *_OURS) and getattr(options, name) != value:
            option = "--" + name.removesuffix("_percent").replace("_", "-")
            raise UsageError(f"{option} is not recorded by perf on the target: leave it out")
    mode, comma, size = options.call_graph.partition(",")
    # Callers in the kernel show why it ran.
    words = ["--call-graph", f"{'fp' if mode in ('', 'auto', 'none') else mode}{comma}{size}"]
    words += ["-F", str(options.frequency_hz)]
    for event in options.events:
        words += ["-e", event]
    if options.pids:
        words += ["-p", ",".join(map(str, options.pids))]
    if options.command:
        words += ["--", "sh", "-c", _COMMAND, "sh", *map(os.fsdecode, options.command)]
    elif options.for_s is not None:
        words += ["--", "sleep", str(options.for_s)]
    return ["sh", "-c", f"a={'' if options.pids else '-a'}; {_SCRIPT}", "sh", *words]


class _Perf(Closing):
    """perf on the target, and other commands next to it."""

    def __init__(self, target: str, words: list[str]) -> None:
        self._connection = Connection(target)
        self._perf: subprocess.Popen[bytes] | None = None
        # The first command keeps the connection open.
        self._holder = self._connection.begin(["exec", "cat"])
        try:
            pipe_of(self._holder.stdin).write(b"\n")
            pipe_of(self._holder.stdout).read(1)
            self._perf = self._connection.start(["exec", *words], stdout=subprocess.PIPE)
            # The script's pid comes after the text that a login prints.
            lines = map(bytes.strip, greeting_lines(pipe_of(self._perf.stdout).fileno()))
            self._pid = next(filter(bytes.isdigit, lines), b"")
        except BaseException:
            self.close()
            raise
        if not self._pid:
            self.close()
            raise CaptureError(f"{target} has neither python3 nor perf: --target needs one")

    def close(self) -> None:
        """End perf and the connection."""
        for process in filter(None, (self._perf, self._holder)):
            for pipe in filter(None, (process.stdin, process.stdout)):
                with suppress(OSError):
                    pipe.close()
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._connection.close()

    def record(self, output_fd: int, bound_bytes: int) -> tuple[int, str]:
        """Write the recording to a file, up to a bound, 0 for none.

        Returns: COMMAND's exit status, and why the file is cut, "" if it is not.
        """
        assert self._perf is not None  # noqa: S101 - started when this was made
        stream = pipe_of(self._perf.stdout).fileno()
        cut, size = "", 0
        with signals_to(self._interrupt):
            while data := os.read(stream, _PIPE_BYTES):
                size += len(data)
                if cut:
                    continue
                if bound_bytes and size > bound_bytes:
                    cut = "the recording is cut: it has reached its bound (--max-size)"
                    self._interrupt({})
                    continue
                try:
                    write_all(output_fd, data)
                except OSError as error:
                    cut = f"the recording is cut: {error.strerror}"
                    self._interrupt({})
            status = self._perf.wait()
        if status == NO_CONNECTION and not cut:
            cut = "the connection was lost, or perf failed: the recording ends there"
        return status, cut

    def content(self, path: str) -> bytes:
        """Return the content of a small file of the target; empty if there is none."""
        with self._reading(path) as pipe:
            return pipe.read(_PIPE_BYTES)

    def fetch(self, path: str, descriptor: int) -> bool:
        """Write a file of the target to a descriptor; return whether there is one."""
        size = 0
        with self._reading(path) as pipe:
            while select.select([pipe], [], [], QUIET_S)[0] and (data := pipe.read(_PIPE_BYTES)):
                size += len(data)
                if size > LARGEST_WHOLE_FILE_BYTES:
                    return False
                write_all(descriptor, data)
        return size > 0

    @contextmanager
    def _reading(self, path: str) -> Iterator[IO[bytes]]:
        words = ["exec", "cat", "--", path]
        cat = self._connection.start(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        try:
            yield pipe_of(cat.stdout)
        finally:
            pipe_of(cat.stdout).close()
            cat.kill()
            cat.wait()

    def _interrupt(self, _order: dict[str, Any]) -> None:
        """End the recording properly, as Ctrl-C there would."""
        words = ["kill", "-INT", self._pid.decode("ascii")]
        self._connection.start(words, stdin=subprocess.DEVNULL).wait()
