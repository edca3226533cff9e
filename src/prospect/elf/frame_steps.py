"""Operations of call-frame programs → steps: what each does to the few registers that matter.

In: `Operations`, and the factors that their CIEs state. Out: `FrameSteps`, in which numbers are
bytes, and a register is saved in one of six ways. Defined by DWARF 5, 6.4.2 "Call Frame
Instructions".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.elf import cfa_expressions as expressions
from prospect.elf import cfi_operations as op
from prospect.records import Record

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.elf.cfi_operations import Operations
    from prospect.elf.eh_pointers import EhData
    from prospect.elf.frame_rules import MachineRegisters

STEP_NONE, STEP_ADVANCE, STEP_SET_LOCATION = 0, 1, 2
STEP_CFA, STEP_CFA_REGISTER, STEP_CFA_OFFSET, STEP_CFA_PLACE = 3, 4, 5, 6
STEP_SAVE, STEP_RESTORE, STEP_REMEMBER, STEP_RESTORE_STATE, STEP_UNKNOWN = 7, 8, 9, 10, 11
STEP_BEGIN, STEP_END = 12, 13

SAVED_SAME, SAVED_AT_CFA, SAVED_AT_FP, SAVED_AT_SP, SAVED_LOST, SAVED_UNDEFINED = range(6)

_ACTIONS = np.zeros(256, np.uint8)
_ACTIONS[
    [
        *(op.DW_CFA_ADVANCE_LOC, op.DW_CFA_ADVANCE_LOC1, op.DW_CFA_ADVANCE_LOC2),
        *(op.DW_CFA_ADVANCE_LOC4, op.DW_CFA_MIPS_ADVANCE_LOC8),
    ]
] = STEP_ADVANCE
_ACTIONS[op.DW_CFA_SET_LOC] = STEP_SET_LOCATION
_ACTIONS[[op.DW_CFA_DEF_CFA, op.DW_CFA_DEF_CFA_SF]] = STEP_CFA
_ACTIONS[op.DW_CFA_DEF_CFA_REGISTER] = STEP_CFA_REGISTER
_ACTIONS[[op.DW_CFA_DEF_CFA_OFFSET, op.DW_CFA_DEF_CFA_OFFSET_SF]] = STEP_CFA_OFFSET
_ACTIONS[op.DW_CFA_DEF_CFA_EXPRESSION] = STEP_CFA_PLACE
_AT_CFA = [op.DW_CFA_OFFSET, op.DW_CFA_OFFSET_EXTENDED, op.DW_CFA_OFFSET_EXTENDED_SF]
_AT_CFA += [op.DW_CFA_GNU_NEGATIVE_OFFSET_EXTENDED]
_LOST = [op.DW_CFA_REGISTER, op.DW_CFA_VAL_OFFSET, op.DW_CFA_VAL_OFFSET_SF]
_LOST += [op.DW_CFA_VAL_EXPRESSION]
_ACTIONS[[*_AT_CFA, *_LOST, op.DW_CFA_UNDEFINED, op.DW_CFA_SAME_VALUE]] = STEP_SAVE
_ACTIONS[op.DW_CFA_EXPRESSION] = STEP_SAVE
_ACTIONS[[op.DW_CFA_RESTORE, op.DW_CFA_RESTORE_EXTENDED]] = STEP_RESTORE
_ACTIONS[op.DW_CFA_REMEMBER_STATE] = STEP_REMEMBER
_ACTIONS[op.DW_CFA_RESTORE_STATE] = STEP_RESTORE_STATE
_ACTIONS[op.UNKNOWN_OPERATION] = STEP_UNKNOWN

_LONGEST_EXPRESSION_BYTES = 32
_LONGEST_FUNCTION_BYTES = 1 << 40


class FrameSteps(Record, eq=False):
    """Steps of programs, one program behind the other.

    Attributes:
        program: i64[k] which program.
        action: u8[k] STEP_*.
        register: i64[k] whose, by its DWARF number.
        how: u8[k] SAVED_* of a STEP_SAVE, FORM_* of a STEP_CFA_PLACE.
        value: i64[k] bytes: how far to advance, the CFA's distance, or where the register is saved.
        extra: i64[k] of a STEP_CFA_PLACE, `PlaceForm.extra`.
    """

    program: NDArray[np.int64]
    action: NDArray[np.uint8]
    register: NDArray[np.int64]
    how: NDArray[np.uint8]
    value: NDArray[np.int64]
    extra: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.action)


def translate(
    data: EhData,
    operations: Operations,
    factors: tuple[NDArray[np.int64], NDArray[np.int64]],
    machine: MachineRegisters,
) -> FrameSteps:
    """Translate operations into steps.

    Args:
        data: the section that they were decoded from.
        operations: of many programs.
        factors: i64[n] of each program, for code and for data.
        machine: whose registers.
    """
    code, first, second = operations.code, operations.first, operations.second
    of_code, of_data = (factor.take(operations.program) for factor in factors)
    action = _ACTIONS.take(code)
    register, value = first.copy(), np.zeros(len(code), np.int64)
    how, extra = np.full(len(code), SAVED_LOST, np.uint8), np.zeros(len(code), np.int64)
    np.copyto(value, first * of_code, where=action == STEP_ADVANCE)
    np.copyto(value, first, where=code == op.DW_CFA_SET_LOC)
    np.copyto(value, second, where=code == op.DW_CFA_DEF_CFA)
    np.copyto(value, second * of_data, where=code == op.DW_CFA_DEF_CFA_SF)
    np.copyto(value, first, where=code == op.DW_CFA_DEF_CFA_OFFSET)
    np.copyto(value, first * of_data, where=code == op.DW_CFA_DEF_CFA_OFFSET_SF)
    is_at_cfa = np.isin(code, _AT_CFA)
    sign = np.where(code == op.DW_CFA_GNU_NEGATIVE_OFFSET_EXTENDED, -1, 1)
    np.copyto(value, second * of_data * sign, where=is_at_cfa)
    how[is_at_cfa] = SAVED_AT_CFA
    how[code == op.DW_CFA_SAME_VALUE] = SAVED_SAME
    how[code == op.DW_CFA_UNDEFINED] = SAVED_UNDEFINED
    is_advance = action == STEP_ADVANCE
    action[is_advance & ((value < 0) | (value > _LONGEST_FUNCTION_BYTES))] = STEP_UNKNOWN
    steps = FrameSteps(operations.program, action, register, how, value, extra)
    _place(data, operations, steps, machine)
    return steps


def _place(
    data: EhData, operations: Operations, steps: FrameSteps, machine: MachineRegisters
) -> None:
    """Fill in the steps that expressions make; there are few, and fewer that differ."""
    is_place = np.isin(operations.code, (op.DW_CFA_DEF_CFA_EXPRESSION, op.DW_CFA_EXPRESSION))
    rows = np.flatnonzero(is_place & (operations.block_bytes <= _LONGEST_EXPRESSION_BYTES))
    steps.how[operations.code == op.DW_CFA_DEF_CFA_EXPRESSION] = expressions.FORM_OTHER
    known: dict[bytes, expressions.PlaceForm] = {}
    at, size = operations.second.take(rows).tolist(), operations.block_bytes.take(rows).tolist()
    is_cfa = (operations.code.take(rows) == op.DW_CFA_DEF_CFA_EXPRESSION).tolist()
    for row, begin, length, of_cfa in zip(rows.tolist(), at, size, is_cfa, strict=True):
        octets = bytes(data.content[begin : begin + length])
        form = known.get(octets)
        if form is None:
            form = known[octets] = expressions.recognise(octets)
        bounded = abs(form.distance) < 1 << 40 and form.register < 1 << 16 > form.extra
        if not bounded:
            continue
        steps.value[row] = form.distance
        if of_cfa:
            steps.how[row], steps.register[row] = form.form, form.register
            steps.extra[row] = form.extra
        elif form.form == expressions.FORM_SUM and form.register == machine.fp:
            steps.how[row] = SAVED_AT_FP
        elif form.form == expressions.FORM_SUM and form.register == machine.sp:
            steps.how[row] = SAVED_AT_SP
