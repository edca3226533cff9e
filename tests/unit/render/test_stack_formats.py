"""The formats of call stacks, each by the rules of the tool that reads it."""

import gzip
import io
import itertools
import json
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from collections import Counter, defaultdict

import pytest

from builders.pprof_schema import pprof_profile
from builders.profile import empty_profile, hostile_profile, perf_profile, qsort_profile
from builders.stacks import TICK_NS, lined_stacks_profile, random_stacks_profile, stacks_profile
from prospect.records import replace
from prospect.render.registry import make_renderer

PROFILES = {
    "stacks": stacks_profile,
    "lines": lined_stacks_profile,
    "qsort": qsort_profile,
    "perf": perf_profile,
    "hostile": hostile_profile,
    "random": lambda: random_stacks_profile(2000, 150, 12),
    "empty": empty_profile,
}
COUNTS = {"stacks": 30, "lines": 30, "qsort": 1014, "perf": 4010, "random": 2000, "empty": 0}
COUNTS["hostile"] = int(hostile_profile().hits.count.sum())

every_case = pytest.mark.parametrize("case", PROFILES)


def rendered(name, profile, *, detail="4", inline=True):
    out = io.BytesIO()
    make_renderer(name, detail=detail, inline=inline).render(profile, out)
    return out.getvalue()


# folded: "frame;frame COUNT", as flamegraph.pl and stackcollapse-perf.pl define it


def folded_stacks(data):
    found = {}
    for line in data.decode().splitlines():
        match = re.fullmatch(r"([^;\n]+(?:;[^;\n]+)*) ([0-9]+)", line)
        assert match, line
        assert match[1] not in found
        assert match[1].isprintable()
        found[match[1]] = int(match[2])
    return found


@every_case
def test_folded_lines_follow_the_grammar_and_count_every_sample(case):
    data = rendered("folded", PROFILES[case]())
    found = folded_stacks(data)
    assert sum(found.values()) == COUNTS[case]
    assert list(found) == sorted(found)


def test_folded_stacks_are_those_of_the_profile():
    assert folded_stacks(rendered("folded", stacks_profile())) == {
        "a b:c;default_idle_[k]": 9,
        "comm;main;[libc.so.6]": 1,
        "comm;main;jitted_[j]": 4,
        "comm;main;read;do_syscall_64_[k];vfs_read_[k]": 6,
        "comm;main;work": 5,
        "comm;main;work;a:b <c>&\"' 1": 2,
        "comm;main;work;work;work": 3,
    }


# svg: well-formed, without anything that runs or leads elsewhere

SVG = "{http://www.w3.org/2000/svg}"


def svg_boxes(data):
    root = ET.fromstring(data)
    return root, [
        (
            group.find(f"{SVG}title").text,
            *(float(group.find(f"{SVG}rect").get(k)) for k in ("x", "y", "width")),
        )
        for group in root.iter(f"{SVG}g")
    ]


@every_case
def test_the_picture_is_inert_xml(case):
    root, boxes = svg_boxes(rendered("svg", PROFILES[case]()))
    assert {element.tag.removeprefix(SVG) for element in root.iter()} <= {
        "svg",
        "rect",
        "text",
        "g",
        "title",
    }
    for element in root.iter():
        assert not any(name.lower().startswith("on") or "href" in name for name in element.attrib)
    assert bool(boxes) == bool(COUNTS[case])


def test_boxes_stand_on_their_callers_and_are_as_wide_as_their_time():
    _, boxes = svg_boxes(rendered("svg", stacks_profile()))
    by_row = defaultdict(list)
    for title, x, y, width in boxes:
        by_row[y].append((x, x + width))
        share = float(re.search(r"([0-9.]+) %\)$", title)[1])
        assert width == pytest.approx(1180 * share / 100, abs=0.1)
    rows = sorted(by_row, reverse=True)
    assert by_row[rows[0]] == [(10.0, 1190.0)]
    for below, above in itertools.pairwise(rows):
        for left, right in by_row[above]:
            assert any(a - 0.02 <= left and right <= b + 0.02 for a, b in by_row[below])
        spans = sorted(by_row[above])
        assert all(a[1] <= b[0] + 0.02 for a, b in itertools.pairwise(spans))


def test_names_in_a_picture_are_text():
    data = rendered("svg", stacks_profile())
    assert b"a;b &lt;c&gt;&amp;" in data
    titles = [title for title, *_ in svg_boxes(data)[1]]
    assert any(title.startswith("a;b <c>&\"' 1 (") for title in titles)


def test_a_big_picture_stays_small_and_says_what_it_leaves_out():
    data = rendered("svg", random_stacks_profile(20_000, 20_000, 30))
    assert len(data) <= 2_000_000
    assert b"Frames of less than 0.1 % are not shown." in data
    assert min(width for *_, width in svg_boxes(data)[1]) >= 1.17


# pprof: google/pprof, proto/profile.proto and its rules of valid profiles


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
    assert labels["cause", "read"] == 6
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


# speedscope: the rules of its file-format-schema.json (version 1.25.0)


@every_case
def test_speedscope_follows_its_schema(case):
    file = json.loads(rendered("speedscope", PROFILES[case]()))
    assert file["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    assert isinstance(file["exporter"], str)
    for frame in file["shared"]["frames"]:
        assert isinstance(frame["name"], str)
        assert isinstance(frame["file"], str)
    total = 0
    for profile in file["profiles"]:
        assert set(profile) == {
            "type",
            "name",
            "unit",
            "startValue",
            "endValue",
            "samples",
            "weights",
        }
        assert profile["type"] == "sampled"
        assert profile["unit"] in {"nanoseconds", "none"}
        assert len(profile["samples"]) == len(profile["weights"])
        assert profile["endValue"] == sum(profile["weights"])
        for stack in profile["samples"]:
            assert all(0 <= frame < len(file["shared"]["frames"]) for frame in stack)
            assert stack
        total += sum(profile["weights"])
    if case in {"stacks", "lines", "random"}:
        assert total == COUNTS[case] * TICK_NS


def test_speedscope_has_a_profile_for_each_thread_with_the_most_first():
    file = json.loads(rendered("speedscope", stacks_profile()))
    assert [p["name"] for p in file["profiles"]] == [
        "work/comm 77, cpu-clock",
        "swapper/a b;c 0, cpu-clock",
    ]
    names = [frame["name"] for frame in file["shared"]["frames"]]
    first = file["profiles"][0]
    found = {
        ";".join(names[f] for f in stack): weight // TICK_NS
        for stack, weight in zip(first["samples"], first["weights"], strict=True)
    }
    assert found["main;work;work;work"] == 3
    assert found["main;read;do_syscall_64_[k];vfs_read_[k]"] == 6


# callgrind: the Valgrind manual, "Callgrind Format Specification"


def callgrind_costs(data):
    """Read a file by the format's grammar: own samples and calls by function, and the totals."""
    names, own, calls = {}, Counter(), Counter()
    totals = {}
    function = callee = None
    for line in data.decode().split("\n"):
        if match := re.fullmatch(r"(c?)(ob|fl|fn)=\((\d+)\)(?: (.+))?", line):
            key = match[2], match[3]
            assert (match[4] is None) == (key in names), line
            names.setdefault(key, match[4])
            if match[2] == "fn":
                function, callee = (function, names[key]) if match[1] else (names[key], None)
        elif match := re.fullmatch(r"cfi=\((\d+)\)(?: (.+))?", line):
            assert (match[2] is None) == (("fl", match[1]) in names), line
            names.setdefault(("fl", match[1]), match[2])
        elif match := re.fullmatch(r"calls=(\d+) 0x[0-9a-f]+ 0", line):
            assert callee is not None
        elif match := re.fullmatch(r"0x[0-9a-f]+ \d+ (\d+) (\d+)", line):
            if callee is None:
                own[function] += int(match[1])
            else:
                calls[function, callee] += int(match[1])
                callee = None
        elif match := re.fullmatch(r"(totals|summary): (\d+) (\d+)", line):
            totals[match[1]] = int(match[2]), int(match[3])
        else:
            assert re.fullmatch(r"|#.*|(version|creator|cmd|positions|event|events): .*", line), (
                line
            )
    assert totals["totals"] == totals["summary"]
    assert totals["totals"][0] == sum(own.values())
    return own, calls, totals["totals"]


@every_case
def test_callgrind_costs_add_up(case):
    _, _, (samples, _) = callgrind_costs(rendered("callgrind", PROFILES[case]()))
    if case != "perf":
        assert samples == COUNTS[case]


def test_callgrind_folds_recursion():
    own, calls, total = callgrind_costs(rendered("callgrind", stacks_profile(), inline=False))
    assert own["work"] == 8
    assert calls["work", "work"] == 3
    assert calls["main", "work"] == 10
    assert calls["main", "read"] == calls["do_syscall_64", "vfs_read"] == 6
    assert total == (30, 30 * TICK_NS)


@pytest.mark.skipif(not shutil.which("callgrind_annotate"), reason="valgrind is not installed")
@pytest.mark.parametrize("case", ["stacks", "lines", "hostile", "random"])
def test_callgrind_annotate_reads_it(case, tmp_path):
    file = tmp_path / "callgrind.out"
    file.write_bytes(rendered("callgrind", PROFILES[case]()))
    ran = subprocess.run(
        ["callgrind_annotate", "--show-percs=no", "--auto=no", file],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stderr == ""
    assert re.search(rf"^ *{COUNTS[case]:,} .*PROGRAM TOTALS", ran.stdout, re.MULTILINE)


# firefox: docs-developer/CHANGELOG-formats.md and src/types/profile.ts, processed version 70


def table_rows(table):
    lengths = {len(column) for name, column in table.items() if isinstance(column, list)}
    assert lengths <= {table["length"]}
    return table["length"]


@every_case
def test_firefox_tables_refer_to_each_other(case):
    file = json.loads(rendered("firefox", PROFILES[case]()))
    assert file["meta"]["preprocessedProfileVersion"] == 70
    categories = len(file["meta"]["categories"])
    assert any(c["color"] == "grey" for c in file["meta"]["categories"])  # the default category
    shared = file["shared"]
    strings, frames = shared["stringArray"], shared["frameTable"]
    sizes = {name: table_rows(table) for name, table in shared.items() if name != "stringArray"}
    assert all(func < sizes["funcTable"] for func in frames["func"])
    assert all(-1 <= lib < len(file["libs"]) for lib in frames["lib"])
    assert all(category < categories for category in frames["category"])
    assert all(name < len(strings) for name in shared["funcTable"]["name"])
    for row, offset in enumerate(shared["stackTable"]["prefixOffset"]):
        assert 0 <= offset <= row
    for symbol in frames["nativeSymbol"]:
        assert symbol is None or symbol < sizes["nativeSymbols"]
    count = 0
    for thread in file["threads"]:
        samples = thread["samples"]
        table_rows(samples)
        assert samples["time"] == sorted(samples["time"])
        assert all(stack < sizes["stackTable"] for stack in samples["stack"])
        count += sum(samples["weight"] or [1] * samples["length"])
        table_rows(thread["markers"])
        assert all(name < len(strings) for name in thread["markers"]["name"])
    assert count == COUNTS[case]


def test_firefox_has_threads_categories_and_markers():
    file = json.loads(rendered("firefox", stacks_profile()))
    shared, strings = file["shared"], file["shared"]["stringArray"]
    threads = {(t["processName"], t["name"], t["pid"], t["tid"]): t for t in file["threads"]}
    assert set(threads) == {("swapper", "a b;c", "0", 0), ("work", "comm", "77", 77)}
    names = [strings[row] for row in shared["funcTable"]["name"]]
    category = dict(zip(names, shared["frameTable"]["category"], strict=True))
    assert (category["main"], category["vfs_read"], category["default_idle"]) == (0, 1, 2)
    markers = threads["work", "comm", "77", 77]["markers"]
    assert {strings[name] for name in markers["name"]} == {"system call: read"}
    stack = shared["stackTable"]
    found = Counter()
    for leaf in threads["work", "comm", "77", 77]["samples"]["stack"]:
        path, row = [], leaf
        while True:
            path.insert(0, names[stack["frame"][row]])
            if not stack["prefixOffset"][row]:
                break
            row -= stack["prefixOffset"][row]
        found[tuple(path)] += 1
    assert found["main", "work", "work", "work"] == 3
    assert found["main", "read", "do_syscall_64", "vfs_read"] == 6


def test_firefox_has_the_cpu_time_of_each_sample():
    file = json.loads(rendered("firefox", stacks_profile()))
    assert file["meta"]["sampleUnits"]["threadCPUDelta"] == "ns"
    for thread in file["threads"]:
        assert thread["samples"]["threadCPUDelta"] == [TICK_NS] * thread["samples"]["length"]
    events = (replace(stacks_profile().run.events[0], is_waiting=True),)
    waiting = stacks_profile()
    waiting = replace(waiting, run=replace(waiting.run, events=events))
    file = json.loads(rendered("firefox", waiting))
    assert all("threadCPUDelta" not in thread["samples"] for thread in file["threads"])


def test_firefox_has_the_line_of_each_frame():
    file = json.loads(rendered("firefox", stacks_profile(lines=True)))
    shared = file["shared"]
    names = [shared["stringArray"][row] for row in shared["funcTable"]["name"]]
    lines = defaultdict(set)
    for func, line in zip(shared["frameTable"]["func"], shared["frameTable"]["line"], strict=True):
        lines[names[func]].add(line)
    assert (lines["main"], lines["work"], lines["inlined<int>"]) == ({10}, {20}, {30})
    assert lines["vfs_read"] == {None}


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


# chrome: the Trace Event Format, "JSON Object Format", "Stack Traces", "Sampling"


@every_case
def test_chrome_samples_refer_to_stack_frames(case):
    file = json.loads(rendered("chrome", PROFILES[case]()))
    frames = file["stackFrames"]
    for frame in frames.values():
        assert {"category", "name"} <= set(frame) <= {"category", "name", "parent"}
        assert frame.get("parent", next(iter(frames))) in frames
    places = {(event["pid"], event["tid"]) for event in file["traceEvents"]}
    named = {(event["tid"], event["name"]) for event in file["traceEvents"]}
    assert all(event["ph"] == "M" for event in file["traceEvents"])
    for sample in file["samples"]:
        assert set(sample) == {"name", "cpu", "pid", "tid", "ts", "sf", "weight"}
        assert (sample["pid"], sample["tid"]) in places
        assert sample["sf"] in frames
        assert (sample["tid"], "thread_name") in named
        assert sample["ts"] >= 0
    if case != "perf":
        assert sum(sample["weight"] for sample in file["samples"]) == COUNTS[case]


def test_chrome_samples_stand_at_their_times():
    file = json.loads(rendered("chrome", stacks_profile()))
    times = [sample["ts"] for sample in file["samples"]]
    assert times == pytest.approx([(n + 1) * TICK_NS / 1e3 for n in range(30)])


# otlp: OpenTelemetry's profiles.proto, v1development


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
