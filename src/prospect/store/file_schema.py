"""The columns of each kind of file of a store, and the heads of segments.

A head has the version of the format, and facts that hold for all of the segment: the machine, the
events, the limits of the measurement. It is compressed JSON, in the key-value metadata of the file
of samples.
"""

from __future__ import annotations

import base64
import json
import math
import zlib
from functools import partial
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
# Replaces a name whose row a damaged segment has lost.
LOST = "[name lost: damaged segment]"
# On rows of coverage. The row of the whole window counts other records, unless it is the only row.
LOST_SAMPLES = (
    f"CASE WHEN max(cpu) > {WHOLE_WINDOW}"
    f" THEN sum(CASE WHEN cpu > {WHOLE_WINDOW} THEN lost ELSE 0 END) ELSE sum(lost) END"
)
# The sum over all hosts fits in 64 bits.
_CPU_BITS = 31
_SUM_BITS = 62

# A row has the samples of one window with equal keys. `t` is the window's start in microseconds
# since 1970. `pid`, `start`, `tid` and `cpu` are -1 unless they are separate; `pid` 0 stays 0. `n`
# is the number of samples, `q` the sum over windows of n squared, `w` the sum of the periods.
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
    # Totals, added up over hours: `t` is the first. Days of earlier versions have none.
    SUMS: SAMPLE_KEYS | SAMPLE_SUMS,
    # Sums by `service`, `event`, `pid` and name; `function` is the least function of the name.
    # Days of earlier versions have none.
    NAMED: SAMPLE_KEYS | SAMPLE_SUMS,
    # A frame and its caller's `stack`, 0 for none.
    STACKS: {
        "stack": "UBIGINT",
        "caller": "UBIGINT",
        "function": "UBIGINT",
        "address": "UBIGINT",
        "mode": "UTINYINT",
        "depth": "INTEGER",
    },
    # A function and its object, with their names when the function was first hit.
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
    # The sample accounting of a window (`t` to `until`), CPU and event. Each window has one row of
    # CPU `WHOLE_WINDOW`: the number of samples that belong to no clock, and other lost records.
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
# The order of a file's rows: adjacent equal values use almost no space.
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
        begin_us, end_us: of its windows, in microseconds since 1970.
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
        run: fields of `RunInfo` by name.
        separate: the keys that were kept separate: some of "process", "thread", "cpu".
        window_us: the intended length of a window.
        host_share: the share of hosts that sent the hour; sums of periods are divided by it.
        accounting: None unless it is a day, and for days of earlier versions.
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
    """Return a key that is equal for heads whose segments may be merged; None without a head."""
    if head is None:
        return None
    run = [(name, value) for name, value in head.run.items() if name not in _LOOSE]
    return asdict(head) | {"run": run, "accounting": None}


def written_head(head: Head) -> str:
    """Return a head as Base64, which needs no quoting in SQL."""
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
        run = {name: read(fields["run"][name]) for name, read in _RUN_READERS.items()}
        separate = _texts(fields["separate"])
        share = _share(fields.get("host_share", 1.0))
        sums = fields.get("accounting")
        if sums is not None:
            sums = SegmentAccounting(*(_count(one, _SUM_BITS) for one in sums))
        return Head(run, events, separate, _count(fields["window_us"]), share, sums)
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


def _share(field: Any) -> float:
    share = float(field)
    if not 0.0 < share <= 1.0:
        raise ValueError(share)
    return share


def _text(field: Any) -> str:
    """Return text that can be encoded; undecodable bytes may be in it, other surrogates not."""
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


def _texts(field: Any) -> tuple[str, ...]:
    return tuple(map(_text, field))


_RUN_READERS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(_RUN_FIELDS, _text),
    "recorder_command_line": _texts,
    "limits": _texts,
    "cpu_mhz": _finite,
    "cpus": partial(_count, bits=_CPU_BITS),
    "has_user_callers": bool,
}
_READERS: dict[str, Callable[[Any], Any]] = {
    "str": _text,
    "float": _finite,
    "int": _count,
    "bool": bool,
}
_EVENT_FIELDS = {name: _READERS[kind] for name, kind in EventInfo.__annotations__.items()}
