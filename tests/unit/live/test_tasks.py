"""What a session knows of processes stays small, whatever they do."""

from builders.sideband import EventLog
from prospect.live import tasks as module
from prospect.live.source import Running
from prospect.live.tasks import LiveTasks, pids_of


def carried_starts(log, later):
    tasks = LiveTasks()
    tasks.take_in(log.events())
    events = later.events()
    return tasks.carried(events, pids_of(events)).mmaps.start.tolist()


def test_a_library_that_is_opened_again_and_again_is_one_mapping():
    log, later = EventLog(), EventLog()
    for time in range(10_000):
        log.mmap(time + 1, 7, 0x1000, 0x1000, b"/lib/plugin")
    later.sample(20_000, 7, 0x1800)
    assert len(carried_starts(log, later)) <= module._FEW_MAPS


def test_of_very_many_mappings_the_latest_are_known():
    log, later = EventLog(), EventLog()
    count = 3 * module.MOST_MAPS
    for time in range(count):
        log.mmap(time + 1, 7, 0x1000 * time, 0x1000, b"//anon")
    later.sample(count + 9, 7, 0x1800)
    starts = carried_starts(log, later)
    assert len(starts) <= 2 * module.MOST_MAPS
    assert starts[-module.MOST_MAPS // 2 :] == [
        0x1000 * time for time in range(count - module.MOST_MAPS // 2, count)
    ]


def test_processes_that_ended_are_forgotten():
    log = EventLog()
    for pid in range(100, 200):
        log.fork(2 * pid, 1, pid)
        log.exit(2 * pid + 1, pid)
    tasks = LiveTasks()
    tasks.take_in(log.events())
    assert len(tasks) == 1


def test_an_end_that_is_drained_before_its_beginning_is_an_end():
    before, after = EventLog(), EventLog()
    before.exit(30, 100)
    before.exit(31, 200, tid=201)
    after.fork(10, 1, 100)
    after.fork(12, 1, 200)
    after.clone(20, 200, 201)
    after.exit(40, 200)
    tasks = LiveTasks()
    tasks.take_in(before.events())
    assert len(tasks) == 0
    tasks.take_in(after.events())
    assert tasks.pids() == {1}


def test_a_number_that_was_given_again_is_alive():
    before, after = EventLog(), EventLog()
    before.exit(30, 100)
    after.fork(50, 1, 100)
    tasks = LiveTasks()
    tasks.take_in(before.events())
    tasks.take_in(after.events())
    assert tasks.pids() == {1, 100}


def test_ends_without_a_beginning_are_not_remembered_for_ever():
    log = EventLog()
    for tid in range(3 * module.MOST_EARLY_EXITS):
        log.exit(tid + 1, 7, tid=tid + 10)
    tasks = LiveTasks()
    tasks.take_in(log.events())
    assert len(tasks._early_exits) == module.MOST_EARLY_EXITS


def test_who_does_not_run_any_more_is_forgotten_though_the_end_was_lost():
    log = EventLog()
    for pid in (100, 200, 300):
        log.fork(pid, 1, pid)
    log.fork(5000, 1, 400)
    tasks = LiveTasks()
    tasks.take_in(log.events())
    # 400 was born after this was looked at.
    tasks.forget_ended(Running(4000, frozenset({1, 200})))
    assert tasks.pids() == {1, 200, 400}
