"""The upper tail of the chi-square distribution, for any degrees of freedom.

Source: Wilson and Hilferty, Proc. Nat. Acad. Sci. 17 (1931). For 3 degrees of freedom and up a tail
of 1 % or 5 % is right to a twentieth of it; smaller ones are returned too large, not too small.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_erfc = np.frompyfunc(math.erfc, 1, 1)


def chi_square_tail(
    statistic: NDArray[np.float64], freedom: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the probability of at least `statistic` by chance, f64[n].

    Args:
        statistic: f64[n], 0 or more.
        freedom: f64[n] degrees of freedom, over 0.
    """
    spread = 2.0 / (9.0 * freedom)
    deviation = (np.cbrt(statistic / freedom) - 1.0 + spread) / np.sqrt(spread)
    return np.asarray(0.5 * _erfc(deviation / math.sqrt(2.0)), np.float64)
