"""Find hosts whose time goes to other functions than that of the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.announcing import pluralize
from prospect.estimate.statistics.row_limits import adjusted
from prospect.estimate.statistics.unusual_hosts import LEAST_HOSTS, outlying
from prospect.fleet.asking import question
from prospect.fleet.fleet_limits import MOST_CELLS, MOST_COMPARED_FUNCTIONS
from prospect.fleet.hits import NAMES, NUMBERS, keep_names
from prospect.records import NamedTuple, Record

if TYPE_CHECKING:
    from prospect.columns.array_types import I64
    from prospect.fleet.asking import Question, Wanted
    from prospect.store.directory import StoreDirectory
    from prospect.store.specification import Specification
    from prospect.store.tables import EngineMaker


class Outlier(NamedTuple):
    """A host on which a function has another share than usual.

    Attributes:
        host: its name.
        function, object: the function, and the path of its file.
        share: its share of the samples of this host.
        usual: the median of its share on all hosts.
        spread: how widely hosts differ, as a multiple of the spread from counting alone.
        samples: its samples on this host.
        q: the least false discovery rate at which this row is listed.
    """

    host: str
    function: str
    object: str
    share: float
    usual: float
    spread: float
    samples: int
    q: float


class Outliers(Record):
    """Hosts that differ.

    Attributes:
        rows: functions on hosts that differ, the surest first.
        found: the number of all such rows.
        differing_hosts: the number of hosts that differ.
        hosts: the number of hosts that were compared.
        functions: the number of functions that were compared.
        tests: the number of comparisons.
        fdr: the share of the rows that is expected to be wrong, at most.
        remarks: what could not be compared, and what is left out.
    """

    rows: list[Outlier]
    found: int
    differing_hosts: int
    hosts: int
    functions: int
    tests: int
    fdr: float
    remarks: list[str]


def outliers(
    store: StoreDirectory, chosen: Specification, make_engine: EngineMaker, wanted: Wanted
) -> Outliers:
    """Find the hosts that differ from the others.

    Raises:
        StoreError: nothing matches, or nothing can be read.
    """
    with question(store, chosen, make_engine) as asked:
        keep_names(asked)
        condition, parameters = asked.condition
        totals = asked.engine.columns(
            "SELECT host, host_number, sum(n)::BIGINT AS n FROM (SELECT segment, sum(n)::BIGINT"
            f" AS n FROM samples WHERE {condition} AND pid <> 0 GROUP BY segment) AS h"
            " JOIN segments USING (segment) JOIN hosts USING (host_number)"
            " GROUP BY host, host_number ORDER BY host_number",
            parameters,
        )
        names, counts = _counts(asked, totals["host_number"].tolist())
        remarks = list(asked.part.remarks)
    hosts = len(totals["host"])
    if hosts < LEAST_HOSTS:
        remarks.append(
            f"{pluralize(hosts, 'host')} are too few to compare: at least {LEAST_HOSTS} are needed."
        )
    compared = outlying(counts, totals["n"].astype(np.int64), wanted.fdr)
    q = adjusted(compared.p.ravel()).reshape(compared.p.shape)
    rows_found, hosts_found = np.nonzero(q <= wanted.fdr)
    # The surest first, then those with the larger difference.
    by_size = np.abs(counts / np.maximum(totals["n"], 1) - compared.usual[:, None])
    place_of_name = np.argsort(sorted(range(len(names)), key=names.__getitem__))
    order = np.lexsort(
        (
            hosts_found,
            place_of_name[rows_found],
            -by_size[rows_found, hosts_found],
            q[rows_found, hosts_found],
        )
    )
    first = order[: wanted.rows]
    return Outliers(
        rows=[
            Outlier(
                host=totals["host"][host],
                function=names[row][1],
                object=names[row][0],
                share=float(counts[row, host] / max(int(totals["n"][host]), 1)),
                usual=float(compared.usual[row]),
                spread=float(compared.spread[row]),
                samples=int(counts[row, host]),
                q=float(q[row, host]),
            )
            for row, host in zip(
                rows_found[first].tolist(), hosts_found[first].tolist(), strict=True
            )
        ],
        found=len(order),
        differing_hosts=len(np.unique(hosts_found)),
        hosts=hosts,
        functions=len(names),
        tests=int(np.isfinite(compared.p).sum()),
        fdr=wanted.fdr,
        remarks=remarks,
    )


def _counts(asked: Question, hosts: list[int]) -> tuple[list[tuple[str, str]], I64]:
    """Return the functions with most samples, and their samples i64[r, h] on each host.

    All functions of all hosts do not fit into memory, and adding them up takes longer than reading
    the hits twice.
    """
    most = max(min(MOST_COMPARED_FUNCTIONS, MOST_CELLS // max(len(hosts), 1)), 1)
    engine = asked.engine
    condition, parameters = asked.condition
    engine.keep(
        "most_hit",
        "SELECT number, path, name FROM (SELECT number, sum(n)::BIGINT AS n FROM (SELECT function,"
        f" sum(n)::BIGINT AS n FROM samples WHERE {condition} AND pid <> 0 GROUP BY function) AS h"
        f" JOIN {NUMBERS} USING (function) GROUP BY number) AS sums JOIN {NAMES} USING (number)"
        f" ORDER BY n DESC, path, name LIMIT {most}",
        parameters,
    )
    names = engine.columns("SELECT number, path, name FROM most_hit ORDER BY number")
    wanted = f"SELECT function FROM {NUMBERS} JOIN most_hit USING (number)"
    found = engine.columns(
        "SELECT host_number, number, sum(n)::BIGINT AS n FROM (SELECT segment, function,"
        f" sum(n)::BIGINT AS n FROM samples WHERE {condition} AND pid <> 0"
        f" AND function IN ({wanted}) GROUP BY segment, function) AS h"
        f" JOIN segments USING (segment) JOIN {NUMBERS} USING (function)"
        " GROUP BY host_number, number",
        parameters,
    )
    counts = np.zeros((len(names["number"]), len(hosts)), np.int64)
    row = np.searchsorted(names["number"], found["number"])
    counts[row, np.searchsorted(hosts, found["host_number"])] = found["n"]
    return list(zip(names["path"].tolist(), names["name"].tolist(), strict=True)), counts
