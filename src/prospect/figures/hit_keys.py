"""The keys by which hits are added up, and profiles whose hits are separated for them.

Some dimensions, such as CPUs, differ from sample to sample and are no column of the table of hits.
Its rows are split for them, so that sums and error bars by class are made as all others are.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from prospect.columns.buffers import gather
from prospect.columns.grouping import counted, exact_sums
from prospect.dimensions import BY_NAME
from prospect.errors import UsageError
from prospect.figures.entry_reasons import ENTRY_REASON_KIND_NAMES
from prospect.figures.modes import MODE_NAMES, hit_modes
from prospect.figures.shown_rows import shown_name
from prospect.profile.group_names import service_names
from prospect.profile.model import ENTRY_REASON_NONE, NO_CPU, NO_LABELS, HitClasses
from prospect.records import NamedTuple, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from prospect.columns.array_types import I64, Ints
    from prospect.dimensions import Dimension
    from prospect.profile.complete import ProfileByFunction
    from prospect.profile.model import Profile

_AnyProfile = TypeVar("_AnyProfile", bound="Profile")
_HOUR_S = 3600
_NS = 1e-9


class Keys(NamedTuple):
    """The value that each hit has in a dimension.

    Attributes:
        number: i64[h], 0 or more.
        names: of each number, in the profile's words, which patterns are compared with.
        shown: gives the text in tables for a number.
        others: other names of each number; () for none.
    """

    number: I64
    names: Sequence[str]
    shown: Callable[[int], str]
    others: Sequence[str] = ()

    def texts(self, hits: NDArray[np.intp]) -> list[str]:
        """Return the texts in tables for some hits; each distinct text is made once."""
        numbers = self.number.take(hits).tolist()
        known = {number: self.shown(number) for number in set(numbers)}
        return [known[number] for number in numbers]


class HitColumns:
    """The columns of a profile's hits, i64[h], and the names of their rows."""

    mode_names = MODE_NAMES

    def __init__(self, profile: ProfileByFunction) -> None:
        self.profile = profile

    @cached_property
    def process(self) -> I64:
        """Rows of the processes."""
        return self.profile.hits.process_index.astype(np.int64)

    @cached_property
    def comm(self) -> I64:
        """Rows of the names of threads."""
        return self.profile.hits.comm_index.astype(np.int64)

    @cached_property
    def event(self) -> I64:
        """Rows of the events."""
        return self.profile.hits.event.astype(np.int64)

    @cached_property
    def function(self) -> I64:
        """Rows of the functions."""
        index = self.profile.locations.function_index.take(self.profile.hits.location_index)
        return index.astype(np.int64)

    @cached_property
    def object(self) -> I64:
        """Rows of the objects."""
        return self.profile.functions.object_index.take(self.function).astype(np.int64)

    @cached_property
    def mode(self) -> I64:
        """MODE_*."""
        return hit_modes(self.profile)

    @property
    def event_names(self) -> list[str]:
        """The name of each event."""
        return [event.name for event in self.profile.run.events]

    @property
    def service_names(self) -> list[str]:
        """The service, container or other control group of each process."""
        return service_names(self.profile.processes)

    def rows(
        self, number: I64, names: Sequence[str], shown: Callable[[int], str] | None = None
    ) -> Keys:
        """Return keys that are rows of a table; rows of the same name stay separate."""
        return Keys(number, names, shown or names.__getitem__)

    def named(self, index: I64, names: Sequence[str]) -> Keys:
        """Return keys that are the distinct names of a table's rows.

        `index`, i64[h], is the row of each hit.
        """
        number: dict[str, int] = {}
        rows = np.array([number.setdefault(name, len(number)) for name in names], np.int64)
        return self.rows(rows.take(index), list(number))

    def numbers(self, index: I64, values: Ints) -> Keys:
        """Return keys that are numbers in a table's rows, -1 for unknown."""
        found, row = np.unique(values, return_inverse=True)
        names = [str(value) if value >= 0 else "?" for value in found.tolist()]
        return self.rows(row.astype(np.int64).take(index), names)

    def processes(self) -> Keys:
        """Return processes, each under the name of the last program that it executed."""
        processes = self.profile.processes
        pids = processes.pid.tolist()
        last = dict(zip(pids, processes.name, strict=True))
        number = {pid: at for at, pid in enumerate(last)}
        names = [name if pid < 0 else f"{name} ({pid})" for pid, name in last.items()]
        row = np.array([number[pid] for pid in pids], np.int64)
        return self.rows(row.take(self.process), names)

    def functions(self) -> Keys:
        """Return functions; those without a name show the reason."""
        functions = self.profile.functions
        return self.rows(self.function, functions.name, lambda row: shown_name(functions, row))

    def entry_reasons(self) -> Keys:
        """Return why the kernel ran; a name that several kinds share has its kind."""
        entry_reasons = self.profile.entry_reasons
        kinds = [ENTRY_REASON_KIND_NAMES[kind] for kind in entry_reasons.kind.tolist()]
        names = [name or kind for name, kind in zip(entry_reasons.name, kinds, strict=True)]
        times = Counter(names)

        def shown(row: int) -> str:
            if entry_reasons.kind[row] == ENTRY_REASON_NONE:
                return "(user code)"
            return names[row] if times[names[row]] == 1 else f"{kinds[row]} {names[row]}"

        return Keys(self.profile.hits.entry_reason_index.astype(np.int64), names, shown, kinds)

    def labels(self) -> Keys:
        """Return labels.

        Raises:
            UsageError: samples have none.
        """
        names, index = self.profile.labels, self.profile.hits.label_index
        if names is None or index is None:
            failures = [one for one in self.profile.run.limits if one.endswith(NO_LABELS)]
            raise UsageError(*failures[:1] or [f"{NO_LABELS}; --label says where they come from"])
        return self.rows(index.astype(np.int64), names, lambda row: names[row] or "(none)")

    def hosts(self) -> Keys:
        """Return the recorded machine; a store of many hosts has classes of them."""
        of_hit = np.zeros(len(self.profile.hits), np.int64)
        return self.rows(of_hit, [self.profile.run.hostname])


class SampleColumns:
    """The columns of a profile's samples, i64[n], -1 if unknown; None if all are unknown."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile

    @property
    def cpu(self) -> I64 | None:
        """The CPU."""
        cpu = self._profile.samples.cpu
        if (cpu == NO_CPU).all() and len(cpu):
            return None
        return np.where(cpu == NO_CPU, -1, cpu.astype(np.int64))

    @property
    def tid(self) -> I64 | None:
        """The number of the thread."""
        tid = self._profile.samples.tid
        return None if tid is None or ((tid < 0).all() and len(tid)) else tid.astype(np.int64)

    @property
    def hour(self) -> I64 | None:
        """Hours since 1970."""
        run, time_ns = self._profile.run, self._profile.samples.time_ns
        if not run.started_at:
            return None
        begin_ns = min(run.begin_ns or 2**64 - 1, int(time_ns.min(initial=2**64 - 1)))
        since_s = (time_ns - np.uint64(begin_ns)).astype(np.float64) * _NS
        return ((run.started_at + since_s) // _HOUR_S).astype(np.int64)


def hit_keys(profile: ProfileByFunction, dimension: str) -> Keys:
    """Return each hit's value in a dimension.

    The profile is completed, and split by the dimension if its table of hits lacks it.

    Raises:
        UsageError: the profile lacks the dimension.
    """
    one, columns, classes = BY_NAME[dimension], HitColumns(profile), profile.classes
    if _is_apart(profile, one) and classes is not None:
        index = profile.hits.class_index
        at = classes.dimensions.index(one.kept_as)
        names = [name[at] for name in classes.names]
        if one.is_number:
            names = [name.rpartition(" (")[2].removesuffix(")") for name in names]
        if index is not None:
            return columns.named(index.astype(np.int64), names)
    if one.keys is None:
        raise UsageError(f"--columns {dimension}: the profile does not keep this apart")
    keys: Keys = one.keys(columns)
    return keys


def kept_apart(profile: _AnyProfile, keys: Iterable[str] = (), columns: str = "") -> _AnyProfile:
    """Return the profile with its hits split by dimensions, if they are not yet.

    Args:
        profile: with samples; or split already.
        keys: of `SORT_KEYS`; "thread" means names if the profile has no numbers of threads.
        columns: of `COLUMN_DIMENSIONS`, or "".

    Raises:
        UsageError: the profile lacks the samples' values of one of them.
    """
    asked = [("--columns", columns)] * bool(columns) + [("--sort", key) for key in keys]
    for option, name in asked:
        one = BY_NAME[name]
        if _is_apart(profile, one) or not (one.samples or one.needs_store):
            continue
        values, complaint = _values(profile, one)
        if values is not None:
            profile = _split(profile, values, one)
        elif one.keys is None or option == "--columns":
            raise UsageError(f"{option} {one.name}{complaint}")
    return profile


def _is_apart(profile: Profile, one: Dimension) -> bool:
    classes = profile.classes
    return bool(one.kept_as) and classes is not None and one.kept_as in classes.dimensions


def _values(profile: Profile, one: Dimension) -> tuple[I64 | None, str]:
    """Return each sample's value in a dimension; None and a complaint if unknown."""
    if one.samples is None:
        return None, f" {one.missing}"
    if not len(profile.samples) and len(profile.hits):
        return None, f": {profile.run.origin} has no single samples"
    values: I64 | None = one.samples(SampleColumns(profile))
    return values, f": {profile.run.origin} {one.missing}"


def _split(profile: _AnyProfile, values: I64, one: Dimension) -> _AnyProfile:
    """Return a profile with a row of hits for each row and value of its samples.

    `values`, i64[n], are the samples' values in the dimension.
    """
    hits, samples = profile.hits, profile.samples
    known, class_of_sample = np.unique(values, return_inverse=True)
    size = max(len(known), 1)
    found = counted(
        samples.hit_index.astype(np.uint64) * np.uint64(size) + class_of_sample.astype(np.uint64)
    )
    old, of_class = np.divmod(found.value.astype(np.int64), size)
    count = np.bincount(found.place, minlength=len(old)).astype(np.int64)
    if samples.period is None:
        # Only the sum of the periods is known; the parts have to add up to it.
        whole, samples_of_old = hits.period.take(old), hits.count.take(old)
        period = whole // np.maximum(samples_of_old, 1) * count
        first = np.append(True, old[1:] != old[:-1]) if len(old) else np.zeros(0, np.bool_)
        rest = hits.period - exact_sums(old, period, len(hits))
        period[first] += rest.take(old[first])
    else:
        period = exact_sums(found.place, np.asarray(samples.period).astype(np.int64), len(old))
    comms = _commonest_comms(profile, class_of_sample)
    names = [one.class_name(value, comm) for value, comm in zip(known.tolist(), comms, strict=True)]
    before = profile.classes or HitClasses((), [()])
    if hits.class_index is not None:
        of_class += hits.class_index.take(old).astype(np.int64) * size
    pairs, class_index = np.unique(of_class, return_inverse=True)
    return replace(
        profile,
        hits=replace(
            gather(hits, old), count=count, period=period, class_index=class_index.astype(np.int32)
        ),
        samples=replace(samples, hit_index=found.place.astype(np.int32)),
        classes=HitClasses(
            (*before.dimensions, one.kept_as),
            [(*before.names[pair // size], names[pair % size]) for pair in pairs.tolist()],
        ),
    )


def _commonest_comms(profile: Profile, class_of_sample: NDArray[np.intp]) -> list[str]:
    """Return for each class the name of a thread that most of its samples have."""
    comm = profile.hits.comm_index.take(profile.samples.hit_index)
    pairs, hits = np.unique(class_of_sample.astype(np.int64) << 32 | comm + 1, return_counts=True)
    commonest = {pair >> 32: pair & 0xFFFF_FFFF for pair in pairs.take(np.argsort(hits)).tolist()}
    comms = ["", *profile.comms]
    return [comms[commonest[number]] for number in sorted(commonest)]
