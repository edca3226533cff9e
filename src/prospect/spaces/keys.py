"""Groups and addresses → u64 keys to sort, and back.

Comes in: `groups.SampleGroups`. Goes out: `KeyPart`s, each sample in exactly one of them. Nothing
about an address or the number of groups is assumed: what does not fit 64 bits is ranked first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.records import Record
from prospect.spaces.key_bits import KEY_BITS, folded, group_bits
from prospect.spaces.runs import BLOCK_SAMPLES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from prospect.events.columns import Samples
    from prospect.spaces.groups import SampleGroups

# Each chunk of groups costs a pass over the samples; from here on ranking costs less.
_CHUNKS = 16


class KeyPart(Record):
    """Samples as keys: group above, folded address below.

    Attributes:
        keys: u64[k].
        rows: i64[k] the samples; None for all of the recording, in order.
        address_bits: how many bits of a key the address has.
        groups: u64 what a key's group is a row of; None if the key says group - `first_group`.
        addresses: u64 what a key's address is a row of; None if it is the address.
    """

    keys: NDArray[np.uint64]
    rows: NDArray[np.int64] | None
    address_bits: int
    first_group: int = 0
    groups: NDArray[np.uint64] | None = None
    addresses: NDArray[np.uint64] | None = None

    def unpack(self, keys: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
        """Return the groups and folded addresses of keys, whose memory the addresses take."""
        group = (keys >> np.uint64(self.address_bits)).view(np.int64)
        address = keys
        address &= np.uint64((1 << self.address_bits) - 1)
        if self.groups is None or self.addresses is None:
            group += self.first_group
            return group, address
        return self.groups.take(group).view(np.int64), self.addresses.take(address.view(np.int64))


def key_parts(
    samples: Samples, groups: SampleGroups, *, may_spend: bool = False
) -> Iterator[KeyPart]:
    """Pack the samples, in parts that share no (group, address).

    Args:
        samples: of the recording.
        groups: of these.
        may_spend: whether nobody needs the addresses any more, so that their memory may be used.
    """
    for_group = group_bits(groups.largest_address)
    address_bits = KEY_BITS - for_group
    chunks = 1 + (max(groups.limit - 1, 0) >> for_group)
    fits = groups.largest_address >> address_bits == 0
    if chunks == 1 and fits:
        is_usable = may_spend and samples.ip.flags.writeable and samples.ip.flags.c_contiguous
        keys = samples.ip if is_usable else np.empty(len(samples), np.uint64)
        _pack_all(samples, groups, address_bits, keys)
        yield KeyPart(keys, None, address_bits)
        return
    if chunks > _CHUNKS:
        chunks, address_bits = 0, 0
    for chunk in range(chunks):
        rows, group, address = _select(samples, groups, address_bits, for_group, chunk)
        keys = (group << np.uint64(address_bits)) | address
        yield KeyPart(keys, rows, address_bits, chunk << for_group)
    if not chunks or not fits:
        yield _ranked(samples, groups, address_bits)


def _pack_all(
    samples: Samples, groups: SampleGroups, address_bits: int, keys: NDArray[np.uint64]
) -> None:
    """Write the samples' keys, which may be where their addresses are."""
    for first, group in groups.blocks():
        block = slice(first, first + BLOCK_SAMPLES)
        key = np.left_shift(group, np.uint64(address_bits), out=group)
        np.bitwise_or(key, folded(samples.ip[block]), out=keys[block])


def _select(
    samples: Samples, groups: SampleGroups, address_bits: int, group_bits: int, chunk: int
) -> tuple[NDArray[np.int64], NDArray[np.uint64], NDArray[np.uint64]]:
    """Return rows, group within the chunk and address of a chunk's samples that fit a key."""
    rows, chosen, addresses = [], [], []
    for first, group in groups.blocks():
        address = folded(samples.ip[first : first + BLOCK_SAMPLES])
        is_chosen = group >> np.uint64(group_bits) == chunk
        is_chosen &= address >> np.uint64(address_bits) == 0
        picked = np.flatnonzero(is_chosen)
        rows.append(first + picked)
        chosen.append(group.take(picked) & np.uint64((1 << group_bits) - 1))
        addresses.append(address.take(picked))
    return np.concatenate(rows), np.concatenate(chosen), np.concatenate(addresses)


def _ranked(samples: Samples, groups: SampleGroups, address_bits: int) -> KeyPart:
    """Pack what has longer addresses, by rank: two ranks of up to 2^32 samples fit a key.

    With 0 `address_bits` that is every sample.
    """
    rows, chosen, addresses = [], [], []
    for first, group in groups.blocks():
        address = folded(samples.ip[first : first + BLOCK_SAMPLES])
        is_chosen = address >> np.uint64(address_bits) > 0 if address_bits else address >= 0
        picked = np.flatnonzero(is_chosen)
        rows.append(first + picked)
        chosen.append(group.take(picked))
        addresses.append(address.take(picked))
    groups_met, group_rank = np.unique(np.concatenate(chosen), return_inverse=True)
    addresses_met, address_rank = np.unique(np.concatenate(addresses), return_inverse=True)
    bits = max(len(addresses_met) - 1, 0).bit_length()
    keys = (group_rank.view(np.uint64) << np.uint64(bits)) | address_rank.view(np.uint64)
    return KeyPart(keys, np.concatenate(rows), bits, groups=groups_met, addresses=addresses_met)
