"""Addresses and a symbol table → the functions at the addresses, each once."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from prospect.profile.builder import NamedAddresses
from prospect.profile.naming import LazyList, gather
from prospect.profile.naming import joined as joined_lists
from prospect.records import Record, field, replace
from prospect.symbols.demangling.demangle import LazyNames

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prospect.columns.array_types import I32, I64, U64, Bools
    from prospect.profile.naming import NameSource
    from prospect.symbols.table import SymbolTable


class Resolution(Record):
    """The resolved addresses of one object.

    Attributes:
        named: the addresses and their functions, or why there is none.
        path: the object's name in the report; `named.object_path` of its own functions.
        kind: one of KIND_*; KIND_JIT if a map file named anonymous memory.
        build_id: lower-case hex, empty if unknown.
        note: why it has no or poor names; empty if it has good ones.
        part_kinds: KIND_* by the other object paths of functions (modules, BPF programs).
    """

    named: NamedAddresses
    path: str
    kind: int
    build_id: str = ""
    note: str = ""
    part_kinds: dict[str, int] = field(default_factory=dict)


def nameless(address: U64, reason: NameSource) -> NamedAddresses:
    """Return addresses u64[n] that all lack a name for the same reason."""
    return NamedAddresses(
        address=address,
        function=np.full(len(address), -1, np.int32),
        reason=np.full(len(address), reason, np.uint8),
        name=[],
        linkage_name=[],
        aliases=[],
        function_address=np.zeros(0, np.uint64),
        function_size=np.zeros(0, np.uint64),
        is_global=np.zeros(0, np.bool_),
        source=np.zeros(0, np.uint8),
        object_path=[],
    )


def named(
    table: SymbolTable,
    row: I32,
    address: U64,
    uncovered: NameSource,
    object_path: str | Callable[[int], str],
) -> NamedAddresses:
    """Name addresses by the rows of a table that cover them.

    Args:
        row: i32[n] of `table`, -1 if none covers the address.
        address: u64[n] addresses to report.
        uncovered: why rows of -1 have no name.
        object_path: that of all functions, or returns it for a row of the table.
    """
    hit_rows, rank = np.unique(row, return_inverse=True)
    missing = int(len(hit_rows) > 0 and hit_rows[0] < 0)
    hit_rows = hit_rows[missing:]
    function = (rank - missing).astype(np.int32)
    source = table.source.take(hit_rows)
    rows = hit_rows.tolist()
    raw = table.names(rows)
    has_aliases = (
        np.searchsorted(table.alias_row, hit_rows, side="right")
        > np.searchsorted(table.alias_row, hit_rows)
    ).tolist()
    aliases = [
        table.alias_names(one) if has else [] for one, has in zip(rows, has_aliases, strict=True)
    ]
    late = LazyNames([*raw, *itertools.chain.from_iterable(aliases)])
    start = table.start.take(hit_rows)
    return NamedAddresses(
        address=address,
        function=function,
        reason=np.where(
            function < 0, np.uint8(uncovered), np.append(source, np.uint8(0))[function]
        ),
        name=LazyList(len(raw), lambda rows: late.texts([raw[row] for row in rows])),
        linkage_name=[name.decode(errors="surrogateescape") for name in raw],
        aliases=LazyList(len(raw), lambda rows: _each(late, [aliases[row] for row in rows])),
        function_address=start,
        function_size=table.end.take(hit_rows) - start,
        is_global=table.is_global.take(hit_rows),
        source=source,
        object_path=[
            object_path if isinstance(object_path, str) else object_path(one) for one in rows
        ],
    )


def _each(late: LazyNames, names: list[list[bytes]]) -> list[tuple[str, ...]]:
    flat = iter(late.texts([name for several in names for name in several]))
    return [tuple(itertools.islice(flat, len(several))) for several in names]


def joined(first: NamedAddresses, second: NamedAddresses, is_second: Bools) -> NamedAddresses:
    """Merge the names of two parts of one object's addresses.

    `is_second` bool[n] is True for the addresses of `second`, each part in its order.
    """
    order = np.empty(len(is_second), np.int64)
    order[~is_second] = np.arange(len(first.address))
    order[is_second] = np.arange(len(first.address), len(order))
    return at_rows(concatenated([first, second]), order)


def concatenated(parts: Sequence[NamedAddresses]) -> NamedAddresses:
    """Return the addresses and the functions of several parts."""
    functions = []
    before = 0
    for part in parts:
        functions.append(np.where(part.function < 0, -1, part.function + before))
        before += len(part.name)
    return NamedAddresses(
        address=np.concatenate([part.address for part in parts]),
        function=np.concatenate(functions).astype(np.int32),
        reason=np.concatenate([part.reason for part in parts]),
        name=joined_lists([part.name for part in parts]),
        linkage_name=joined_lists([part.linkage_name for part in parts]),
        aliases=joined_lists([part.aliases for part in parts]),
        function_address=np.concatenate([part.function_address for part in parts]),
        function_size=np.concatenate([part.function_size for part in parts]),
        is_global=np.concatenate([part.is_global for part in parts]),
        source=np.concatenate([part.source for part in parts]),
        object_path=joined_lists([part.object_path for part in parts]),
    )


def at_rows(named: NamedAddresses, rows: I64) -> NamedAddresses:
    """Return the names at these rows of addresses, with all functions."""
    return replace(
        named,
        address=named.address.take(rows),
        function=named.function.take(rows),
        reason=named.reason.take(rows),
    )


def without_unused(named: NamedAddresses) -> NamedAddresses:
    """Return the same names without the functions that no address is in."""
    used, function = np.unique(named.function, return_inverse=True)
    nameless_rows = int(len(used) > 0 and used[0] < 0)
    used = used[nameless_rows:]
    rows = used.tolist()
    return replace(
        named,
        function=(function - nameless_rows).astype(np.int32),
        name=gather(named.name, rows),
        linkage_name=gather(named.linkage_name, rows),
        aliases=gather(named.aliases, rows),
        function_address=named.function_address.take(used),
        function_size=named.function_size.take(used),
        is_global=named.is_global.take(used),
        source=named.source.take(used),
        object_path=gather(named.object_path, rows),
    )
