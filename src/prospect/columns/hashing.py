"""Hashes of whole columns of 64-bit words, to find what is equal; users compare what they find."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_STEP = np.uint64(0x9E3779B97F4A7C15)


def random_seed() -> np.uint64:
    """Return a seed that who made a recording cannot know: he cannot make hashes collide."""
    return np.uint64(int.from_bytes(os.urandom(8)))


def mixed(words: NDArray[np.uint64], seed: np.uint64) -> NDArray[np.uint64]:
    """Return a hash of each word, u64[n].

    Source: Steele, Lea and Flood, Fast splittable pseudorandom number generators, OOPSLA 2014:
    the finalizer of SplitMix64, in the constants of Stafford's variant 13.
    """
    result = words + seed
    result ^= result >> np.uint64(30)
    result *= np.uint64(0xBF58476D1CE4E5B9)
    result ^= result >> np.uint64(27)
    result *= np.uint64(0x94D049BB133111EB)
    result ^= result >> np.uint64(31)
    return result


def mixed_at(
    words: NDArray[np.uint64], place: NDArray[np.int64], seed: np.uint64
) -> NDArray[np.uint64]:
    """Return a hash of each word and its place; sums of them distinguish sequences."""
    return mixed(words + (place + 1).view(np.uint64) * _STEP, seed)
