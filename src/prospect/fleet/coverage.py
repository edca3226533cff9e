"""Report the coverage of all hosts: the measured time, and the objects without names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.fleet.asking import accounting_of, question
from prospect.profile.naming import LABELS
from prospect.records import NamedTuple, Record
from prospect.store.conditions import is_one_of
from prospect.store.names import SOURCES_WITH_NAMES
from prospect.store.specification import ALWAYS

if TYPE_CHECKING:
    from prospect.fleet.asking import HostAccounting, Question, Wanted
    from prospect.store.directory import StoreDirectory
    from prospect.store.specification import Specification
    from prospect.store.tables import EngineMaker

_US = 1e-6


class NamelessObject(NamedTuple):
    """A build of a file with hits in code that has no name.

    Attributes:
        object: its path.
        build_id: its build id, empty if unknown.
        samples: its samples in code without a name.
        hosts: the number of hosts with such samples.
        why: the reason, as far as it is known.
    """

    object: str
    build_id: str
    samples: int
    hosts: int
    why: str


class Coverage(Record):
    """The measured time of hosts, and what it lacks.

    Attributes:
        hosts: a row for each host, those that miss most time first.
        begin_us, end_us: the part of the asked time that is over, in microseconds since 1970.
        samples: the number of samples of all hosts.
        nameless_samples: the number of samples in code without a name.
        nameless: the files of this code, most samples first.
        nameless_objects: the number of these files.
        remarks: a sentence for each part that is left out.
    """

    hosts: list[HostAccounting]
    begin_us: int
    end_us: int
    samples: int
    nameless_samples: int
    nameless: list[NamelessObject]
    nameless_objects: int
    remarks: list[str]

    @property
    def span_s(self) -> float:
        """The time for which each host should have been measured."""
        return max((self.end_us - self.begin_us) * _US, 0.0)

    def unmeasured_s(self, one: HostAccounting) -> float:
        """Return the time for which a host was not measured."""
        return max(self.span_s - one.measured_s, 0.0)


def coverage(
    store: StoreDirectory, chosen: Specification, make_engine: EngineMaker, wanted: Wanted
) -> Coverage:
    """Compute the measured time of each host, and find the objects without names.

    Words about hits choose the hits whose names are looked at. `wanted.rows` limits the objects.

    Raises:
        StoreError: nothing matches, or nothing can be read.
    """
    with question(store, chosen, make_engine) as asked:
        accounting = accounting_of(asked)
        begin, end = _span(asked, accounting)
        condition, parameters = asked.condition
        of_functions, more = asked.of_functions
        named, numbers = is_one_of("source", SOURCES_WITH_NAMES)
        found = asked.engine.rows(
            # Few functions are nameless: only their hits are added up by host.
            "WITH nameless AS (SELECT function, path, build_id, note, source FROM functions"
            f" WHERE NOT {named} AND {of_functions}),"
            " hit AS (SELECT segment, function, sum(n)::BIGINT AS n FROM samples"
            f" WHERE {condition} AND function IN (SELECT function FROM nameless)"
            " GROUP BY segment, function)"
            " SELECT path, build_id, sum(n)::BIGINT AS n, count(DISTINCT host_number),"
            " min(note), sum(sum(n)) OVER ()::BIGINT, count(*) OVER (), min(source) FROM hit"
            " JOIN nameless USING (function) JOIN segments USING (segment)"
            f" GROUP BY path, build_id ORDER BY n DESC, path, build_id LIMIT {int(wanted.rows)}",
            [*numbers, *more, *parameters],
        )
        ((samples,),) = asked.engine.rows(
            f"SELECT coalesce(sum(n), 0)::BIGINT FROM samples WHERE {condition}", parameters
        )
        result = Coverage(
            hosts=accounting,
            begin_us=begin,
            end_us=end,
            samples=samples,
            nameless_samples=found[0][5] if found else 0,
            nameless=[
                NamelessObject(path, build, n, hosts, why or LABELS.get(how, ""))
                for path, build, n, hosts, why, _, _, how in found
            ],
            nameless_objects=found[0][6] if found else 0,
            remarks=list(asked.part.remarks),
        )
    result.hosts.sort(key=lambda one: (-result.unmeasured_s(one), one.host))
    return result


def _span(asked: Question, accounting: list[HostAccounting]) -> tuple[int, int]:
    """Return the chosen span, as far as there are windows."""
    begin = min((one.begin_us for one in accounting), default=0)
    end = max((one.end_us for one in accounting), default=0)
    chosen = asked.chosen
    return (
        chosen.since_us if chosen.since_us > -ALWAYS else begin,
        max(min(chosen.until_us, end), begin),
    )
