"""What hits are added up by: of each key what every hit has, as a number, and what that is called.

Comes in: a completed Profile and a key of `prospect.options.SORT_KEYS` or `COLUMN_DIMENSIONS`. Goes
out: the numbers and their names. Of what the table of hits does not say, as CPUs, the profile has
`classes`, which `figures.separation` makes of samples and a store of its rows.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from prospect.errors import UsageError
from prospect.figures.causes import CAUSE_KIND_NAMES
from prospect.figures.portions import PORTION_NAMES, hit_portions
from prospect.figures.routine_names import shown_name
from prospect.profile.control_groups import group_name
from prospect.profile.model import CAUSE_NONE

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from prospect.profile.complete import CompleteProfile

    Names = tuple[NDArray[np.int64], Callable[[int], str]]

# Dimensions that the table of hits does not keep apart by itself.
SEPARATED = ("cpu", "thread", "hour", "session", "host")


def sort_keys(profile: CompleteProfile, key: str) -> Names:
    """Return what each hit has of a key, i64[h] of 0 or more, and the names of these numbers.

    Args:
        profile: completed.
        key: of `prospect.options.SORT_KEYS`.

    Raises:
        UsageError: the profile does not say.
    """
    return _COLUMNS[key](profile)


def class_keys(profile: CompleteProfile, dimension: str) -> Names:
    """Return which class each hit is of, i64[h] of 0 or more, and the names of these numbers.

    Args:
        profile: completed.
        dimension: that the classes differ in, of `prospect.options.COLUMN_DIMENSIONS` but "event".

    Raises:
        UsageError: the profile does not say.
    """
    if dimension == "process":
        return _processes(profile)
    if dimension not in SEPARATED:
        return sort_keys(profile, dimension)
    classes, index = profile.classes, profile.hits.class_index
    if classes is None or index is None or classes.dimension != dimension:
        raise UsageError(f"--columns {dimension}: the profile does not keep this apart")
    return index.astype(np.int64), classes.names.__getitem__


def _programs(profile: CompleteProfile) -> Names:
    names: dict[str, int] = {}
    row = [names.setdefault(name, len(names)) for name in profile.processes.name]
    return _of_processes(profile, row), list(names).__getitem__


def _pids(profile: CompleteProfile) -> Names:
    def text(number: int) -> str:
        return str(number - 1) if number else "?"

    return _of_processes(profile, profile.processes.pid + 1), text


def _processes(profile: CompleteProfile) -> Names:
    """Return processes; one that went on as another program by exec is called as it ended."""
    pids = profile.processes.pid.tolist()
    last = dict(zip(pids, profile.processes.name, strict=True))
    number = {pid: at for at, pid in enumerate(last)}
    names = [name if pid < 0 else f"{name} ({pid})" for pid, name in last.items()]
    return _of_processes(profile, [number[pid] for pid in pids]), names.__getitem__


def _services(profile: CompleteProfile) -> Names:
    groups = profile.processes.control_group or [""] * len(profile.processes)
    names: dict[str, int] = {}
    row = [names.setdefault(group_name(group), len(names)) for group in groups]
    return _of_processes(profile, row), list(names).__getitem__


def _labels(profile: CompleteProfile) -> Names:
    if profile.labels is None or profile.hits.label_index is None:
        raise UsageError("samples have no labels; --label says where they come from")
    names = profile.labels
    return profile.hits.label_index.astype(np.int64), lambda row: names[row] or "(none)"


def _of_processes(
    profile: CompleteProfile, value: list[int] | NDArray[np.int32]
) -> NDArray[np.int64]:
    return np.asarray(value, np.int64).take(profile.hits.process_index)


def _threads(profile: CompleteProfile) -> Names:
    """Return threads; only their names if the profile does not keep threads apart."""
    if profile.classes is None or profile.classes.dimension != "thread":
        return _comms(profile)
    return class_keys(profile, "thread")


def _tids(profile: CompleteProfile) -> Names:
    numbers, name = class_keys(profile, "thread")
    return numbers, lambda row: name(row).rpartition(" (")[2].removesuffix(")")


def _comms(profile: CompleteProfile) -> Names:
    names: dict[str, int] = {}
    row = np.array([names.setdefault(name, len(names)) for name in profile.comms], np.int64)
    return row.take(profile.hits.comm_index), list(names).__getitem__


def _functions(profile: CompleteProfile) -> NDArray[np.int64]:
    index = profile.locations.function_index.take(profile.hits.location_index)
    return index.astype(np.int64)


def _routines(profile: CompleteProfile) -> Names:
    return _functions(profile), lambda row: shown_name(profile.functions, row)


def _objects(profile: CompleteProfile) -> Names:
    names: dict[str, int] = {}
    row = [names.setdefault(path, len(names)) for path in profile.objects.path]
    of_function = np.asarray(row, np.int64).take(profile.functions.object_index)
    return of_function.take(_functions(profile)), list(names).__getitem__


def _modes(profile: CompleteProfile) -> Names:
    return hit_portions(profile), PORTION_NAMES.__getitem__


def _causes(profile: CompleteProfile) -> Names:
    kinds = [CAUSE_KIND_NAMES[kind] for kind in profile.causes.kind.tolist()]
    names = [name or kind for name, kind in zip(profile.causes.name, kinds, strict=True)]
    causes = Counter(names)

    def text(row: int) -> str:
        if profile.causes.kind[row] == CAUSE_NONE:
            return "(user code)"
        return names[row] if causes[names[row]] == 1 else f"{kinds[row]} {names[row]}"

    return profile.hits.cause_index.astype(np.int64), text


_COLUMNS: dict[str, Callable[[CompleteProfile], Names]] = {
    "program": _programs,
    "pid": _pids,
    "comm": _comms,
    "thread": _threads,
    "tid": _tids,
    "object": _objects,
    "routine": _routines,
    "mode": _modes,
    "cause": _causes,
    "service": _services,
    "label": _labels,
}
