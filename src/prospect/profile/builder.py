"""Named pieces of objects → the object, function and location tables of a Profile.

A profile made of sums instead of single samples has the tables `no_samples` and `no_clocks`,
without rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

from prospect.columns.sorting import distinct
from prospect.profile.model import (
    KIND_MODULE,
    ClockTable,
    FunctionTable,
    LocationTable,
    ObjectTable,
    SampleTable,
)
from prospect.profile.naming import NameSource, joined
from prospect.records import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from prospect.columns.array_types import I32, U8, U64, Bools

_Scalar = TypeVar("_Scalar", bound=np.generic)


def no_samples() -> SampleTable:
    """Return the sample table of a profile made of sums."""
    return SampleTable(
        hit_index=np.empty(0, np.int32),
        time_ns=np.empty(0, np.uint64),
        cpu=np.empty(0, np.uint16),
        clock=np.empty(0, np.uint8),
    )


def no_clocks() -> ClockTable:
    """Return the clock table of a profile whose clocks have no known grid."""
    times = np.empty(0, np.uint64)
    return ClockTable(
        event=np.empty(0, np.uint16),
        clock=np.empty(0, np.uint8),
        cpu=np.empty(0, np.int32),
        period_ns=np.empty(0, np.float64),
        begin_ns=times,
        end_ns=times,
        lost=np.empty(0, np.int64),
    )


class NamedAddresses(Record):
    """The distinct addresses hit in one object, and their functions.

    Attributes:
        address: u64[n] in the object's own terms (SVMA for images, AVMA for kernel and JIT code).
        function: i32[n] row of the lists below, -1 if there is no name.
        reason: u8[n] NameSource, one of NO_* where `function` is -1. name, linkage_name, aliases,
        function_address, function_size, is_global, source, object_path: one entry a function, as in
        `FunctionTable`; `object_path` may differ from the object's own (kernel modules, BPF
        programs).
    """

    address: U64
    function: I32
    reason: U8
    name: Sequence[str]
    linkage_name: Sequence[str]
    aliases: Sequence[tuple[str, ...]]
    function_address: U64
    function_size: U64
    is_global: Bools
    source: U8
    object_path: Sequence[str]


class TableBuilder:
    """Collects objects in turn; `tables()` returns their tables."""

    def __init__(self) -> None:
        self._paths: list[str] = []
        self._kinds: list[int] = []
        self._build_ids: list[str] = []
        self._notes: list[str] = []
        self._shared_objects: dict[tuple[str, int], int] = {}
        self._functions: list[FunctionTable] = []
        self._function_count = 0
        self._locations: list[LocationTable] = []

    def add(  # noqa: PLR0913 - an object has as many facts, all but three by keyword
        self,
        path: str,
        kind: int,
        named: NamedAddresses,
        *,
        build_id: str = "",
        note: str = "",
        part_kinds: dict[str, int] | None = None,
    ) -> int:
        """Add one object; return its row. Its addresses become the next location rows, in order.

        Args:
            path: the object's name in the report.
            kind: one of KIND_*.
            build_id: lower-case hex, empty if unknown.
            note: why it has no or poor names.
            part_kinds: kinds of the other object paths among the functions; `kind` if absent.
        """
        # A module also has functions that a listing places outside its mapping.
        own_object = (
            self._part_row(path, kind)
            if kind == KIND_MODULE
            else self._object_row(path, kind, build_id, note)
        )
        row_of = {path: own_object}
        for other in dict.fromkeys(named.object_path):
            if other not in row_of:
                row_of[other] = self._part_row(other, (part_kinds or {}).get(other, kind))
        first_function = self._add_functions(
            FunctionTable(
                name=named.name,
                linkage_name=named.linkage_name,
                aliases=named.aliases,
                object_index=np.array([row_of[p] for p in named.object_path], np.int32),
                address=named.function_address,
                size_bytes=named.function_size,
                is_global=named.is_global,
                source=named.source,
            )
        )
        function = named.function + np.int32(first_function)
        nameless = named.function < 0
        for reason in distinct(named.reason[nameless]).tolist():
            chosen = nameless & (named.reason == reason)
            function[chosen] = self._add_functions(
                FunctionTable(
                    name=[""],
                    linkage_name=[""],
                    aliases=[()],
                    object_index=np.array([own_object], np.int32),
                    address=named.address[chosen].min(keepdims=True),
                    size_bytes=np.zeros(1, np.uint64),
                    is_global=np.zeros(1, np.bool_),
                    source=np.array([reason], np.uint8),
                )
            )
        self._locations.append(LocationTable(function_index=function, address=named.address))
        return own_object

    def _object_row(self, path: str, kind: int, build_id: str, note: str) -> int:
        self._paths.append(path)
        self._kinds.append(kind)
        self._build_ids.append(build_id)
        self._notes.append(note)
        return len(self._paths) - 1

    def _part_row(self, path: str, kind: int) -> int:
        row = self._shared_objects.get((path, kind))
        if row is None:
            row = self._object_row(path, kind, "", "")
            self._shared_objects[path, kind] = row
        return row

    def _add_functions(self, functions: FunctionTable) -> int:
        """Append functions; return the row of the first."""
        first = self._function_count
        self._functions.append(functions)
        self._function_count += len(functions.linkage_name)
        return first

    def tables(self) -> tuple[ObjectTable, FunctionTable, LocationTable]:
        """Return the tables of all objects added so far."""
        parts = self._functions
        functions = FunctionTable(
            name=joined([part.name for part in parts]),
            linkage_name=[name for part in parts for name in part.linkage_name],
            aliases=joined([part.aliases for part in parts]),
            object_index=_joined([part.object_index for part in parts], np.int32),
            address=_joined([part.address for part in parts], np.uint64),
            size_bytes=_joined([part.size_bytes for part in parts], np.uint64),
            is_global=_joined([part.is_global for part in parts], np.bool_),
            source=_joined([part.source for part in parts], np.uint8),
        )
        objects = ObjectTable(
            path=self._paths,
            kind=np.array(self._kinds, np.uint8),
            build_id=self._build_ids,
            source=_commonest_source(functions, len(self._paths)),
            note=self._notes,
        )
        locations = LocationTable(
            function_index=_joined([part.function_index for part in self._locations], np.int32),
            address=_joined([part.address for part in self._locations], np.uint64),
        )
        return objects, functions, locations


def _joined(parts: list[NDArray[_Scalar]], dtype: type[_Scalar]) -> NDArray[_Scalar]:
    return np.concatenate(parts) if parts else np.empty(0, dtype)


def _commonest_source(functions: FunctionTable, objects: int) -> U8:
    """Return the source of most function names of each object; NO_COVER if it has none."""
    sources = max(NameSource) + 1
    cell = functions.object_index.astype(np.int64) * sources + functions.source
    counted = np.bincount(cell, minlength=objects * sources).reshape(objects, sources)
    commonest: U8 = counted.argmax(axis=1).astype(np.uint8)
    commonest[counted.max(axis=1, initial=0) == 0] = NameSource.NO_COVER
    return commonest
