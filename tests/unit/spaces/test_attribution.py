"""Counting samples: runs, kinds, periods, and keys that do and do not fit 64 bits."""

import numpy as np
import pytest

from builders.sideband import KERNEL, USER, EventLog, samples_of
from prospect.records import asdict, replace
from prospect.spaces import attribution
from prospect.spaces.attribution import attribute
from prospect.spaces.process_history import build_spaces


def test_a_change_within_a_run_of_samples_is_seen():
    log = EventLog()
    log.comm(0, 2, b"before")
    log.mmap(0, 2, 0x1000, 0x1000, b"/old")
    for time in range(10, 30):
        log.sample(time, 2, 0x1800)
    log.comm(15, 2, b"after")
    log.mmap(25, 2, 0x1000, 0x1000, b"/new")
    events = log.events()
    history = build_spaces(events)
    hits = attribute(events.samples, history.timeline)
    counts = {
        (history.names[comm], epoch): count
        for comm, epoch, count in zip(
            hits.comm.tolist(), hits.epoch.tolist(), hits.count.tolist(), strict=True
        )
    }
    assert counts == {(b"before", 0): 5, (b"after", 0): 10, (b"after", 1): 5}


def test_kernel_hits_of_all_epochs_share_a_row():
    log = EventLog()
    for time in range(0, 100, 10):
        log.mmap(time, 2, 0x1000, 0x1000, b"/lib/%d" % time)
        log.sample(time + 5, 2, 0xFFFFFFFF81000000, mode=KERNEL)
        log.sample(time + 6, 2, 0x1800, mode=USER)
    events = log.events()
    hits = attribute(events.samples, build_spaces(events).timeline)
    kernel = hits.mode == KERNEL
    assert hits.count[kernel].tolist() == [10]
    assert (hits.space[kernel].tolist(), hits.epoch[kernel].tolist()) == ([-1], [-1])
    assert hits.count[~kernel].tolist() == [1] * 10


def test_samples_out_of_order_are_placed_by_their_own_time():
    log = EventLog()
    log.comm(0, 2, b"before")
    log.comm(50, 2, b"after")
    for time in (60, 10, 70, 20, 30, 80):
        log.sample(time, 2, 0x10)
    events = log.events()
    history = build_spaces(events)
    hits = attribute(events.samples, history.timeline)
    names = [history.names[hits.comm[row]] for row in hits.sample_row]
    assert names == [b"after", b"before", b"after", b"before", b"before", b"after"]


def test_runs_end_with_their_block(monkeypatch):
    monkeypatch.setattr(attribution, "BLOCK_SAMPLES", 4)
    log = EventLog()
    for time in range(10):
        log.sample(time, 2, 0x10)
    blocks = list(attribution.task_runs(log.events().samples))
    assert [block.first_sample for block in blocks] == [0, 4, 8]
    assert [block.length.tolist() for block in blocks] == [[4], [4], [2]]


@pytest.mark.parametrize(
    ("events_met", "labels"), [(3, 1), (3, 5), (3, 300), (8, 2), (16, 1), (16, 2), (17, 1)]
)
def test_samples_of_many_events_and_labels_are_told_apart(events_met, labels):
    count = 600
    log = EventLog()
    for time in range(count):
        log.sample(time, 2, 0x10, mode=KERNEL)
    events = log.events()
    event = (np.arange(count) % events_met).astype(np.uint16)
    label = (np.arange(count) // events_met % labels).astype(np.uint16)
    samples = replace(events.samples, event=event)
    history = build_spaces(replace(events, samples=samples))
    hits = attribute(samples, history.timeline, label, history.runs)
    assert len(hits) == events_met * min(labels, count // events_met)
    assert (hits.event.take(hits.sample_row) == event).all()
    assert (hits.label.take(hits.sample_row) == label).all()


def test_runs_that_were_cut_before_give_the_same_hits(monkeypatch):
    monkeypatch.setattr(attribution, "BLOCK_SAMPLES", 4)
    log = EventLog()
    log.comm(0, 2, b"before")
    log.comm(6, 2, b"after")
    for time in range(1, 12):
        log.sample(time, 2 + time // 5, 0x10)
    events = log.events()
    history = build_spaces(events)
    plain = attribute(events.samples, history.timeline)
    hits = attribute(events.samples, history.timeline, None, history.runs)
    for column, expected in asdict(plain).items():
        assert (getattr(hits, column) == expected).all()


@pytest.mark.parametrize("period", [np.broadcast_to(np.uint64(7), 6), np.full(6, 7, np.uint64)])
def test_a_constant_period_is_multiplied(period):
    log = EventLog()
    for time in range(6):
        log.sample(time, 2, 0x10 * (time % 2))
    events = log.events()
    samples = replace(events.samples, period=period)
    hits = attribute(samples, build_spaces(events).timeline)
    assert (hits.count.tolist(), hits.period.tolist()) == ([3, 3], [21, 21])


def test_any_address_is_kept_whole():
    addresses = [
        0,
        1,
        0x400000,
        0x00007FFFFFFFFFFF,  # the last of x86-64's user half
        0x00FFFFFFFFFFFFFF,  # with LA57
        0x000FFFFFFFFFFFFF,  # arm64, 52 bits
        0x0010000000000000,
        0x7FFFFFFFFFFFFFFF,
        0x8000000000000000,
        0xFFFFFFFFFF600000,  # vsyscall
        0xFFFFFFFF81000000,
        0xFFFFFFFFFFFFFFFF,
    ]
    rows = [
        (address, 2 | 2 << 32, 5, mode, 1, 0) for mode in (USER, KERNEL, 0) for address in addresses
    ]
    events = replace(EventLog().events(), samples=samples_of(rows * 3))
    hits = attribute(events.samples, build_spaces(events).timeline)
    found = sorted(zip(hits.mode.tolist(), hits.address.tolist(), strict=True))
    assert found == sorted((mode, address) for address, _, _, mode, _, _ in rows)
    assert hits.count.tolist() == [3] * len(rows)


@pytest.mark.parametrize("chunks", [16, 1])
def test_more_groups_than_a_key_has_room_for(monkeypatch, chunks):
    # 47 bits of address leave 17 for groups, and the user and kernel hits of 80,000 are more.
    monkeypatch.setattr(attribution, "_CHUNKS", chunks)
    processes = 80_000
    pid = np.repeat(np.arange(1, processes + 1, dtype=np.uint64), 2)
    number = len(pid)
    kernel_last = np.where(np.arange(number) % 2, np.uint64(0xFFFF800000000000), pid)
    events = EventLog().events()
    samples = replace(
        samples_of([(0, 0, 0, 0, 0, 0)]),
        ip=kernel_last,
        task=pid | pid << np.uint64(32),
        time_ns=np.arange(number, dtype=np.uint64),
        mode=np.where(np.arange(number) % 2, KERNEL, USER).astype(np.uint8),
        period=np.broadcast_to(np.uint64(1), number),
        event=np.broadcast_to(np.uint8(0), number),
    )
    events = replace(events, samples=samples)
    history = build_spaces(events)
    hits = attribute(samples, history.timeline)
    assert len(hits) == number
    assert (hits.count == 1).all()
    pids = history.processes.pid.take(hits.process_row)
    users = np.flatnonzero(hits.mode == USER)
    assert np.array_equal(np.sort(pids.take(users)), np.arange(1, processes + 1))
    assert np.array_equal(hits.address.take(users), pids.take(users).astype(np.uint64))


def test_tasks_of_another_recording_are_in_no_process():
    log = EventLog()
    log.comm(0, 2, b"program")
    log.sample(5, 2, 0x10)
    other = EventLog()
    other.sample(5, 99, 0x10)
    other.sample(5, 2, 0x10)
    history = build_spaces(log.events())
    hits = attribute(other.events().samples, history.timeline)
    assert sorted(hits.process_row.tolist()) == [-1, 0]
    assert sorted(hits.space.tolist()) == [-1, 0]
    names = sorted(history.names[comm] for comm in hits.comm)
    assert names == [b"program", b"unknown"]
