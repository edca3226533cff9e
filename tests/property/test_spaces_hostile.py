"""Records that no kernel would write: any numbers give a world, and every sample a row."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from builders.examples import examples
from builders.sideband import EventLog
from prospect.spaces.attribution import attribute
from prospect.spaces.process_history import build_spaces

pids = st.one_of(st.integers(-2, 6), st.integers(-(2**31), 2**31 - 1))
times = st.one_of(st.integers(0, 20), st.integers(0, 2**64 - 1))
words = st.one_of(st.integers(0, 40), st.integers(0, 2**64 - 1))
calls = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["fork"]), times, pids, pids, pids, pids),
        st.tuples(st.sampled_from(["exit", "comm", "exec"]), times, pids, pids),
        st.tuples(st.sampled_from(["mmap"]), times, pids, words, words, words),
        st.tuples(st.sampled_from(["sample"]), times, pids, pids, words),
    ),
    max_size=40,
)


def write(log, call):
    match call:
        case "fork", time, parent_pid, pid, tid, parent_tid:
            log.fork(time, parent_pid, pid, tid=tid, parent_tid=parent_tid)
        case "exit", time, pid, tid:
            log.exit(time, pid, tid=tid)
        case "comm", time, pid, tid:
            log.comm(time, pid, b"name", tid=tid)
        case "exec", time, pid, _:
            log.exec(time, pid, b"program")
        case "mmap", time, pid, start, length, pgoff:
            log.mmap(time, pid, start, length, b"/lib/%d" % (pgoff % 3), pgoff=pgoff)
        case "sample", time, pid, tid, address:
            log.sample(time, pid, address, tid=tid)


@settings(max_examples=examples(400))
@given(calls)
def test_any_records_give_every_sample_a_row(drawn):
    log = EventLog()
    for call in drawn:
        write(log, call)
    events = log.events()
    history = build_spaces(events)
    hits = attribute(events.samples, history.timeline)
    assert hits.count.sum() == len(events.samples)
    assert (hits.process_row >= 0).all()
    assert (hits.process_row < len(history.processes)).all()
    assert (hits.comm >= 0).all()
    found = history.address_spaces.locate(hits.space, hits.epoch, hits.address)
    hit = np.flatnonzero(found >= 0)
    address, mapping = hits.address.take(hit), found.take(hit)
    assert (address >= history.mappings.start.take(mapping)).all()
    assert (address < history.mappings.end.take(mapping)).all()
    above = np.arange(len(history.processes))
    for _ in range(len(history.processes)):
        above = np.where(above >= 0, history.processes.parent_row.take(above), -1)
    assert (above == -1).all()
