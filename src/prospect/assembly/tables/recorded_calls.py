"""Calls that the recorder counted → `CallCounts`.

They are the value of `calls` in Prospect's feature section (docs/call-counts.md), which may come
from any writer. The return addresses of the calls are named with the addresses of samples, then the
table is made. There is none if nothing was counted or the value is invalid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.abi import constants as abi
from prospect.assembly.extras import counts_of, is_i32, mapping_of, number_of, texts_of
from prospect.assembly.placing.placement import Addresses
from prospect.profile.optional_tables import CallCounts, CallWindows, CountedFunctions
from prospect.records import Record
from prospect.symbols.demangling.demangle import demangle

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prospect.abi.recorded_facts import RecordingInfo
    from prospect.columns.array_types import I32, I64
    from prospect.profile.model import FunctionTable, LocationTable, ObjectTable
    from prospect.spaces.task_timeline import Timeline

_NS = 1e-9
_COUNTS = ("function", "pid", "caller", "calls", "first_ns")
_BY_WINDOW = ("window", "function", "pid", "calls")
# Sums of any counts that a document can hold stay within 64 bits.
_MOST = 1 << 62
_ONE_BYTE = np.uint64(1)


class CountedCalls(Record):
    """The checked document.

    Attributes:
        counts, by_window: its columns, i64[n].
        functions: number of counted functions.
        addresses: of the calls in `counts`.
        process_index: i32[c] of these rows.
    """

    document: dict[str, Any]
    counts: dict[str, I64]
    by_window: dict[str, I64]
    functions: int
    addresses: Addresses
    process_index: I32


def read_call_counts(info: RecordingInfo, timeline: Timeline) -> CountedCalls | None:
    """Check the counted calls of a recording; None if there are none, or they are invalid."""
    document = mapping_of(info.extras.get("calls"))
    functions = len(texts_of(mapping_of(document.get("functions")).get("name")))
    counts = _columns(document.get("counts"), _COUNTS, functions)
    by_window = _columns(document.get("by_window"), _BY_WINDOW, functions)
    if not functions or counts is None or by_window is None:
        return None
    time_ns = counts["first_ns"].astype(np.uint64)
    change = timeline.processes.find(counts["pid"].astype(np.int32), time_ns)
    process_index = timeline.process_row.take(change).astype(np.int32)
    # The return address may be in the next function, if the call is a function's last instruction.
    address = counts["caller"].astype(np.uint64)
    address -= np.minimum(address, _ONE_BYTE)
    return CountedCalls(
        document=document,
        counts=counts,
        by_window=by_window,
        functions=functions,
        addresses=Addresses(
            process_row=process_index,
            space=timeline.space.take(change),
            epoch=timeline.epoch.take(change),
            mode=np.full(len(address), abi.PERF_RECORD_MISC_USER, np.uint8),
            address=address,
        ),
        process_index=process_index,
    )


def describe_call_counts(
    counted: CountedCalls | None,
    location_index: I32,
    objects: ObjectTable,
    functions: FunctionTable,
    locations: LocationTable,
) -> CallCounts | None:
    """Return the table; None if nothing was counted, or parts of the document contradict.

    `counted` is from `read_call_counts`; `location_index` has i32 rows of locations, those of its
    addresses last; the other tables are the profile's.
    """
    if counted is None:
        return None
    document = counted.document
    called = _counted_functions(document, objects, functions)
    if called is None:
        return None
    location_index = location_index[len(location_index) - len(counted.addresses) :]
    counts, cpu_ns = counted.counts, number_of(document.get("cpu_ns"))
    # The cost of a probe was measured before the run. It may be lower in the run, so the sum can
    # exceed the CPU time, which contains it.
    cost_ns = min(max(number_of(document.get("cost_ns")), 0.0), max(cpu_ns, 0.0))
    return CallCounts(
        functions=called,
        counted_index=counts["function"].astype(np.int32),
        process_index=counted.process_index,
        caller_index=locations.function_index.take(location_index),
        calls=counts["calls"],
        windows=_windows(counted),
        dropped=next(iter(counts_of([document.get("dropped")])), 0),
        budget=number_of(document.get("budget")),
        cost_s=cost_ns * _NS,
        cost_share=cost_ns / cpu_ns if cpu_ns > 0 else 0.0,
        hook=_hook(mapping_of(document.get("hook"))),
    )


def _hook(document: Mapping[str, object]) -> tuple[str, ...]:
    """Return the name of an entry hook, and its lines."""
    name = texts_of([document.get("name")])
    return (*name, *texts_of(document.get("lines"))) if name and name[0] else ()


def _columns(document: object, names: tuple[str, ...], functions: int) -> dict[str, I64] | None:
    """Return columns of counts; None if one is missing, of another length, or out of range."""
    columns = {name: counts_of(mapping_of(document).get(name)) for name in names}
    rows = len(columns["calls"])
    if any(len(column) != rows for column in columns.values()):
        return None
    arrays = {name: np.array(column, np.int64) for name, column in columns.items()}
    are_sound = (
        bool((arrays["function"] < functions).all())
        and all(map(is_i32, columns["pid"]))
        and arrays["calls"].sum(dtype=np.float64) < _MOST
    )
    return arrays if are_sound else None


def _counted_functions(
    document: dict[str, Any], objects: ObjectTable, functions: FunctionTable
) -> CountedFunctions | None:
    listed = mapping_of(document.get("functions"))
    names, paths, why = (texts_of(listed.get(key)) for key in ("name", "object", "left_out"))
    address, kind = (counts_of(listed.get(key)) for key in ("address", "kind"))
    kinds = mapping_of(document.get("kinds"))
    costs = [[number_of(one) for one in _list(kinds.get(key))] for key in ("cost_ns", "spread_ns")]
    count = len(names)
    if {*map(len, (paths, why, address, kind))} != {count} or len(costs[0]) != len(costs[1]):
        return None
    if max(kind) >= len(costs[0]):
        return None
    known = {
        (objects.path[owner], start): row
        for row, (owner, start) in enumerate(
            zip(functions.object_index.tolist(), functions.address.tolist(), strict=True)
        )
        if owner >= 0 and functions.name[row]
    }
    places = zip(paths, address, strict=True)
    return CountedFunctions(
        name=demangle([name.encode("utf-8", "replace") for name in names]),
        object_path=list(paths),
        function_index=np.array([known.get(place, -1) for place in places], np.int32),
        probe_ns=np.array(costs[0]).take(kind),
        probe_spread_ns=np.array(costs[1]).take(kind),
        left_out=list(why),
    )


def _windows(counted: CountedCalls) -> CallWindows | None:
    """Return the windows, None if there were no gaps between them."""
    document = mapping_of(counted.document.get("windows"))
    own_ns, gap_ns = (counts_of(document.get(key)) for key in ("own_ns", "gap_ns"))
    rows = counted.by_window
    if counted.document.get("is_exact") is True or len(own_ns) != len(gap_ns):
        return None
    is_known = rows["window"] < len(own_ns)
    process = _process_of(counted, rows["function"], rows["pid"])
    return CallWindows(
        own_s=np.array(own_ns, np.float64) * _NS,
        gap_s=np.array(gap_ns, np.float64) * _NS,
        window_index=rows["window"][is_known].astype(np.int32),
        counted_index=rows["function"][is_known].astype(np.int32),
        process_index=process[is_known],
        calls=rows["calls"][is_known],
    )


def _process_of(counted: CountedCalls, function: I64, pid: I64) -> I32:
    """Return i32[n] the process row in which a pid first called a function, -1 if it never did."""
    counts = counted.counts
    order = np.argsort(counts["first_ns"], kind="stable")
    key = (counts["pid"] * counted.functions + counts["function"]).take(order)
    keys, first = np.unique(key, return_index=True)
    asked = pid * counted.functions + function
    place = np.minimum(np.searchsorted(keys, asked), max(len(keys) - 1, 0))
    if not len(keys):
        return np.full(len(asked), -1, np.int32)
    row = counted.process_index.take(order.take(first).take(place))
    return np.where(keys.take(place) == asked, row, -1).astype(np.int32)


def _list(value: object) -> list[Any]:
    return value if type(value) is list else []
