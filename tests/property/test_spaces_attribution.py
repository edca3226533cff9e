"""Attribution against counting one by one, for any samples and any division of the keys."""

from collections import Counter
from unittest.mock import patch

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from builders.examples import examples
from builders.sideband import EventLog, samples_of
from prospect.abi.constants import PERF_RECORD_MISC_USER
from prospect.records import replace
from prospect.spaces import attribution
from prospect.spaces.attribution import attribute, task_pid, task_tid
from prospect.spaces.process_history import build_spaces

addresses = st.one_of(
    st.integers(0, 2**64 - 1),
    st.sampled_from([0, 0x401000, 0x7F0000001000, 0xFFFFFFFF81000000, 0xFFFFFFFFFF600000]),
)
tasks = st.sampled_from([1, 2, 3, 2**22, 2**32 - 1])
samples = st.lists(
    st.tuples(
        addresses,
        tasks,
        tasks,
        st.one_of(st.integers(0, 30), st.integers(0, 2**64 - 1)),
        st.integers(0, 7),
        st.integers(0, 5),
        st.integers(0, 255),
    ),
    max_size=60,
)
labels = st.lists(st.integers(0, 2**16 - 1), min_size=60, max_size=60)


def sideband():
    log = EventLog()
    log.comm(0, 1, b"one")
    log.mmap(0, 1, 0x400000, 0x10000, b"/bin/one")
    log.fork(5, 1, 2)
    log.exec(10, 2, b"two")
    log.mmap(11, 2, 0x400000, 0x10000, b"/bin/two")
    log.comm(20, 2, b"renamed", tid=3)
    log.mmap(20, 2, 0x400000, 0x10000, b"/bin/other")
    return log.events()


@settings(max_examples=examples(300))
@given(
    samples,
    st.one_of(st.none(), labels),
    st.sampled_from([2, 7, 1 << 16]),
    st.tuples(st.sampled_from([1, 20, 52]), st.integers(0, 16)),
    st.tuples(st.sampled_from([1, 1 << 22]), st.sampled_from([1, 1 << 25])),
)
def test_attribution_is_counting_one_by_one(rows, labelled, block, packing, most):
    label = None if labelled is None else np.array(labelled[: len(rows)], np.uint16)
    columns = samples_of(
        [
            (ip, pid | tid << 32, time, mode, period, event)
            for ip, pid, tid, time, mode, period, event in rows
        ]
    )
    events = replace(sideband(), samples=columns)
    with (
        patch.object(attribution, "_ADDRESS_BITS", packing[0]),
        patch.object(attribution, "_CHUNKS", packing[1]),
        patch.object(attribution, "_MOST_KINDS", most[0]),
        patch.object(attribution, "_MOST_GROUPS", most[1]),
        patch.object(attribution, "BLOCK_SAMPLES", block),
    ):
        history = build_spaces(events)
        hits = attribute(columns, history.timeline, label)
    plain = attribute(columns, history.timeline, label)
    line = history.timeline
    change = line.processes.find(task_pid(columns.task), columns.time_ns)
    named = line.threads.find(task_tid(columns.task), columns.time_ns)
    is_user = columns.mode == PERF_RECORD_MISC_USER
    expected = (
        line.process_row.take(change),
        line.comm.take(named),
        np.where(is_user, line.space.take(change), -1),
        np.where(is_user, line.epoch.take(change), -1),
        columns.mode,
        columns.event,
        np.zeros(len(rows), np.uint16) if label is None else label,
        columns.ip,
    )
    one_by_one = list(zip(*(column.tolist() for column in expected), strict=True))
    found = [
        (
            *(each.process_row, each.comm, each.space, each.epoch),
            *(each.mode, each.event, each.label, each.address),
        )
        for each in (hits, plain)
    ]
    found = [list(zip(*(column.tolist() for column in each), strict=True)) for each in found]
    assert [found[0][row] for row in hits.sample_row.tolist()] == one_by_one
    counts = Counter(one_by_one)
    periods = Counter()
    for key, period in zip(one_by_one, columns.period.tolist(), strict=True):
        periods[key] += period
    for each, table in zip(found, (hits, plain), strict=True):
        assert dict(zip(each, table.count.tolist(), strict=True)) == counts
        assert dict(zip(each, table.period.tolist(), strict=True)) == {
            key: periods[key] for key in counts
        }
