"""Code of routines → instructions: by the libraries, and by GDB what these do not know.

Comes in: routines with their bytes and the addresses of their hits. Goes out: instructions, or why
there are none. The libraries do not know every machine, nor every new instruction: where a hit is
at bytes that are none to them, GDB is asked if it is installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.disasm.code_image import Piece
from prospect.disasm.gdb import NO_GDB, disassemble_by_gdb, gdb_path
from prospect.disasm.instructions import (
    Instructions,
    disassemble,
    from_rows,
    with_flow_of,
)
from prospect.errors import UsageError
from prospect.profile.source import FLOW_UNKNOWN
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from prospect.options import Disassembler, DisassemblerOptions

NO_MACHINE = "the libraries cannot disassemble code of this machine, and {}: install gdb-multiarch"
GDB_IS_MISSING = "--disassembler gdb: gdb is not installed; install it, or use the library"


# GDB takes a minute for 10 MB. What is larger than any function is a range without names, with data
# in it: a second opinion on a hit there is not worth that.
_LARGEST_DOUBTED_BYTES = 1 << 18


class Routine(NamedTuple):
    """A routine to be decoded: its code or why there is none, its object, u64[k] its hits."""

    code: Piece | str
    object_row: int
    hits: NDArray[np.uint64]


def decode_routines(
    routines: Sequence[Routine], options: DisassemblerOptions
) -> list[Instructions | str]:
    """Decode routines.

    Args:
        routines: what to decode.
        options: how, and by what.

    Returns:
        The instructions of each, or why there are none.

    Raises:
        UsageError: GDB is asked for, and is not installed.
    """
    syntax, disassembler = options.syntax, options.disassembler
    if disassembler == "gdb" and gdb_path() is None:
        raise UsageError(GDB_IS_MISSING)
    decoded: list[Instructions | str] = []
    for_gdb: dict[int, list[int]] = {}
    for row, (code, object_row, hits) in enumerate(routines):
        if isinstance(code, str):
            decoded.append(code)
            continue
        found = disassemble(code.content, code.address, code.target.machine, syntax)
        is_small = len(code.content) <= _LARGEST_DOUBTED_BYTES
        if disassembler == "gdb" or found is None or (is_small and _is_hit_unknown(found, hits)):
            for_gdb.setdefault(object_row, []).append(row)
        decoded.append(NO_MACHINE.format(NO_GDB) if found is None else found)
    groups = [
        [code for row in rows if isinstance(code := routines[row].code, Piece)]
        for rows in for_gdb.values()
    ]
    answers = disassemble_by_gdb(groups, syntax, options.gdb_processes) if groups else []
    for rows, of_group in zip(for_gdb.values(), answers, strict=True):
        for row, answer in zip(rows, of_group, strict=True):
            decoded[row] = _chosen(decoded[row], answer, routines[row].hits, disassembler)
    return decoded


def _chosen(
    ours: Instructions | str,
    answer: list[tuple[int, int, str, int, int]] | str,
    hits: NDArray[np.uint64],
    disassembler: Disassembler,
) -> Instructions | str:
    """Choose between what a library and what GDB says of a routine."""
    if isinstance(answer, str):
        if disassembler == "gdb":
            return answer
        return NO_MACHINE.format(answer) if isinstance(ours, str) else ours
    theirs = from_rows(answer)
    if isinstance(ours, str):
        return theirs
    if disassembler == "library" and _unknown(theirs, hits) >= _unknown(ours, hits):
        return ours
    return with_flow_of(theirs, ours)


def _is_hit_unknown(found: Instructions, hits: NDArray[np.uint64]) -> bool:
    return _unknown(found, hits) > 0


def _unknown(found: Instructions, hits: NDArray[np.uint64]) -> int:
    """Return how many of the addresses that were hit are no instruction."""
    if not len(found):
        return len(hits)
    row = np.minimum(np.searchsorted(found.address, hits), len(found) - 1)
    known = (found.address.take(row) == hits) & (found.flow.take(row) != FLOW_UNKNOWN)
    return int(np.count_nonzero(~known))
