"""What `--columns` shows side by side of a part of a store: a class for each row of hits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.dimensions import BY_NAME
from prospect.profile.model import HitClasses
from prospect.records import replace
from prospect.store.choosing import CLASS

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    from prospect.profile.model import Profile
    from prospect.store.reading import Part


def with_classes(
    profile: Profile, part: Part, rows: dict[str, NDArray[Any]], dimension: str
) -> Profile:
    """Return the profile of some rows with what their column `CLASS` says.

    Args:
        profile: of the rows, a row of hits for each.
        part: of the store.
        rows: as `chosen_rows` returns them.
        dimension: that the column is of.
    """
    values = rows[CLASS].tolist()
    comm: dict[object, str] = {}
    if dimension == "thread":
        # As it was called at most of its samples in a row.
        order = np.argsort(rows["n"], kind="stable").tolist()
        comms = rows["comm"].tolist()
        comm = {values[row]: comms[row] for row in order}
    called = {value: _name(part, dimension, value, comm.get(value, "")) for value in set(values)}
    number: dict[str, int] = {}
    index = [number.setdefault(called[value], len(number)) for value in values]
    return replace(
        profile,
        hits=replace(profile.hits, class_index=np.array(index, np.int32)),
        classes=HitClasses(dimension, list(number)),
    )


def _name(part: Part, dimension: str, value: int, comm: str) -> str:
    if dimension == "session":
        return part.segments[value].session
    return BY_NAME[dimension].class_name(value, comm)
