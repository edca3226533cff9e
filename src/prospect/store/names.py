"""Read the functions, objects and stacks that hits of a store refer to, as tables of a profile.

A kernel is loaded at a random address at each boot, in steps of 2 MiB at least, and a module at any
page. Functions of one name and build whose addresses differ by whole steps, after another boot or
on another host, are one function; two static functions of one name in one kernel are next to never
so far from each other.
Source: Linux, arch/x86/Kconfig, CONFIG_PHYSICAL_ALIGN; Documentation/arch/arm64/booting.rst.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.profile.model import (
    KIND_KERNEL,
    KIND_MODULE,
    KIND_UNKNOWN,
    FunctionTable,
    LocationTable,
    ObjectTable,
    StackTable,
)
from prospect.profile.naming import NameSource
from prospect.records import NamedTuple
from prospect.store.file_schema import COLUMNS, LOST
from prospect.store.segments import FUNCTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from prospect.columns.array_types import I32, I64, U8, U64
    from prospect.store.tables import Queries

    Columns = dict[str, NDArray[Any]]


SOURCES_WITH_NAMES = [int(one) for one in NameSource if one.named]
LOST_NAMES = "the store has lost its names: prospect store check shows where"
_FRAMES = "stack", "caller", "function", "address", "mode", "depth"
_STEP = {KIND_KERNEL: 2 << 20, KIND_MODULE: 4 << 10}


class Names(NamedTuple):
    """Tables of a profile, and their rows for each row of hits.

    Attributes:
        stacks: None if nobody wants them, or there are none.
        location_of_row: i32[n].
        stack_of_row: i32[n], -1 for none; None without stacks.
    """

    objects: ObjectTable
    functions: FunctionTable
    locations: LocationTable
    stacks: StackTable | None
    location_of_row: I32
    stack_of_row: I32 | None


def read_names(engine: Queries, rows: Columns, *, stacks: bool) -> Names:
    """Find the functions, and with `stacks` the stacks, that rows of hits refer to.

    Raises:
        EngineError: a file cannot be read.
    """
    frames: Columns | None = None
    if stacks and (rows["stack"] != 0).any():
        frames = _frames(engine, rows["stack"])
    function, address = rows["function"], rows["address"]
    if frames is not None:
        function = np.concatenate((function, frames["function"]))
        address = np.concatenate((address, frames["address"]))
    order = np.lexsort((address, function))
    is_new = np.append(True, np.diff(function.take(order)) != 0)[: len(order)]
    is_new[1:] |= np.diff(address.take(order)) != 0
    location = np.empty(len(order), np.int32)
    location[order] = np.cumsum(is_new, dtype=np.int32) - 1
    first = order[is_new]
    objects, functions, wanted, row = _functions(engine, function.take(first))
    locations = LocationTable(
        function_index=row.take(np.searchsorted(wanted, function.take(first))),
        address=address.take(first),
    )
    count = len(rows["n"])
    if frames is None:
        return Names(objects, functions, locations, None, location[:count], None)
    table, stack_of_row = _stack_table(frames, location[count:], rows["stack"])
    return Names(objects, functions, locations, table, location[:count], stack_of_row)


def _functions(engine: Queries, numbers: U64) -> tuple[ObjectTable, FunctionTable, U64, I32]:
    """Return objects, functions by name, the distinct numbers, and the row of each."""
    wanted = np.unique(numbers)
    engine.register("wanted_functions", {"wanted": wanted})
    found = engine.columns(
        "SELECT * FROM functions WHERE function IN (SELECT wanted FROM wanted_functions)"
    )
    order = np.argsort(found["function"])
    found = {name: column.take(order) for name, column in found.items()}
    missing = np.setdiff1d(wanted, found["function"])
    if len(missing):
        found = _with_nameless(found, missing)
    kept, row = np.unique(first_of_each(found), return_inverse=True)
    names, paths = (found[name].take(kept).tolist() for name in ("name", "path"))
    by_name = sorted(range(len(kept)), key=lambda at: (names[at], paths[at]))
    found = {name: column.take(kept.take(by_name)) for name, column in found.items()}
    row = np.argsort(by_name).take(row)
    by_object: dict[tuple[Any, ...], int] = {}
    columns = ("path", "object_kind", "build_id", "object_source", "note")
    index = [
        by_object.setdefault(key[:3], len(by_object))
        for key in zip(*(found[name].tolist() for name in columns), strict=True)
    ]
    first = {place: row for row, place in reversed(list(enumerate(index)))}
    of_object = [first[place] for place in range(len(by_object))]
    objects = ObjectTable(
        path=found["path"].take(of_object).tolist(),
        kind=found["object_kind"].take(of_object).astype(np.uint8),
        build_id=found["build_id"].take(of_object).tolist(),
        source=found["object_source"].take(of_object).astype(np.uint8),
        note=found["note"].take(of_object).tolist(),
    )
    functions = FunctionTable(
        name=found["name"].tolist(),
        linkage_name=found["raw_name"].tolist(),
        aliases=[tuple(filter(None, text.split("\n"))) for text in found["aliases"].tolist()],
        object_index=np.array(index, np.int32),
        address=found["address"].astype(np.uint64),
        size_bytes=found["size"].astype(np.uint64),
        is_global=found["is_global"].astype(np.bool_),
        source=_known_sources(found["source"]),
    )
    return objects, functions, wanted, row.astype(np.int32)


def _known_sources(source: NDArray[Any]) -> U8:
    """Return the sources; unknown ones become NO_COVER."""
    known = np.isin(source, [int(one) for one in NameSource])
    return np.where(known, source, np.uint8(NameSource.NO_COVER)).astype(np.uint8)


def _with_nameless(found: Columns, missing: U64) -> Columns:
    """Add rows for functions whose names are lost, in the order of the numbers."""
    count = len(missing)
    more: Columns = {
        name: np.full(count, "", object) if type_ == "VARCHAR" else np.zeros(count, np.uint64)
        for name, type_ in COLUMNS[FUNCTIONS].items()
    }
    more["function"] = missing
    more["source"] = np.full(count, NameSource.NO_COVER)
    more["object_source"] = more["source"]
    more["object_kind"] = np.full(count, KIND_UNKNOWN)
    more["path"] = np.full(count, LOST, object)
    more["note"] = np.full(count, LOST_NAMES, object)
    joined = {name: np.concatenate((found[name], more[name])) for name in found}
    order = np.argsort(joined["function"], kind="stable")
    return {name: column.take(order) for name, column in joined.items()}


def _frames(engine: Queries, numbers: U64) -> Columns | None:
    """Return the frames of stacks and all their callers, callers first."""
    engine.register("wanted_stacks", {"wanted": np.unique(numbers[numbers != 0])})
    engine.keep("kept_stacks", "SELECT * FROM stacks")
    found = engine.columns(
        # A frame is one deeper than its caller: this ends even in a damaged file.
        "WITH RECURSIVE used AS ("
        "SELECT * FROM kept_stacks WHERE stack IN (SELECT wanted FROM wanted_stacks)"
        " UNION SELECT every.* FROM kept_stacks AS every JOIN used ON every.stack = used.caller"
        " AND every.depth = used.depth - 1) SELECT * FROM used"
    )
    if not len(found["stack"]):
        return None
    order = np.lexsort((found["stack"], found["depth"]))
    return {name: found[name].take(order) for name in _FRAMES}


def _stack_table(frames: Columns, location: I32, wanted: U64) -> tuple[StackTable, I32]:
    row_of = row_finder(frames["stack"])
    caller = row_of(frames["caller"]).astype(np.int32)
    # In the order of depth a caller precedes its callee. Anything else is damage.
    caller[caller >= np.arange(len(caller))] = -1
    depth = np.zeros(len(caller), np.int32)
    for row, outside in enumerate(caller.tolist()):
        if outside >= 0:
            depth[row] = depth[outside] + 1
    table = StackTable(
        caller_index=caller,
        location_index=location,
        mode=frames["mode"].astype(np.uint8),
        depth=depth,
    )
    return table, row_of(wanted).astype(np.int32)


def row_finder(numbers: U64) -> Callable[[U64], I64]:
    """Return a function that finds the rows of numbers in this column, -1 for none."""
    order = np.argsort(numbers, kind="stable")
    ascending = numbers.take(order)

    def rows_of(wanted: U64) -> I64:
        if not len(ascending):
            return np.full(len(wanted), -1, np.int64)
        at = np.minimum(np.searchsorted(ascending, wanted), len(ascending) - 1)
        return np.where(ascending.take(at) == wanted, order.take(at), -1)

    return rows_of


def first_of_each(functions: Mapping[str, NDArray[Any]]) -> I64:
    """Return i64[f]: the first row of the same function, for each row."""
    kind = functions["object_kind"]
    first = np.arange(len(kind), dtype=np.int64)
    rows = np.flatnonzero(np.isin(kind, list(_STEP)))
    known: dict[tuple[Any, ...], int] = {}
    columns = ("object_kind", "path", "build_id", "name", "address", "source")
    keys = zip(*(functions[name].take(rows).tolist() for name in columns), strict=True)
    for row, (kind_of, path, build_id, name, address, source) in zip(
        rows.tolist(), keys, strict=True
    ):
        key = (kind_of, path, build_id, name, address % _STEP[kind_of], source)
        first[row] = known.setdefault(key, row) if name else row
    return first
