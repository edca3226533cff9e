"""Words between two samples → where their records begin, on columns.

Comes in: words that begin with a record's header. Goes out: what following the headers one by one
gives, with a step of Python for each word that only looks like a header in place of each record:
where programs start all the time, thousands of records of them stand between two samples.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MASK_TYPE = np.uint64((1 << 32) - 1)
_SIZE_SHIFT = np.uint64(48)
_WORDS_SHIFT = np.uint64(51)
_HEADER_BYTES = np.uint64(8)
_NOT_WHOLE_WORDS = np.uint64(7)
# Those of the kernel are below 32, and perf's own from 64 on (6.18); of others, words of text and
# addresses are far above.
_MOST_TYPES = np.uint64(256)


def records_between(words: NDArray[np.uint64], begin: int, end: int) -> NDArray[np.int64] | None:
    """Follow the headers from one word to another.

    Args:
        words: u64[n].
        begin: where a record begins.
        end: where one begins too, or should.

    Returns:
        i64[r] where the records begin; None where the headers do not lead from `begin` to `end`,
        or by a type that is not known to exist: who follows one by one will see.
    """
    window = words[begin:end]
    is_type = (window & _MASK_TYPE) < _MOST_TYPES
    found = is_type.nonzero()[0]
    header = window.take(found)
    size = header >> _SIZE_SHIFT
    is_size = (size >= _HEADER_BYTES) & ((size & _NOT_WHOLE_WORDS) == 0)
    found, header = found[is_size], header[is_size]
    if not len(found) or found[0]:
        return None
    following = found + (header >> _WORDS_SHIFT).view(np.int64)
    leads_on = following[:-1] == found[1:]
    breaks = (~leads_on).nonzero()[0].tolist()
    breaks.append(len(found) - 1)
    parts: list[NDArray[np.int64]] = []
    first, last = 0, len(window)
    for place in breaks:
        if place < first:
            continue  # inside a record that was hopped over
        parts.append(found[first : place + 1])
        target = int(following[place])
        if target >= last:
            break
        first = int(np.searchsorted(found, target))
        if first == len(found) or found[first] != target:
            return None
    if target != last:
        return None
    return np.concatenate(parts) + begin
