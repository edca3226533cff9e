"""One round of unwinding: every lane goes from its frame to the caller's, or ends.

Defined by DWARF 5, 6.4.4 "Call Frame Calling Address", the System V ABI for x86-64, 3.2.2 "The
Stack Frame", and the AAPCS64, "The Frame Pointer".

Frames of HotSpot's interpreter on x86-64 are chained by frame records. Below a record are the
caller's stack pointer, which may be above the record's end if the caller is compiled, the Method,
and the frame's position in the bytecode. A register has the innermost frame's position.
Defined by: ``src/hotspot/cpu/x86/frame_x86.hpp`` (OpenJDK 8 to 25), interpreter_frame_*_offset; the
register is r13 (``interp_masm_x86.hpp``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.sorting import distinct
from prospect.elf import frame_rules as rules
from prospect.records import NamedTuple
from prospect.unwind import interface
from prospect.unwind.lanes import ADDRESS_BITS
from prospect.unwind.unwind_limits import LONGEST_STACK_BYTES, MOST_ADDED_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prospect.columns.array_types import I32, I64, U8, U64, Bools
    from prospect.elf.frame_rules import MachineRegisters
    from prospect.unwind.lanes import Lanes, SiteMemo


_WORD = 8
_SENDER = -1 * _WORD
# The position in the bytecode in OpenJDK 9 and later, and before.
_POSITIONS = (-8 * _WORD, -7 * _WORD)
_METHOD = -3 * _WORD
_R13 = 13


def bytecode_sites(  # noqa: PLR0913 - the columns of one round
    lanes: Lanes,
    rule: I64,
    site: I32,
    memo: SiteMemo,
    registers: Mapping[int, U64],
    *,
    is_first: bool,
) -> None:
    """Change the sites of interpreted frames to their bytecode, in place, if that is known.

    `rule` and `site` are i64[l] and i32[l] of the lanes' frames. The registers are those of the
    innermost frames, by DWARF number; `is_first` is whether the frames are the innermost ones.
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


def caller_sp(lanes: Lanes, rows: I64, cfa: I64) -> I64:
    """Return the stack pointer in the callers of interpreted frames, i64[r].

    `rows` i64[r] of the lanes are at these frames, whose records end at `cfa` i64[r].
    """
    value, is_there = lanes.read_some(rows, lanes.fp.take(rows) + _SENDER)
    is_there &= (value > cfa) & (value - cfa < MOST_ADDED_BYTES) & (value & 7 == 0)
    return np.where(is_there, value, cfa)


GOES_ON = 255
"""The END_* of a sample that has not ended yet."""

_ADDRESS = (1 << ADDRESS_BITS) - 1


def _saved(slot: int, bits: int) -> int:
    return rules.RULE_AT_CFA << bits | slot & (1 << bits) - 1


# A frame record: the frame register points at the caller's, the return address is above it.
FRAME_RECORD = (
    rules.KIND_FP << rules.KIND_SHIFT
    | 2 << rules.CFA_SHIFT
    | _saved(-2, rules.FP_BITS) << rules.FP_SHIFT
)
_LINK_IN_RECORD = _saved(-1, rules.SECOND_BITS)
# A function that has saved no register yet: the return address is at sp, or in the link register.
_BARE_X86 = rules.KIND_SP << rules.KIND_SHIFT | 1 << rules.CFA_SHIFT
# CPython's perf trampoline calls with 16 bytes on the stack: eight of padding, or the caller's
# frame register, and the return address. Source: Python/asm_trampoline.S, CPython 3.12 to 3.14.
_PADDED_X86 = rules.KIND_SP << rules.KIND_SHIFT | 2 << rules.CFA_SHIFT
_BARE_LINK = rules.KIND_SP << rules.KIND_SHIFT
_ENDS = {
    rules.NO_ROW: interface.END_NO_ROW,
    rules.NO_FORM: interface.END_NO_ROW,
    rules.NO_MAP: interface.END_NO_MAP,
    rules.SWITCH: interface.END_SWITCHED,
}


class Round(NamedTuple):
    """Facts of one round.

    Attributes:
        memo: checks return addresses that are guessed.
        registers: u64[n] columns of the innermost frames by DWARF number.
        is_first: whether frames are the innermost.
        interrupted: i64[k] lanes whose frame a signal interrupted.
    """

    machine: MachineRegisters
    memo: SiteMemo
    registers: Mapping[int, U64]
    is_first: bool
    interrupted: I64


class Callers(NamedTuple):
    """The ends of lanes.

    Attributes:
        end: u8[l] END_*, `GOES_ON` for lanes that go on.
        needed_bytes: i64[l] the size that a cut copy would need, else 0.
        interrupted: i64[k] lanes whose new frame a signal interrupted.
    """

    end: U8
    needed_bytes: I64
    interrupted: I64


def step(lanes: Lanes, rule: I64, site: I32, around: Round) -> Callers:
    """Move every lane to its caller, in place; registers of lanes that end are undefined.

    `rule` i64[l], which gets guessed rules, and `site` i32[l] are of the lanes' frames.
    """
    end = np.full(len(lanes), GOES_ON, np.uint8)
    needed = np.zeros(len(lanes), np.int64)
    signals = np.zeros(0, np.int64)
    kind = rule >> rules.KIND_SHIFT
    rare = np.flatnonzero(kind > rules.KIND_FP)
    if len(rare) and _guess(lanes, rule, site, rare, around):
        kind = rule >> rules.KIND_SHIFT
        rare = np.flatnonzero(kind > rules.KIND_FP)
    cfa = np.where(kind == rules.KIND_FP, lanes.fp, lanes.sp)
    cfa += rules.cfa_bytes(rule)
    interpreted, above = rare[:0], rare[:0]
    if len(rare):
        interpreted = rare[rule.take(rare) == rules.INTERPRETED]
        above = caller_sp(lanes, interpreted, lanes.fp.take(interpreted) + 2 * _WORD)
        rule[interpreted] = FRAME_RECORD
        cfa[interpreted] = lanes.fp.take(interpreted) + 2 * _WORD
        rare = np.setdiff1d(rare, interpreted, assume_unique=True)
        signals = rare[kind.take(rare) == rules.KIND_SIGNAL]
        _find_rare_cfa(lanes, rule, rare, cfa, end, around)
    trampoline = _Signal.read(lanes, signals, rule, around.machine) if len(signals) else None
    second = lanes.second
    if second is not None:
        second_rule = rule >> rules.SECOND_BITS & 3
        second = _restored(lanes, second, cfa, second_rule, rules.second_bytes(rule))
    if around.machine.return_slot:
        at = cfa + _WORD * around.machine.return_slot
        word, is_there = lanes.place(at)
        pc = lanes.read(word, is_there)
        _note_cut(lanes, at, ~is_there, end, needed)
        end[(cfa <= lanes.sp) & (end == GOES_ON)] = interface.END_BAD
    else:
        pc = second if second is not None else lanes.fp
        at = cfa + rules.second_bytes(rule)
        second_rule = rule >> rules.SECOND_BITS & 3
        is_saved = second_rule == rules.RULE_AT_CFA
        _note_cut(lanes, at, is_saved & ~lanes.place(at)[1], end, needed)
        # Only a leaf, or a frame that a signal interrupted, has its return address in the register.
        stays = (second_rule == rules.RULE_SAME) & (not around.is_first)
        stays[around.interrupted] = False
        end[((cfa < lanes.sp) | stays) & (end == GOES_ON)] = interface.END_BAD
        pc = pc & _ADDRESS  # the bits above may sign the pointer: Arm ARM, D8.10
    fp_rule = rule >> (rules.FP_SHIFT + rules.FP_BITS) & 3
    lanes.fp = _restored(lanes, lanes.fp, cfa, fp_rule, rules.fp_bytes(rule))
    lanes.pc, lanes.sp, lanes.second = pc, cfa, second
    lanes.sp[interpreted] = above
    if trampoline is not None:
        trampoline.apply(lanes, end, needed)
    end[(lanes.pc == 0) & (end == GOES_ON)] = interface.END_COMPLETE
    end[((lanes.pc >> ADDRESS_BITS) != 0) & (end == GOES_ON)] = interface.END_BAD
    return Callers(end, needed, signals)


def _restored(lanes: Lanes, value: I64, cfa: I64, how: I64, distance: I64) -> I64:
    """Return a register's value in the callers, i64[l]; 0 if it is unknown."""
    word, is_there = lanes.place(cfa + distance)
    is_saved = how == rules.RULE_AT_CFA
    read = lanes.read(word, is_there & is_saved)
    restored = np.where(is_saved, read, value)
    lost = np.flatnonzero((how > rules.RULE_AT_CFA) | (is_saved & ~is_there))
    if len(lost):
        restored[lost] = 0
        lost = lost[how.take(lost) == rules.RULE_AT_FP]
        restored[lost] = lanes.read_some(lost, lanes.fp.take(lost) + distance.take(lost))[0]
    return restored


def _note_cut(lanes: Lanes, address: I64, is_missing: Bools, end: U8, needed: I64) -> None:
    """Set the ends of lanes whose words are missing: beyond the copy, or not in the stack."""
    missing = np.flatnonzero(is_missing & (end == GOES_ON))
    if not len(missing):
        return
    distance = address.take(missing) - lanes.origin.take(missing)
    is_cut = (distance >= 0) & (distance < LONGEST_STACK_BYTES) & (distance & 7 == 0)
    end[missing] = np.where(is_cut, interface.END_CUT, interface.END_BAD)
    needed[missing] = np.where(is_cut, distance + _WORD, 0)


def _guess(lanes: Lanes, rule: I64, site: I32, rare: I64, around: Round) -> bool:
    """Guess rules for code without a row, in place, if they lead to a plausible frame.

    Returns:
        Whether any of the lanes in `rare` is at such code.
    """
    of_rare = rule.take(rare)
    trampolines = rare[of_rare == rules.TRAMPOLINE]
    rows = rare[(of_rare == rules.NO_ROW) | (of_rare == rules.SWITCH)]
    if not len(trampolines) and not len(rows):
        return False
    _know_trampolines(lanes, rule, trampolines, around)
    of_rare = rule.take(rare)
    rows = rare[(of_rare == rules.NO_ROW) | (of_rare == rules.SWITCH)]
    if not len(rows):
        return True
    by_link = around.machine.return_slot == 0
    is_switch = rule.take(rows) == rules.SWITCH
    sp, fp = lanes.sp.take(rows), lanes.fp.take(rows)
    caller, is_there = lanes.read_some(rows, fp + _WORD)
    is_there &= lanes.read_some(rows, fp)[1] & (fp >= sp)
    record = FRAME_RECORD | (_LINK_IN_RECORD if by_link else 0)
    good = _is_code(lanes, rows, caller, around) & is_there
    rule[rows[good]] = record
    if around.is_first:
        # Hand-written functions and stubs of an image keep no frame; code outside of images does.
        if lanes.second is not None and by_link:
            caller, is_there = lanes.second.take(rows), np.ones(len(rows), np.bool_)
        else:
            caller, is_there = lanes.read_some(rows, sp)
        is_there &= (around.memo.sites().object.take(site.take(rows)) >= 0) & ~is_switch
        good = _is_code(lanes, rows, caller, around, with_row=True) & is_there
        rule[rows[good]] = _BARE_LINK if by_link else _BARE_X86
    return True


def _know_trampolines(lanes: Lanes, rule: I64, rows: I64, around: Round) -> None:
    """Put in place the rules of CPython's trampolines that have called; others have no row."""
    if not len(rows):
        return
    if around.is_first:
        rule[rows] = rules.NO_ROW
    elif around.machine.return_slot == 0:
        rule[rows] = FRAME_RECORD | _LINK_IN_RECORD
    else:
        # Functions that keep the frame register have just set it to the stack pointer.
        keeps = lanes.fp.take(rows) == lanes.sp.take(rows)
        rule[rows] = np.where(keeps, FRAME_RECORD, _PADDED_X86)


def _is_code(
    lanes: Lanes, rows: I64, caller: I64, around: Round, *, with_row: bool = False
) -> Bools:
    """Return whether return addresses are in mapped code, or even in code with a row, bool[r]."""
    caller = caller & _ADDRESS if around.machine.return_slot == 0 else caller
    is_code: Bools = (caller > 0) & (caller >> ADDRESS_BITS == 0)
    key = lanes.key.take(rows) | ((caller - 1) & _ADDRESS).view(np.uint64)
    rule, _ = around.memo.look_up(key)
    if with_row:
        is_code &= rule >> rules.KIND_SHIFT != rules.KIND_ABSENT
    is_code &= rule != rules.NO_MAP
    return is_code


def _find_rare_cfa(  # noqa: PLR0913, PLR0917 - the columns of one round
    lanes: Lanes, rule: I64, rare: I64, cfa: I64, end: U8, around: Round
) -> None:
    """Compute the CFA of rare kinds of frames, in place; end lanes without one."""
    rule = rule.take(rare)
    kind, number = rule >> rules.KIND_SHIFT, rule >> rules.REGISTER_SHIFT & 31
    for absent, reason in _ENDS.items():
        end[rare[rule == absent]] = reason
    # Go clears the frame register if the callers wait to go on elsewhere.
    end[rare[(rule == rules.SWITCH) & (lanes.fp.take(rare) == 0)]] = interface.END_COMPLETE
    end[rare[kind == rules.KIND_END]] = interface.END_COMPLETE
    plt = kind == rules.KIND_PLT
    pushed = (lanes.pc.take(rare[plt]) & 15) >= number[plt]
    cfa[rare[plt]] += _WORD * pushed
    chosen = (kind == rules.KIND_REGISTER) | (kind == rules.KIND_DEREF)
    if not chosen.any():
        return
    rows, rule, kind, number = rare[chosen], rule[chosen], kind[chosen], number[chosen]
    value, is_known = _registers(lanes, rows, number, around)
    end[rows[~is_known]] = interface.END_REGISTER
    before, after = rules.deref_bytes(rule)
    is_deref = kind == rules.KIND_DEREF
    read, is_there = lanes.read_some(rows, value + before)
    end[rows[is_known & is_deref & ~is_there]] = interface.END_BAD
    cfa[rows] = np.where(is_deref, read + after, value + rules.cfa_bytes(rule))


def _registers(lanes: Lanes, rows: I64, number: I64, around: Round) -> tuple[I64, Bools]:
    """Return a register of each of some lanes' frames, i64[r], and whether it is known, bool[r]."""
    value = np.zeros(len(rows), np.int64)
    is_known = np.zeros(len(rows), np.bool_)
    machine = around.machine
    held = {machine.sp: lanes.sp, machine.fp: lanes.fp}
    if lanes.second is not None:
        held[machine.second] = lanes.second
    for each in distinct(number).tolist():
        of_each = number == each
        chosen = rows[of_each]
        if each in held:
            value[of_each], is_known[of_each] = held[each].take(chosen), True
        elif around.is_first and each in around.registers:
            column = around.registers[each].take(lanes.sample.take(chosen))
            value[of_each], is_known[of_each] = column.view(np.int64), True
    return value, is_known


class _Signal(NamedTuple):
    """Registers that the kernel saved for frames that signals interrupted."""

    rows: I64
    at: I64
    sp: I64
    pc: I64
    fp: I64
    second: I64
    is_there: Bools

    @classmethod
    def read(cls, lanes: Lanes, rows: I64, rule: I64, machine: MachineRegisters) -> _Signal:
        """Read the words above sp of these lanes, before they step."""
        at = lanes.sp.take(rows) + rules.cfa_bytes(rule.take(rows))
        sp, _ = lanes.read_some(rows, at)
        fp, _ = lanes.read_some(rows, at + machine.saved_fp)
        second, _ = lanes.read_some(rows, at + machine.saved_second)
        pc, is_there = lanes.read_some(rows, at + machine.saved_pc)
        return cls(rows, at + machine.saved_pc, sp, pc, fp, second, is_there)

    def apply(self, lanes: Lanes, end: U8, needed: I64) -> None:
        """Put the registers into the lanes."""
        rows = self.rows
        lanes.sp[rows], lanes.pc[rows], lanes.fp[rows] = self.sp, self.pc, self.fp
        if lanes.second is not None:
            lanes.second[rows] = self.second
        end[rows] = GOES_ON
        needed[rows] = 0
        at, is_missing = np.zeros(len(lanes), np.int64), np.zeros(len(lanes), np.bool_)
        at[rows], is_missing[rows] = self.at, ~self.is_there
        _note_cut(lanes, at, is_missing, end, needed)
