"""The hits of all hosts by function, kept once for all that a question asks of them.

Sums of squares are DECIMAL(38): exact, so that every engine says the same to the last digit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.records import NamedTuple

if TYPE_CHECKING:
    from prospect.fleet.asking import Question

# By host, object and name: builds of a program are one, where nobody asks for them.
BY_HOST = "hits_of_hosts"
TOTALS = "totals_of_hosts"


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
        "SELECT host, function, sum(n)::BIGINT AS n, sum(w)::BIGINT AS w FROM samples"
        f" WHERE {condition} AND pid <> 0 GROUP BY host, function",
        parameters,
    )
    engine.keep(
        TOTALS,
        "SELECT host, sum(n)::BIGINT AS n, sum(w)::BIGINT AS w FROM hits_of_functions"
        " GROUP BY host",
    )
    of_functions, parameters = asked.of_functions
    engine.keep(
        BY_HOST,
        "SELECT host, path, name, sum(n)::BIGINT AS n, sum(w)::BIGINT AS w FROM hits_of_functions"
        " JOIN (SELECT function, min(path) AS path, min(name) AS name FROM function_rows"
        f" WHERE {of_functions} GROUP BY function) AS f USING (function) GROUP BY host, path, name",
        parameters,
    )
    ((hosts, samples, weight),) = engine.rows(
        f"SELECT count(*), coalesce(sum(n), 0)::BIGINT, coalesce(sum(w), 0)::BIGINT FROM {TOTALS}"
    )
    return Busy(hosts, samples, weight)
