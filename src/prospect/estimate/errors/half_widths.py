"""The half widths of any rows of one event: what calls, annotations and summaries show."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.estimate.errors.error_bars import error_bars

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.estimate.errors.design import Design
    from prospect.estimate.errors.parts import Parts


def half_widths(
    design: Design, row_of_hit: NDArray[np.integer], rows: int, parts: Parts | None = None
) -> NDArray[np.float64]:
    """Return half of each row's 95 % interval, f64[rows] s; NaN if the event has none.

    Args:
        design: how the event's samples were taken.
        row_of_hit: i[h] the row of each hit, -1 for none.
        rows: how many there are.
        parts: as of `error_bars`.
    """
    if not (design.has_bars and rows):
        return np.full(rows, np.nan)
    row = row_of_hit.astype(np.int32, copy=False)
    return error_bars(design, row, rows, parts=parts).half_width_s
