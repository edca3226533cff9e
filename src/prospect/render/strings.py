"""Strings by number, for formats that name things once and refer to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.records import Record, field

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Strings(Record, frozen=False):
    """A table of strings by number, the empty one first; grows as it is asked."""

    rows: dict[str, int] = field(default_factory=lambda: {"": 0})

    def __getitem__(self, text: str) -> int:
        return self.rows.setdefault(text, len(self.rows))

    def of(self, texts: list[str]) -> NDArray[np.int64]:
        """Return i64[n] the number of each."""
        return np.array([self[text] for text in texts], np.int64)
