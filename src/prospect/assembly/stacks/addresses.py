"""All addresses of a recording that are to be named."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prospect.assembly.placing.places import Addresses
    from prospect.assembly.stacks.callers import SampleCallers
    from prospect.assembly.tables.call_counts import CountedCalls
    from prospect.spaces.attribution import Attribution


def all_addresses(
    hits: Attribution, calls: SampleCallers | None, counted: CountedCalls | None
) -> Attribution | Addresses:
    """Return the addresses of the hits, behind them of their callers, and of counted calls."""
    if calls is None and counted is None:
        return hits
    from prospect.assembly.stacks.stacks import joined  # noqa: PLC0415 - not of a flat report

    found: Attribution | Addresses = hits
    if calls is not None:
        found = joined(found, calls.addresses)
    return found if counted is None else joined(found, counted.addresses)
