"""Some of the samples of a recording, with all that belongs to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.buffers import segments
from prospect.columns.table_rows import gather
from prospect.records import replace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.events.record_columns import CallBranches, RawData, RawFields, Samples, UserStates

    Rows = NDArray[np.int64]


def kept_samples(samples: Samples, is_kept: NDArray[np.bool_]) -> Samples:
    """Return the samples that are marked, bool[n], in the same order."""
    return samples if is_kept.all() else chosen_samples(samples, np.flatnonzero(is_kept))


def chosen_samples(samples: Samples, rows: Rows) -> Samples:
    """Return the samples of these rows i64[m], ascending; a row may be there several times."""
    chain_start, chain = samples.chain_start, samples.chain
    if chain_start is not None and chain is not None:
        length = np.diff(chain_start).take(rows)
        chain = chain.take(segments(chain_start.take(rows), length))
        chain_start = np.append(0, np.cumsum(length))
    columns = replace(
        samples, chain_start=None, chain=None, user=None, calls=None, raw=None, data=None
    )
    return replace(
        gather(columns, rows),
        chain_start=chain_start,
        chain=chain,
        user=samples.user and _chosen_states(samples.user, rows),
        calls=samples.calls and _chosen_calls(samples.calls, rows),
        raw=samples.raw and _chosen_fields(samples.raw, rows),
        data=samples.data and _chosen_data(samples.data, rows),
    )


def _chosen_states(states: UserStates, rows: Rows) -> UserStates:
    sample, row = _of_samples(states.sample, rows)
    return replace(
        states,
        sample=sample,
        abi=states.abi.take(row),
        registers=states.registers[row],
        stack_block=states.stack_block.take(row),
        stack_begin=states.stack_begin.take(row),
        stack_bytes=states.stack_bytes.take(row),
    )


def _chosen_calls(calls: CallBranches, rows: Rows) -> CallBranches:
    sample, row = _of_samples(calls.sample, rows)
    length = np.diff(calls.start).take(row)
    place = segments(calls.start.take(row), length)
    return replace(
        calls,
        sample=sample,
        start=np.append(0, np.cumsum(length)),
        source=calls.source.take(place),
        target=calls.target.take(place),
    )


def _chosen_fields(raw: RawFields, rows: Rows) -> RawFields:
    sample, row = _of_samples(raw.sample, rows)
    return raw.chosen(row, sample)


def _chosen_data(data: RawData, rows: Rows) -> RawData:
    sample, row = _of_samples(data.sample, rows)
    length = np.diff(data.start).take(row)
    words = data.words.take(segments(data.start.take(row), length))
    return replace(data, sample=sample, start=np.append(0, np.cumsum(length)), words=words)


def _of_samples(sample: Rows, rows: Rows) -> tuple[Rows, Rows]:
    """Return what some chosen samples have of a table of some samples.

    Args:
        sample: i64[k] the sample of each row of the table, ascending.
        rows: i64[m] the samples that are chosen.

    Returns:
        For each row of the new table, its sample among the chosen ones and its row in the old one.
    """
    place = np.minimum(np.searchsorted(sample, rows), max(len(sample) - 1, 0))
    found = np.flatnonzero(sample.take(place) == rows) if len(sample) else np.empty(0, np.int64)
    return found, place.take(found)
