"""Some of the samples of a recording, with all that belongs to them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from prospect.events.buffers import segments
from prospect.table_rows import taken

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.events.columns import CallBranches, Samples, UserStates


def kept_samples(samples: Samples, is_kept: NDArray[np.bool_]) -> Samples:
    """Return the samples that are marked, bool[n], in the same order."""
    if is_kept.all():
        return samples
    rows = np.flatnonzero(is_kept)
    chain_start, chain = samples.chain_start, samples.chain
    if chain_start is not None and chain is not None:
        length = np.diff(chain_start).take(rows)
        chain = chain.take(segments(chain_start.take(rows), length))
        chain_start = np.append(0, np.cumsum(length))
    columns = replace(samples, chain_start=None, chain=None, user=None, calls=None)
    return replace(
        taken(columns, rows),
        chain_start=chain_start,
        chain=chain,
        user=samples.user and _kept_states(samples.user, is_kept),
        calls=samples.calls and _kept_calls(samples.calls, is_kept),
    )


def _kept_states(states: UserStates, is_kept: NDArray[np.bool_]) -> UserStates:
    rows = np.flatnonzero(is_kept.take(states.sample))
    return replace(
        states,
        sample=_new_row(is_kept).take(states.sample.take(rows)),
        abi=states.abi.take(rows),
        registers=states.registers.take(rows, axis=0),
        stack_block=states.stack_block.take(rows),
        stack_begin=states.stack_begin.take(rows),
        stack_bytes=states.stack_bytes.take(rows),
    )


def _kept_calls(calls: CallBranches, is_kept: NDArray[np.bool_]) -> CallBranches:
    rows = np.flatnonzero(is_kept.take(calls.sample))
    length = np.diff(calls.start).take(rows)
    place = segments(calls.start.take(rows), length)
    return replace(
        calls,
        sample=_new_row(is_kept).take(calls.sample.take(rows)),
        start=np.append(0, np.cumsum(length)),
        source=calls.source.take(place),
        target=calls.target.take(place),
    )


def _new_row(is_kept: NDArray[np.bool_]) -> NDArray[np.int64]:
    return np.cumsum(is_kept) - 1
