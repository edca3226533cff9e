"""The columns of each kind of file of a store, and what the head of a segment says.

A file is of one version of the format, which its head says with what holds for all of the segment:
the machine, the events, what could not be seen. Heads are JSON, compressed, in the key-value
metadata of the file of samples.
"""

from __future__ import annotations

import base64
import json
import math
import zlib
from typing import TYPE_CHECKING, Any

from prospect.errors import StoreError
from prospect.profile.run_info import EventInfo, RunInfo
from prospect.records import NamedTuple, Record, asdict
from prospect.store.segments import COVERAGE, FUNCTIONS, NAMED, SAMPLES, STACKS, SUMS, TOTALS
from prospect.store.store_limits import MOST_HEAD_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

VERSION = 1
HEAD_KEY = "prospect"
WHOLE_WINDOW = -1
# Values of `kind` in rows of samples.
KIND_ORDINARY, KIND_KERNEL_THREAD, KIND_RECORDER = 0, 1, 2
# Instead of a name whose row a damaged segment has lost.
LOST = "[name lost: damaged segment]"
# Of rows of coverage: the row of the whole counts other records, too, but where it is the only one.
LOST_SAMPLES = (
    f"CASE WHEN max(cpu) > {WHOLE_WINDOW}"
    f" THEN sum(CASE WHEN cpu > {WHOLE_WINDOW} THEN lost ELSE 0 END) ELSE sum(lost) END"
)
# The sum of all hosts fits in 64.
_CPU_BITS = 31
_SUM_BITS = 62

# One row: what was hit so, in one window. `t` is the window's start in microseconds since 1970,
# `pid`, `start`, `tid` and `cpu` are -1 unless they were kept apart; process zero keeps its number.
# `n` samples, `q` the sum over windows of n squared, `w` the sum of their periods.
SAMPLE_KEYS = {
    "service": "VARCHAR",
    "process": "VARCHAR",
    "comm": "VARCHAR",
    "kind": "UTINYINT",
    "event": "USMALLINT",
    "mode": "UTINYINT",
    "cause_kind": "UTINYINT",
    "cause": "VARCHAR",
    "function": "UBIGINT",
    "address": "UBIGINT",
    "stack": "UBIGINT",
    "pid": "INTEGER",
    "start": "BIGINT",
    "tid": "INTEGER",
    "cpu": "SMALLINT",
    "t": "BIGINT",
}
SAMPLE_SUMS = {"n": "BIGINT", "q": "BIGINT", "w": "BIGINT"}
COLUMNS: dict[str, dict[str, str]] = {
    SAMPLES: SAMPLE_KEYS | SAMPLE_SUMS,
    # Rows of a day, added up over stacks: `stack` is 0.
    TOTALS: SAMPLE_KEYS | SAMPLE_SUMS,
    # These, added up over hours: `t` is the first. Days of earlier versions have none.
    SUMS: SAMPLE_KEYS | SAMPLE_SUMS,
    # These, added up over all but `service`, `event`, `pid` and the functions of one name, of
    # which `function` is the least. Days of earlier versions have none.
    NAMED: SAMPLE_KEYS | SAMPLE_SUMS,
    # A frame and, by `caller`, those outside of it; 0 for none.
    STACKS: {
        "stack": "UBIGINT",
        "caller": "UBIGINT",
        "function": "UBIGINT",
        "address": "UBIGINT",
        "mode": "UTINYINT",
        "depth": "INTEGER",
    },
    # A function with the object that it is in, as they were called when it was first hit.
    FUNCTIONS: {
        "function": "UBIGINT",
        "name": "VARCHAR",
        "raw_name": "VARCHAR",
        "aliases": "VARCHAR",
        "address": "UBIGINT",
        "size": "UBIGINT",
        "is_global": "BOOLEAN",
        "source": "UTINYINT",
        "object": "UBIGINT",
        "path": "VARCHAR",
        "object_kind": "UTINYINT",
        "build_id": "VARCHAR",
        "object_source": "UTINYINT",
        "note": "VARCHAR",
    },
    # Ticks by what became of them, of a window (`t` to `until`), CPU and event. Each window has one
    # row of CPU `WHOLE_WINDOW`: how many of its samples belong to no clock, and what else was lost.
    COVERAGE: {
        "t": "BIGINT",
        "until": "BIGINT",
        "cpu": "SMALLINT",
        "event": "USMALLINT",
        "expected": "BIGINT",
        "recorded": "BIGINT",
        "lost": "BIGINT",
        "throttled": "BIGINT",
        "idle": "BIGINT",
        "missing": "BIGINT",
        "steal_us": "BIGINT",
    },
}
# Order of a file's rows: equal values next to each other take next to no room.
ORDER = {
    SAMPLES: "service, process, comm, event, mode, cause_kind, cause, function, address, stack, t",
    TOTALS: "service, process, comm, event, mode, cause_kind, cause, function, t",
    SUMS: "service, process, comm, event, mode, cause_kind, cause, function, t",
    NAMED: "service, event, function, pid",
    STACKS: "depth, caller, stack",
    FUNCTIONS: "path, address, function",
    COVERAGE: "cpu, event, t",
}
_RUN_FIELDS = (
    "recorder",
    "recorder_command_line",
    "hostname",
    "os_release",
    "uname",
    "arch",
    "cpu_description",
    "cpu_mhz",
    "cpus",
    "clock",
    "limits",
    "kernel_build_id",
    "has_user_callers",
)

# These may differ between windows that are one segment.
_LOOSE = ("limits", "recorder_command_line", "cpu_mhz")


class SegmentAccounting(NamedTuple):
    """The sums of a segment's coverage.

    Attributes:
        begin_us, end_us: begin and end of its windows, in microseconds since 1970.
        length_us: the sum of its windows' lengths.
        expected, recorded, lost, throttled, idle, missing: numbers of ticks.
    """

    begin_us: int
    end_us: int
    length_us: int
    windows: int
    expected: int
    recorded: int
    lost: int
    throttled: int
    idle: int
    missing: int


TICK_COUNTS = SegmentAccounting._fields[4:]


class Head(Record):
    """The facts that hold for all of a segment.

    Attributes:
        run: facts of `RunInfo` by their names.
        events: the events that were sampled.
        separate: what was kept apart: some of "process", "thread", "cpu".
        window_us: how long a window ought to be.
        host_share: of hosts that sent the hour that it is of; what sums of periods are divided by.
        accounting: of a day; None for other segments, and for days of earlier versions.
    """

    run: dict[str, Any]
    events: tuple[EventInfo, ...]
    separate: tuple[str, ...]
    window_us: int
    host_share: float = 1.0
    accounting: SegmentAccounting | None = None


def head_of(run: RunInfo, separate: tuple[str, ...], window_us: int) -> Head:
    """Return the head of a window's segment."""
    known = asdict(run)
    return Head({name: known[name] for name in _RUN_FIELDS}, run.events, separate, window_us)


def kind_of(head: Head | None) -> object:
    """Return what windows have in common that can be one segment; None without a head."""
    if head is None:
        return None
    run = [(name, value) for name, value in head.run.items() if name not in _LOOSE]
    return asdict(head) | {"run": run, "accounting": None}


def written_head(head: Head) -> str:
    """Return a head as text of letters, digits and a few signs, none of them a quotation mark."""
    fields = {
        "version": VERSION,
        "run": head.run,
        "events": [asdict(event) for event in head.events],
        "separate": head.separate,
        "window_us": head.window_us,
        "host_share": head.host_share,
        "accounting": head.accounting,
    }
    return base64.b64encode(zlib.compress(json.dumps(fields).encode())).decode()


def read_head(written: bytes) -> Head:
    """Return a head.

    Raises:
        StoreError: it is damaged, or of a newer version.
    """
    try:
        unpacker = zlib.decompressobj()
        text = unpacker.decompress(base64.b64decode(written, validate=True), MOST_HEAD_BYTES)
        fields = json.loads(text)
        version = fields["version"]
        if isinstance(version, int) and version > VERSION:
            raise StoreError(
                f"it is of version {version}, this Prospect knows {VERSION}: update it"
            )
        if not (events := tuple(_event(one) for one in fields["events"])):
            raise StoreError("its head names no events")
        run = _checked_run(fields["run"])
        separate = tuple(map(_text, fields["separate"]))
        share = _checked_share(fields.get("host_share", 1.0))
        accounting = _checked_accounting(fields.get("accounting"))
        return Head(run, events, separate, _count(fields["window_us"]), share, accounting)
    except (
        ArithmeticError,  # a number that no float has, or infinity instead of a whole number
        AttributeError,
        KeyError,
        RecursionError,
        TypeError,
        ValueError,
        zlib.error,
    ):
        raise StoreError("its head is damaged") from None


def _event(fields: Mapping[str, Any]) -> EventInfo:
    return EventInfo(
        **{name: read(fields[name]) for name, read in _EVENT_FIELDS.items() if name in fields}
    )


def _checked_share(field: Any) -> float:
    share = float(field)
    if not 0.0 < share <= 1.0:
        raise ValueError(share)
    return share


def _checked_accounting(field: Any) -> SegmentAccounting | None:
    return None if field is None else SegmentAccounting(*(_count(one, _SUM_BITS) for one in field))


def _checked_run(fields: Mapping[str, Any]) -> dict[str, Any]:
    run: dict[str, Any] = {}
    for name in _RUN_FIELDS:
        value = fields[name]
        if name in ("recorder_command_line", "limits"):
            run[name] = tuple(map(_text, value))
        elif name == "cpu_mhz":
            run[name] = _finite(value)
        elif name == "cpus":
            run[name] = _count(value, _CPU_BITS)
        elif name == "has_user_callers":
            run[name] = bool(value)
        else:
            run[name] = _text(value)
    return run


def _text(field: Any) -> str:
    """Return text that can be written: bytes that were none may be in it, halves of signs not."""
    if not isinstance(field, str):
        raise TypeError(field)
    field.encode("utf-8", "surrogateescape")
    return field


def _finite(field: Any) -> float:
    number = float(field)
    if not math.isfinite(number):
        raise ValueError(number)
    return number


def _count(field: Any, bits: int = 64) -> int:
    number = int(field)
    if not 0 <= number < 1 << bits:
        raise ValueError(number)
    return number


_READERS: dict[str, Callable[[Any], Any]] = {
    "str": _text,
    "float": _finite,
    "int": _count,
    "bool": bool,
}
_EVENT_FIELDS = {name: _READERS[kind] for name, kind in EventInfo.__annotations__.items()}
