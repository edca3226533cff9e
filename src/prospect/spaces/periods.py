"""Samples' periods, where they are few: the ranks that ride along in a sort key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from prospect.spaces.runs import BLOCK_SAMPLES

if TYPE_CHECKING:
    from numpy.typing import NDArray

# A clock bank has a period a clock; with a frequency the kernel chooses any number of them.
_FEW = 16


@dataclass(frozen=True)
class FewPeriods:
    """The distinct periods and which one each sample has.

    Attributes:
        values: u64[k] in no order.
        rank: u8[n] row of `values`; a broadcast zero where there is one.
    """

    values: NDArray[np.uint64]
    rank: NDArray[np.uint8]

    @property
    def bits(self) -> int:
        """Bits of the largest rank."""
        return max(len(self.values) - 1, 0).bit_length()


def few_periods(period: NDArray[np.uint64]) -> FewPeriods | None:
    """Rank the samples' periods; None where there are more than 16."""
    nought = np.broadcast_to(np.uint8(0), len(period))
    if not len(period) or period.strides == (0,):
        return FewPeriods(period[:1].copy(), nought)
    ranks = np.zeros(len(period), np.uint8)
    values: list[int] = []
    for first in range(0, len(period), BLOCK_SAMPLES):
        block = period[first : first + BLOCK_SAMPLES]
        rank = ranks[first : first + BLOCK_SAMPLES]
        known = 0
        for row, value in enumerate(values):
            is_value = block == value
            np.copyto(rank, row, where=is_value)
            known += int(np.count_nonzero(is_value))
        if known < len(block):
            unknown = np.setdiff1d(block, np.array(values, np.uint64))
            if len(values) + len(unknown) > _FEW:
                return None
            for row, value in enumerate(unknown.tolist(), start=len(values)):
                np.copyto(rank, row, where=block == value)
            values += unknown.tolist()
    return FewPeriods(np.array(values, np.uint64), ranks if len(values) > 1 else nought)
