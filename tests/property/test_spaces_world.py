"""What forks, execs, names and mappings amount to, against a model that copies at every fork."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from builders.examples import examples
from builders.process_model import describe_mapping, run_model, steps
from prospect.spaces.attribution import attribute
from prospect.spaces.process_history import build_spaces


@settings(max_examples=examples(400))
@given(steps)
def test_every_sample_is_placed_as_copying_at_every_fork_would_place_it(drawn):
    model = run_model(drawn)
    events = model.log.events()
    history = build_spaces(events)
    hits = attribute(events.samples, history.timeline)
    where = history.address_spaces.locate(hits.space, hits.epoch, hits.address)
    side_times = {row[0] for row in model.log.tasks + model.log.mmaps}
    for expected, time, row in zip(
        model.expected, events.samples.time_ns.tolist(), hits.sample_row.tolist(), strict=True
    ):
        if time in side_times:
            continue  # which of the two was first is not defined
        process = hits.process_row[row]
        assert history.processes.pid[process] == expected["pid"]
        assert history.processes.start_ns[process] == expected["birth"]
        assert history.names[hits.comm[row]] == expected["comm"]
        assert (hits.address[row], hits.mode[row]) == (expected["ip"], expected["mode"])
        found = describe_mapping(history, int(where[row]))
        if expected["stands"] is not None:
            assert found == expected["stands"]
        elif found is not None:
            # Nothing stood there yet; an epoch may tell what was the first to stand there later.
            assert found == next(m[2:] for m in expected["maps"] if m[0] <= expected["ip"] < m[1])
            assert history.mappings.time_ns[where[row]] > time


@settings(max_examples=examples(200))
@given(steps, st.sampled_from([1, 2, 5, 100]))
def test_samples_and_periods_are_conserved(drawn, periods):
    model = run_model(drawn)
    rows = [
        (ip, task, time, mode, 1 + number % periods, number % 3)
        for number, (ip, task, time, mode, _, _) in enumerate(model.log.samples)
    ]
    model.log.samples = rows
    events = model.log.events()
    hits = attribute(events.samples, build_spaces(events).timeline)
    plain = attribute(events.samples, build_spaces(events).timeline)
    for column in ("process_row", "comm", "space", "epoch", "mode", "event", "address", "count"):
        assert np.array_equal(getattr(hits, column), getattr(plain, column))
    assert np.array_equal(hits.period, plain.period)
    assert np.array_equal(np.bincount(hits.sample_row, minlength=len(hits)), hits.count)
    expected = np.zeros(len(hits), np.int64)
    np.add.at(expected, hits.sample_row, events.samples.period.view(np.int64))
    assert np.array_equal(expected, hits.period)
    columns = (hits.process_row, hits.comm, hits.space, hits.epoch, hits.mode, hits.event)
    keys = set(zip(*(column.tolist() for column in (*columns, hits.address)), strict=True))
    assert len(keys) == len(hits)
    assert np.array_equal(hits.event.take(hits.sample_row), events.samples.event)
    assert np.array_equal(hits.address.take(hits.sample_row), events.samples.ip)


@settings(max_examples=examples(200))
@given(steps)
def test_what_stands_in_a_space_is_what_is_found_at_its_addresses(drawn):
    events = run_model(drawn).log.events()
    history = build_spaces(events)
    spaces = history.address_spaces
    hits = attribute(events.samples, history.timeline)
    located = spaces.locate(hits.space, hits.epoch, hits.address)
    for space, epoch in set(zip(hits.space.tolist(), hits.epoch.tolist(), strict=True)):
        start, end, mapping = spaces.mappings_in(space, epoch)
        assert (start < end).all()
        assert (end[:-1] <= start[1:]).all()
        asked = (hits.space == space) & (hits.epoch == epoch)
        for address, found in zip(hits.address[asked].tolist(), located[asked], strict=True):
            covers = (start <= address) & (address < end)
            assert mapping[covers].tolist() == ([found] if found >= 0 else [])
