"""The hits of all hosts by function, kept once for all that a question asks of them.

Sums of squares are DECIMAL(38): exact, so that every engine says the same to the last digit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.records import NamedTuple

if TYPE_CHECKING:
    from prospect.fleet.asking import Question

# By number of host and of name: builds of a program are one, where nobody asks for them. A name's
# number is that of one of its functions, so that no engine has to count them.
BY_HOST = "hits_of_hosts"
TOTALS = "totals_of_hosts"
NAMES = "names"


class Busy(NamedTuple):
    """What all chosen hits are together.

    Attributes:
        hosts: how many hosts have any.
        samples: how many there are.
        weight: the sum of their periods.
    """

    hosts: int
    samples: int
    weight: int


def keep_hits(asked: Question) -> Busy:
    """Add hits up by host and function, but not those of idle CPUs.

    Raises:
        EngineError: a file cannot be read.
    """
    engine = asked.engine
    condition, parameters = asked.condition
    engine.keep(
        "hits_of_functions",
        "SELECT segment, function, sum(n)::BIGINT AS n, sum(w)::BIGINT AS w FROM samples"
        f" WHERE {condition} AND pid <> 0 GROUP BY segment, function",
        parameters,
    )
    engine.keep(
        TOTALS,
        "SELECT host_number, sum(n)::BIGINT AS n, sum(w)::BIGINT AS w FROM hits_of_functions"
        " JOIN segments USING (segment) GROUP BY host_number",
    )
    of_functions, parameters = asked.of_functions
    engine.keep(
        "name_of_functions",
        "SELECT function, min(path) AS path, min(name) AS name FROM function_rows WHERE"
        f" {of_functions} AND function IN (SELECT DISTINCT function FROM hits_of_functions)"
        " GROUP BY function",
        parameters,
    )
    engine.keep(
        NAMES,
        "SELECT path, name, min(function) AS number FROM name_of_functions GROUP BY path, name",
    )
    engine.keep(
        BY_HOST,
        "SELECT host_number, number, sum(n)::BIGINT AS n, sum(w)::BIGINT AS w"
        " FROM hits_of_functions JOIN segments USING (segment) JOIN (SELECT function, number"
        f" FROM name_of_functions JOIN {NAMES} USING (path, name)) AS f USING (function)"
        " GROUP BY host_number, number",
    )
    ((hosts, samples, weight),) = engine.rows(
        f"SELECT count(*), coalesce(sum(n), 0)::BIGINT, coalesce(sum(w), 0)::BIGINT FROM {TOTALS}"
    )
    return Busy(hosts, samples, weight)
