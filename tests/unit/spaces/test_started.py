"""Which mappings are placed all at once, and which are looked at one by one."""

from builders.sideband import EventLog
from prospect.spaces.address_spaces import mappings_of
from prospect.spaces.process_history import started_mappings
from prospect.spaces.task_timeline import collect_ids


def found(log):
    """Return (mapping, task record) of each that is placed at once, and the others."""
    events = log.events()
    tasks, mmaps = events.tasks, events.mmaps
    ids = collect_ids(tasks.pid, tasks.parent_pid, mmaps.pid)
    started = started_mappings(tasks, mmaps, mappings_of(mmaps), ids)
    pairs = zip(started.mapping.tolist(), started.task.tolist(), strict=True)
    return list(pairs), started.other.tolist()


def test_mappings_of_a_program_beside_each_other_are_placed_at_once():
    log = EventLog()
    log.exec(10, 2, b"ls")
    log.mmap(11, 2, 0x5000, 0x1000, b"/ls")
    log.mmap(12, 2, 0x1000, 0x1000, b"/libc")
    log.mmap(13, 2, 0x2000, 0x1000, b"/libm")  # begins where another one ends
    log.exec(20, 2, b"cat")
    log.mmap(21, 2, 0x5000, 0x1000, b"/cat")
    assert found(log) == ([(0, 0), (1, 0), (2, 0), (3, 1)], [])


def test_a_program_that_maps_over_what_it_has_is_looked_at():
    log = EventLog()
    log.exec(10, 2, b"ls")
    log.mmap(11, 2, 0x1000, 0x2000, b"/ls")
    log.mmap(12, 2, 0x2000, 0x2000, b"/libc")
    log.exec(10, 3, b"cat")
    log.mmap(12, 3, 0x2000, 0x2000, b"/libc")
    assert found(log) == ([(2, 1)], [0, 1])


def test_what_a_child_inherits_and_what_it_maps_itself_is_looked_at():
    log = EventLog()
    log.exec(10, 2, b"sh")
    log.mmap(11, 2, 0x1000, 0x1000, b"/sh")
    log.fork(20, 2, 3)
    log.mmap(21, 2, 0x2000, 0x1000, b"/libc")
    log.mmap(22, 3, 0x3000, 0x1000, b"/libm")
    log.exec(30, 3, b"ls")
    log.mmap(31, 3, 0x1000, 0x1000, b"/ls")
    assert found(log) == ([(3, 2)], [0, 1, 2])


def test_a_thread_is_no_child():
    log = EventLog()
    log.exec(10, 2, b"server")
    log.clone(15, 2, 3)
    log.mmap(16, 2, 0x1000, 0x1000, b"/server")
    assert found(log) == ([(0, 0)], [])


def test_what_a_snapshot_says_and_what_stood_before_any_exec_is_looked_at():
    log = EventLog()
    log.exec(0, 2, b"sh")
    log.mmap(0, 2, 0x1000, 0x1000, b"/sh")
    log.mmap(5, 4, 0x1000, 0x1000, b"/init")
    log.exec(10, 4, b"init")
    assert found(log) == ([], [0, 1])


def test_addresses_that_are_no_whole_pages_are_told_apart():
    log = EventLog()
    log.exec(10, 2, b"jit")
    log.mmap(11, 2, 0x1000, 0x80, b"/one")
    log.mmap(12, 2, 0x1080, 0x80, b"/two")
    assert found(log) == ([(0, 0), (1, 0)], [])
