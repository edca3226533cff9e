"""Looking up a row for each of millions of samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_Scalar = TypeVar("_Scalar", bound=np.generic)

_ROWS_AT_ONCE = 1 << 16


def looked_up(table: NDArray[_Scalar], index: NDArray[np.integer]) -> NDArray[_Scalar]:
    """Return ``table.take(index)``, part by part.

    Numpy makes 64-bit numbers of all of an index first, which for a long one of 32 bits is more
    memory than the result and the index together.

    Args:
        table: [t].
        index: i[n] into the table.
    """
    found = np.empty(len(index), table.dtype)
    for first in range(0, len(index), _ROWS_AT_ONCE):
        part = slice(first, first + _ROWS_AT_ONCE)
        found[part] = table.take(index[part])
    return found
