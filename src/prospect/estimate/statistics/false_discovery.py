"""Many tests at once: which rows may be called different so that few of those calls are wrong.

Source: Benjamini and Hochberg, Controlling the false discovery rate, J. R. Statist. Soc. B 57
(1995); leaving out tests that cannot succeed: Tarone, Biometrics 46 (1990).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def adjusted(p_values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return each test's least false-discovery rate at which it is a discovery, f64[n].

    A row that is not tested has a p-value of NaN, and gets NaN.
    """
    result = np.full(len(p_values), np.nan)
    tested = np.flatnonzero(~np.isnan(p_values))
    order = tested[np.argsort(-p_values[tested], kind="stable")]
    rank = np.arange(len(order), 0, -1)
    result[order] = np.minimum.accumulate(p_values[order] * len(order) / rank)
    return np.asarray(np.minimum(result, 1.0), np.float64)
