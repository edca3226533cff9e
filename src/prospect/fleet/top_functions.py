"""Find the functions that take most time of all hosts, with error bars.

Sums of whole days are read instead of hosts' stores if there are any. They do not have the single
hosts. So the error bars of several days assume the worst case, that the same hosts have more of a
function on all days: the square of a sum of m numbers is at most m times the sum of their squares
(Cauchy and Schwarz). The error bars of one day are exact. The number of hosts of several days is
estimated from sketches.
"""

from __future__ import annotations

from collections import Counter
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import numpy as np

from prospect.announcing import pluralize
from prospect.dimensions import WORDS
from prospect.errors import StoreError
from prospect.estimate.statistics.clusters import ClusterSums, shares_of
from prospect.fleet.asking import HostAccounting, accounting_of, by_host, question
from prospect.fleet.hits import NAMES, SERVICES, SUMS, keep_hits
from prospect.fleet.host_counts import SKETCH, STANDARD_ERROR, estimated, merged_columns
from prospect.fleet.keeping import summed
from prospect.fleet.kept_days import DAY_S, FUNCTIONS_COLUMNS, HOSTS_COLUMNS, days_of, ranges_of
from prospect.records import NamedTuple, Record
from prospect.store.conditions import fits_one_of
from prospect.store.engine import Engine, EngineError
from prospect.store.hosts import HostsDirectory
from prospect.store.measured import share_remarks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from prospect.fleet.asking import Wanted
    from prospect.fleet.kept_days import KeptDay
    from prospect.store.directory import StoreDirectory
    from prospect.store.file_schema import Head
    from prospect.store.segments import Segment
    from prospect.store.specification import Specification
    from prospect.store.tables import EngineMaker

# Sums of all hosts have these keys.
_WORDS = {"service", "symbol", "lib-image"}
_US = 10**6
_THREADS = 2
_MOST_SERVICES = 3
_TYPED = ", ".join(f'"{one}"::{kind} AS "{one}"' for one, kind in FUNCTIONS_COLUMNS.items())


class Kept(NamedTuple):
    """The days whose sums of all hosts are to be read.

    Attributes:
        days: the oldest first.
        remarks: a sentence for each thing that is left out.
        any_live: whether hosts' stores have more of the chosen part.
    """

    days: list[KeptDay]
    remarks: list[str]
    any_live: bool


class Summed(NamedTuple):
    """Sums of all hosts.

    Attributes:
        rows: path, name, samples and number of hosts of each function, those with most time first.
        sums: the sums of `rows`, and of all chosen hits.
        functions: the number of all functions.
        accounting: the accounting of each host.
        heads: the heads of all segments, the latest last.
        remarks: a sentence for each thing that is estimated, or left out.
        services: name, samples and number of hosts of the first services; none if sums of days
            were read.
        service_sums: the sums of `services`; None for none.
        every_service: the number of all services.
    """

    rows: list[tuple[str, str, int, int]]
    sums: ClusterSums
    functions: int
    accounting: list[HostAccounting]
    heads: list[Head]
    remarks: list[str]
    services: tuple[tuple[str, int, int], ...] = ()
    service_sums: ClusterSums | None = None
    every_service: int = 0


@contextmanager
def kept_in(store: StoreDirectory, chosen: Specification) -> Iterator[Kept]:
    """Find the days to read. While the block runs, the store leaves their windows out."""
    if not isinstance(store, HostsDirectory) or not store.kept_files():
        yield Kept([], [], any_live=True)
        return
    every, remarks = days_of(store)
    of_days: dict[int, list[Segment]] = {}
    for each in store.segments():
        of_days.setdefault(each.begin_s // DAY_S, []).append(each)
    span = chosen.since_us, chosen.until_us
    has_words = not chosen.numbers and chosen.texts.keys() <= _WORDS
    days, unread = [], []
    for one in every:
        if one.end_s * _US <= span[0] or one.begin_s * _US >= span[1]:
            continue
        own = of_days.get(one.begin_s // DAY_S, [])
        # A segment may have more windows than the day: then the hosts are read instead.
        is_cut = any(
            one.ranges.meets(each) and not one.ranges.has(each)
            for each in (ranges_of([part]) for part in own)
        )
        is_within = span[0] <= one.begin_s * _US and one.end_s * _US <= span[1]
        if has_words and is_within and not is_cut:
            days.append(one)
        elif not ranges_of(own).has(one.ranges):
            unread.append(one)
    if days:
        latest = days[-1].head.events
        alike = [one for one in days if one.head.events == latest]
        if len(alike) < len(days):
            remarks.append(
                f"{len(days) - len(alike)} of {pluralize(len(days), 'day')} as sums of all hosts"
                f" {'is' if len(days) - len(alike) == 1 else 'are'} left out: other events or"
                " another rate were sampled then; give since: and until: to see them."
            )
        days = alike
    if unread:
        remarks.append(
            f"{pluralize(len(unread), 'day')} with only sums of all hosts"
            f" {'is' if len(unread) == 1 else 'are'} left out: these are of whole days, and only"
            " service: and symbol: choose parts of them."
        )
    store.left_out = frozenset(
        each
        for one in days
        for each in of_days.get(one.begin_s // DAY_S, [])
        if one.ranges.has(ranges_of([each]))
    )
    try:
        any_live = any(one.overlaps(*span) for one in store.segments())
        yield Kept(days, remarks, any_live=any_live)
    finally:
        store.left_out = frozenset()


def summed_with_days(
    store: StoreDirectory, chosen: Specification, make_engine: EngineMaker, kept: Kept, rows: int
) -> Summed:
    """Add up days of all hosts, and the rest of the hosts' stores.

    Raises:
        StoreError: a store cannot be read.
        EngineError: a day cannot be read.
    """
    remarks, heads = list(kept.remarks), [one.head for one in kept.days]
    with closing(Engine(store, threads=_THREADS)) as engine:
        pieces = _Pieces(store, engine, chosen, kept.days)
        if kept.any_live:
            with question(store, chosen, make_engine) as asked:
                live = asked.part.heads[-1]
                if live.events == heads[-1].events:
                    heads += asked.part.heads
                    pieces.add_live(summed(asked), accounting_of(asked))
                else:
                    remarks.append(
                        "Other time in the hosts' stores is left out: other events or"
                        " another rate were sampled then; give since: and until: to see it."
                    )
                remarks += asked.part.remarks
        found = pieces.rows(chosen, rows)
        n, w, hosts_hit, squares = pieces.total()
    times, accounting = pieces.most_times, by_host(pieces.accounting)
    remark = f"{pluralize(len(kept.days), 'day')} as sums of all hosts"
    if times > 1:
        remark += (
            ": ± is that of the worst case, and numbers of hosts are estimates"
            f" (± {200 * STANDARD_ERROR:.0f} %)"
        )
    remarks.append(f"{remark}.")
    every = len(accounting)
    sums = ClusterSums(
        of_rows=found["w"].astype(np.float64),
        squares=found["squares"] * times,
        products=found["products"] * times,
        total=float(w),
        total_squares=squares * times,
        hosts=min(hosts_hit, every),
        samples=n,
    )
    return Summed(
        rows=list(
            zip(
                found["path"].tolist(),
                found["name"].tolist(),
                found["n"].tolist(),
                _hosts(found, every),
                strict=True,
            )
        ),
        sums=sums,
        functions=int(found["every"][0]) if len(found["every"]) else 0,
        accounting=accounting,
        heads=heads,
        remarks=remarks,
    )


class _Pieces:
    """Sums of all hosts that are read together.

    Attributes:
        accounting: the accounting of each host, by piece.
    """

    def __init__(
        self, store: StoreDirectory, engine: Engine, chosen: Specification, days: list[KeptDay]
    ) -> None:
        """Let the engine read days."""
        self._engine = engine
        self._times: list[int] = []
        self.accounting: list[list[HostAccounting]] = []
        services = chosen.texts.get("service")
        level = "is_all"
        parameters: list[Any] = []
        if services is not None:
            condition, parameters = fits_one_of("service", services)
            level = f"NOT is_all AND {condition}"
        named = ", ".join(f'"{name}"' for name in HOSTS_COLUMNS)
        for number, day in enumerate(days):
            functions, hosts = (store.root + day.file(kind) for kind in ("functions", "hosts"))
            engine.keep(
                f"piece_{number}",
                f"SELECT {_TYPED} FROM read_parquet(?) WHERE {level}",
                [functions, *parameters],
            )
            ((several,),) = engine.rows(
                f"SELECT count(DISTINCT service) FROM piece_{number} WHERE is_total"
            )
            self._times.append(several)
            self.accounting.append(
                [
                    HostAccounting(*row)
                    for row in engine.rows(f"SELECT {named} FROM read_parquet(?)", [hosts])
                ]
            )

    def add_live(self, columns: dict[str, Any], accounting: list[HostAccounting]) -> None:
        """Add the sums of hosts' stores, of all chosen services."""
        self._engine.register("live", columns)
        number = len(self._times)
        self._engine.keep(f"piece_{number}", f"SELECT {_TYPED} FROM live WHERE is_all")
        self._times.append(1)
        self.accounting.append(accounting)

    @property
    def most_times(self) -> int:
        """The largest number of terms of a host's sum."""
        counts: Counter[str] = Counter()
        for times, accounting in zip(self._times, self.accounting, strict=True):
            for one in accounting:
                counts[one.host] += times
        return max(counts.values(), default=1)

    def total(self) -> tuple[int, int, int, float]:
        """Return the sums of all chosen hits: samples, periods, hosts, squares."""
        found = self._engine.columns(self._query("is_total", "true"))
        hosts = _hosts(found, sum(map(len, self.accounting)))
        if not hosts:
            return 0, 0, 0, 0.0
        n, w, squares = (found[name][0].item() for name in ("n", "w", "squares"))
        return n, int(w), hosts[0], squares

    def rows(self, chosen: Specification, rows: int) -> dict[str, Any]:
        """Return the functions with most time."""
        conditions, parameters = ["NOT is_total"], []
        for word in ("symbol", "lib-image"):
            if word in chosen.texts:
                condition, values = fits_one_of(WORDS[word].column, chosen.texts[word])
                conditions.append(condition)
                parameters += values
        order = f" ORDER BY w DESC, path, name LIMIT {int(rows)}"
        query = self._query(" AND ".join(conditions), "path, name") + order
        return self._engine.columns(query, parameters)

    def _query(self, condition: str, keys: str) -> str:
        named = "path, name, " if keys != "true" else ""
        every = " UNION ALL ".join(f"SELECT * FROM piece_{one}" for one in range(len(self._times)))
        return (
            f"SELECT {named}sum(n)::BIGINT AS n, sum(w) AS w, max(hosts) AS most,"
            " sum(hosts)::BIGINT AS all_hosts, sum(squares) AS squares, sum(products) AS products,"
            f" count(*) AS pieces, {merged_columns()}, count(*) OVER () AS every"
            f" FROM ({every}) AS p WHERE {condition} GROUP BY {keys}"
        )


def _hosts(found: dict[str, Any], every: int) -> list[int]:
    """Return the number of hosts of each row, exact for one piece, else estimated."""
    sketches = np.stack([found[name].astype(np.int64) for name in SKETCH], axis=1)
    most = np.minimum(found["all_hosts"], every)
    counts = np.clip(np.rint(estimated(sketches)).astype(np.int64), found["most"], most)
    return [int(one) for one in np.where(found["pieces"] == 1, found["most"], counts)]


class TopRow(NamedTuple):
    """A function of a program or library, in all of its builds.

    Attributes:
        function: its name, empty for all code without a name.
        object: the path of its file.
        share: its share of the CPU time that was chosen.
        low, high: ends of the 95 % interval of the share, for other hosts like these.
        cpus: how many CPUs of all hosts it keeps busy.
        hosts: the number of hosts that it was seen on.
        samples: its number of samples.
    """

    function: str
    object: str
    share: float
    low: float
    high: float
    cpus: float
    hosts: int
    samples: int


class TopService(NamedTuple):
    """A service, container or other control group.

    Attributes:
        service: its name, empty for all that is in none.
        share: its share of the CPU time that was chosen.
        low, high: ends of the 95 % interval of the share, for other hosts like these.
        cpus: how many CPUs of all hosts it keeps busy.
        hosts: the number of hosts that it was seen on.
        samples: its number of samples.
    """

    service: str
    share: float
    low: float
    high: float
    cpus: float
    hosts: int
    samples: int


class MeasuredTime(NamedTuple):
    """The measured part of the hosts' time.

    Attributes:
        begin_us, end_us: begin and end of all windows, in microseconds since 1970.
        measured_share: the measured part of the time from begin to end on all hosts.
        recorded_share: the part of the expected ticks that was recorded or idle.
    """

    begin_us: int
    end_us: int
    measured_share: float
    recorded_share: float


class Top(Record):
    """Functions by share of all hosts.

    Attributes:
        rows: the first functions.
        services: the first services, if there are several; empty if sums of whole days are read.
        every_service: the number of all services.
        functions: the number of all functions.
        hosts: the number of hosts that were measured.
        hosts_hit: the number of hosts with samples that were chosen.
        cpus: the number of CPUs of the hosts.
        busy_cpus: how many of the CPUs were busy with the chosen samples, on average.
        samples: the number of samples that were chosen.
        measured: the measured part of these hosts' time.
        remarks: a sentence for each part that is left out.
    """

    rows: list[TopRow]
    services: list[TopService]
    every_service: int
    functions: int
    hosts: int
    hosts_hit: int
    cpus: int
    busy_cpus: float
    samples: int
    measured: MeasuredTime
    remarks: list[str]


def top(
    store: StoreDirectory, chosen: Specification, make_engine: EngineMaker, wanted: Wanted
) -> Top:
    """Find the functions that take most time.

    `symbol:` and `lib-image:` choose rows, whose shares are of all.

    Raises:
        StoreError: nothing matches, or nothing can be read.
    """
    with kept_in(store, chosen) as kept:
        if not kept.days:
            found = _summed(store, chosen, make_engine, wanted)
            return _top(found._replace(remarks=[*kept.remarks, *found.remarks]))
        try:
            found = summed_with_days(store, chosen, make_engine, kept, wanted.rows)
        except EngineError as error:
            raise StoreError(f"{store.path}: cannot be read: {error}") from None
    return _top(found)


def _summed(
    store: StoreDirectory, chosen: Specification, make_engine: EngineMaker, wanted: Wanted
) -> Summed:
    """Add up hits of the hosts' stores."""
    with question(store, chosen, make_engine, by_name=True) as asked:
        busy = keep_hits(asked, wanted.announce)
        accounting = accounting_of(asked)
        found = asked.engine.rows(
            "SELECT path, name, n, w, hosts, squares, products, count(*) OVER () AS every"
            f" FROM {SUMS} JOIN {NAMES} USING (number) ORDER BY w DESC, path, name"
            f" LIMIT {int(wanted.rows)}"
        )
        services = asked.engine.rows(
            "SELECT service, n, hosts, squares, products, w, count(*) OVER () AS every"
            f" FROM {SERVICES} ORDER BY w DESC, service LIMIT {_MOST_SERVICES}"
        )
        heads, remarks = asked.part.heads, asked.part.remarks
    sums = ClusterSums(
        of_rows=np.array([float(row[3]) for row in found]),
        squares=np.array([float(row[5]) for row in found]),
        products=np.array([float(row[6]) for row in found]),
        total=float(busy.weight),
        total_squares=float(busy.squares),
        hosts=busy.hosts,
        samples=busy.samples,
    )
    return Summed(
        rows=[(path, name, n, hosts) for path, name, n, _, hosts, *_ in found],
        sums=sums,
        functions=found[0][7] if found else 0,
        accounting=accounting,
        heads=heads,
        remarks=remarks,
        services=tuple((name, n, hosts) for name, n, hosts, *_ in services),
        service_sums=sums._replace(
            of_rows=np.array([float(row[5]) for row in services]),
            squares=np.array([float(row[3]) for row in services]),
            products=np.array([float(row[4]) for row in services]),
        ),
        every_service=services[0][6] if services else 0,
    )


def _services(found: Summed, busy_cpus: float) -> list[TopService]:
    """Return the first services, if there are several."""
    if found.service_sums is None or found.every_service < 2:
        return []
    shares = (one.tolist() for one in shares_of(found.service_sums))
    return [
        TopService(name, share, low, high, share * busy_cpus, hosts, n)
        for (name, n, hosts), share, low, high in zip(found.services, *shares, strict=True)
    ]


def _top(found: Summed) -> Top:
    event, accounting = found.heads[-1].events[0], found.accounting
    # Sums of periods are for all hosts, also if only a share of them sent.
    share_of_hosts = min(head.host_share for head in found.heads)
    # Lost and missing ticks are neither busy nor idle time.
    known_s = (
        sum(one.measured_s * one.cpus * _known_share([one]) for one in accounting) / share_of_hosts
    )
    cpus = sum(one.cpus for one in accounting)
    sums = found.sums
    seconds = sums.total * event.seconds_per_period or sums.samples * event.seconds_per_hit
    busy_cpus = seconds / known_s * cpus if known_s else 0.0
    return Top(
        rows=[
            TopRow(name, path, share, low, high, share * busy_cpus, hosts, n)
            for (path, name, n, hosts), share, low, high in zip(
                found.rows, *(one.tolist() for one in shares_of(sums)), strict=True
            )
        ],
        services=_services(found, busy_cpus),
        every_service=found.every_service,
        functions=found.functions,
        hosts=len(accounting),
        hosts_hit=sums.hosts,
        cpus=cpus,
        busy_cpus=busy_cpus,
        samples=sums.samples,
        measured=_measured(accounting),
        remarks=[*share_remarks(found.heads), *found.remarks],
    )


def _known_share(accounting: list[HostAccounting]) -> float:
    """Return the share of hosts' ticks that were recorded or came due on an idle CPU, 0 to 1.

    The accounting's `lost` also counts other records, such as those of mappings.
    """
    expected = sum(one.expected for one in accounting)
    seen = sum(one.recorded + one.idle for one in accounting)
    return min(seen / expected, 1.0) if expected > 0 else 1.0


def _measured(accounting: list[HostAccounting]) -> MeasuredTime:
    begin = min((one.begin_us for one in accounting), default=0)
    end = max((one.end_us for one in accounting), default=0)
    length_s = max((end - begin) * 1e-6, 1e-6) * max(len(accounting), 1)
    return MeasuredTime(
        begin_us=begin,
        end_us=end,
        measured_share=min(sum(one.measured_s for one in accounting) / length_s, 1.0),
        recorded_share=_known_share(accounting),
    )
