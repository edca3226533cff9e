"""The columns of hits and samples: the rows of tables that a hit refers to, and their names."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from prospect.errors import UsageError
from prospect.figures.causes import CAUSE_KIND_NAMES
from prospect.figures.portions import PORTION_NAMES, hit_portions
from prospect.figures.routine_names import shown_name
from prospect.profile.group_names import group_name
from prospect.profile.model import CAUSE_NONE, NO_CPU
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from prospect.profile.complete import ProfileByRoutine
    from prospect.profile.model import Profile

_HOUR_S = 3600
_NS = 1e-9


class Keys(NamedTuple):
    """The value that each hit has in a dimension.

    Attributes:
        number: i64[h], 0 or more.
        names: of each number, as the profile has it: what patterns are compared with.
        shown: gives what tables show for a number.
    """

    number: NDArray[np.int64]
    names: Sequence[str]
    shown: Callable[[int], str]

    def texts(self, hits: NDArray[np.intp]) -> list[str]:
        """Return what tables show for some hits; each distinct text is made once."""
        numbers = self.number.take(hits).tolist()
        known = {number: self.shown(number) for number in set(numbers)}
        return [known[number] for number in numbers]


class HitColumns:
    """The columns of a profile's hits, i64[h], and what rows of them are called."""

    mode_names = PORTION_NAMES

    def __init__(self, profile: ProfileByRoutine) -> None:
        self.profile = profile

    @cached_property
    def process(self) -> NDArray[np.int64]:
        """Rows of the processes."""
        return self.profile.hits.process_index.astype(np.int64)

    @cached_property
    def comm(self) -> NDArray[np.int64]:
        """Rows of the names of threads."""
        return self.profile.hits.comm_index.astype(np.int64)

    @cached_property
    def event(self) -> NDArray[np.int64]:
        """Rows of the events."""
        return self.profile.hits.event.astype(np.int64)

    @cached_property
    def function(self) -> NDArray[np.int64]:
        """Rows of the functions."""
        index = self.profile.locations.function_index.take(self.profile.hits.location_index)
        return index.astype(np.int64)

    @cached_property
    def object(self) -> NDArray[np.int64]:
        """Rows of the objects."""
        return self.profile.functions.object_index.take(self.function).astype(np.int64)

    @cached_property
    def mode(self) -> NDArray[np.int64]:
        """PORTION_*."""
        return hit_portions(self.profile)

    @property
    def event_names(self) -> list[str]:
        """The name of each event."""
        return [event.name for event in self.profile.run.events]

    @property
    def service_names(self) -> list[str]:
        """The service, container or other control group of each process."""
        processes = self.profile.processes
        return list(map(group_name, processes.control_group or [""] * len(processes)))

    def rows(
        self,
        number: NDArray[np.int64],
        names: Sequence[str],
        shown: Callable[[int], str] | None = None,
    ) -> Keys:
        """Return keys that are rows of a table; rows of the same name stay apart."""
        return Keys(number, names, shown or names.__getitem__)

    def named(self, index: NDArray[np.int64], names: Sequence[str]) -> Keys:
        """Return keys that are the distinct names of a table's rows.

        Args:
            index: i64[h] the row of each hit.
            names: of each row.
        """
        number: dict[str, int] = {}
        rows = np.array([number.setdefault(name, len(number)) for name in names], np.int64)
        return self.rows(rows.take(index), list(number))

    def numbers(self, index: NDArray[np.int64], values: NDArray[np.integer]) -> Keys:
        """Return keys that are numbers which a table's rows have, -1 for unknown."""
        found, row = np.unique(values, return_inverse=True)
        names = [str(value) if value >= 0 else "?" for value in found.tolist()]
        return self.rows(row.astype(np.int64).take(index), names)

    def processes(self) -> Keys:
        """Return processes; one that went on as another program by exec is called as it ended."""
        processes = self.profile.processes
        pids = processes.pid.tolist()
        last = dict(zip(pids, processes.name, strict=True))
        number = {pid: at for at, pid in enumerate(last)}
        names = [name if pid < 0 else f"{name} ({pid})" for pid, name in last.items()]
        row = np.array([number[pid] for pid in pids], np.int64)
        return self.rows(row.take(self.process), names)

    def functions(self) -> Keys:
        """Return functions; those without a name show why."""
        functions = self.profile.functions
        return self.rows(self.function, functions.name, lambda row: shown_name(functions, row))

    def causes(self) -> Keys:
        """Return why the kernel ran; causes of several kinds with one name show their kinds."""
        causes = self.profile.causes
        kinds = [CAUSE_KIND_NAMES[kind] for kind in causes.kind.tolist()]
        names = [name or kind for name, kind in zip(causes.name, kinds, strict=True)]
        times = Counter(names)

        def shown(row: int) -> str:
            if causes.kind[row] == CAUSE_NONE:
                return "(user code)"
            return names[row] if times[names[row]] == 1 else f"{kinds[row]} {names[row]}"

        return self.rows(self.profile.hits.cause_index.astype(np.int64), names, shown)

    def labels(self) -> Keys:
        """Return what labels say.

        Raises:
            UsageError: samples have none.
        """
        names, index = self.profile.labels, self.profile.hits.label_index
        if names is None or index is None:
            raise UsageError("samples have no labels; --label says where they come from")
        return self.rows(index.astype(np.int64), names, lambda row: names[row] or "(none)")

    def hosts(self) -> Keys:
        """Return the machine that was recorded; a store of many hosts has classes of them."""
        of_hit = np.zeros(len(self.profile.hits), np.int64)
        return self.rows(of_hit, [self.profile.run.hostname])


class SampleColumns:
    """The columns of a profile's samples, i64[n], -1 if unknown; None if it is of all of them."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile

    @property
    def cpu(self) -> NDArray[np.int64] | None:
        """The CPU."""
        cpu = self._profile.samples.cpu
        if (cpu == NO_CPU).all() and len(cpu):
            return None
        return np.where(cpu == NO_CPU, -1, cpu.astype(np.int64))

    @property
    def tid(self) -> NDArray[np.int64] | None:
        """The number of the thread."""
        tid = self._profile.samples.tid
        return None if tid is None or ((tid < 0).all() and len(tid)) else tid.astype(np.int64)

    @property
    def hour(self) -> NDArray[np.int64] | None:
        """Hours since 1970."""
        run, time_ns = self._profile.run, self._profile.samples.time_ns
        if not run.started_at:
            return None
        begin_ns = min(run.begin_ns or 2**64 - 1, int(time_ns.min(initial=2**64 - 1)))
        since_s = (time_ns - np.uint64(begin_ns)).astype(np.float64) * _NS
        return ((run.started_at + since_s) // _HOUR_S).astype(np.int64)
