"""Stacks that were unwound here, and which samples have them.

Comes in: `Unwound`. Goes out: `UserStacks`, beside samples whose `chain` has what the kernel
recorded. Where a stack has to be edited, frame by frame, it becomes words of a chain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.forests import Forest
from prospect.records import NamedTuple, Record, replace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.unwind.model import Unwound


class Chains(NamedTuple):
    """Words of samples, one sample's behind another's: `length` i64[n] of `words` are each's."""

    length: NDArray[np.int64]
    words: NDArray[np.uint64]


class UserStacks(Record):
    """The user part of samples' stacks.

    Attributes:
        frames: a forest of frames, rows of the columns below, each behind its caller.
        innermost: i32[n] row of `frames` for each sample, -1 where its chain has all that is known.
        context: i32[s] row of `UserContexts` of each place.
        address: u64[s] AVMA within the instruction that called; of an innermost frame its pc.
    """

    frames: Forest
    innermost: NDArray[np.int32]
    context: NDArray[np.int32]
    address: NDArray[np.uint64]

    def without(self, of_sample: NDArray[np.int64]) -> UserStacks:
        """Return the stacks without those of some samples, i64[k]."""
        innermost = self.innermost.copy()
        innermost[of_sample] = -1
        return replace(self, innermost=innermost)

    def chains(self, of_sample: NDArray[np.int64]) -> Chains:
        """Return the stacks of some samples, i64[k], as the kernel would have written them."""
        start, frame = self.frames.lists(self.innermost.take(of_sample))
        length = np.diff(start)
        words = self.address.take(self.frames.value.take(frame)) + np.uint64(1)
        # The innermost word is no return address.
        words[start[:-1][length > 0]] -= np.uint64(1)
        return Chains(length, words)


def no_user_stacks(samples: int) -> UserStacks:
    """Return what stands for the stacks of so many samples where none was unwound."""
    none = np.zeros(0, np.int32)
    innermost = np.full(samples, -1, np.int32)
    return UserStacks(Forest(none, none, none), innermost, none, np.zeros(0, np.uint64))


def stacks_of_unwound(unwound: Unwound, of_sample: NDArray[np.int64], samples: int) -> UserStacks:
    """Return the stacks of samples, of which those at i64[k] `of_sample` were unwound."""
    innermost = np.full(samples, -1, np.int32)
    innermost[of_sample] = unwound.innermost
    sites = unwound.sites
    # In a chain what was interrupted further out looks like what has called.
    address = sites.address - sites.is_interrupted
    return UserStacks(unwound.stacks, innermost, sites.context, address)
