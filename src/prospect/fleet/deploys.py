"""Compare hosts before and after they first ran a build of a file, or list builds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.announcing import pluralize
from prospect.errors import StoreError
from prospect.estimate.statistics.beta import student_two_sided
from prospect.estimate.statistics.clusters import Side, difference_of
from prospect.estimate.statistics.row_limits import adjusted
from prospect.fleet.asking import question
from prospect.fleet.fleet_limits import MOST_CELLS_OF_A_DEPLOY, MOST_COMPARED_FUNCTIONS
from prospect.fleet.hits import PERIODS
from prospect.records import NamedTuple, Record

if TYPE_CHECKING:
    from prospect.fleet.asking import Question, Wanted
    from prospect.store.directory import StoreDirectory
    from prospect.store.specification import Specification
    from prospect.store.tables import EngineMaker


class Build(NamedTuple):
    """A build of a file of which there are several.

    Attributes:
        object: the file's path.
        build_id: the build id.
        first_us, last_us: begin of the first and the last window with a sample, in microseconds
            since 1970.
        hosts: the number of hosts that ran it.
        samples: its number of samples.
    """

    object: str
    build_id: str
    first_us: int
    last_us: int
    hosts: int
    samples: int


class Change(NamedTuple):
    """A function before and after.

    Attributes:
        function, object: the function, and the path of its file.
        before, after: its share of the time of the processes that ran the build.
        half: half of the 95 % interval of the difference.
        q: the least false discovery rate at which the difference is significant.
    """

    function: str
    object: str
    before: float
    after: float
    half: float
    q: float


class Deploys(Record):
    """The changes of one deploy, or a list of builds.

    Attributes:
        build: the BUILD of the command line, null without one.
        builds: all builds of that file, or of every file that has several, by file and time.
        processes: names of the programs that ran the build.
        hosts: the number of hosts that ran it and were measured before that as well.
        before_samples, after_samples: samples of these programs on these hosts.
        changes: functions, the surest difference first.
        functions: the number of functions that were compared.
        significant: the number of functions that differ.
        fdr: the share of the significant rows that is expected to be wrong, at most.
        remarks: what could not be compared, and what is left out.
    """

    build: Build | None
    builds: list[Build]
    processes: list[str]
    hosts: int
    before_samples: int
    after_samples: int
    changes: list[Change]
    functions: int
    significant: int
    fdr: float
    remarks: list[str]


def deploys(
    store: StoreDirectory, chosen: Specification, make_engine: EngineMaker, wanted: Wanted
) -> Deploys:
    """List the builds of files that have several, or compare hosts before and after one.

    Raises:
        StoreError: nothing matches, or nothing can be read.
    """
    with question(store, chosen, make_engine, hours=True) as asked:
        found = _builds(asked)
        remarks = list(asked.part.remarks)
        if not wanted.build:
            return _result(None, found[: wanted.rows], wanted.fdr, remarks)
        one = _the_build(store, found, wanted.build)
        same = [each for each in found if each.object == one.object]
        sides = _sides(asked, one)
    return _compared(one, same, sides, remarks, wanted)


def _result(build: Build | None, builds: list[Build], fdr: float, remarks: list[str]) -> Deploys:
    return Deploys(build, builds, [], 0, 0, 0, [], 0, 0, fdr, remarks)


def _builds(asked: Question) -> list[Build]:
    """Return the builds of every file that has several, by object and time."""
    condition, parameters = asked.condition
    of_functions, more = asked.of_functions
    # Hits are added up by host and hour only for files that may have several builds.
    asked.engine.keep(
        "functions_of_builds",
        "SELECT function, path, build_id FROM functions WHERE build_id <> ''"
        f" AND {of_functions} AND path IN (SELECT path FROM function_rows WHERE build_id <> ''"
        " GROUP BY path HAVING count(DISTINCT build_id) > 1)",
        more,
    )
    rows = asked.engine.rows(
        "WITH hit AS (SELECT segment, function, min(t) AS first, max(t) AS last,"
        f" sum(n)::BIGINT AS n FROM samples WHERE {condition} AND function IN (SELECT function"
        " FROM functions_of_builds) GROUP BY segment, function),"
        " builds AS (SELECT path, build_id, min(first) AS first, max(last) AS last, count(DISTINCT"
        " host_number) AS hosts, sum(n)::BIGINT AS n FROM hit JOIN segments USING (segment)"
        " JOIN functions_of_builds USING (function) GROUP BY path, build_id),"
        " several AS (SELECT path FROM builds GROUP BY path HAVING count(*) > 1)"
        " SELECT path, build_id, first, last, hosts, n FROM builds JOIN several USING (path)"
        " ORDER BY path, first, build_id",
        parameters,
    )
    return [Build(*row) for row in rows]


def _the_build(store: StoreDirectory, builds: list[Build], prefix: str) -> Build:
    fits = [one for one in builds if one.build_id.startswith(prefix)]
    if not fits:
        there = ", ".join(f"{one.build_id[:12]} of {one.object}" for one in builds[:3])
        raise StoreError(
            f"{store.path}: no build {prefix} of a file that has several"
            f"{'; there is ' if there else ''}{there}"
        )
    if len(fits) > 1:
        raise StoreError(
            f"{store.path}: {prefix} begins {pluralize(len(fits), 'build id')};"
            f" give more of it: {', '.join(one.build_id for one in fits[:3])}"
        )
    return fits[0]


class _Sides(NamedTuple):
    names: list[tuple[str, str]]
    processes: list[str]
    hosts: int
    before: Side
    after: Side


def _sides(asked: Question, build: Build) -> _Sides:
    """Add up the time of the programs that ran a build, on each host before and after it."""
    engine = asked.engine
    condition, parameters = asked.condition
    engine.keep(
        "build_functions",
        "SELECT function FROM functions WHERE path = ? AND build_id = ?",
        [build.object, build.build_id],
    )
    engine.keep(
        "build_hits",
        "SELECT host_number, process, min(t) AS since FROM samples JOIN segments USING (segment)"
        f" WHERE {condition} AND pid <> 0 AND function IN (SELECT function FROM build_functions)"
        " GROUP BY host_number, process",
        parameters,
    )
    processes = [
        name for (name,) in engine.rows("SELECT DISTINCT process FROM build_hits ORDER BY process")
    ]
    engine.keep(
        "deployed_hits",
        "SELECT host_number, t >= since AS is_after, function, sum(n)::BIGINT AS n,"
        " sum(w)::BIGINT AS w FROM samples JOIN segments USING (segment) JOIN (SELECT host_number,"
        " min(since) AS since FROM build_hits GROUP BY host_number) AS d USING (host_number)"
        f" WHERE {condition} AND pid <> 0 AND process IN (SELECT process FROM build_hits)"
        " GROUP BY host_number, is_after, function",
        parameters,
    )
    totals = engine.rows(
        "SELECT host_number, is_after, sum(n)::BIGINT, sum(w)::BIGINT FROM deployed_hits"
        " GROUP BY host_number, is_after"
    )
    both = {host for host, is_after, _, _ in totals if is_after} & {
        host for host, is_after, _, _ in totals if not is_after
    }
    place = {host: at for at, host in enumerate(sorted(both))}
    most = max(min(MOST_COMPARED_FUNCTIONS, MOST_CELLS_OF_A_DEPLOY // max(2 * len(place), 1)), 1)
    rows = engine.rows(
        "WITH named AS (SELECT host_number, is_after, path, name, sum(w)::BIGINT AS w"
        " FROM deployed_hits JOIN functions USING (function)"
        " GROUP BY host_number, is_after, path, name), first AS (SELECT"
        f" path, name, {PERIODS.format('n')} AS all_w FROM named AS n GROUP BY path, name"
        f" ORDER BY all_w DESC, path, name LIMIT {most})"
        " SELECT host_number, is_after, path, name, w FROM named JOIN first USING (path, name)"
    )
    number: dict[tuple[str, str], int] = {}
    for host, _, path, name, _ in rows:
        if host in place:
            number.setdefault((path, name), len(number))
    time = np.zeros((2, len(number), len(place)))
    for host, is_after, path, name, w in rows:
        if host in place:
            time[int(is_after), number[path, name], place[host]] = w
    all_time, samples = np.zeros((2, len(place))), [0, 0]
    for host, is_after, n, w in totals:
        if host in place:
            all_time[int(is_after), place[host]] = w
            samples[int(is_after)] += n
    before, after = (Side(time[at], all_time[at], samples[at]) for at in (0, 1))
    return _Sides(list(number), processes, len(place), before, after)


def _compared(
    build: Build, builds: list[Build], sides: _Sides, remarks: list[str], wanted: Wanted
) -> Deploys:
    fdr = wanted.fdr
    if not sides.hosts:
        remarks.append("No host was measured both before and after it ran this build.")
        return _result(build, builds, fdr, remarks)
    if sides.hosts == 1:
        remarks.append("One host does not show how hosts differ: ± is its sampling error alone.")
    found = difference_of(sides.before, sides.after)
    p = student_two_sided(found.t, found.freedom)
    q = adjusted(np.where((found.before > 0) | (found.after > 0), p, np.nan))
    change = np.abs(found.after - found.before)
    order = sorted(range(len(q)), key=lambda row: (q[row] > fdr, -change[row], sides.names[row]))
    return Deploys(
        build=build,
        builds=builds,
        processes=sides.processes,
        hosts=sides.hosts,
        before_samples=sides.before.samples,
        after_samples=sides.after.samples,
        changes=[
            Change(
                sides.names[row][1],
                sides.names[row][0],
                float(found.before[row]),
                float(found.after[row]),
                float(found.half[row]),
                float(q[row]),
            )
            for row in order[: wanted.rows]
        ],
        functions=len(q),
        significant=int((q <= fdr).sum()),
        fdr=fdr,
        remarks=remarks,
    )
