"""The formats of call stacks, each by the rules of the tool that reads it."""

import gzip
import itertools
import json
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from collections import Counter, defaultdict

import pytest

from builders.pprof_schema import pprof_profile
from builders.stack_formats import COUNTS, PROFILES, every_case, folded_stacks, rendered
from builders.stacks import TICK_NS, profile_of_stacks, random_stacks_profile, stacks_profile
from prospect.profile.model import KIND_JAVASCRIPT, KIND_PYTHON

# folded: "frame;frame COUNT", as flamegraph.pl and stackcollapse-perf.pl define it


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


@pytest.mark.parametrize(
    ("kind", "language"), [(KIND_PYTHON, "Python"), (KIND_JAVASCRIPT, "JavaScript")]
)
def test_functions_of_a_runtime_have_their_file_and_language(kind, language):
    stacks = [("loop@/bin/vm work@/srv/app", 3), ("loop@/bin/vm", 1)]
    profile = profile_of_stacks(stacks, [("/srv/app", kind)])
    frames = json.loads(rendered("speedscope", profile))["shared"]["frames"]
    assert {"name": "work", "file": "/srv/app"} in frames
    pprof = pprof_profile(gzip.decompress(rendered("pprof", profile)))
    text = pprof.string_table
    files = {text[one.name]: text[one.filename] for one in pprof.function}
    assert files == {"loop": "", "work": "/srv/app"}
    frames = json.loads(rendered("chrome", profile))["stackFrames"].values()
    assert {one["name"]: one["category"] for one in frames} == {"loop": "user", "work": language}
    assert b"cfi=(5) /srv/app\ncfn=(6) work\n" in rendered("callgrind", profile)
    shared = json.loads(rendered("firefox", profile))["shared"]
    functions, strings = shared["funcTable"], shared["stringArray"]
    names = [strings[row] for row in functions["name"]]
    files = [strings[row] for row in shared["sources"]["filename"]]
    assert functions["source"][names.index("loop")] is None
    assert files[functions["source"][names.index("work")]] == "/srv/app"
    assert functions["isJS"] == [name == "work" and language == "JavaScript" for name in names]
    # Green, as code that a JIT made.
    hues = {
        group.find(f"{SVG}title").text.partition(" ")[0]: int(
            re.match(r"hsl\((\d+)", group.find(f"{SVG}rect").get("fill"))[1]
        )
        for group in ET.fromstring(rendered("svg", profile)).iter(f"{SVG}g")
    }
    assert 96 <= hues["work"] <= 116
    assert hues["loop"] <= 24
