"""Positions of samples → the user's registers and stack copies, and stacks of calls by branches.

The bytes of stacks are never copied: the states refer to the blocks of the records.

Source: perf_output_sample_regs(), perf_output_sample_ustack() in ``kernel/events/core.c`` (Linux
6.18): no register follows an ABI of 0, and no dynamic size follows a stack of 0 bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.abi import constants as abi
from prospect.columns.buffers import segments
from prospect.columns.sorting import distinct
from prospect.events.record_columns import CallBranches, RecordedRegisters, UserStates
from prospect.records import NamedTuple, replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prospect.columns.array_types import I32, I64, U8, U64, Bools
    from prospect.events.sample_schema import Trailing


_WORD_BYTES = 8
_MASK_LOW = np.uint64((1 << 32) - 1)
_LAST_ABI = np.uint64(abi.PERF_SAMPLE_REGS_ABI_64)
_BRANCH_WORDS = 3  # struct perf_branch_entry: from, to, flags


class _States(NamedTuple):
    """The states of one window's samples; columns as in `UserStates`.

    `registers_at` i64[k] is the place of the registers; `registers` is None if they stay there.
    """

    sample: I64
    abi: U8
    registers_at: I64
    registers: U64 | None
    stack_block: I32
    stack_begin: I64
    stack_bytes: I32


class _Calls(NamedTuple):
    """The branches of one window's samples, `length` i64[k] of each."""

    sample: I64
    length: I64
    source: U64
    target: U64


class Mark(NamedTuple):
    """Numbers of appended items, at some moment."""

    states: int = 0
    calls: int = 0
    damaged: int = 0


class UserStateColumns:
    """The user states of all samples so far.

    Attributes:
        damaged: number of samples whose registers or stack would end after their record.
    """

    def __init__(self, trailing: Sequence[Trailing]) -> None:
        self._trailing = trailing
        self._numbers = tuple(sorted({n for each in trailing for n in each.registers}))
        self._states: list[_States] = []
        self._calls: list[_Calls] = []
        self._blocks: list[U8] = []
        self._words: U64 | None = None
        self.damaged = 0
        self.is_wanted = any(each.is_wanted for each in trailing)

    @property
    def mark(self) -> Mark:
        """A moment that `rewind` can return to."""
        return Mark(len(self._states), len(self._calls), self.damaged)

    def rewind(self, mark: Mark) -> None:
        """Forget what was appended since `mark`."""
        del self._states[mark.states :]
        del self._calls[mark.calls :]
        self.damaged = mark.damaged

    def append(self, words: U64, at: I64, end: I64, rows: I64 | None, first_sample: int) -> None:
        """Append the states of consecutive samples.

        Args:
            words: u64 the block.
            at: i64[n] the ends of the samples' call chains.
            end: i64[n] the ends of the samples.
            rows: i64[n] their events, None if there is one.
            first_sample: the row of the first among all samples.
        """
        sample = first_sample + np.arange(len(at))
        if rows is None or len(self._trailing) == 1:
            self._append_event(words, _Place(sample, at, end), self._trailing[0])
            return
        for row in distinct(rows).tolist():
            of_event = np.flatnonzero(rows == row)
            place = _Place(sample[of_event], at[of_event], end[of_event])
            self._append_event(words, place, self._trailing[row])

    def _append_event(self, words: U64, place: _Place, trailing: Trailing) -> None:
        if not trailing.is_wanted:
            return
        if trailing.has_raw:
            place = place.behind_raw(words)
        if trailing.branch_words_each:
            counted = place.counted(words, trailing.branch_words_each, trailing.has_branch_index)
            if trailing.are_branches_calls:
                self._calls.append(_calls(words, counted))
            place = counted.behind(trailing.branch_words_each)
        state = _read_state(words, place, trailing)
        self.damaged += int(np.count_nonzero(state.is_cut))
        kept = np.flatnonzero(~state.is_cut & (state.abi > 0))
        if not len(kept):
            return
        registers_at = state.registers_at.take(kept)
        # A block with copies stays as long as its copies are needed.
        stay = trailing.has_stack and trailing.registers == self._numbers
        self._states.append(
            _States(
                place.sample.take(kept),
                state.abi.take(kept).astype(np.uint8),
                registers_at,
                None if stay else self._registers(words, registers_at, trailing),
                np.full(len(kept), self._block_of(words) if trailing.has_stack else -1, np.int32),
                _WORD_BYTES * state.stack_at.take(kept),
                state.stack_bytes.take(kept).astype(np.int32),
            )
        )

    def _registers(self, words: U64, at: I64, trailing: Trailing) -> U64:
        """Return the registers, 0 for those that only other events' samples have."""
        count = len(trailing.registers)
        found = words.take(at[:, None] + np.arange(count), mode="clip")
        if trailing.registers == self._numbers:
            return found
        registers = np.zeros((len(at), len(self._numbers)), np.uint64)
        registers[:, np.searchsorted(self._numbers, trailing.registers)] = found
        return registers

    def _block_of(self, words: U64) -> int:
        if words is not self._words:
            self._words = words
            self._blocks.append(words.view(np.uint8))
        return len(self._blocks) - 1

    def finish(self) -> tuple[UserStates | None, CallBranches | None]:
        """Return all states and branches in the order of the samples; None for none."""
        return self._finish_states(), self._finish_calls()

    def _finish_states(self) -> UserStates | None:
        if not self._states:
            return None
        parts = self._states
        sample = np.concatenate([part.sample for part in parts])
        states = UserStates(
            sample=sample,
            abi=np.concatenate([part.abi for part in parts]),
            registers=self._all_registers(parts),
            stack_block=np.concatenate([part.stack_block for part in parts]),
            stack_begin=np.concatenate([part.stack_begin for part in parts]),
            stack_bytes=np.concatenate([part.stack_bytes for part in parts]),
            register_numbers=self._numbers,
            blocks=tuple(self._blocks),
        )
        if (sample[1:] > sample[:-1]).all():
            return states
        # The samples of a window are ordered by event.
        order = np.argsort(sample, kind="stable")
        columns = ("sample", "abi", "stack_block", "stack_begin", "stack_bytes")
        return replace(
            states,
            registers=states.registers[order],
            **{name: getattr(states, name).take(order) for name in columns},
        )

    def _all_registers(self, parts: list[_States]) -> U64 | RecordedRegisters:
        if all(part.registers is None for part in parts):
            return self._recorded(parts)
        columns = range(len(self._numbers))
        return np.concatenate(
            [
                np.column_stack([self._recorded([part]).column(column) for column in columns])
                if part.registers is None
                else part.registers
                for part in parts
            ]
        )

    def _recorded(self, parts: list[_States]) -> RecordedRegisters:
        return RecordedRegisters(
            tuple(self._blocks),
            np.concatenate([part.stack_block for part in parts]),
            np.concatenate([part.registers_at for part in parts]),
        )

    def _finish_calls(self) -> CallBranches | None:
        if not self._calls:
            return None
        sample = np.concatenate([part.sample for part in self._calls])
        length = np.concatenate([part.length for part in self._calls])
        order = np.argsort(sample, kind="stable")
        begin = (np.cumsum(length) - length).take(order)
        length = length.take(order)
        moved = segments(begin, length)
        start = np.zeros(len(sample) + 1, np.int64)
        np.cumsum(length, out=start[1:])
        return CallBranches(
            sample=sample.take(order),
            start=start,
            source=np.concatenate([part.source for part in self._calls]).take(moved),
            target=np.concatenate([part.target for part in self._calls]).take(moved),
        )


class _Counted(NamedTuple):
    """Samples with a number of items, which begin at `at`; samples end at `end`."""

    sample: I64
    at: I64
    end: I64
    items: I64

    def behind(self, words_each: int) -> _Place:
        return _Place(self.sample, self.at + words_each * self.items, self.end)


class _Place(NamedTuple):
    """The word of the next field in samples; a place after `end` means a cut sample."""

    sample: I64
    at: I64
    end: I64

    def behind_raw(self, words: U64) -> _Place:
        """Skip raw data: u32 size, then bytes up to a whole word."""
        size = (words.take(self.at, mode="clip") & _MASK_LOW).astype(np.int64)
        return self._replace(at=self.at + (size + 4 + 7) // _WORD_BYTES)

    def counted(self, words: U64, words_each: int, has_index: bool) -> _Counted:  # noqa: FBT001 - a fact of the layout
        """Read a count; if its items would end after the sample, the place is beyond it."""
        begin = self.at + 1 + has_index
        room = np.maximum(self.end - begin, 0) // words_each
        count = words.take(self.at, mode="clip")
        is_cut = (count > room.astype(np.uint64)) | (begin > self.end)
        at = np.where(is_cut, self.end + 1, begin)
        return _Counted(self.sample, at, self.end, np.where(is_cut, 0, count.view(np.int64)))


class _Read(NamedTuple):
    """The states of samples, and their places."""

    abi: I64
    registers_at: I64
    stack_at: I64
    stack_bytes: I64
    is_cut: Bools


def _read_state(words: U64, place: _Place, trailing: Trailing) -> _Read:
    at, end = place.at, place.end
    is_cut = at > end
    abi_ = np.zeros(len(at), np.int64)
    registers_at = at
    if trailing.has_registers:
        word = words.take(at, mode="clip")
        is_cut = is_cut | (at >= end) | (word > _LAST_ABI)
        abi_ = np.where(is_cut, 0, word.view(np.int64))
        registers_at = at + 1
        at = registers_at + np.where(abi_ > 0, len(trailing.registers), 0)
        is_cut = is_cut | (at > end)
    stack_bytes = np.zeros(len(at), np.int64)
    if trailing.has_stack:
        size = words.take(at, mode="clip")
        room = _WORD_BYTES * np.maximum(end - at - 2, 0)
        is_cut = is_cut | (at >= end)
        has_copy = ~is_cut & (size > 0)
        fits = (size <= room.astype(np.uint64)) & (size % np.uint64(_WORD_BYTES) == 0)
        is_cut = is_cut | (has_copy & ~fits)
        has_copy &= fits
        held = np.where(has_copy, size.view(np.int64), 0)
        dynamic = words.take(at + 1 + held // _WORD_BYTES, mode="clip")
        is_cut = is_cut | (has_copy & (dynamic > held.astype(np.uint64)))
        stack_bytes = np.where(has_copy & ~is_cut, dynamic.view(np.int64), 0)
    return _Read(abi_, registers_at, at + 1, stack_bytes, is_cut)


def _calls(words: U64, counted: _Counted) -> _Calls:
    entries = segments(counted.at, _BRANCH_WORDS * counted.items)[::_BRANCH_WORDS]
    return _Calls(counted.sample, counted.items, words.take(entries), words.take(entries + 1))
