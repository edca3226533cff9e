"""Counters of the kernel's records, told from what the recorder wrote of earlier times."""

from builders.sideband import EventLog
from prospect.abi import constants as abi
from prospect.abi.attr import EventAttr, EventDescription
from prospect.abi.recorded_facts import RecordingInfo
from prospect.assembly.tables.run_facts import describe_run
from prospect.records import replace


def statistics(log, counts, **extras):
    events = replace(log.events(), counts=counts)
    return describe_run(RecordingInfo(extras=extras), events, ()).statistics


def machine(first_ns):
    """A snapshot of two processes, of which one forks a child that executes and ends."""
    log = EventLog()
    for pid in (1, 7):
        log.fork(first_ns, 0, pid)
        log.comm(first_ns, pid, b"old")
        log.mmap(first_ns, pid, 0x1000, 0x1000, b"/old")
    log.fork(10, 7, 8)
    log.exec(11, 8, b"new")
    log.mmap(12, 8, 0x1000, 0x1000, b"/new")
    log.exit(13, 8)
    return log, {
        abi.PERF_RECORD_FORK: 3,
        abi.PERF_RECORD_COMM: 3,
        abi.PERF_RECORD_MMAP2: 3,
        abi.PERF_RECORD_EXIT: 1,
        abi.PERF_RECORD_SAMPLE: 100,
        40: 2,
        70: 5,
    }


def test_what_the_snapshot_told_is_no_notification():
    counted = statistics(*machine(0))
    assert (counted["forks"], counted["execs"], counted["maps"], counted["exits"]) == (1, 1, 1, 1)
    assert counted["notifications"] == 4 + 2
    assert counted["unknowns"] == 2


def test_records_without_times_all_count():
    log = EventLog()
    log.fork(0, 1, 2)
    log.comm(0, 2, b"a")
    assert statistics(log, {abi.PERF_RECORD_FORK: 1, abi.PERF_RECORD_COMM: 1})["notifications"] == 2


def test_the_recorders_own_counters_are_passed_on():
    counted = statistics(EventLog(), {}, counters={"buffers_read": 3, "odd": "x"})
    assert counted["buffers_read"] == 3
    assert "odd" not in counted


def test_control_groups_are_known_records():
    counted = statistics(EventLog(), {abi.PERF_RECORD_CGROUP: 9, 40: 2})
    assert counted["unknowns"] == 2


def test_lost_records_of_events_that_only_report_switches_are_counted_apart():
    switches, mixed = (
        EventDescription(EventAttr(flags=abi.FLAG_CONTEXT_SWITCH | flags), ids, "")
        for flags, ids in ((0, (5, 6)), (abi.FLAG_MMAP, (7,)))
    )
    extras = {"lost": {"5": 100, "6": 20, "7": 3}}
    info = RecordingInfo(extras=extras, events=(switches, mixed))
    assert describe_run(info, EventLog().events(), ()).statistics["lost_switches"] == 120
