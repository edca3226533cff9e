"""Call chains in user space that the kernel recorded later than their samples → the samples' own.

With ``perf record --call-graph fp,defer`` the chain of a sample ends with a marker and a cookie.
The chain in user space has its own record, with that cookie, when the task returns to user
space. Several samples may have one cookie. Without such a record the chain ends at the marker.

Defined by: ``include/uapi/linux/perf_event.h``, PERF_RECORD_CALLCHAIN_DEFERRED and
PERF_CONTEXT_USER_DEFERRED (Linux 7.0).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.abi import constants as abi
from prospect.columns.buffers import segments
from prospect.records import replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from prospect.events.record_columns import Samples

    Words = NDArray[np.uint64]

_MARK = np.uint64(abi.PERF_CONTEXT_USER_DEFERRED % 2**64)
# Words of header, cookie and number of addresses, and their places.
_HEAD_WORDS, _COOKIE, _COUNT = 3, 1, 2
_MOST_ADDED_BYTES = 1 << 30


def with_deferred_chains(samples: Samples, records: Sequence[Words]) -> Samples:
    """Return samples whose chains go on where the kernel had deferred that.

    Args:
        samples: in any order.
        records: the words of PERF_RECORD_CALLCHAIN_DEFERRED, some records in each.
    """
    if samples.chain is None or samples.chain_start is None:
        return samples
    chain, start = samples.chain, samples.chain_start
    mark = np.flatnonzero(chain == _MARK)
    if not len(mark):
        return samples
    row = np.searchsorted(start, mark, side="right") - 1
    row, first = np.unique(row, return_index=True)
    mark = mark.take(first)
    words = np.concatenate([np.zeros(1, np.uint64), *records])
    cookie, begin, count = _deferred(words)
    # Where a chain ends with its marker, the word behind is another sample's, and no cookie.
    wanted = chain.take(mark + 1, mode="clip")
    place = np.searchsorted(cookie, wanted)
    place[place == len(cookie)] = 0
    is_found = (cookie.take(place) == wanted) & (mark + 1 < start.take(row + 1))
    added = np.where(is_found, count.take(place), 0)
    added[np.cumsum(added) > _MOST_ADDED_BYTES // 8] = 0
    # Each sample is two pieces: what it had, and what was deferred.
    pieces = np.zeros((len(start) - 1, 2), np.int64)
    lengths = np.zeros_like(pieces)
    pieces[:, 0], lengths[:, 0] = start[:-1], np.diff(start)
    lengths[row, 0] = mark - start.take(row)
    pieces[row, 1], lengths[row, 1] = len(chain) + begin.take(place), added
    source = np.concatenate((chain, words))
    return replace(
        samples,
        chain=source.take(segments(pieces.reshape(-1), lengths.reshape(-1))),
        chain_start=np.append(0, np.cumsum(lengths.sum(axis=1))),
    )


def _deferred(words: Words) -> tuple[Words, NDArray[np.int64], NDArray[np.int64]]:
    """Return the cookies of records, rising, where their addresses begin, and how many they are.

    Of records with one cookie the last one counts. There is always one row, of cookie 0.
    """
    begins, at = [0], 1
    while at + _HEAD_WORDS <= len(words):
        begins.append(at)
        at += max(int(words[at]) >> 51, _HEAD_WORDS)
    rows = np.array(begins[1:], np.int64)
    end = np.append(rows[1:], len(words))[: len(rows)]
    count = np.minimum(words.take(rows + _COUNT), np.uint64(1 << 16)).astype(np.int64)
    count = np.minimum(count, np.maximum(end - rows - _HEAD_WORDS, 0))
    cookie = np.append(np.uint64(0), words.take(rows + _COOKIE))
    begin, count = np.append(0, rows + _HEAD_WORDS), np.append(0, count)
    backwards = np.arange(len(cookie))[::-1]
    known, last = np.unique(cookie.take(backwards), return_index=True)
    order = backwards.take(last)
    return known, begin.take(order), count.take(order)
