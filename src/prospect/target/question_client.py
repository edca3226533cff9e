"""Questions to a target that need no recording ↔ its answers, in the same form as this machine's.

The target's answers are untrusted: this module checks each field, and escapes characters that move
a cursor.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from prospect.capture.events.event_listing import CheckedEvent, ListedEvent
from prospect.capture.events.tracepoints import TracepointField
from prospect.errors import CaptureError
from prospect.profile.event_counts import (
    Count,
    CountedEvent,
    CountedRun,
    CountInterval,
    EventCounts,
)
from prospect.recording.diagnosis import STATES, STATUS_NOTHING, Check, Diagnosis
from prospect.records import asdict
from prospect.render.escape import escaped
from prospect.target.question_agent import COUNTS, DIAGNOSIS, EVENTS
from prospect.target.relay import OFFSET
from prospect.target.relay_stream import FrameError
from prospect.target.target_limits import LONGEST_COUNTS_BYTES
from prospect.target.target_process import Remote
from prospect.target.target_recording import refuse_probes

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from prospect.recording.counting_run import CountOptions

    _Kind = TypeVar("_Kind")
    OnInterval = Callable[[tuple[CountedEvent, ...], CountInterval], None]

AGENT = "prospect.target.question_agent"
_DAMAGES = (
    *(ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError),
    RecursionError,  # JSON that is nested too deep
)


def count_on(
    target: str, options: CountOptions, on_interval: OnInterval | None = None
) -> EventCounts:
    """Count events on a target; see `count_events`.

    Args:
        target: ``USER@HOST``, as ssh takes it.
        on_interval: takes each interval as it ends.

    Raises:
        UsageError: the target cannot follow the options.
        CommandError: the command cannot be started there.
        CaptureError: an event cannot be counted there, or the connection was lost.
    """
    refuse_probes(options.events)
    question = asdict(options) | {"question": COUNTS, "is_live": on_interval is not None}
    lines = _Lines(on_interval)
    with Remote(target, AGENT, question) as remote:
        return _read(_counts_in, _result(remote, lines))


def examine_on(target: str) -> Diagnosis:
    """Return the doctor's diagnosis of a target; raises as `count_on`."""
    with Remote(target, AGENT, {"question": DIAGNOSIS}) as remote:
        return _read(_diagnosis_in, _result(remote, _Lines(None)))


def list_on(
    target: str, pattern: str, *, with_fields: bool, check: bool
) -> tuple[list[ListedEvent], tuple[str, ...], list[CheckedEvent | None]]:
    """Return a target's events, sentences about missing events, and checks.

    Args:
        target: ``USER@HOST``, as ssh takes it.
        pattern: of names; "" for all.
        with_fields: whether to include parameters and fields.
        check: whether to try each event; if not, each check is None.

    Raises:
        CaptureError: as `count_on`.
    """
    question = {"question": EVENTS, "pattern": pattern, "fields": with_fields, "check": check}
    with Remote(target, AGENT, question) as remote:
        return _read(_events_in, _result(remote, _Lines(None)))


class _Lines:
    """Takes intervals, one in each line."""

    def __init__(self, on_interval: OnInterval | None) -> None:
        self._on_interval = on_interval
        self._at = 0
        self._rest = b""

    def write(self, content: bytes) -> None:
        """Take the next bytes.

        Raises:
            FrameError: they are not the next ones, or no interval.
        """
        (offset,) = OFFSET.unpack_from(content)
        data = content[OFFSET.size :]
        if offset != self._at or len(self._rest) > LONGEST_COUNTS_BYTES or not self._on_interval:
            raise FrameError("protocol error: the target sent data that was not requested")
        self._at += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._on_interval(*_read(_interval_line_in, line))

    def truncate(self, _content: bytes) -> None:
        """Refuse to remove lines."""
        raise FrameError("protocol error: truncation after data")


def _result(remote: Remote, lines: _Lines) -> object:
    answer = remote.run(lines)
    if "result" not in answer:
        raise CaptureError(f"the connection to {remote.target} was lost")
    return answer["result"]


def _read(read: Callable[[Any], _Kind], said: object) -> _Kind:
    try:
        return read(said)
    except _DAMAGES:
        raise CaptureError("the target's answer is damaged") from None


def _interval_line_in(line: bytes) -> tuple[tuple[CountedEvent, ...], CountInterval]:
    events, interval = json.loads(line)
    return tuple(map(_event_in, events)), _interval_in(interval, len(events))


def _counts_in(said: Any) -> EventCounts:
    target, events, runs, limits, status = said
    found = tuple(map(_event_in, events))
    counted = tuple(_run_in(run, len(found)) for run in runs)
    counted[0].counts  # noqa: B018 - raises if there is none
    return EventCounts(escaped(target), found, counted, _sentences_in(limits), int(status) & 0xFF)


def _event_in(said: Any) -> CountedEvent:
    name, unit, scale, group = said
    return CountedEvent(escaped(name), escaped(unit), float(scale), int(group))


def _run_in(said: Any, events: int) -> CountedRun:
    elapsed_s, counts, intervals, user_s, system_s, status = said
    return CountedRun(
        elapsed_s=float(elapsed_s),
        counts=_row_in(counts, events),
        intervals=tuple(_interval_in(one, events) for one in intervals),
        user_s=None if user_s is None else float(user_s),
        system_s=None if system_s is None else float(system_s),
        exit_status=int(status) & 0xFF,
    )


def _interval_in(said: Any, events: int) -> CountInterval:
    begin_s, end_s, counts = said
    return CountInterval(float(begin_s), float(end_s), _row_in(counts, events))


def _row_in(said: Any, events: int) -> tuple[Count, ...]:
    row = tuple(Count(*map(int, one)) for one in said)
    if len(row) != events:
        raise ValueError(events)
    return row


def _diagnosis_in(said: Any) -> Diagnosis:
    checks = tuple(
        Check(escaped(one["name"]), STATES[STATES.index(one["state"])], escaped(one["finding"]))
        for one in said["checks"]
    )
    status = int(said["status"])
    if not checks or not 0 <= status <= STATUS_NOTHING:
        raise ValueError(status)
    words = {name: escaped(said[name]) for name in ("machine", "summary", "remedy")}
    return Diagnosis(checks=checks, status=status, **words)


def _events_in(said: Any) -> tuple[list[ListedEvent], tuple[str, ...], list[CheckedEvent | None]]:
    events, limits, checks = said
    found = [_listed_in(one) for one in events]
    tried = [
        None if one is None else CheckedEvent(escaped(one[0]), escaped(one[1]), bool(one[2]))
        for one in checks
    ]
    if len(tried) != len(found):
        raise ValueError(len(tried))
    return found, _sentences_in(limits), tried


def _listed_in(said: Any) -> ListedEvent:
    kind, name, other_names, description, unit, parameters, fields = said
    return ListedEvent(
        *(escaped(kind), escaped(name), _sentences_in(other_names)),
        *(escaped(description), escaped(unit)),
        tuple((escaped(one), escaped(bits)) for one, bits in parameters),
        tuple(TracepointField(escaped(declaration), int(size)) for declaration, size in fields),
    )


def _sentences_in(said: Any) -> tuple[str, ...]:
    return tuple(map(escaped, said))
