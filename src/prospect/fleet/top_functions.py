"""Which functions take the time of all hosts, and how sure that is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.errors import StoreError
from prospect.estimate.statistics.clusters import ClusterSums, shares_of
from prospect.fleet.asking import accounting_of, question
from prospect.fleet.hits import NAMES, SERVICES, SUMS, keep_hits
from prospect.fleet.long_top import Summed, kept_in, summed_with_days
from prospect.records import NamedTuple, Record
from prospect.store.engine import EngineError
from prospect.store.measured import share_remarks

if TYPE_CHECKING:
    from prospect.fleet.asking import HostAccounting, Wanted
    from prospect.store.directory import StoreDirectory
    from prospect.store.specification import Specification
    from prospect.store.tables import EngineMaker


_MOST_SERVICES = 3


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
    """How much of the time of hosts was measured.

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
        measured: how much of these hosts' time was measured.
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
    store: StoreDirectory,
    chosen: Specification,
    make_engine: EngineMaker,
    wanted: Wanted,
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
    store: StoreDirectory,
    chosen: Specification,
    make_engine: EngineMaker,
    wanted: Wanted,
) -> Summed:
    """Add up what hosts' stores have."""
    with question(store, chosen, make_engine, by_name=True) as asked:
        busy = keep_hits(asked, wanted.announce)
        accounting = accounting_of(asked)
        found = asked.engine.rows(
            "WITH sums AS (SELECT number, sum(n)::BIGINT AS n, sum(w) AS w,"
            " sum(hosts)::BIGINT AS hosts, sum(squares) AS squares, sum(products) AS products"
            f" FROM {SUMS} GROUP BY number)"
            " SELECT path, name, n, w, hosts, squares, products, count(*) OVER () AS every"
            f" FROM sums JOIN {NAMES} USING (number) ORDER BY w DESC, path, name"
            f" LIMIT {int(wanted.rows)}"
        )
        services = asked.engine.rows(
            "WITH sums AS (SELECT service, sum(n)::BIGINT AS n, sum(w) AS w,"
            " sum(hosts)::BIGINT AS hosts, sum(squares) AS squares, sum(products) AS products"
            f" FROM {SERVICES} GROUP BY service)"
            " SELECT service, n, hosts, squares, products, w, count(*) OVER () AS every FROM sums"
            f" ORDER BY w DESC, service LIMIT {_MOST_SERVICES}"
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
        samples=busy.samples,
        weight=busy.weight,
        functions=found[0][7] if found else 0,
        hosts_hit=busy.hosts,
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
    shares = shares_of(found.service_sums)
    return [
        TopService(name, share, low, high, share * busy_cpus, hosts, n)
        for (name, n, hosts), share, low, high in zip(
            found.services, *(one.tolist() for one in shares), strict=True
        )
    ]


def _top(found: Summed) -> Top:
    shares = shares_of(found.sums)
    event, accounting = found.heads[-1].events[0], found.accounting
    # Sums of periods are for all hosts, also if only a share of them sent.
    share_of_hosts = min(head.host_share for head in found.heads)
    # Lost and missing ticks are neither busy nor idle time: what CPUs did then is not known.
    known_s = (
        sum(one.measured_s * one.cpus * _known_share([one]) for one in accounting) / share_of_hosts
    )
    cpus = sum(one.cpus for one in accounting)
    seconds = found.weight * event.seconds_per_period or found.samples * event.seconds_per_hit
    busy_cpus = seconds / known_s * cpus if known_s else 0.0
    return Top(
        rows=[
            TopRow(name, path, share, low, high, share * busy_cpus, hosts, n)
            for (path, name, n, hosts), share, low, high in zip(
                found.rows, *(one.tolist() for one in shares), strict=True
            )
        ],
        services=_services(found, busy_cpus),
        every_service=found.every_service,
        functions=found.functions,
        hosts=len(accounting),
        hosts_hit=found.hosts_hit,
        cpus=cpus,
        busy_cpus=busy_cpus,
        samples=found.samples,
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
