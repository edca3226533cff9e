"""Find builds of a program's files with which its time goes to other functions than usual.

A program's hits on a host belong to the build of a file that ran there at that time: from the first
hit in one build until the first hit in the next one. If two builds alternate, as after a rollback
or in two containers, hits belong to neither, and the comparison of this file leaves the host out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.announcing import pluralize
from prospect.estimate.statistics.row_limits import adjusted
from prospect.estimate.statistics.unusual_hosts import LEAST_HOSTS_OF_A_GROUP, difference_of_groups
from prospect.fleet.asking import question
from prospect.fleet.fleet_limits import MOST_CELLS, MOST_COMPARED_FILES, MOST_FUNCTIONS_OF_A_FILE
from prospect.fleet.hits import PERIODS
from prospect.profile.model import KIND_ELF
from prospect.records import NamedTuple, Record
from prospect.store.specification import ALWAYS

if TYPE_CHECKING:
    from prospect.columns.array_types import I64
    from prospect.fleet.asking import Question, Wanted
    from prospect.store.directory import StoreDirectory
    from prospect.store.specification import Specification
    from prospect.store.tables import EngineMaker


class BuildOutlier(NamedTuple):
    """A build of a file that a program runs, with which a function has another share than usual.

    Attributes:
        process: the program's name.
        object: the path of the file that has several builds.
        build_id: the build id of this build.
        usual_build_id: the build id of the usual build, which most hosts ran.
        function, function_object: the function that differs, and the path of its file.
        share: its share of the program's samples while it ran this build.
        usual: its share while the program ran the usual build.
        half: half of the 95 % interval of the difference.
        hosts, usual_hosts: the number of hosts that ran this build, and the usual one.
        samples: the program's samples with this build.
        q: the least false discovery rate at which this row is listed.
    """

    process: str
    object: str
    build_id: str
    usual_build_id: str
    function: str
    function_object: str
    share: float
    usual: float
    half: float
    hosts: int
    usual_hosts: int
    samples: int
    q: float


class BuildOutliers(Record):
    """Builds that differ.

    Attributes:
        rows: functions that differ, the surest first.
        found: the number of all such rows.
        differing_builds: the number of builds that differ.
        builds: the number of builds that were compared with the usual one.
        programs: the number of programs that ran them.
        tests: the number of comparisons.
        fdr: the share of the rows that is expected to be wrong, at most.
        remarks: what could not be compared, and what is left out.
    """

    rows: list[BuildOutlier]
    found: int
    differing_builds: int
    builds: int
    programs: int
    tests: int
    fdr: float
    remarks: list[str]


class _Run(NamedTuple):
    """A build that a program ran on a host, and when that was."""

    process: str
    path: str
    build_id: str
    host_number: int
    since_us: int
    until_us: int


def build_outliers(
    store: StoreDirectory, chosen: Specification, make_engine: EngineMaker, wanted: Wanted
) -> BuildOutliers:
    """Find the builds that differ from the usual one of the same file and program.

    `symbol:` and `lib-image:` choose the functions that are compared.

    Raises:
        StoreError: nothing matches, or nothing can be read.
    """
    with question(store, chosen, make_engine) as asked:
        remarks = list(asked.part.remarks)
        compared = _counted_runs(asked, _runs(asked, remarks))
    found, alone = [], 0
    for one in compared:
        of_file, alone_of_file = one.rows()
        found += of_file
        alone += alone_of_file
    if alone:
        remarks.append(
            f"Left out, because a single host may differ for other reasons:"
            f" {pluralize(alone, 'build')} on one host each; prospect fleet deploys BUILD compares"
            " before and after."
        )
    q = adjusted(np.array([one.q for one in found], np.float64))
    marked = [one._replace(q=float(each)) for one, each in zip(found, q, strict=True)]
    marked = [one for one in marked if one.q <= wanted.fdr]
    marked.sort(key=lambda one: (one.q, -abs(one.share - one.usual), one))
    return BuildOutliers(
        rows=marked[: wanted.rows],
        found=len(marked),
        differing_builds=len({one[:3] for one in marked}),
        builds=len({one[:3] for one in found}),
        programs=len({one.process for one in found}),
        tests=len(found),
        fdr=wanted.fdr,
        remarks=remarks,
    )


def _runs(asked: Question, remarks: list[str]) -> list[_Run]:
    """Return the builds that each program ran on each host, with their times."""
    condition, parameters = asked.condition
    asked.engine.keep(
        "runs_of_builds",
        "SELECT host_number, process, path, build_id, min(t) AS first, max(t) AS last,"
        " sum(w)::BIGINT AS w FROM samples JOIN segments USING (segment) JOIN (SELECT function,"
        " path, build_id FROM functions WHERE path IN (SELECT path FROM function_rows WHERE"
        f" build_id <> '' AND object_kind = {KIND_ELF} GROUP BY path HAVING"
        " count(DISTINCT build_id) > 1) AND build_id <> '') AS f USING (function)"
        f" WHERE {condition} AND pid <> 0 GROUP BY host_number, process, path, build_id",
        parameters,
    )
    files = asked.engine.rows(
        f"SELECT process, path, {PERIODS.format('r')} AS w FROM runs_of_builds AS r"
        " GROUP BY process, path HAVING count(DISTINCT build_id) > 1 ORDER BY w DESC, process, path"
    )
    if len(files) > MOST_COMPARED_FILES:
        remarks.append(
            f"Only the {MOST_COMPARED_FILES} of {len(files)} files with most time are compared."
        )
    asked.engine.register(
        "files_with_builds",
        {
            "process": [process for process, _, _ in files[:MOST_COMPARED_FILES]],
            "path": [path for _, path, _ in files[:MOST_COMPARED_FILES]],
        },
    )
    places: dict[tuple[str, str, int], list[tuple[int, int, str]]] = {}
    for process, path, host, *times_and_build in asked.engine.rows(
        "SELECT process, path, host_number, first, last, build_id FROM runs_of_builds"
        " JOIN files_with_builds USING (process, path)"
    ):
        places.setdefault((process, path, host), []).append(tuple(times_and_build))
    runs, mixed = [], set()
    for (process, path, host), builds in sorted(places.items()):
        builds.sort()
        following = builds[1:]
        if any(last >= after[0] for (_, last, _), after in zip(builds, following, strict=False)):
            mixed.add((path, host))
            continue
        begins = [-ALWAYS, *(first for first, _, _ in following), ALWAYS]
        runs += [
            _Run(process, path, build, host, *begins[at : at + 2])
            for at, (_, _, build) in enumerate(builds)
        ]
    if mixed:
        remarks.append(
            "Left out of a file's comparison, because several builds of it ran there in turn:"
            f" {pluralize(len({host for _, host in mixed}), 'host')}."
        )
    return runs


class _Compared:
    """The samples of a program's functions in each run of a file's builds."""

    def __init__(self, runs: list[_Run]) -> None:
        self.runs = runs
        self.totals = np.zeros(len(runs), np.int64)
        self.counts: dict[tuple[str, str], I64] = {}

    def add(self, place: int, path: str, name: str, count: int) -> None:
        """Record the samples of a function in the run at a place."""
        if (path, name) not in self.counts:
            self.counts[path, name] = np.zeros(len(self.runs), np.int64)
        self.counts[path, name][place] = count

    def rows(self) -> tuple[list[BuildOutlier], int]:
        """Compare each build with the usual one; `q` of each row is still its p-value.

        Returns:
            The rows, and the number of builds on a single host, which cannot be compared.
        """
        of_builds: dict[str, list[int]] = {}
        for place, run in enumerate(self.runs):
            if self.totals[place]:
                of_builds.setdefault(run.build_id, []).append(place)
        several = {
            build: places
            for build, places in of_builds.items()
            if len(places) >= LEAST_HOSTS_OF_A_GROUP
        }
        alone = len(of_builds) - len(several)
        if not several:
            return [], alone
        # The build of most hosts, or else the earlier one, or else the one with most samples.
        usual = max(
            several,
            key=lambda build: (
                len(several[build]),
                -min(self.runs[place].since_us for place in several[build]),
                self.totals[several[build]].sum(),
            ),
        )
        others = [places for build, places in several.items() if build != usual]
        return [row for one in others for row in self._of_build(one, several[usual])], alone

    def _of_build(self, build: list[int], usual: list[int]) -> list[BuildOutlier]:
        both = build + usual
        is_group = np.arange(len(both)) < len(build)
        counts = np.array([column[both] for column in self.counts.values()], np.int64)
        found = difference_of_groups(counts.reshape(-1, len(both)), self.totals[both], is_group)
        run, of_usual = self.runs[build[0]], self.runs[usual[0]]
        return [
            BuildOutlier(
                process=run.process,
                object=run.path,
                build_id=run.build_id,
                usual_build_id=of_usual.build_id,
                function=name,
                function_object=path,
                share=float(found.share[row]),
                usual=float(found.usual[row]),
                half=float(found.half[row]),
                hosts=len(build),
                usual_hosts=len(usual),
                samples=int(self.totals[build].sum()),
                q=float(found.p[row]),
            )
            for row, (path, name) in enumerate(self.counts)
            if np.isfinite(found.p[row])
        ]


def _counted_runs(asked: Question, runs: list[_Run]) -> list[_Compared]:
    """Read the samples of programs in each run: all of them, and those of the top functions."""
    engine = asked.engine
    condition, parameters = asked.condition
    files: dict[tuple[str, str], list[_Run]] = {}
    for one in runs:
        files.setdefault(one[:2], []).append(one)
    places = [(file, at) for file, own in enumerate(files.values()) for at in range(len(own))]
    ordered = [one for own in files.values() for one in own]
    engine.register(
        "runs",
        {
            "run": np.arange(len(runs), dtype=np.int64),
            "file": np.array([file for file, _ in places], np.int64),
            "process": [one.process for one in ordered],
            "host_number": np.array([one.host_number for one in ordered], np.int32),
            "since": np.array([one.since_us for one in ordered], np.int64),
            "ended": np.array([one.until_us for one in ordered], np.int64),
        },
    )
    engine.keep(
        "hits_of_runs",
        "SELECT run, file, function, sum(n)::BIGINT AS n FROM samples JOIN segments USING (segment)"
        f" JOIN runs USING (process, host_number) WHERE {condition} AND pid <> 0 AND t >= since"
        " AND t < ended GROUP BY run, file, function",
        parameters,
    )
    compared = [_Compared(own) for own in files.values()]
    for run, count in engine.rows("SELECT run, sum(n)::BIGINT FROM hits_of_runs GROUP BY run"):
        file, place = places[run]
        compared[file].totals[place] = count
    most = max(min(MOST_FUNCTIONS_OF_A_FILE, MOST_CELLS // max(len(runs), 1)), 1)
    of_functions, parameters = asked.of_functions
    for run, *row in engine.rows(
        "WITH named AS (SELECT run, file, path, name, sum(n)::BIGINT AS n FROM hits_of_runs"
        " JOIN (SELECT function, min(path) AS path, min(name) AS name FROM function_rows"
        f" WHERE {of_functions} GROUP BY function) AS f USING (function)"
        " GROUP BY run, file, path, name), ranked AS (SELECT file, path, name, row_number() OVER"
        " (PARTITION BY file ORDER BY sum(n) DESC, path, name) AS place FROM named"
        " GROUP BY file, path, name)"
        " SELECT run, path, name, n FROM named JOIN ranked USING (file, path, name)"
        f" WHERE place <= {most} ORDER BY run, path, name",
        parameters,
    ):
        file, place = places[run]
        compared[file].add(place, *row)
    return compared
