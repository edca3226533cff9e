"""Call stacks in protocol buffers: pprof, and OpenTelemetry's profiles."""

import gzip
import re
import shutil
import subprocess
from collections import Counter

import pytest

from builders.pprof_schema import pprof_profile
from builders.profile import perf_profile
from builders.stack_formats import COUNTS, PROFILES, every_case, rendered
from builders.stacks import TICK_NS, stacks_profile
from prospect.records import replace


def pprof_stacks(profile):
    """Check what profile.proto asks for, and return the values and labels of each stack."""
    text = profile.string_table
    assert text[0] == ""
    functions = {f.id: text[f.name] for f in profile.function}
    mappings = {m.id: m for m in profile.mapping}
    locations = {location.id: location for location in profile.location}
    assert len(functions) == len(profile.function)
    assert len(locations) == len(profile.location)
    assert 0 not in {*functions, *locations, *mappings}
    for location in locations.values():
        mapping = mappings[location.mapping_id]
        assert mapping.memory_start <= location.address < mapping.memory_limit
        assert all(line.function_id in functions for line in location.line)
    found = Counter()
    for sample in profile.sample:
        assert len(sample.value) == len(profile.sample_type)
        names = [
            functions[line.function_id]
            for number in reversed(sample.location_id)
            for line in reversed(locations[number].line)
        ]
        labels = {text[label.key]: text[label.str] for label in sample.label}
        found[labels.get("thread", ""), tuple(names)] += sample.value[0]
    return found


@every_case
def test_pprof_is_a_valid_profile_with_every_sample(case):
    profile = pprof_profile(gzip.decompress(rendered("pprof", PROFILES[case]())))
    found = pprof_stacks(profile)
    if case != "perf":
        assert sum(found.values()) == COUNTS[case]


def test_pprof_has_stacks_times_labels_and_lines():
    profile = pprof_profile(gzip.decompress(rendered("pprof", stacks_profile(lines=True))))
    found = pprof_stacks(profile)
    text = profile.string_table
    assert found["comm", ("main", "work", "inlined<int>", "a;b <c>&\"' 1")] == 2
    assert found["comm", ("main", "read", "do_syscall_64", "vfs_read")] == 6
    types = [(text[t.type], text[t.unit]) for t in profile.sample_type]
    assert types == [("samples", "count"), ("cpu", "nanoseconds")]
    assert all(s.value[1] == s.value[0] * TICK_NS for s in profile.sample)
    assert text[profile.default_sample_type] == "cpu"
    assert profile.period == TICK_NS
    assert profile.duration_nanos == 250_000_000
    main = profile.mapping[0]
    assert text[main.filename] == "/usr/bin/work"
    assert text[main.build_id] == "00112233445566778899aabbccddeeff00112233"
    labels = Counter(
        (text[label.key], text[label.str])
        for s in profile.sample
        for label in s.label
        for _ in range(s.value[0])
    )
    assert labels["process", "swapper"] == labels["pid", "0"] == labels["tid", "0"] == 9
    assert labels["entry_reason", "read"] == 6
    assert labels["cpu", "0"] == labels["cpu", "1"] == 15
    lines = {line.line for location in profile.location for line in location.line}
    assert lines == {0, 10, 20, 30}


def test_pprof_keeps_events_apart():
    profile = pprof_profile(gzip.decompress(rendered("pprof", perf_profile())))
    text = profile.string_table
    types = [(text[t.type], text[t.unit]) for t in profile.sample_type]
    assert types == [
        ("cycles samples", "count"),
        ("cycles", "nanoseconds"),
        ("page-faults samples", "count"),
        ("page-faults", "count"),
    ]
    assert text[profile.default_sample_type] == "cycles"
    totals = [sum(s.value[column] for s in profile.sample) for column in range(4)]
    assert totals == [4010, 1_002_500_000, 20, 20]


@pytest.mark.skipif(not shutil.which("go"), reason="go is not installed")
def test_go_tool_pprof_reads_it(tmp_path):
    file = tmp_path / "profile.pb.gz"
    file.write_bytes(rendered("pprof", stacks_profile(lines=True)))
    ran = subprocess.run(
        ["go", "tool", "pprof", "-sample_index=samples", "-top", file],
        capture_output=True,
        text=True,
        check=True,
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "GOTOOLCHAIN": "local"},
    )
    assert "30, 100% of 30 total" in ran.stdout
    assert re.search(r" 6 20\.00% .* 6 20\.00%  vfs_read", ran.stdout)


@pytest.mark.parametrize("name", ["pprof", "otlp"])
def test_the_kernel_has_the_build_id_of_the_recorded_machine(name):
    profile = stacks_profile()
    profile = replace(profile, run=replace(profile.run, kernel_build_id="beef" * 10))
    data = rendered(name, profile)
    data = gzip.decompress(data) if name == "pprof" else data
    assert data.count(b"beef" * 10) == 1


def test_pprof_names_inlined_functions_by_their_symbols_too():
    profile = stacks_profile(lines=True)
    symbols = ["main", "work", "_Z7inlinedIiEvT_"]
    profile = replace(profile, lines=replace(profile.lines, symbols=symbols))
    found = pprof_profile(gzip.decompress(rendered("pprof", profile)))
    text = found.string_table
    names = {text[row.name]: text[row.system_name] for row in found.function}
    assert names["inlined<int>"] == "_Z7inlinedIiEvT_"
    assert names["main"] == "main"


@every_case
def test_otlp_is_what_opentelemetry_reads(case):
    pb2 = pytest.importorskip("opentelemetry.proto.profiles.v1development.profiles_pb2")
    data = rendered("otlp", PROFILES[case]())
    message = pb2.ProfilesData()
    message.ParseFromString(data)
    known = pb2.ProfilesData()
    known.CopyFrom(message)
    known.DiscardUnknownFields()
    assert known.ByteSize() == message.ByteSize()  # no unknown field
    tables = message.dictionary
    empty = [type(table[0])() for table in (tables.mapping_table, tables.location_table)]
    assert [tables.mapping_table[0], tables.location_table[0]] == empty
    assert tables.string_table[0] == ""
    profiles = message.resource_profiles[0].scope_profiles[0].profiles
    units = [tables.string_table[p.sample_type.unit_strindex] for p in profiles]
    assert set(units) <= {"count", "nanoseconds"}
    for profile in profiles:
        for sample in profile.samples:
            assert 0 < sample.stack_index < len(tables.stack_table)
            assert len(sample.values) == 1
            assert all(0 < row < len(tables.attribute_table) for row in sample.attribute_indices)
    if case != "perf":
        assert sum(sum(s.values) for s in profiles[0].samples) == COUNTS[case]


def test_otlp_has_stacks_and_attributes():
    pb2 = pytest.importorskip("opentelemetry.proto.profiles.v1development.profiles_pb2")
    message = pb2.ProfilesData()
    message.ParseFromString(rendered("otlp", stacks_profile(lines=True)))
    tables = message.dictionary
    text = tables.string_table
    found = Counter()
    for sample in message.resource_profiles[0].scope_profiles[0].profiles[0].samples:
        attributes = {
            text[tables.attribute_table[row].key_strindex]: (
                tables.attribute_table[row].value.string_value
            )
            for row in sample.attribute_indices
        }
        names = [
            text[tables.function_table[line.function_index].name_strindex]
            for row in reversed(tables.stack_table[sample.stack_index].location_indices)
            for line in reversed(tables.location_table[row].lines)
        ]
        found[attributes["thread.name"], tuple(names)] += sample.values[0]
        assert attributes["process.pid"] in {"0", "77"}
    assert found["comm", ("main", "work", "inlined<int>", "a;b <c>&\"' 1")] == 2
    assert found["a b;c", ("default_idle",)] == 9
    build_ids = {
        tables.attribute_table[row].value.string_value
        for mapping in tables.mapping_table
        for row in mapping.attribute_indices
    }
    assert "ff" * 20 in build_ids
