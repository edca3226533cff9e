"""Which mapping stands at an address: overlaps, forks, epochs, depth and size."""

import time
import tracemalloc

import numpy as np

from builders.sideband import EventLog
from prospect.spaces.attribution import attribute
from prospect.spaces.process_history import build_spaces
from prospect.spaces.replay import SpaceColumns


def names_hit(log):
    """The name of the mapping that each sample hit, None where there is none."""
    events = log.events()
    history = build_spaces(events)
    hits = attribute(events.samples, history.timeline)
    where = history.address_spaces.locate(hits.space, hits.epoch, hits.address)
    return [
        history.names[history.mappings.name[mapping]] if mapping >= 0 else None
        for mapping in where.take(hits.sample_row).tolist()
    ]


def test_four_libraries_in_turn_at_one_address_get_their_own_hits():
    log = EventLog()
    log.comm(0, 2, b"program")
    for number in range(4):
        log.mmap(100 * number + 1, 2, 0x7F0000000000, 0x4000, b"/lib/%d" % number)
        for tick in range(10):
            log.sample(100 * number + 10 + tick, 2, 0x7F0000001234)
    assert names_hit(log) == [b"/lib/%d" % (number // 10) for number in range(40)]


def test_located_runs_have_all_addresses_in_their_order():
    log = EventLog()
    log.mmap(0, 2, 0x1000, 0x2000, b"/file")
    for address in (0x10, 0x20, 0x1000, 0x1FFF, 0x2000, 0x5000):
        log.sample(5, 2, address)
    events = log.events()
    history = build_spaces(events)
    hits = attribute(events.samples, history.timeline)
    spaces = history.address_spaces
    runs = spaces.locate_runs(hits.space, hits.epoch, hits.address)
    assert runs.start.tolist() == [0, 2, 4, 5]
    assert runs.length.tolist() == [2, 2, 1, 1]
    assert runs.mapping.tolist() == [-1, 0, 0, -1]
    nothing = spaces.locate_runs(hits.space[:0], hits.epoch[:0], hits.address[:0])
    assert len(nothing.start) == len(nothing.mapping) == 0
    nowhere = spaces.locate_runs(np.full_like(hits.space, -1), hits.epoch, hits.address)
    assert (nowhere.mapping == -1).all()


def test_a_mapping_in_the_middle_leaves_both_ends_standing():
    log = EventLog()
    log.mmap(0, 2, 0x1000, 0x3000, b"/wide")
    log.mmap(10, 2, 0x2000, 0x1000, b"/narrow")
    for moment in (5, 15):
        for address in (0xFFF, 0x1000, 0x1FFF, 0x2000, 0x2FFF, 0x3000, 0x3FFF, 0x4000):
            log.sample(moment, 2, address)
    before = [None, *[b"/wide"] * 6, None]
    after = [None, *[b"/wide"] * 2, *[b"/narrow"] * 2, *[b"/wide"] * 2, None]
    assert names_hit(log) == before + after


def standing(log, pid):
    """What stands in the end where a process was hit last: begin, end and name of each piece."""
    events = log.events()
    history = build_spaces(events)
    hits = attribute(events.samples, history.timeline)
    last = int(hits.sample_row[np.flatnonzero(events.samples.task & 0xFFFFFFFF == pid)[-1]])
    begin, end, mapping = history.address_spaces.mappings_in(
        int(hits.space[last]), int(hits.epoch[last])
    )
    names = [history.names[row] for row in history.mappings.name.take(mapping).tolist()]
    return list(zip(begin.tolist(), end.tolist(), names, strict=True))


def test_what_stands_is_in_the_order_of_addresses():
    log = EventLog()
    log.mmap(0, 2, 0x5000, 0x1000, b"/high")
    log.mmap(1, 2, 0x1000, 0x1000, b"/low")
    log.mmap(2, 2, 0x2000, 0x1000, b"/next")
    log.sample(3, 2, 0x1000)
    apart = [(0x1000, 0x2000, b"/low"), (0x2000, 0x3000, b"/next"), (0x5000, 0x6000, b"/high")]
    assert standing(log, 2) == apart
    log.mmap(4, 2, 0x5400, 0x100, b"/inside")
    log.sample(5, 2, 0x1000)
    pieces = [(0x5000, 0x5400, b"/high"), (0x5400, 0x5500, b"/inside"), (0x5500, 0x6000, b"/high")]
    assert standing(log, 2) == apart[:2] + pieces


def test_parent_and_child_go_their_own_ways_after_a_fork():
    log = EventLog()
    log.mmap(0, 1, 0x1000, 0x1000, b"/common")
    log.fork(10, 1, 2)
    log.mmap(20, 1, 0x5000, 0x1000, b"/of-parent")
    log.mmap(20, 2, 0x5000, 0x1000, b"/of-child")
    log.mmap(30, 2, 0x1000, 0x1000, b"/over-common")
    for moment in (15, 25, 35):
        for pid in (1, 2):
            for address in (0x1800, 0x5800):
                log.sample(moment, pid, address)
    found = names_hit(log)
    # Before it maps anything itself the child sees nothing of what its parent maps later.
    assert found[2:4] == [b"/common", None]
    assert found[4:8] == [b"/common", b"/of-parent", b"/common", b"/of-child"]
    assert found[8:12] == [b"/common", b"/of-parent", b"/over-common", b"/of-child"]


def test_a_fork_shares_its_parents_space_until_it_maps_something():
    log = EventLog()
    log.mmap(0, 1, 0x1000, 0x1000, b"/bin/server")
    for child in range(10_000):
        log.fork(10 + child, 1, 100 + child)
        log.sample(10 + child, 100 + child, 0x1800)
    events = log.events()
    history = build_spaces(events)
    hits = attribute(events.samples, history.timeline)
    assert len(hits) == 10_000
    assert len(np.unique(hits.process_row)) == 10_000
    assert set(zip(hits.space.tolist(), hits.epoch.tolist(), strict=True)) == {(0, 0)}
    assert (
        history.address_spaces.locate(hits.space, hits.epoch, hits.address).tolist() == [0] * 10_000
    )


def test_ten_thousand_generations_that_each_map_something_are_found_in_one_round():
    generations = 10_000
    log = EventLog()
    log.mmap(0, 1, 0x1000, 0x1000, b"/of-the-first")
    for number in range(1, generations):
        log.fork(10 * number, number, number + 1)
        log.mmap(10 * number + 1, number + 1, 0x10000 + (number % 7) * 0x1000, 0x1000, b"/own")
    log.sample(10 * generations, generations, 0x1800)
    log.sample(10 * generations, generations, 0x10000 + (generations - 1) % 7 * 0x1000)
    events = log.events()
    begin = time.process_time()
    history = build_spaces(events)
    hits = attribute(events.samples, history.timeline)
    where = history.address_spaces.locate(hits.space, hits.epoch, hits.address)
    assert where.take(hits.sample_row).tolist() == [0, generations - 1]
    assert time.process_time() - begin < 20


def test_wide_mappings_over_many_narrow_ones_do_not_multiply():
    count = 4_000
    log = EventLog()
    for number in range(count):
        log.mmap(0, 2, 0x100000 + 0x1000 * number, 0x1000, b"/narrow/%d" % (number % 3))
    for number in range(count):
        log.mmap(10 + number, 2, 0x100000, 0x1000 * count, b"/wide/%d" % (number % 2))
    log.sample(5, 2, 0x100000 + 0x1000 * 1234)
    log.sample(10 + 17, 2, 0x100000 + 0x1000 * 1234)
    # With addresses asked for all over, nothing is left out before it is filed.
    for number in range(count):
        log.sample(10 + number, 2, 0x100000 + 0x1000 * number)
    tracemalloc.start()
    found = names_hit(log)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found[:2] == [b"/narrow/1", b"/wide/1"]
    assert found[2:] == [b"/wide/%d" % (number % 2) for number in range(count)]
    assert peak_bytes < 2000 * 2 * count


def test_a_mapping_that_covers_another_exactly_leaves_nothing_of_it():
    spaces = SpaceColumns()
    version = spaces.add_space(0, -1)
    for mapping in range(1000):
        spaces.place(version, 0x1000, 0x2000, mapping)
    assert spaces.covered(0, 0, 0x4000) == [999]
    spaces.place(version, 0x2000, 0x3000, 1000)
    spaces.place(version, 0x1000, 0x2000, 1001)
    assert spaces.covered(0, 0, 0x4000) == [1001, 1000]
    spaces.place(version, 0x1800, 0x2800, 1002)
    assert spaces.covered(0, 0, 0x4000) == [1001, 1002, 1000]
    assert spaces.covered(0, 0x1000, 0x1800) == [1001]
    assert spaces.covered(0, 0x2800, 0x3000) == [1000]


def test_what_stands_already_makes_no_epoch():
    log = EventLog()
    log.mmap(0, 2, 0x7F0000000000, 0x10000, b"/lib/a", pgoff=0x2000, inode=5)
    log.mmap(10, 2, 0x7F0000001000, 0x2000, b"/lib/a", pgoff=0x3000, inode=5)  # mprotect()
    log.mmap(11, 2, 0x7F0000000000, 0x10000, b"/lib/a", pgoff=0x2000, inode=5)
    log.mmap(12, 2, 0x7F0000000000, 0x20000, b"/lib/a", pgoff=0x2000, inode=5)  # it grew
    for moment in (5, 20):
        log.sample(moment, 2, 0x7F0000001800)
    log.sample(20, 2, 0x7F000001F000)
    events = log.events()
    history = build_spaces(events)
    hits = attribute(events.samples, history.timeline)
    assert set(hits.epoch.tolist()) == {0}
    assert names_hit(log) == [b"/lib/a"] * 3


def test_the_same_file_at_another_offset_makes_an_epoch():
    log = EventLog()
    log.mmap(0, 2, 0x7F0000000000, 0x10000, b"/lib/a", pgoff=0x2000)
    log.mmap(10, 2, 0x7F0000000000, 0x10000, b"/lib/a", pgoff=0x4000)
    log.sample(5, 2, 0x7F0000000000)
    log.sample(15, 2, 0x7F0000000000)
    events = log.events()
    history = build_spaces(events)
    hits = attribute(events.samples, history.timeline)
    where = history.address_spaces.locate(hits.space, hits.epoch, hits.address)
    assert history.mappings.pgoff.take(where.take(hits.sample_row)).tolist() == [0x2000, 0x4000]


def test_no_space_means_no_mapping():
    log = EventLog()
    log.mmap(0, 2, 0x1000, 0x1000, b"/bin/true")
    history = build_spaces(log.events())
    address = np.array([0x1800, 0x1800], np.uint64)
    space = np.array([-1, 0])
    assert history.address_spaces.locate(space, np.array([-1, 0]), address).tolist() == [-1, 0]
