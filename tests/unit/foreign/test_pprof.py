from __future__ import annotations

import gzip
import io
import json
import time

import numpy as np
import pytest

from builders.pprof_schema import pprof_profile
from prospect.errors import RecordingError
from prospect.foreign.detection import foreign_kind, unpacked
from prospect.foreign.pprof_profile import pprof_profile as read_profile
from prospect.profile.model import KIND_KERNEL
from prospect.render.registry import make_renderer


def message(
    types=(("samples", "count"), ("cpu", "nanoseconds")), values=((3, 30_000_000), (1, 10_000_000))
):
    """main calls work, into which `inlined` was inlined; a second sample in the kernel."""
    profile = pprof_profile(b"")
    strings = [""]

    def text(value):
        if value not in strings:
            strings.append(value)
        return strings.index(value)

    for kind, unit in types:
        profile.sample_type.add(type=text(kind), unit=text(unit))
    profile.mapping.add(
        id=1, memory_limit=0x9000, filename=text("/bin/prog"), build_id=text("ab12")
    )
    profile.mapping.add(id=9, filename=text("[kernel.kallsyms]"))
    for number, (name, file) in enumerate(
        [("main", "m.c"), ("work", "w.c"), ("inlined", "i.h"), ("sys_read", "")], start=1
    ):
        profile.function.add(
            id=number, name=text(name), system_name=text(name), filename=text(file)
        )
    profile.location.add(id=5, mapping_id=1, address=0x1000).line.add(function_id=1, line=10)
    work = profile.location.add(id=6, mapping_id=1, address=0x2000)
    work.line.add(function_id=3, line=7)
    work.line.add(function_id=2, line=20)
    profile.location.add(id=7, mapping_id=9, address=2**64 - 4096).line.add(function_id=4)
    for stack, row in zip(([6, 5], [7, 5]), values, strict=True):
        sample = profile.sample.add(location_id=stack, value=row)
        sample.label.add(key=text("thread"), str=text("worker"))
        sample.label.add(key=text("pid"), str=text("42"))
    profile.time_nanos, profile.duration_nanos, profile.period = (
        5_000_000_000,
        2_000_000_000,
        10_000_000,
    )
    profile.period_type.type, profile.period_type.unit = text("cpu"), text("nanoseconds")
    profile.string_table.extend(strings)
    return profile.SerializeToString()


def read(data):
    return read_profile("profile", memoryview(data))


def rendered(profile, name, **options):
    out = io.BytesIO()
    make_renderer(name, detail="4", **options).render(profile, out)
    return out.getvalue()


def test_samples_with_time_are_one_event():
    profile = read(message())
    (event,) = profile.run.events
    assert (event.name, event.seconds_per_period, event.frequency_hz) == ("cpu", 1e-9, 100.0)
    assert profile.hits.count.tolist() == [3, 1]
    assert profile.hits.period.tolist() == [30_000_000, 10_000_000]
    assert (profile.run.wall_seconds, profile.run.started_at) == (2.0, 5.0)
    assert profile.processes.pid.tolist() == [42]
    assert profile.comms == ["worker"]
    assert profile.objects.build_id == ["ab12", ""]
    assert profile.objects.kind[1] == KIND_KERNEL


def test_stacks_keep_inlined_functions():
    profile = read(message())
    assert rendered(profile, "folded", inline=True) == (
        b"worker;main;sys_read_[k] 1\nworker;main;work;inlined_[i] 3\n"
    )
    assert rendered(profile, "folded") == b"worker;main;sys_read_[k] 1\nworker;main;work 3\n"


def test_values_without_a_pair_are_events_of_their_own():
    types = (("alloc_objects", "count"), ("alloc_space", "bytes"), ("delay", "nanoseconds"))
    profile = read(message(types, ((2, 4096, 0), (0, 8, 5))))
    assert [event.name for event in profile.run.events] == ["alloc_objects", "alloc_space", "delay"]
    assert profile.hits.event.tolist() == [0, 1, 1, 2]
    assert profile.hits.period.tolist() == [2, 4096, 8, 5]
    assert profile.hits.count.tolist() == [2, 4096, 8, 1]


def test_what_is_written_again_has_the_same_figures():
    first = rendered(read(message()), "pprof", inline=True)
    again = rendered(read(first), "pprof", inline=True)
    assert again == first
    parsed = pprof_profile(gzip.decompress(first))
    assert [list(sample.value) for sample in parsed.sample] == [[3, 30_000_000], [1, 10_000_000]]


MUTEX = (("contentions", "count"), ("delay", "nanoseconds"))
HEAP = (("alloc_objects", "count"), ("alloc_space", "bytes"), ("wall", "microseconds"))


@pytest.mark.parametrize(
    ("types", "values"),
    [
        (MUTEX, ((3, 30_000_000), (1, 10_000_000))),
        (HEAP, ((2, 4096, 7), (1, 8, 9))),
        ((("samples", "count"), ("cpu", "microseconds")), ((3, 30_000), (1, 10_000))),
    ],
)
def test_types_and_units_are_the_same_when_written_again(types, values):
    found = pprof_profile(gzip.decompress(rendered(read(message(types, values)), "pprof")))
    text = found.string_table
    assert [(text[one.type], text[one.unit]) for one in found.sample_type] == list(types)
    written = sorted(tuple(sample.value) for sample in found.sample)
    if types != HEAP:
        assert written == sorted(values)
    assert np.sum(written, axis=0).tolist() == np.sum(values, axis=0).tolist()
    default = text[found.default_sample_type]
    assert default == (types[0] if types == HEAP else types[1])[0]


def test_the_default_type_comes_first():
    profile = pprof_profile(message(HEAP, ((2, 4096, 7), (1, 8, 9))))
    profile.default_sample_type = list(profile.string_table).index("alloc_space")
    found = read(profile.SerializeToString())
    assert [event.name for event in found.run.events] == ["alloc_space", "alloc_objects", "wall"]
    assert found.hits.period[found.hits.event == 0].sum() == 4104


def test_tables_say_what_was_measured():
    delays = rendered(read(message(MUTEX)), "text").decode()
    assert "Every process: 0.04 delay s\n" in delays
    assert "does not say how delay was sampled" in delays
    assert "delay s" in delays
    assert "Contentions" in delays
    assert "CPU s" not in delays
    heap = rendered(read(message(HEAP[1:2], ((4096,), (8,)))), "text").decode()
    assert "4104 bytes of every process" in heap
    assert "CPU s" not in heap
    assert "alloc_space s" not in heap
    (event,) = json.loads(rendered(read(message(MUTEX)), "json"))["events"]
    assert (event["name"], event["unit"], event["counts"]) == (
        "delay",
        "nanoseconds",
        "contentions",
    )


def test_only_samples_have_error_bars():
    """How far off a time is can be told of samples, not of events counted one by one."""
    for types, values, has_bars in (
        (MUTEX, ((3, 30_000_000), (1, 10_000_000)), False),
        (MUTEX[1:], ((30_000_000,), (10_000_000,)), False),
        ((("samples", "count"), ("cpu", "nanoseconds")), ((3, 30_000_000), (1, 10_000_000)), True),
    ):
        profile = read(message(types, values))
        found = json.loads(rendered(profile, "json"))["summary"]
        bars = [row["half_width_s"] for row in (found, *found["programs"], *found["functions"])]
        assert [bar is not None for bar in bars] == [has_bars] * len(bars)
        assert ("±" in "".join(found["lines"])) == has_bars


def test_exports_with_units_of_their_own_say_them():
    heap = read(message(HEAP[1:2], ((4096,), (8,))))
    (first, *_) = json.loads(rendered(heap, "speedscope"))["profiles"]
    assert first["unit"] == "bytes"
    assert b"event: Samples : bytes of alloc_space\n" in rendered(heap, "callgrind")
    delays = rendered(read(message(MUTEX)), "callgrind")
    assert b"event: Samples : contentions of delay\n" in delays
    assert b"4104 bytes, 100.00 %" in rendered(heap, "svg")
    assert b"event: Nanoseconds : nanoseconds of delay, by the sampling period\n" in delays


def test_gzip_or_not_is_the_same():
    data = message()
    assert foreign_kind(data) == foreign_kind(gzip.compress(data)) == "pprof"
    assert np.array_equal(read(data).hits.count, read(gzip.compress(data)).hits.count)


def test_a_sample_without_a_stack_keeps_its_weight():
    profile = pprof_profile(message())
    profile.sample.add(value=[5, 50])
    found = read(profile.SerializeToString())
    assert found.hits.count.sum() == 9
    assert b"[unknown] 5" in rendered(found, "folded")


@pytest.mark.parametrize(
    "damage",
    [
        lambda profile: profile.sample[0].location_id.append(99),
        lambda profile: profile.sample[0].value.append(1),
        lambda profile: profile.location[0].line[0].__setattr__("function_id", 77),
        lambda profile: profile.mapping[0].__setattr__("filename", 10_000),
        lambda profile: profile.sample[0].label[0].__setattr__("str", -3),
        lambda profile: profile.ClearField("sample"),
        lambda profile: profile.ClearField("sample_type"),
        lambda profile: profile.sample[0].location_id.extend([5] * 20000),
        lambda profile: [sample.value.__setitem__(0, 2**62) for sample in profile.sample],
    ],
)
def test_what_cannot_be_meant_is_refused(damage):
    profile = pprof_profile(message())
    damage(profile)
    with pytest.raises(RecordingError):
        read(profile.SerializeToString())


def test_a_gzip_bomb_is_not_unpacked(monkeypatch):
    monkeypatch.setattr("prospect.foreign.detection.LARGEST_UNPACKED_BYTES", 1 << 16)
    with pytest.raises(RecordingError, match="unpack to more"):
        read(gzip.compress(bytes(1 << 20)))


def test_a_gzip_file_of_very_many_empty_parts_is_refused_in_time():
    one = gzip.compress(b"")
    assert unpacked(memoryview(one * 100 + gzip.compress(b"text"))) == b"text"
    began_s = time.process_time()
    with pytest.raises(RecordingError, match="more than 65536 parts"):
        unpacked(memoryview(one * 400_000))
    assert time.process_time() - began_s < 10


@pytest.mark.parametrize("size", [3, 20])
def test_a_cut_off_gzip_file_is_refused(size):
    with pytest.raises(RecordingError, match="gzip"):
        read(gzip.compress(message())[:-size])
