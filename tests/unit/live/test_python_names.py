"""Names that one part of a session tells are those of later parts, and of what is saved."""

from __future__ import annotations

from builders import runtime_frames as make
from prospect.abi import runtime_frames as wire
from prospect.abi.recorded_facts import RecordBlock
from prospect.assembly.runtimes import code_objects
from prospect.assembly.runtimes.runtime_stacks import with_runtimes
from prospect.assembly.tables.run_facts import left_out
from prospect.events.decode import decode
from prospect.events.runtime_records import CodeText, RuntimeImage
from prospect.live import carried as module
from prospect.live.carried import PythonNames
from prospect.profile.run_info import counted_notes

CODE = 0x7000
NAMES = [
    make.raw(make.image(11)),
    *map(make.raw, make.names(CODE, "leaf", "/a.py", b"\xf8\x00", 7)),
]
STACK = make.raw(make.stack((CODE, CODE + 184, 1, 0)))


def part(*records):
    return decode([RecordBlock(memoryview(b"".join(records)))], [make.CLOCK, make.FRAMES])


def sample():
    return make.SAMPLES.sample(ip=make.LOOP[0], pid=5, tid=5, time=10, id=7, misc=2, chain=[])


def function_of(events):
    _, python = with_runtimes(events)
    return python and [one[:3] for one in python.stacks.code.functions]


def test_a_part_without_names_has_those_of_earlier_ones():
    names = PythonNames()
    first = names.carried(part(*NAMES, STACK, sample()), 10)
    assert function_of(part(STACK, sample())) is None
    later = names.carried(part(STACK, sample()), 20)
    assert function_of(first) == function_of(later) == [("/a.py", "leaf", 7)]
    assert names.carried(part(sample()), 30).runtimes is None
    assert len(names) == 1


def test_its_place_is_the_same_in_each_part():
    names = PythonNames()
    other = make.names(CODE + 64, "other", "/b.py", b"\xf8\x00", 3)
    stack = make.raw(make.stack((CODE + 64, CODE + 64 + 184, 1, 0), (CODE, CODE + 184, 1, 0)))
    places = []
    for events in (part(*NAMES, STACK, sample()), part(*map(make.raw, other), stack, sample())):
        code = with_runtimes(names.carried(events, 10))[1].stacks.code
        leaf = [one.name for one in code.functions].index("leaf")
        places.append(int(code.start[leaf]))
    assert places[0] == places[1]


def test_what_is_told_no_more_is_forgotten(monkeypatch):
    monkeypatch.setattr(module, "_KEPT_NS", 100)
    names = PythonNames()
    names.carried(part(*NAMES, STACK, sample()), 1000)
    names.carried(part(sample()), 1100)
    assert len(names) == 1
    names.carried(part(sample()), 1101)
    assert len(names) == 0


def test_names_of_processes_that_have_ended_are_forgotten_sooner(monkeypatch):
    monkeypatch.setattr(module, "_KEPT_ENDED_NS", 100)
    names = PythonNames()
    for now_ns, running in ((1000, ()), (1100, {5}), (5000, {5}), (5100, {6}), (5199, {6})):
        names.carried(part(*NAMES, STACK, sample()), now_ns, running)
        assert len(names) == 1
    # Whoever shares the interpreter with one that has ended may come late.
    assert function_of(names.carried(part(STACK, sample()), 5200, {6}))
    names.carried(part(sample()), 5201, {6})
    assert len(names) == 0


def test_what_processes_tell_alike_is_kept_once_and_none_gets_what_others_tell():
    names = PythonNames()
    for image in (1, 2):
        told = [make.raw(make.image(11, image))]
        told += map(make.raw, make.names(CODE, "leaf", "/a.py", b"\xf8\x00", 7, image=image))
        stack = make.raw(make.stack((CODE, CODE + 184, 1, 0), image=image))
        events = names.carried(part(*told, stack, sample()), 10)
        assert {key.image for key in events.runtimes.texts} == {image}
    assert (len(names), len(names._shared)) == (2, 1)


def test_a_recording_begins_with_what_is_known():
    names = PythonNames()
    names.carried(part(*NAMES, STACK, sample()), 10)
    saved = names.records([make.CLOCK, make.FRAMES])
    assert function_of(part(saved, STACK, sample())) == [("/a.py", "leaf", 7)]
    assert part(saved, STACK, sample()).unread_bytes == 0
    assert names.records([make.CLOCK]) == b""


def test_an_interpreter_that_makes_up_names_leaves_room_for_others():
    names = PythonNames(1 << 20)
    names.carried(part(*NAMES, STACK, sample()), 10)
    flood = [make.raw(make.image(11, 2))]
    for number in range(100):
        flood += map(make.raw, make.names(number, "f", "/f.py", bytes(24000), 1, image=2))
    stack = make.raw(make.stack((0, 184, 1, 0), image=2))
    events = names.carried(part(*flood, stack, sample(), STACK, sample()), 20)
    assert len(names) < 10
    assert dict(events.runtimes.left_out)[2] > 90
    _, python = with_runtimes(events)
    assert ("/a.py", "leaf", 7) in [one[:3] for one in python.stacks.code.functions]
    (note,) = left_out([], events)
    assert note.startswith("Functions of runtimes: names that had no room: 9")
    assert counted_notes([note, note]) != (note,)


def test_where_interpreters_start_all_the_time_only_names_of_those_that_run_are_kept():
    names, sizes = PythonNames(1 << 20), []
    for turn in range(1, 300):
        told = [make.raw(make.image(11, turn))]
        for code in range(20):
            told += map(make.raw, make.names(code, f"f{turn}", "/f.py", bytes(500), 1, image=turn))
        stack = make.raw(make.stack((0, 184, 1, 0), image=turn))
        # Each window of 60 s has a process of its own; those before have ended.
        own = make.SAMPLES.sample(ip=make.LOOP[0], pid=turn, tid=5, time=10, id=7, misc=2, chain=[])
        events = names.carried(part(*told, stack, own), turn * 60 * 10**9, {turn - 1})
        assert events.runtimes.left_out == ()
        sizes.append(len(names))
    assert max(sizes) <= 200
    assert sizes[20:40] == sizes[-20:]


def test_room_is_given_back_with_what_is_forgotten(monkeypatch):
    monkeypatch.setattr(module, "_KEPT_NS", 100)
    names = PythonNames(1 << 18)
    for turn in range(20):
        told = make.names(turn, "f", "/f.py", bytes(24000), 1)
        events = names.carried(part(make.raw(make.image(11)), *map(make.raw, told)), turn * 1000)
        assert events.runtimes.left_out == ()
        assert len(names) == 1


def test_decoded_tables_of_lines_are_kept_within_bounds(monkeypatch):
    monkeypatch.setattr(code_objects, "MOST_KEPT_BYTES", 1 << 20)
    known = code_objects._KeptFunctions()
    build = RuntimeImage(0x30B, 0, 0, 0, 0)
    texts = [
        CodeText((wire.IS_ASCII | 1, b"f"), None, bytes([0xE8, number, 0x80, 1] * 6144))
        for number in range(40)
    ]
    found = [known.of(text, build) for text in texts]
    assert len(known._known) == 8
    assert known.of(texts[-1], build) is found[-1]
    assert known.of(texts[0], build) == known.of(texts[0], build)


def test_names_that_find_no_room_for_more_keep_the_room_they_have():
    names = PythonNames(1 << 18)
    for size in (2000, 24000) * 4:
        told = [make.raw(make.image(11))]
        for number in range(10):
            code = number + (len(names) if size < 24000 else 0)
            told += map(make.raw, make.names(code, "f", "/f.py", bytes(size), 1))
        events = names.carried(part(*told, STACK, sample()), 10)
    lines = [text.lines for text in events.runtimes.texts.values()]
    assert lines
    assert sum(map(len, lines)) <= (1 << 18) // 8
