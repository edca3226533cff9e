"""Lists whose items are made when they are first asked for.

A report shows a few hundred of the thousands of functions that were hit: what it takes to write a
name as a programmer would is spent on those alone.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar, overload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_Item = TypeVar("_Item")


class LateList(Sequence[_Item]):
    """A list that makes an item when it is asked for, and all at once for a pass over them."""

    def __init__(self, count: int, make: Callable[[Sequence[int]], list[_Item]]) -> None:
        """Take what makes items.

        Args:
            count: how many there are.
            make: returns the items of these rows; asked for each at most once.
        """
        self._items: list[_Item | None] = [None] * count
        self._make = make

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, row: int) -> _Item: ...
    @overload
    def __getitem__(self, row: slice) -> list[_Item]: ...
    def __getitem__(self, row: int | slice) -> _Item | list[_Item]:
        if isinstance(row, slice):
            return self._all()[row]
        item = self._items[row]
        if item is None:
            (item,) = self._make([row % len(self._items)])
            self._items[row] = item
        return item

    def __iter__(self) -> Iterator[_Item]:
        return iter(self._all())

    def take(self, rows: Sequence[int]) -> list[_Item]:
        """Return the items of these rows, of 0 and more; what is missing is made all at once."""
        items = self._items
        if missing := [row for row in dict.fromkeys(rows) if items[row] is None]:
            for row, item in zip(missing, self._make(missing), strict=True):
                items[row] = item
        return [items[row] for row in rows]  # type: ignore[misc]  # none is missing

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._all() == list(other)

    __hash__ = None  # type: ignore[assignment]  # as that of a list

    def __repr__(self) -> str:
        return repr(self._all())

    def _all(self) -> list[_Item]:
        self.take(range(len(self._items)))
        return self._items  # type: ignore[return-value]  # none is missing


def gather(items: Sequence[_Item], rows: Sequence[int]) -> list[_Item]:
    """Return the items of these rows of a list, late or not."""
    return items.take(rows) if isinstance(items, LateList) else [items[row] for row in rows]


def joined(parts: Sequence[Sequence[_Item]]) -> Sequence[_Item]:
    """Return one list of several, whose items are made no earlier than in those."""
    if not any(isinstance(part, LateList) for part in parts):
        return list(itertools.chain.from_iterable(parts))
    start = [0, *itertools.accumulate(map(len, parts))]

    def make(rows: Sequence[int]) -> list[_Item]:
        of_part: dict[int, list[int]] = {}
        for row in rows:
            part = bisect_right(start, row) - 1
            of_part.setdefault(part, []).append(row - start[part])
        made = {
            start[part] + row: item
            for part, own in of_part.items()
            for row, item in zip(own, gather(parts[part], own), strict=True)
        }
        return [made[row] for row in rows]

    return LateList(start[-1], make)
