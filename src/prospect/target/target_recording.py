"""`record` on another machine: the recording as it arrives, and its result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.capture.sink import default_bound_bytes
from prospect.errors import CaptureError, UsageError
from prospect.records import asdict
from prospect.target.relay_stream import ReceivedFile
from prospect.target.target_limits import MOST_MORE_BYTES
from prospect.target.target_process import NoPythonError, Remote

if TYPE_CHECKING:
    from prospect.announcing import Announce
    from prospect.recording.interval import RecordingResult
    from prospect.recording.opened_events import RecordOptions

AGENT = "prospect.target.agent"
_UNBOUNDED = 1 << 50
_BY_PERF = "perf records there instead, and COMMAND's output appears on standard error"


def record_on(
    target: str, options: RecordOptions, output_fd: int, warn: Announce
) -> RecordingResult:
    """Run a command on a target, and record all that the user there may see.

    Args:
        target: ``USER@HOST``, as ssh takes it.
        output_fd: a regular file, opened for writing and reading; the caller closes it.
        warn: called if perf records, because there is no Python.

    Raises:
        UsageError: the target cannot follow the options.
        CommandError: the command cannot be started there.
        CaptureError: nothing can be recorded there, or there is no connection.
    """
    if options.count_calls:
        raise UsageError("--count-calls does not work with --target: it needs symbol tables")
    if options.compress:
        raise UsageError(
            "-z compresses recordings of this machine only: leave it out with --target"
        )
    refuse_probes(options.events)
    bound = options.max_bytes or default_bound_bytes(output_fd)
    # The recorder keeps nothing on its disk.
    wanted = asdict(options) | {"max_bytes": bound or None, "use_cache": False}
    try:
        started = Remote(target, AGENT, wanted)
    except NoPythonError as error:
        from prospect.target.by_perf import record_by_perf  # noqa: PLC0415 - rarely

        reason = str(error)
        return record_by_perf(target, options, output_fd, lambda: warn(f"{reason}; {_BY_PERF}"))
    with started as remote:
        file = ReceivedFile(output_fd, bound + MOST_MORE_BYTES if bound else _UNBOUNDED)
        result = _result(remote, remote.run(file), file)
        if not result.is_cut:
            from prospect.recording.mending import mend_file  # noqa: PLC0415 - once COMMAND has ended
            from prospect.target.target_names import fetch_names  # noqa: PLC0415 - once COMMAND has ended

            mend_file(output_fd)
            fetch_names(output_fd, target, remote.fetch)
        return result


def refuse_probes(events: tuple[str, ...]) -> None:
    """Refuse probes of files.

    Raises:
        UsageError: there is one among the events.
    """
    if any(event[:1] in ("/", ".") for event in ",".join(events).split(",")):
        raise UsageError("probes in files do not work with --target: the symbols are on the target")


def _result(remote: Remote, answer: dict[str, object], file: ReceivedFile) -> RecordingResult:
    from prospect.recording.interval import RecordingResult  # noqa: PLC0415 - once it has ended

    if "result" not in answer:
        lost = f"the connection to {remote.target} was lost: the recording ends there"
        return RecordingResult(remote.exit_status or 1, 0, (lost,), {}, cut=lost)
    result = checked_result(answer["result"])
    if file.cut:
        result = result._replace(cut=file.cut, limits=(*result.limits, file.cut))
    return result


def checked_result(said: object) -> RecordingResult:
    """Return a target's result, after checking all of its fields.

    Raises:
        CaptureError: it is damaged.
    """
    from prospect.recording.interval import RecordingResult  # noqa: PLC0415 - once it has ended

    if isinstance(said, dict):
        limits, counters = said.get("limits"), said.get("counters")
        numbers = (said.get("exit_status"), said.get("interrupted_by"))
        if (
            all(isinstance(number, int) for number in numbers)
            and isinstance(limits, list)
            and all(isinstance(limit, str) for limit in limits)
            and isinstance(counters, dict)
            and all(isinstance(count, int) for count in counters.values())
        ):
            status, signal_number = (int(number or 0) & 0xFF for number in numbers)
            cut = str(said.get("cut") or "")
            return RecordingResult(status, signal_number, tuple(limits), counters, cut)
    raise CaptureError("the target's answer is damaged")
