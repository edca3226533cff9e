"""Registers of samples, read where the records lie.

Comes in: where in their blocks the registers of samples begin. Goes out: columns of those that are
asked for. Of some twenty registers unwinding asks for four, and a table of all would be as much
memory again as all other columns of the samples.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.sorting import distinct
from prospect.records import Record

if TYPE_CHECKING:
    from numpy.typing import NDArray


class RecordedRegisters(Record, eq=False):
    """Registers of states, by column as `UserStates.register_numbers` has them.

    Attributes:
        blocks: of words, or of their bytes; they live as long as this does.
        block: i32[k] row of `blocks`.
        at: i64[k] the word where the first register of each state stands.
    """

    blocks: tuple[NDArray[np.uint8], ...]
    block: NDArray[np.int32]
    at: NDArray[np.int64]

    def __getitem__(self, rows: NDArray[np.int64]) -> RecordedRegisters:
        """Return those of some states, i64[n], as a table of registers does."""
        return RecordedRegisters(self.blocks, self.block.take(rows), self.at.take(rows))

    def column(self, column: int) -> NDArray[np.uint64]:
        """Return one register of all states, u64[k]."""
        found = np.empty(len(self.at), np.uint64)
        for row in distinct(self.block).tolist():
            words = self.blocks[row].view(np.uint64)
            of_block = np.flatnonzero(self.block == row)
            found[of_block] = words.take(self.at.take(of_block) + column, mode="clip")
        return found
