"""Steps of call-frame programs → rows of addresses and the rules from them on.

Nothing is executed: the last step before an address that concerns a register determines it, which
takes one running maximum over the steps for each register. A step that restores a former state
points to the step that made it. Chains of such pointers are halved until none is left (pointer
jumping: J. JáJá, An Introduction to Parallel Algorithms, 1992, 2.2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.sorting import run_lengths
from prospect.elf import frame_rules as rules
from prospect.elf import frame_steps as step
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from prospect.columns.array_types import I64, U8, U64, Bools
    from prospect.elf.frame_rules import MachineRegisters
    from prospect.elf.frame_steps import FrameSteps


class RuleRows(NamedTuple):
    """Rows: from `start` to `end`, u64[r] SVMA, `rule` i64[r] holds."""

    start: U64
    end: U64
    rule: I64


class Functions(NamedTuple):
    """Ranges of the programs: `start`, `end` i64[n] SVMA, `is_signal` bool[n], and `initial`.

    `initial` i64[n] is the row of the last step that each program's CIE makes.
    """

    start: I64
    end: I64
    is_signal: Bools
    initial: I64


def rows_of_steps(steps: FrameSteps, functions: Functions, machine: MachineRegisters) -> RuleRows:
    """Compute the rows of functions; each program's steps are between STEP_BEGIN and STEP_END."""
    sources = _Sources(steps, functions.initial)
    places = _locations(steps, functions)
    at = np.flatnonzero(np.isin(steps.action, _CHANGES_PLACE))
    first, last = functions.start.take(steps.program), functions.end.take(steps.program)
    begin = np.clip(places.take(at - 1), first.take(at), last.take(at))
    end = np.where(
        steps.action.take(at) == step.STEP_END,
        last.take(at),
        np.clip(places.take(at), first.take(at), last.take(at)),
    )
    kept = np.flatnonzero(begin < end)
    at = at.take(kept)
    rule = _pack(steps, sources, at, machine, functions.is_signal.take(steps.program.take(at)))
    return RuleRows(begin.take(kept).view(np.uint64), end.take(kept).view(np.uint64), rule)


_CHANGES_PLACE = (step.STEP_ADVANCE, step.STEP_SET_LOCATION, step.STEP_END)


def _locations(steps: FrameSteps, functions: Functions) -> I64:
    """Return the address after each step, i64[k]."""
    moved = np.cumsum(np.where(steps.action == step.STEP_ADVANCE, steps.value, 0))
    is_fixed = np.isin(steps.action, (step.STEP_BEGIN, step.STEP_SET_LOCATION))
    fixed = np.maximum.accumulate(np.where(is_fixed, np.arange(len(steps)), 0))
    known = np.where(
        steps.action == step.STEP_BEGIN, functions.start.take(steps.program), steps.value
    )
    moved -= moved.take(fixed)
    moved += known.take(fixed)
    return moved


class _Sources:
    """Finds the step that determined a register."""

    def __init__(self, steps: FrameSteps, initial: I64) -> None:
        self._steps = steps
        self._index = np.arange(len(steps))
        self._is_begin = steps.action == step.STEP_BEGIN
        restored = np.flatnonzero(steps.action == step.STEP_RESTORE_STATE)
        remembered = _remembered(steps)
        unmatched = restored[remembered < 0]
        if len(unmatched):
            _give_up_at(steps, unmatched)
            is_kept = steps.action.take(restored) == step.STEP_RESTORE_STATE
            restored, remembered = restored[is_kept], remembered[is_kept]
        self._restored, self._remembered = restored, remembered
        self._is_restore = steps.action == step.STEP_RESTORE
        self._initial = initial

    def find(self, is_made: Bools, at: I64, register: int | None = None) -> I64:
        """Return the last effective step before each of `at`, i64[n].

        Args:
            is_made: bool[k] whether a step is effective.
            at: i64[n] steps.
            register: the register for which steps that restore the CIE's state count too.
        """
        points = self._restored
        target = self._remembered
        if register is not None:
            restore = np.flatnonzero(self._is_restore & (self._steps.register == register))
            initial = self._initial.take(self._steps.program.take(restore))
            # A CIE that restores can only restore the state before that step.
            points = np.concatenate((points, restore))
            target = np.concatenate((target, np.where(initial < restore, initial, restore - 1)))
        is_marked = is_made | self._is_begin
        is_marked[points] = True
        last = np.maximum.accumulate(np.where(is_marked, self._index, 0))
        source = self._index.copy()
        source[points] = last.take(target)
        while True:
            further = source.take(source.take(points))
            if (further == source.take(points)).all():
                break
            source[points] = further
        return source.take(last.take(at))


def _give_up_at(steps: FrameSteps, rows: I64) -> None:
    """End programs at the first of these steps with a STEP_UNKNOWN; in place."""
    first = np.full(int(steps.program[-1]) + 1, len(steps))
    np.minimum.at(first, steps.program.take(rows), rows)
    first = first.take(steps.program)
    index = np.arange(len(steps))
    steps.action[index == first] = step.STEP_UNKNOWN
    steps.action[(index > first) & (steps.action != step.STEP_END)] = step.STEP_NONE


def _remembered(steps: FrameSteps) -> I64:
    """Return the STEP_REMEMBER of each STEP_RESTORE_STATE, -1 for none."""
    rows = np.flatnonzero(np.isin(steps.action, (step.STEP_REMEMBER, step.STEP_RESTORE_STATE)))
    is_restore = steps.action.take(rows) == step.STEP_RESTORE_STATE
    depth = np.cumsum(np.where(is_restore, -1, 1)) + is_restore
    program = steps.program.take(rows)
    begins = np.flatnonzero(np.diff(program, prepend=-1))
    before = (depth - ~is_restore).take(begins)
    depth -= before.repeat(run_lengths(begins, len(rows)))
    order = np.lexsort((rows, depth, program))
    partner = np.full(len(rows), -1, np.int64)
    former, latter = order[:-1], order[1:]
    is_pair = (program.take(former) == program.take(latter)) & (
        depth.take(former) == depth.take(latter)
    )
    is_pair &= ~is_restore.take(former) & is_restore.take(latter)
    partner[latter[is_pair]] = rows.take(former[is_pair])
    return partner.compress(is_restore)


class SavedRegister(NamedTuple):
    """The place of a saved register at each row: SAVED_* u8[n], and bytes i64[n]."""

    how: U8
    value: I64

    def field(self) -> I64:
        """Return the register's two fields of a rule, lowest bits, i64[n]."""
        kind = np.full(len(self.how), rules.RULE_LOST)
        kind[self.how == step.SAVED_SAME] = rules.RULE_SAME
        fits = rules.fits(self.value, rules.FP_BITS)
        kind[(self.how == step.SAVED_AT_CFA) & fits] = rules.RULE_AT_CFA
        kind[(self.how == step.SAVED_AT_FP) & fits] = rules.RULE_AT_FP
        slot = rules.pack_slot(self.value, rules.FP_BITS)
        is_saved = (kind == rules.RULE_AT_CFA) | (kind == rules.RULE_AT_FP)
        return kind << rules.FP_BITS | np.where(is_saved, slot, 0)


def _saved(steps: FrameSteps, sources: _Sources, at: I64, register: int) -> SavedRegister:
    is_made = (steps.action == step.STEP_SAVE) & (steps.register == register)
    source = sources.find(is_made, at, register)
    is_begin = steps.action.take(source) == step.STEP_BEGIN
    how = np.where(is_begin, step.SAVED_SAME, steps.how.take(source))
    return SavedRegister(how.astype(np.uint8), np.where(is_begin, 0, steps.value.take(source)))


def _pack(
    steps: FrameSteps, sources: _Sources, at: I64, machine: MachineRegisters, is_signal: Bools
) -> I64:
    """Return the rule that holds before each of the steps `at`, i64[n]."""
    fp = _saved(steps, sources, at, machine.fp)
    second = _saved(steps, sources, at, machine.second)
    is_own = machine.return_column == machine.second
    returns = second if is_own else _saved(steps, sources, at, machine.return_column)
    is_made = np.isin(steps.action, (step.STEP_CFA, step.STEP_CFA_REGISTER, step.STEP_CFA_PLACE))
    is_made |= steps.action == step.STEP_UNKNOWN
    base = sources.find(is_made, at)
    is_made = np.isin(steps.action, (step.STEP_CFA, step.STEP_CFA_OFFSET))
    distance = steps.value.take(sources.find(is_made, at))
    rule = _pack_cfa(steps, base, distance, machine)
    rule |= fp.field() << rules.FP_SHIFT | second.field()
    is_absent = rule >> rules.KIND_SHIFT == rules.KIND_ABSENT
    if is_own:
        known = np.isin(returns.how, (step.SAVED_SAME, step.SAVED_AT_CFA, step.SAVED_AT_FP))
        known &= second.field() >> rules.SECOND_BITS != rules.RULE_LOST
    else:
        known = (returns.how == step.SAVED_AT_CFA) & (returns.value == 8 * machine.return_slot)
    rule[~known | is_absent] = rules.NO_FORM
    rule[returns.how == step.SAVED_UNDEFINED] = rules.END
    saved_sp = steps.value.take(base)
    is_place = (steps.action.take(base) == step.STEP_CFA_PLACE) & is_signal
    is_place &= (steps.how.take(base) == step.FORM_DEREF) & (steps.extra.take(base) == 0)
    is_place &= (steps.register.take(base) == machine.sp) & rules.fits(saved_sp, rules.CFA_BITS)
    is_place &= (returns.how == step.SAVED_AT_SP) & (returns.value == saved_sp + machine.saved_pc)
    is_place &= (fp.how == step.SAVED_AT_SP) & (fp.value == saved_sp + machine.saved_fp)
    rule[is_place] = signal_rule(saved_sp[is_place])
    return rule


def signal_rule(saved_sp: I64) -> I64:
    """Return rules of signal frames by the bytes from sp to the saved sp."""
    slot = rules.pack_slot(saved_sp, rules.CFA_BITS)
    return rules.KIND_SIGNAL << rules.KIND_SHIFT | slot << rules.CFA_SHIFT


def _pack_cfa(steps: FrameSteps, base: I64, distance: I64, machine: MachineRegisters) -> I64:
    """Return the fields of the CFA, i64[n]."""
    action, how = steps.action.take(base), steps.how.take(base)
    register, extra = steps.register.take(base), steps.extra.take(base)
    is_place = action == step.STEP_CFA_PLACE
    distance = np.where(is_place, steps.value.take(base), distance)
    is_sum = ~is_place | (how == step.FORM_SUM)
    kind = np.full(len(base), rules.KIND_REGISTER)
    kind[register == machine.sp] = rules.KIND_SP
    kind[register == machine.fp] = rules.KIND_FP
    is_deref = is_place & (how == step.FORM_DEREF)
    kind[is_deref] = rules.KIND_DEREF
    is_plt = is_place & (how == step.FORM_PLT) & (register == machine.sp)
    kind[is_plt] = rules.KIND_PLT
    slot = rules.pack_slot(distance, rules.CFA_BITS)
    after_bits = rules.CFA_BITS - rules.DEREF_BITS
    slot = np.where(
        is_deref,
        rules.pack_slot(distance, rules.DEREF_BITS)
        | rules.pack_slot(extra, after_bits) << rules.DEREF_BITS,
        slot,
    )
    number = np.where(is_plt, extra, register)
    fits = np.where(
        is_deref,
        rules.fits(distance, rules.DEREF_BITS) & rules.fits(extra, after_bits),
        rules.fits(distance, rules.CFA_BITS),
    )
    fits &= (is_sum | is_deref | is_plt) & (number >= 0) & (number < 32)
    fits &= np.isin(action, (step.STEP_CFA, step.STEP_CFA_REGISTER, step.STEP_CFA_PLACE))
    rule = kind << rules.KIND_SHIFT | number << rules.REGISTER_SHIFT | slot << rules.CFA_SHIFT
    return np.where(fits, rule, rules.NO_FORM)
