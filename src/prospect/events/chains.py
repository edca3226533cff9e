"""Where the call chains of samples stand: behind the fixed part and PERF_SAMPLE_READ.

Source: the comment of PERF_RECORD_SAMPLE and ``struct read_format`` in
``include/uapi/linux/perf_event.h`` (Linux 6.18).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.events.schema import at_rows
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.events.schema import Schema


class ChainPlaces(NamedTuple):
    """Where each sample's chain stands.

    Attributes:
        begin: i64[n] words.
        length: i64[n] words; 0 for a chain that does not fit into its record.
        cut: how many such chains there are.
        behind: i64[n] where what follows the chain begins; behind the record of a cut one.
    """

    begin: NDArray[np.int64]
    length: NDArray[np.int64]
    cut: int
    behind: NDArray[np.int64]


def find_chains(
    words: NDArray[np.uint64],
    positions: NDArray[np.int64],
    size_words: NDArray[np.int64],
    rows: NDArray[np.int64] | None,
    schema: Schema,
) -> ChainPlaces:
    """Find the call chains of whole samples.

    Args:
        words: u64 the block.
        positions: i64[n] the samples' headers.
        size_words: i64[n] the samples' sizes.
        rows: i64[n] the samples' events, None where the schema is uniform.
        schema: of the recording.
    """
    at: NDArray[np.int64] = positions + at_rows(schema.fixed_words, rows)
    end = positions + size_words
    each = at_rows(schema.read_words_each, rows)
    if not isinstance(each, int) or each:
        # A group's values: `nr` of them. Without a group `each` is 0 and the word read is unused.
        values = _count_at(words, at, end, each)
        is_cut = (values < 0) & (np.asarray(each) > 0)
        at = np.where(is_cut, end, at + values * each)
    at = at + at_rows(schema.read_words, rows)
    has_chain = at_rows(schema.has_chain, rows)
    if isinstance(has_chain, int) and not has_chain:
        return ChainPlaces(at, np.zeros(len(at), np.int64), 0, at)
    length = _count_at(words, at, end, 1)
    if not isinstance(has_chain, int):
        length = np.where(has_chain, length, 0)
    is_cut = length < 0
    cut = int(np.count_nonzero(is_cut))
    behind = at + has_chain + length
    if cut:
        behind = np.where(is_cut, end + 1, behind)
        length = np.maximum(length, 0)
    return ChainPlaces(at + 1, length, cut, behind)


def _count_at(
    words: NDArray[np.uint64],
    at: NDArray[np.int64],
    end: NDArray[np.int64],
    each: int | NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return the count that stands at `at`, -1 where its items would not end before `end`."""
    room = end - at - 1
    count = words.take(at, mode="clip")
    most = np.maximum(room, 0).astype(np.uint64)
    if not isinstance(each, int) or each > 1:
        most //= np.maximum(each, 1).view(np.uint64)
    fits = (count <= most) & (room >= 0)
    length = count.view(np.int64)
    return length if fits.all() else np.where(fits, length, -1)
