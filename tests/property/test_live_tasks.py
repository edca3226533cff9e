"""Cut into parts anywhere, what processes were and had mapped is what it was in one piece."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from builders.examples import examples
from builders.process_model import describe_mapping, run_model, steps
from prospect.abi.attr import EventDescription
from prospect.abi.recorded_facts import RecordBlock
from prospect.capture.events.event_choice import SAMPLE_TYPE, SIDE_BAND_FLAGS, _timer_attr
from prospect.events.decode import decode
from prospect.live.tasks import LiveTasks, pids_of
from prospect.profile.model import BIRTH_PREEXISTING
from prospect.spaces.attribution import attribute
from prospect.spaces.process_history import build_spaces

LAST = 10**6


def parts_of(log, cuts):
    bounds = [0, *sorted(set(cuts)), LAST]
    return [log.part(begin, end).events() for begin, end in itertools.pairwise(bounds)]


@settings(max_examples=examples(400))
@given(steps, st.lists(st.integers(1, 60), max_size=5))
def test_every_sample_of_a_part_is_placed_as_in_the_whole(drawn, cuts):
    model = run_model(drawn)
    tasks = LiveTasks()
    found = []
    for events in parts_of(model.log, cuts):
        pids = pids_of(events)
        births = tasks.births(pids)
        carried = tasks.carried(events, pids)
        history = build_spaces(carried)
        hits = attribute(carried.samples, history.timeline)
        where = history.address_spaces.locate(hits.space, hits.epoch, hits.address)
        for row in hits.sample_row.tolist():
            process = int(hits.process_row[row])
            pid, start = (
                int(history.processes.pid[process]),
                int(history.processes.start_ns[process]),
            )
            if history.processes.birth[process] == BIRTH_PREEXISTING and pid in births:
                start = births[pid].start_ns
            found.append(
                (
                    pid,
                    start,
                    history.names[hits.comm[row]],
                    describe_mapping(history, int(where[row])),
                )
            )
        tasks.take_in(events)
    side_times = {row[0] for row in model.log.tasks + model.log.mmaps}
    times = [row[2] for row in model.log.samples]
    compared = 0
    for expected, time, (pid, start, comm, stands) in zip(
        model.expected, times, found, strict=True
    ):
        if time in side_times:
            continue  # which of the two was first is not defined
        compared += 1
        assert (pid, start, comm) == (expected["pid"], expected["birth"], expected["comm"])
        if expected["stands"] is not None:
            assert stands == expected["stands"]
    assert compared >= len(model.alive)


@settings(max_examples=examples(100))
@given(steps)
def test_records_of_what_runs_make_the_same_processes_again(drawn):
    model = run_model(drawn)
    events = model.log.events()
    tasks = LiveTasks()
    tasks.take_in(events)
    attr = _timer_attr(SIDE_BAND_FLAGS, 1000)
    assert attr.sample_type == SAMPLE_TYPE
    block = RecordBlock(memoryview(tasks.records()))
    again = decode([block], [EventDescription(attr)])
    assert not again.damage
    history = build_spaces(again)
    alive = {pid: process["comm"][pid] for pid, process in model.alive.items()}
    rows = zip(history.processes.pid.tolist(), history.processes.name.tolist(), strict=True)
    named = {pid: history.names[name] for pid, name in rows}
    assert {pid: named[pid] for pid in alive} == alive
    # A process whose leader has ended lives as long as its other threads.
    spaces = {pid for pid in again.mmaps.pid.tolist() if pid in alive}
    assert spaces == {pid for pid, process in model.alive.items() if process["maps"]}
