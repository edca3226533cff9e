"""Labels of samples: from marks of a program, from other packages, and from those that fail."""

from __future__ import annotations

import csv
import io

import pytest

from builders.perfdata import USUAL, FileBuilder, RecordBuilder
from prospect.abi import constants as abi
from prospect.abi.attr import EventAttr, EventDescription
from prospect.analysis.reading import read_profile
from prospect.errors import UsageError
from prospect.options import NamingOptions
from prospect.render.registry import make_renderer

# Two threads, a sample a millisecond each from 1 s on.
SAMPLES = [(tid, 10**9 + 10**6 * at) for at in range(10) for tid in (5, 6)]
MARKS = """1.0015 5 begin /slow
1.0035 5 begin query
1.0055 5 end
1.0075 5 end
1.0045 6 begin /fast
"""
FTRACE = """# tracer: nop
           web-5       [000] ..... 1.001500: tracing_mark_write: begin /slow
           web-5       (     5) [000] d..2.     1.003500: tracing_mark_write: begin query
        a b-c-5     [000] .....     1.005500: tracing_mark_write: end
           web-5       [001] .....     1.007500: tracing_mark_write: end
           web-6       [001] .....     1.004500: tracing_mark_write: begin /fast
"""
EXPECTED = {"(none)": 9, "/slow": 4, "query": 2, "/fast": 5}


@pytest.fixture
def run_data(tmp_path):
    records = RecordBuilder(USUAL)
    samples = [records.sample(pid=5, tid=tid, id=1, ip=0x1010, time=time) for tid, time in SAMPLES]
    attr = EventAttr(type=abi.PERF_TYPE_SOFTWARE, sample_type=USUAL, sample_period=10**6)
    path = tmp_path / "run.data"
    event = EventDescription(attr, (1,), "cpu-clock")
    path.write_bytes(FileBuilder([event], samples).file())
    return str(path)


def hits_by_label(run_data, label):
    out = io.BytesIO()
    profile = read_profile(run_data, NamingOptions(label=label))
    renderer = make_renderer("csv", detail="4", sort=("label",), user_threshold_s=0)
    renderer.render(profile, out)
    rows = csv.DictReader(io.StringIO(out.getvalue().decode()))
    return {row["label"]: int(row["samples"]) for row in rows}, profile


@pytest.mark.parametrize("text", [MARKS, FTRACE])
def test_marks_label_what_their_thread_does_until_they_end(run_data, tmp_path, text):
    marks = tmp_path / "marks"
    marks.write_text(text)
    found, profile = hits_by_label(run_data, f"marks:{marks}")
    assert found == EXPECTED
    assert int(profile.hits.count.sum()) == len(SAMPLES)


@pytest.mark.parametrize("text", ["", "nonsense\n", "1.0 5 begun x\n"])
def test_a_file_without_marks_is_said_and_costs_no_report(run_data, tmp_path, text):
    marks = tmp_path / "marks"
    marks.write_text(text)
    profile = read_profile(run_data, NamingOptions(label=f"marks:{marks}"))
    assert any("label source marks" in one and "no line" in one for one in profile.run.limits)
    assert int(profile.hits.count.sum()) == len(SAMPLES)


def test_a_source_of_another_package(run_data, install_plugin):
    install_plugin(
        "prospect.labels", "parity", "def run(samples, word): return [word], samples.tid % 2 - 1\n"
    )
    found, _ = hits_by_label(run_data, "parity:odd")
    assert found == {"(none)": 10, "odd": 10}


@pytest.mark.parametrize(
    "code", ["def run(samples, word): 1 / 0\n", "def run(samples, word): return ['a'], [0]\n"]
)
def test_one_that_fails_is_named_and_left_out(run_data, install_plugin, code):
    install_plugin("prospect.labels", "broken", code)
    profile = read_profile(run_data, NamingOptions(label="broken"))
    assert sum("label source broken, a plug-in of" in one for one in profile.run.limits) == 1
    assert profile.labels is None
    with pytest.raises(UsageError, match=r"label source broken, .*no labels"):
        make_renderer("csv", detail="4", sort=("label",)).render(profile, io.BytesIO())


def test_an_unknown_source_is_refused(run_data):
    with pytest.raises(UsageError, match="there are marks"):
        read_profile(run_data, NamingOptions(label="nonsense"))
