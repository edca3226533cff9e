"""Functions of one kernel that lay at other addresses, after another boot or on another host.

A kernel is loaded at a random place at each boot, in steps of 2 MiB at least, and a module at any
page. Functions of one name and build whose addresses differ by whole steps are one function; two
static functions of one name in one kernel next to never are so far from each other.
Source: Linux, arch/x86/Kconfig, CONFIG_PHYSICAL_ALIGN; Documentation/arch/arm64/booting.rst.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.profile.model import KIND_KERNEL, KIND_MODULE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from numpy.typing import NDArray

_STEP = {KIND_KERNEL: 2 << 20, KIND_MODULE: 4 << 10}


def first_of_each(functions: Mapping[str, NDArray[Any]]) -> NDArray[np.int64]:
    """Return i64[f]: of each function the first row that is the same function.

    Args:
        functions: columns of `schema.COLUMNS[FUNCTIONS]`.
    """
    kind = functions["object_kind"]
    first = np.arange(len(kind), dtype=np.int64)
    rows = np.flatnonzero(np.isin(kind, list(_STEP)))
    known: dict[tuple[Any, ...], int] = {}
    columns = ("object_kind", "path", "build_id", "name", "address", "source")
    keys = zip(*(functions[name].take(rows).tolist() for name in columns), strict=True)
    for row, (kind_of, path, build_id, name, address, source) in zip(
        rows.tolist(), keys, strict=True
    ):
        key = (kind_of, path, build_id, name, address % _STEP[kind_of], source)
        first[row] = known.setdefault(key, row) if name else row
    return first
