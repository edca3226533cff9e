"""Call-frame programs → steps: the effect of each operation on the few registers that matter.

`decode_operations` divides programs into `Operations`. For every byte at once, it computes the
length of an operation that would begin there; it then takes one step for each operation.
`translate` makes `FrameSteps` of them, with the factors of their CIEs: numbers are bytes, and a
register is saved in one of six ways.

`recognise` knows the few forms of expressions that occur: linkers write one for each kind of
procedure linkage table, compilers one for frames that they align, the C library those of its signal
trampoline, and hand-written assembly some that read the CFA from the stack.

Source: DWARF 5, 6.4.2 "Call Frame Instructions", 7.24, 2.5 "DWARF Expressions" and 7.7.1; LSB Core
5.0, 10.5.2 "DWARF CFI Extensions"; the DWARF for the Arm 64-bit Architecture.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.sorting import distinct
from prospect.elf.elf_limits import LONGEST_EXPRESSION_BYTES, LONGEST_FUNCTION_BYTES
from prospect.elf.frame_entries import leb128
from prospect.records import NamedTuple, Record

if TYPE_CHECKING:
    from prospect.columns.array_types import I64, U8
    from prospect.elf.frame_entries import EhData
    from prospect.elf.frame_rules import MachineRegisters

DW_CFA_ADVANCE_LOC, DW_CFA_OFFSET, DW_CFA_RESTORE = 0x40, 0x80, 0xC0
DW_CFA_NOP, DW_CFA_SET_LOC = 0x00, 0x01
DW_CFA_ADVANCE_LOC1, DW_CFA_ADVANCE_LOC2, DW_CFA_ADVANCE_LOC4 = 0x02, 0x03, 0x04
DW_CFA_OFFSET_EXTENDED, DW_CFA_RESTORE_EXTENDED = 0x05, 0x06
DW_CFA_UNDEFINED, DW_CFA_SAME_VALUE, DW_CFA_REGISTER = 0x07, 0x08, 0x09
DW_CFA_REMEMBER_STATE, DW_CFA_RESTORE_STATE = 0x0A, 0x0B
DW_CFA_DEF_CFA, DW_CFA_DEF_CFA_REGISTER, DW_CFA_DEF_CFA_OFFSET = 0x0C, 0x0D, 0x0E
DW_CFA_DEF_CFA_EXPRESSION, DW_CFA_EXPRESSION = 0x0F, 0x10
DW_CFA_OFFSET_EXTENDED_SF, DW_CFA_DEF_CFA_SF, DW_CFA_DEF_CFA_OFFSET_SF = 0x11, 0x12, 0x13
DW_CFA_VAL_OFFSET, DW_CFA_VAL_OFFSET_SF, DW_CFA_VAL_EXPRESSION = 0x14, 0x15, 0x16
DW_CFA_MIPS_ADVANCE_LOC8 = 0x1D
DW_CFA_AARCH64_NEGATE_RA_STATE_WITH_PC = 0x2C
DW_CFA_AARCH64_NEGATE_RA_STATE = 0x2D  # elsewhere DW_CFA_GNU_window_save
DW_CFA_GNU_ARGS_SIZE, DW_CFA_GNU_NEGATIVE_OFFSET_EXTENDED = 0x2E, 0x2F
UNKNOWN_OPERATION = 0x3F
"""The `Operations.code` of an unknown operation."""

# Operands of an operation: numbers of variable length, then fixed bytes.
_TWO_NUMBERS = (
    *(DW_CFA_OFFSET_EXTENDED, DW_CFA_REGISTER, DW_CFA_DEF_CFA, DW_CFA_OFFSET_EXTENDED_SF),
    *(DW_CFA_DEF_CFA_SF, DW_CFA_VAL_OFFSET, DW_CFA_VAL_OFFSET_SF),
    DW_CFA_GNU_NEGATIVE_OFFSET_EXTENDED,
)
_ONE_NUMBER = (
    *(DW_CFA_RESTORE_EXTENDED, DW_CFA_UNDEFINED, DW_CFA_SAME_VALUE, DW_CFA_DEF_CFA_REGISTER),
    *(DW_CFA_DEF_CFA_OFFSET, DW_CFA_DEF_CFA_OFFSET_SF, DW_CFA_GNU_ARGS_SIZE),
    *(DW_CFA_DEF_CFA_EXPRESSION, DW_CFA_EXPRESSION, DW_CFA_VAL_EXPRESSION),
)
_NO_NUMBER = (
    *(DW_CFA_NOP, DW_CFA_SET_LOC, DW_CFA_ADVANCE_LOC1, DW_CFA_ADVANCE_LOC2, DW_CFA_ADVANCE_LOC4),
    *(DW_CFA_REMEMBER_STATE, DW_CFA_RESTORE_STATE, DW_CFA_MIPS_ADVANCE_LOC8),
    *(DW_CFA_AARCH64_NEGATE_RA_STATE_WITH_PC, DW_CFA_AARCH64_NEGATE_RA_STATE),
)
_NUMBERS = {
    **dict.fromkeys(_TWO_NUMBERS, 2),
    **dict.fromkeys(_ONE_NUMBER, 1),
    **dict.fromkeys(_NO_NUMBER, 0),
}
_FIXED_FORMS = {
    DW_CFA_ADVANCE_LOC1: "<u1",
    DW_CFA_ADVANCE_LOC2: "<u2",
    DW_CFA_ADVANCE_LOC4: "<u4",
    DW_CFA_MIPS_ADVANCE_LOC8: "<u8",
}
_LAST_IS_SIGNED = (
    DW_CFA_OFFSET_EXTENDED_SF,
    DW_CFA_DEF_CFA_SF,
    DW_CFA_DEF_CFA_OFFSET_SF,
    DW_CFA_VAL_OFFSET_SF,
)
_WITH_BLOCK = (DW_CFA_DEF_CFA_EXPRESSION, DW_CFA_EXPRESSION, DW_CFA_VAL_EXPRESSION)
_LAST_BLOCK_BYTES = 1 << 16
# For fewer programs than this, a step of all costs more than a step of each.
_FEW = 64

_BREG0, _BREG31, _BREGX, _DEREF, _PLUS_UCONST = 0x70, 0x8F, 0x92, 0x06, 0x23
_RIP_BREG = b"\x80\x00"  # DW_OP_breg16 (rip) 0
# (rip & 15) >= bound, times 8, and that added: DW_OP_lit15 and litN ge lit3 shl plus
_PLT_HEAD, _PLT_TAIL, _LIT0 = b"\x3f\x1a", b"\x2a\x33\x24\x22", 0x30

FORM_SUM, FORM_DEREF, FORM_PLT, FORM_OTHER = range(4)

STEP_NONE, STEP_ADVANCE, STEP_SET_LOCATION = 0, 1, 2
STEP_CFA, STEP_CFA_REGISTER, STEP_CFA_OFFSET, STEP_CFA_PLACE = 3, 4, 5, 6
STEP_SAVE, STEP_RESTORE, STEP_REMEMBER, STEP_RESTORE_STATE, STEP_UNKNOWN = 7, 8, 9, 10, 11
STEP_BEGIN, STEP_END = 12, 13

SAVED_SAME, SAVED_AT_CFA, SAVED_AT_FP, SAVED_AT_SP, SAVED_LOST, SAVED_UNDEFINED = range(6)

_ACTIONS = np.zeros(256, np.uint8)
_ACTIONS[
    [
        *(DW_CFA_ADVANCE_LOC, DW_CFA_ADVANCE_LOC1, DW_CFA_ADVANCE_LOC2),
        *(DW_CFA_ADVANCE_LOC4, DW_CFA_MIPS_ADVANCE_LOC8),
    ]
] = STEP_ADVANCE
_ACTIONS[DW_CFA_SET_LOC] = STEP_SET_LOCATION
_ACTIONS[[DW_CFA_DEF_CFA, DW_CFA_DEF_CFA_SF]] = STEP_CFA
_ACTIONS[DW_CFA_DEF_CFA_REGISTER] = STEP_CFA_REGISTER
_ACTIONS[[DW_CFA_DEF_CFA_OFFSET, DW_CFA_DEF_CFA_OFFSET_SF]] = STEP_CFA_OFFSET
_ACTIONS[DW_CFA_DEF_CFA_EXPRESSION] = STEP_CFA_PLACE
_AT_CFA = [DW_CFA_OFFSET, DW_CFA_OFFSET_EXTENDED, DW_CFA_OFFSET_EXTENDED_SF]
_AT_CFA += [DW_CFA_GNU_NEGATIVE_OFFSET_EXTENDED]
_LOST = [DW_CFA_REGISTER, DW_CFA_VAL_OFFSET, DW_CFA_VAL_OFFSET_SF]
_LOST += [DW_CFA_VAL_EXPRESSION]
_ACTIONS[[*_AT_CFA, *_LOST, DW_CFA_UNDEFINED, DW_CFA_SAME_VALUE]] = STEP_SAVE
_ACTIONS[DW_CFA_EXPRESSION] = STEP_SAVE
_ACTIONS[[DW_CFA_RESTORE, DW_CFA_RESTORE_EXTENDED]] = STEP_RESTORE
_ACTIONS[DW_CFA_REMEMBER_STATE] = STEP_REMEMBER
_ACTIONS[DW_CFA_RESTORE_STATE] = STEP_RESTORE_STATE
_ACTIONS[UNKNOWN_OPERATION] = STEP_UNKNOWN


class Operations(Record, eq=False):
    """The operations of many programs, in the order of the programs.

    Attributes:
        program: the row of the program.
        code: DW_CFA_*; the upper two bits alone of the three primary ones.
        first: the first operand: a register, an offset, or how far to advance.
        second: the second operand, if there are two; for expressions, the block's position.
        block_bytes: the length of the expression; 0 for other operations.
    """

    program: I64
    code: U8
    first: I64
    second: I64
    block_bytes: I64

    def __len__(self) -> int:
        return len(self.code)


def decode_operations(data: EhData, begin: I64, end: I64, address_encoding: I64) -> Operations:
    """Decode the programs of a section.

    Args:
        begin: i64[n] where programs begin, ascending.
        end: i64[n] where they end.
        address_encoding: i64[n] DW_EH_PE_* of DW_CFA_set_loc's operand.

    Returns:
        Their operations, without DW_CFA_nop. An operation that is unknown, or does not end within
        its program, is an `UNKNOWN_OPERATION`, and its program's last.
    """
    none = np.zeros(0, np.int64)
    if not len(begin):
        return Operations(none, none.astype(np.uint8), none, none, none)
    low = int(begin[0])
    octets = data.octets[low : int(end.max())]
    following = _following(octets, _set_loc_bytes(data, address_encoding))
    position, program = _walk(following, begin - low, end - low)
    code = _codes(octets.take(position))
    beyond = following.take(position) > (end - low).take(program)
    code[beyond] = UNKNOWN_OPERATION
    is_broken = code == UNKNOWN_OPERATION
    broken = np.full(len(begin), len(octets), np.int64)
    np.minimum.at(broken, program[is_broken], position[is_broken])
    kept = np.flatnonzero((code != DW_CFA_NOP) & (position <= broken.take(program)))
    order = kept.take(np.argsort(program.take(kept), kind="stable"))
    position, program, code = position.take(order) + low, program.take(order), code.take(order)
    return _with_operands(data, position, program, code, address_encoding)


def _codes(first_byte: U8) -> U8:
    primary = first_byte & 0xC0
    known = np.zeros(64, np.uint8)
    known[:] = UNKNOWN_OPERATION
    known[list(_NUMBERS)] = list(_NUMBERS)
    return np.where(primary != 0, primary, known.take(first_byte & 0x3F)).astype(np.uint8)


def _set_loc_bytes(data: EhData, encoding: I64) -> int:
    """Return the size of DW_CFA_set_loc's operand; 0 if it differs between programs."""
    sizes = {
        data.pointer_bytes if e & 0xF == 0 else {2: 2, 3: 4, 4: 8}.get(int(e) & 7, 0)
        for e in distinct(encoding).tolist()
    }
    return sizes.pop() if len(sizes) == 1 else 0


def _following(octets: U8, set_loc_bytes: int) -> I64:
    """Return the end of the operation that would begin at each byte, i64[b]."""
    count = len(octets)
    at = np.arange(count + 1)
    # The end of a number of variable length that begins at each byte, or beyond the section.
    after = np.full(count + 2, count + 1, np.int64)
    ends = np.where(octets < 0x80, at[:-1] + 1, count + 1)
    after[:count] = np.minimum.accumulate(ends[::-1])[::-1]
    numbers, fixed = np.zeros(256, np.int64), np.zeros(256, np.int64)
    for code, many in _NUMBERS.items():
        numbers[code] = many
    for code, form in _FIXED_FORMS.items():
        fixed[code] = np.dtype(form).itemsize
    numbers[DW_CFA_OFFSET : DW_CFA_OFFSET + 64] = 1
    following = at[:-1] + 1 + fixed.take(octets)
    rows = np.flatnonzero(numbers.take(octets) > 0)
    following[rows] = after.take(rows + 1)
    rows = rows[numbers.take(octets.take(rows)) > 1]
    following[rows] = after.take(following.take(rows))
    if set_loc_bytes:
        following[octets == DW_CFA_SET_LOC] += set_loc_bytes
    else:
        following[octets == DW_CFA_SET_LOC] = count + 1
    _skip_blocks(octets, after, following)
    bounded: I64 = np.minimum(following, count + 1)
    return bounded


def _skip_blocks(octets: U8, after: I64, following: I64) -> None:
    """Add the lengths of expressions, in place."""
    count = len(octets)
    rows = np.flatnonzero(np.isin(octets, _WITH_BLOCK))
    length_at = np.where(octets.take(rows) == DW_CFA_DEF_CFA_EXPRESSION, rows + 1, following[rows])
    block_at = after.take(np.minimum(length_at, count + 1))
    low = octets.take(length_at, mode="clip").astype(np.int64)
    high = octets.take(length_at + 1, mode="clip").astype(np.int64)
    size = np.where(low < 0x80, low, (low & 0x7F) | high << 7)
    size[(block_at - length_at > 2) | (block_at > count)] = _LAST_BLOCK_BYTES + count
    following[rows] = block_at + size


def _walk(following: I64, begin: I64, end: I64) -> tuple[I64, I64]:
    """Return the positions of operations, i64[k], and their programs, in the order of steps."""
    program = np.flatnonzero(begin < end)
    at = begin.take(program)
    positions, programs = [at], [program]
    while len(at) > _FEW:
        at = following.take(at)
        kept = np.flatnonzero(at < end.take(program))
        at, program = at.take(kept), program.take(kept)
        positions.append(at)
        programs.append(program)
    step = following.data
    for which, first in zip(program.tolist(), at.tolist(), strict=True):
        last, here, found = int(end[which]), int(step[first]), []
        while here < last:
            found.append(here)
            here = step[here]
        positions.append(np.array(found, np.int64))
        programs.append(np.full(len(found), which))
    return np.concatenate(positions), np.concatenate(programs)


def _with_operands(
    data: EhData, position: I64, program: I64, code: U8, address_encoding: I64
) -> Operations:
    first = (data.octets.take(position) & 0x3F).astype(np.int64)
    second = np.zeros(len(position), np.int64)
    block_bytes = np.zeros(len(position), np.int64)
    first[code < DW_CFA_ADVANCE_LOC] = 0
    rows = np.flatnonzero(code == DW_CFA_OFFSET)
    second[rows] = data.leb128(position.take(rows) + 1, signed=False)[0]
    for operation, form in _FIXED_FORMS.items():
        rows = np.flatnonzero(code == operation)
        first[rows] = data.fixed(position.take(rows) + 1, form)
    for operation in distinct(code[code < DW_CFA_ADVANCE_LOC]).tolist():
        rows = np.flatnonzero(code == operation)
        numbers, signed = _NUMBERS.get(operation, 0), operation in _LAST_IS_SIGNED
        at = position.take(rows) + 1
        if operation == DW_CFA_DEF_CFA_EXPRESSION:
            block_bytes[rows], second[rows] = data.leb128(at, signed=False)
        elif numbers:
            first[rows], at = data.leb128(at, signed=signed and numbers == 1)
            if operation in _WITH_BLOCK:
                block_bytes[rows], second[rows] = data.leb128(at, signed=False)
            elif numbers > 1:
                second[rows] = data.leb128(at, signed=signed)[0]
    for encoding in distinct(address_encoding).tolist():
        is_set = (code == DW_CFA_SET_LOC) & (address_encoding.take(program) == encoding)
        rows = np.flatnonzero(is_set)
        address = data.encoded(position.take(rows) + 1, encoding) if len(rows) else None
        if address is not None:
            first[rows] = address[0].view(np.int64)
        else:
            code[rows] = UNKNOWN_OPERATION
    return Operations(program, code, first, second, block_bytes)


class FrameSteps(Record, eq=False):
    """Steps of programs, in the order of the programs.

    Attributes:
        program: the row of the program.
        action: STEP_*.
        register: its DWARF number.
        how: SAVED_* of a STEP_SAVE, FORM_* of a STEP_CFA_PLACE.
        value: bytes: how far to advance, the CFA's distance, or the distance of the saved register.
        extra: `PlaceForm.extra` of a STEP_CFA_PLACE.
    """

    program: I64
    action: U8
    register: I64
    how: U8
    value: I64
    extra: I64

    def __len__(self) -> int:
        return len(self.action)


def translate(
    data: EhData, operations: Operations, factors: tuple[I64, I64], machine: MachineRegisters
) -> FrameSteps:
    """Translate operations into steps.

    Args:
        data: the section of the operations.
        operations: of many programs.
        factors: i64[n] of each program, for code and for data.
    """
    code, first, second = operations.code, operations.first, operations.second
    of_code, of_data = (factor.take(operations.program) for factor in factors)
    action = _ACTIONS.take(code)
    register, value = first.copy(), np.zeros(len(code), np.int64)
    how, extra = np.full(len(code), SAVED_LOST, np.uint8), np.zeros(len(code), np.int64)
    np.copyto(value, first * of_code, where=action == STEP_ADVANCE)
    np.copyto(value, first, where=code == DW_CFA_SET_LOC)
    np.copyto(value, second, where=code == DW_CFA_DEF_CFA)
    np.copyto(value, second * of_data, where=code == DW_CFA_DEF_CFA_SF)
    np.copyto(value, first, where=code == DW_CFA_DEF_CFA_OFFSET)
    np.copyto(value, first * of_data, where=code == DW_CFA_DEF_CFA_OFFSET_SF)
    is_at_cfa = np.isin(code, _AT_CFA)
    sign = np.where(code == DW_CFA_GNU_NEGATIVE_OFFSET_EXTENDED, -1, 1)
    np.copyto(value, second * of_data * sign, where=is_at_cfa)
    how[is_at_cfa] = SAVED_AT_CFA
    how[code == DW_CFA_SAME_VALUE] = SAVED_SAME
    how[code == DW_CFA_UNDEFINED] = SAVED_UNDEFINED
    is_advance = action == STEP_ADVANCE
    action[is_advance & ((value < 0) | (value > LONGEST_FUNCTION_BYTES))] = STEP_UNKNOWN
    steps = FrameSteps(operations.program, action, register, how, value, extra)
    _place(data, operations, steps, machine)
    return steps


def _place(
    data: EhData, operations: Operations, steps: FrameSteps, machine: MachineRegisters
) -> None:
    """Fill in the steps of expressions; there are few, and most are equal."""
    is_place = np.isin(operations.code, (DW_CFA_DEF_CFA_EXPRESSION, DW_CFA_EXPRESSION))
    rows = np.flatnonzero(is_place & (operations.block_bytes <= LONGEST_EXPRESSION_BYTES))
    steps.how[operations.code == DW_CFA_DEF_CFA_EXPRESSION] = FORM_OTHER
    known: dict[bytes, PlaceForm] = {}
    at, size = operations.second.take(rows).tolist(), operations.block_bytes.take(rows).tolist()
    is_cfa = (operations.code.take(rows) == DW_CFA_DEF_CFA_EXPRESSION).tolist()
    for row, begin, length, of_cfa in zip(rows.tolist(), at, size, is_cfa, strict=True):
        octets = bytes(data.content[begin : begin + length])
        form = known.get(octets)
        if form is None:
            form = known[octets] = recognise(octets)
        bounded = abs(form.distance) < 1 << 40 and form.register < 1 << 16 > form.extra
        if not bounded:
            continue
        steps.value[row] = form.distance
        if of_cfa:
            steps.how[row], steps.register[row] = form.form, form.register
            steps.extra[row] = form.extra
        elif form.form == FORM_SUM and form.register == machine.fp:
            steps.how[row] = SAVED_AT_FP
        elif form.form == FORM_SUM and form.register == machine.sp:
            steps.how[row] = SAVED_AT_SP


class PlaceForm(NamedTuple):
    """FORM_SUM: register + distance; FORM_DEREF: [register + distance] + extra.

    FORM_PLT: register + distance, and 8 more if the lower 4 bits of pc are `extra` or above.
    """

    form: int
    register: int = 0
    distance: int = 0
    extra: int = 0


OTHER = PlaceForm(FORM_OTHER)


def recognise(expression: bytes) -> PlaceForm:
    """Return the form of an expression, `OTHER` for an unknown one."""
    try:
        return _recognise(expression)
    except IndexError:
        return OTHER


def _recognise(octets: bytes) -> PlaceForm:
    first, at = octets[0], 1
    if first == _BREGX:
        register, at = leb128(octets, at)
    elif _BREG0 <= first <= _BREG31:
        register = first - _BREG0
    else:
        return OTHER
    distance, at = leb128(octets, at, signed=True)
    rest = octets[at:]
    if not rest:
        return PlaceForm(FORM_SUM, register, distance)
    if rest[0] == _DEREF:
        if len(rest) == 1:
            return PlaceForm(FORM_DEREF, register, distance)
        extra, end = leb128(rest, 2)
        is_sum = rest[1] == _PLUS_UCONST and end == len(rest)
        return PlaceForm(FORM_DEREF, register, distance, extra) if is_sum else OTHER
    if len(rest) == 9 and rest[:4] == _RIP_BREG + _PLT_HEAD and rest[5:] == _PLT_TAIL:
        bound = rest[4] - _LIT0
        if 0 <= bound <= 31:
            return PlaceForm(FORM_PLT, register, distance, bound)
    return OTHER
