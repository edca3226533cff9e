"""What a session knows of processes stays small, whatever they do."""

from builders.sideband import EventLog
from prospect.live import tasks as module
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
    count = 3 * module._MOST_MAPS
    for time in range(count):
        log.mmap(time + 1, 7, 0x1000 * time, 0x1000, b"//anon")
    later.sample(count + 9, 7, 0x1800)
    starts = carried_starts(log, later)
    assert len(starts) <= 2 * module._MOST_MAPS
    assert starts[-module._MOST_MAPS // 2 :] == [
        0x1000 * time for time in range(count - module._MOST_MAPS // 2, count)
    ]


def test_processes_that_ended_are_forgotten():
    log = EventLog()
    for pid in range(100, 200):
        log.fork(2 * pid, 1, pid)
        log.exit(2 * pid + 1, pid)
    tasks = LiveTasks()
    tasks.take_in(log.events())
    assert len(tasks) == 1
