"""How a group and an address share the bits of one u64 key."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

KEY_BITS = 64
# The largest virtual addresses in common use: 52 bits on arm64 (LVA); x86-64 has 47.
_ADDRESS_BITS = 52


def folded(address: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return addresses with the top half of the address space folded onto the bottom half."""
    signed = address.view(np.int64)
    return (signed ^ (signed >> 63)).view(np.uint64)


def group_bits(largest_address: int) -> int:
    """Return how many bits a key has for the group, beside folded addresses of this size."""
    return KEY_BITS - min(largest_address.bit_length(), _ADDRESS_BITS)
