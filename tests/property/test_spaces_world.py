"""What forks, execs, names and mappings amount to, against a model that copies at every fork."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from builders.sideband import KERNEL, USER, EventLog
from prospect.spaces.attribution import attribute
from prospect.spaces.world import build_spaces

OBJECTS = [b"/lib/a", b"/lib/b", b"/lib/c"]
NAMES = [b"one", b"two", b"three"]
SPAN = 24


class Model:
    """The definitions, word for word: a process is a dict, its mappings a list copied at fork."""

    def __init__(self):
        self.log = EventLog()
        self.time = 0
        self.alive = {}
        self.exited = []
        self.born = 0
        self.expected = []
        for pid in (10, 11):
            self.log.comm(0, pid, NAMES[0])
            self.alive[pid] = self.new_life(pid, 0)
            self.alive[pid]["comm"] = {pid: NAMES[0]}

    def new_life(self, pid, birth):
        self.born += 1
        return {"pid": pid, "life": self.born, "birth": birth, "maps": [], "comm": {}}

    def pick(self, choice):
        return self.alive[sorted(self.alive)[choice % len(self.alive)]]

    def apply(self, step):
        kind, choice, a, b, tick = step
        self.time = max(self.time + tick, 1)
        process = self.pick(choice)
        getattr(self, kind)(process, a, b)

    def fork(self, process, a, b):
        reused = a % 2 and self.exited
        pid = self.exited.pop(0) if reused else 12 + self.born
        tid = sorted(process["comm"])[b % len(process["comm"])]
        self.log.fork(self.time, process["pid"], pid, parent_tid=tid)
        child = self.new_life(pid, self.time)
        child["maps"] = list(process["maps"])
        child["comm"] = {pid: process["comm"][tid]}
        self.alive[pid] = child

    def clone(self, process, *_):
        self.born += 1
        tid = 1000 + self.born
        self.log.clone(self.time, process["pid"], tid)
        process["comm"][tid] = process["comm"][process["pid"]]

    def exec(self, process, a, _):
        pid = process["pid"]
        self.log.exec(self.time, pid, NAMES[a % 3])
        self.alive[pid] = self.new_life(pid, self.time)
        self.alive[pid]["comm"] = {pid: NAMES[a % 3]}

    def exit(self, process, *_):
        if len(self.alive) > 1:
            self.log.exit(self.time, process["pid"])
            del self.alive[process["pid"]]
            self.exited.append(process["pid"])

    def comm(self, process, a, b):
        tid = sorted(process["comm"])[b % len(process["comm"])]
        self.log.comm(self.time, process["pid"], NAMES[a % 3], tid=tid)
        process["comm"][tid] = NAMES[a % 3]

    def mmap(self, process, a, b):
        start, length, name = a % SPAN, 1 + b % 6, OBJECTS[(a + b) % 3]
        self.log.mmap(self.time, process["pid"], start, length, name, pgoff=64 * start)
        process["maps"].append((start, start + length, name, start - 64 * start))

    def sample(self, process, _, b):
        tid = sorted(process["comm"])[b % len(process["comm"])]
        for address in range(-1, SPAN + 8):
            mode = KERNEL if address < 0 else USER
            ip = 2**64 - 5 if address < 0 else address
            self.log.sample(self.time, process["pid"], ip, tid=tid, mode=mode)
            stands = [m[2:] for m in process["maps"] if m[0] <= address < m[1]]
            self.expected.append(
                {
                    "pid": process["pid"],
                    "birth": process["birth"],
                    "comm": process["comm"][tid],
                    "ip": ip,
                    "mode": mode,
                    "stands": stands[-1] if stands else None,
                    "maps": process["maps"],
                }
            )


steps = st.lists(
    st.tuples(
        st.sampled_from(
            ["fork", "clone", "exec", "exit", "comm", "mmap", "mmap", "mmap", "sample"]
        ),
        st.integers(0, 5),
        st.integers(0, 40),
        st.integers(0, 40),
        st.integers(0, 2),
    ),
    min_size=1,
    max_size=40,
)


def run_model(drawn):
    model = Model()
    for step in drawn:
        model.apply(step)
    model.time += 1
    for process in list(model.alive.values()):
        model.sample(process, 0, 0)
    return model


@settings(max_examples=400, deadline=None)
@given(steps)
def test_every_sample_is_placed_as_copying_at_every_fork_would_place_it(drawn):
    model = run_model(drawn)
    events = model.log.events()
    world = build_spaces(events)
    hits = attribute(events.samples, world.timeline)
    where = world.address_spaces.locate(hits.space, hits.epoch, hits.address)
    side_times = {row[0] for row in model.log.tasks + model.log.mmaps}
    for expected, time, row in zip(
        model.expected, events.samples.time_ns.tolist(), hits.sample_row.tolist(), strict=True
    ):
        if time in side_times:
            continue  # which of the two was first is not defined
        process = hits.process_row[row]
        assert world.processes.pid[process] == expected["pid"]
        assert world.processes.start_ns[process] == expected["birth"]
        assert world.names[hits.comm[row]] == expected["comm"]
        assert (hits.address[row], hits.mode[row]) == (expected["ip"], expected["mode"])
        found = describe_mapping(world, int(where[row]))
        if expected["stands"] is not None:
            assert found == expected["stands"]
        elif found is not None:
            # Nothing stood there yet; an epoch may tell what was the first to stand there later.
            assert found == next(m[2:] for m in expected["maps"] if m[0] <= expected["ip"] < m[1])
            assert world.mappings.time_ns[where[row]] > time


def describe_mapping(world, mapping):
    if mapping < 0:
        return None
    start, offset = int(world.mappings.start[mapping]), int(world.mappings.pgoff[mapping])
    return world.names[world.mappings.name[mapping]], start - offset


@settings(max_examples=200, deadline=None)
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
