"""Frames of HotSpot's interpreter on x86-64: which method each runs, and where its caller's begins.

A frame record leads from one frame to the next. Below it are the caller's stack pointer, which may
be higher than the record says if a compiled caller called, the Method, and where in the bytecode
the frame is. While the innermost frame runs, a register has that.

Defined by: ``src/hotspot/cpu/x86/frame_x86.hpp`` (OpenJDK 8 to 25), interpreter_frame_*_offset; the
register is r13 (``interp_masm_x86.hpp``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.elf import frame_rules as rules
from prospect.unwind.memo import ADDRESS_BITS
from prospect.unwind.unwind_limits import MOST_ADDED_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from prospect.unwind.lanes import Lanes
    from prospect.unwind.memo import SiteMemo

_WORD = 8
_SENDER = -1 * _WORD
# The position in the bytecode since 9, and before.
_POSITIONS = (-8 * _WORD, -7 * _WORD)
_METHOD = -3 * _WORD
_R13 = 13


def bytecode_sites(  # noqa: PLR0913 - the columns of one round
    lanes: Lanes,
    rule: NDArray[np.int64],
    site: NDArray[np.int32],
    memo: SiteMemo,
    registers: Mapping[int, NDArray[np.uint64]],
    *,
    is_first: bool,
) -> None:
    """Put the places of interpreted frames into their bytecode, in place, where that is known.

    Args:
        lanes: at their frames.
        rule: i64[l] of each frame.
        site: i32[l] of each frame.
        memo: knows the places.
        registers: of the samples.
        is_first: whether the frames are the innermost ones.
    """
    rows = np.flatnonzero(rule == rules.INTERPRETED)
    if not len(rows):
        return
    fp = lanes.fp.take(rows)
    candidates = []
    if is_first and _R13 in registers:
        column = registers[_R13].take(lanes.sample.take(rows))
        candidates.append(column.view(np.int64))
    for offset in (*_POSITIONS, _METHOD):
        value, is_there = lanes.read_some(rows, fp + offset)
        candidates.append(np.where(is_there, value, 0))
    wanted = np.ones(len(rows), np.bool_)
    for value in candidates:
        asked = np.flatnonzero(wanted & (value > 0) & (value >> ADDRESS_BITS == 0))
        if not len(asked):
            continue
        key = lanes.key.take(rows.take(asked)) | value.take(asked).view(np.uint64)
        found, place = memo.look_up(key)
        good = found == rules.BYTECODE
        site[rows.take(asked[good])] = place[good]
        wanted[asked[good]] = False


def caller_sp(lanes: Lanes, rows: NDArray[np.int64], cfa: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the stack pointer in the callers of interpreted frames, i64[r].

    Args:
        lanes: at these frames.
        rows: i64[r] which lanes.
        cfa: i64[r] what their frame records say.
    """
    value, is_there = lanes.read_some(rows, lanes.fp.take(rows) + _SENDER)
    is_there &= (value > cfa) & (value - cfa < MOST_ADDED_BYTES) & (value & 7 == 0)
    return np.where(is_there, value, cfa)
