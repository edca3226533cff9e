"""Cells of a notebook: the report's figures, and HTML that every notebook shows."""

import html
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser

import numpy as np
import pytest

from builders.pages import report_of
from builders.profile import (
    empty_profile,
    hostile_profile,
    perf_profile,
    qsort_profile,
    rowless_profile,
)
from builders.profile_builder import ProfileBuilder, run_info
from builders.runs import run_of, simulated_run
from builders.sources import CLOCK
from builders.stacks import (
    lined_stacks_profile,
    random_stacks_profile,
    stacks_profile,
    with_stacks,
)
from builders.switches import SWITCH, switched_profile
from prospect.estimate.compare.compared_sides import compare
from prospect.estimate.compare.comparison import CompareOptions
from prospect.estimate.finished_report import Report
from prospect.figures.hit_keys import HitColumns
from prospect.profile.event_counts import Count, CountedEvent, CountedRun, EventCounts
from prospect.render.notebook import comparison_cell, counts_cell, hottest_functions, profile_cell

PROFILES = {
    made.__name__: made
    for made in (
        empty_profile,
        hostile_profile,
        perf_profile,
        qsort_profile,
        rowless_profile,
        stacks_profile,
        lined_stacks_profile,
    )
}
# What JupyterLab keeps in a notebook that it does not trust, as far as cells use it:
# packages/apputils/src/sanitizer.ts. A style with another value would be dropped.
TAGS = {"div", "p", "pre", "b", "br", "details", "summary", "ul", "li"}
TAGS |= {"table", "thead", "tbody", "tr", "th", "td"}
LENGTH = r"(0|\d+(\.\d+)?(px|%))"
COLOUR = r"(#[0-9a-f]{6}|rgba\(\d+,\d+,\d+,[\d.]+\))"
STYLES = {
    "background-color": COLOUR,
    "background-image": rf"linear-gradient\(to right, {COLOUR} {LENGTH}, {COLOUR} {LENGTH}\)",
    "border-right": rf"{LENGTH} solid {COLOUR}",
    "color": COLOUR,
    "float": "left",
    "font-family": "monospace",
    "font-size": LENGTH,
    "height": LENGTH,
    "line-height": LENGTH,
    "list-style-type": "none",
    "margin": rf"{LENGTH}( {LENGTH})?",
    "max-width": LENGTH,
    "overflow": "hidden|auto",
    "padding": rf"{LENGTH}( {LENGTH})?",
    "text-align": "left|right",
    "text-overflow": "ellipsis",
    "white-space": "nowrap",
    "width": LENGTH,
}


class Cell(HTMLParser):
    """A cell as read by a strict eye: which frames it has, and the texts of its table cells."""

    def __init__(self, text):
        super().__init__()
        self.open = []
        self.rows = []
        self.frames = []
        self.text = ""
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        assert tag in TAGS
        if tag != "br":
            self.open.append(tag)
        given = dict(attrs)
        assert set(given) <= {"style", "title", "open"}
        for style in filter(None, given.get("style", "").split(";")):
            name, value = style.split(":")
            assert re.fullmatch(STYLES[name], value)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag == "div" and "title" in given:
            width = re.search(r"width:([\d.]+)%", self.frame_style)
            self.frames.append((self.open.count("li"), float(width[1]), given["title"]))
        self.frame_style = given.get("style", "")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data
        if self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data


@pytest.mark.parametrize("case", PROFILES)
def test_a_cell_has_only_what_notebooks_keep(case):
    cell = Cell(profile_cell(PROFILES[case]()))
    # Nothing that a reader's terminal or line would act on.
    assert cell.text.replace("\N{FIGURE SPACE}", "").isprintable()


@pytest.mark.parametrize("case", PROFILES)
def test_a_cell_begins_with_the_first_screen_of_the_text_report(case):
    profile = PROFILES[case]()
    report = report_of(profile, "text", user_threshold_s=0.0, kernel_threshold_s=0.0)
    pre = profile_cell(profile).partition("<pre>")[2].partition("</pre>")[0]
    lines = html.unescape(pre).split("<br>")
    assert lines == report.decode().splitlines()[: len(lines)]


def test_rows_are_those_of_the_report():
    profile = simulated_run(np.random.default_rng(5), [0.9, 0.3, 0.2, 0.09])
    view = Report(profile, "3", 0.0, 0.0)
    hottest = hottest_functions(view)
    (event,) = view.events
    (estimates,) = (event.estimates for event in view.events)
    (process,) = event.detailed.tolist()
    bars = {}
    for mode in range(4):
        table = event.function_table(process, mode)
        known = estimates.function_rows(event, process, mode)
        for row, function in enumerate(table.function.tolist()):
            bars[function, mode] = (
                int(table.hits[row]),
                float(table.seconds[row]),
                float(known.half_width_s[row]),
            )
    columns = HitColumns(hottest.profile)
    keys = (columns.function.take(hottest.example), columns.mode.take(hottest.example))
    figures = (hottest.hits, hottest.seconds, hottest.half_width_s)
    found = zip(*(c.tolist() for c in (*keys, *figures)), strict=True)
    assert {(f, p): (hits, s, half) for f, p, hits, s, half in found} == bars
    assert len(bars) == 4
    assert hottest.total_hits == sum(hits for hits, _, _ in bars.values())
    assert np.isfinite(hottest.half_width_s).all()


def test_the_table_shows_what_was_computed():
    cell = Cell(profile_cell(qsort_profile()))
    assert cell.rows[0] == ["Pcnt", "Samples", "Secs", "±", "Mode", "Function", "Filename"]
    first = cell.rows[1]
    assert (first[1], *first[4:]) == ("145", "user", "my_compare", "/home/hp/bench/qsort")
    assert "[outside every symbol]" in cell.text


def test_an_event_without_time_has_hits_alone():
    profile = perf_profile()
    hits = profile.hits
    of_faults = np.flatnonzero(hits.event == 1)
    columns = {n: None if c is None else c[of_faults] for n, c in vars(hits).items()}
    cell = Cell(profile_cell(type(profile)(**{**vars(profile), "hits": type(hits)(**columns)})))
    assert cell.rows[0][:3] == ["Pcnt", "Samples", "Mode"]
    assert "20 samples of every process" in cell.text


def test_functions_that_are_left_out_are_counted():
    cell = Cell(profile_cell(hostile_profile()))
    shown = hottest_functions(Report(hostile_profile(), "3", 0.0, 0.0))
    assert (len(cell.rows), shown.left_out) == (16, 34)
    assert "… and 34 more functions" in cell.text


def test_frames_are_as_wide_as_their_share_of_their_caller():
    frames = Cell(profile_cell(stacks_profile())).frames
    assert [title for _, _, title in frames][:3] == [
        "all (0.082 s, 100.00 %)",
        "comm (0.082 s, 100.00 %)",
        "main (0.082 s, 100.00 %)",
    ]
    callers = []
    for depth, width, title in frames:
        share = float(re.search(r"([\d.]+) %\)$", title)[1])
        del callers[depth - 1 :]
        assert len(callers) == depth - 1
        assert width == pytest.approx(100 * share / (callers[-1] if callers else 100), abs=0.1)
        callers.append(share)


def test_a_large_profile_is_a_small_cell():
    text = profile_cell(random_stacks_profile(20_000, 20_000, 30))
    assert len(text.encode()) < 120_000
    assert re.search(r"Not shown: frames of less than 0\.\d %", text)


def test_long_names_are_cut():
    text = profile_cell(qsort_profile(command=("x" * 1_000_000,)))
    assert len(text) < 20_000


def test_a_deep_stack_ends_with_a_word():
    build = ProfileBuilder(run_info(command=("deep",)))
    process = build.process("deep", 7, is_command=True)
    program = build.object("/usr/bin/deep")
    path = [build.function(f"f{row}", program, 0x1000 * (row + 1)) for row in range(100)]
    cell = Cell(profile_cell(with_stacks(build, [(process, path)])))
    assert max(depth for depth, _, _ in cell.frames) == 40
    assert "and below 40 callers" in cell.text


def test_what_brings_callers_is_said():
    assert "stacks=True" in profile_cell(qsort_profile())
    assert "stacks=True" not in profile_cell(stacks_profile())
    assert "stacks=True" not in profile_cell(empty_profile())


def test_waits_are_in_the_flame_graph_and_not_in_the_table():
    cell = Cell(profile_cell(switched_profile(CLOCK, SWITCH, stacks=True)))
    assert "Flame graph of cpu-clock + blocked + runnable" in cell.text
    assert [row[1] for row in cell.rows] == ["Samples", "1"]


def test_a_comparison_shows_what_changed():
    sides = ([run_of({"f": 1000, "g": 500})], [run_of({"f": 1000, "g<b>": 1500, "g": 500})])
    cell = Cell(comparison_cell(compare(*sides, CompareOptions(fail_if="slower by 3% at 95%"))))
    assert cell.rows[0][1:3] == ["A", "B"]
    assert ["*", "0.00", "1.50"] in [row[:3] for row in cell.rows]
    assert "g<b>" in cell.text
    assert "slower by 3% at 95%: yes." in cell.text


def test_counts_are_a_table():
    counts = (Count(1_000_000_000, 1, 1), Count(5, 1, 1))
    run = CountedRun(2.0, counts, (), 0.5, 0.25, 0)
    events = (CountedEvent("task-clock", "ns"), CountedEvent("<i>"))
    cell = Cell(counts_cell(EventCounts("'make'", events, (run,), ("Not all.",))))
    assert cell.rows[1][:2] == ["1,000.000\N{FIGURE SPACE}ms", "task-clock"]
    assert cell.rows[2][1] == "<i>"
    assert "Counts of 'make'" in cell.text
    assert "Not all." in cell.text


MEASURE = """<script>
document.body.dataset.found = JSON.stringify([...document.querySelectorAll("div[title]")].map(
  (div) => [div.title, ...["left", "right", "top"].map((s) => div.getBoundingClientRect()[s])]));
</script>"""


@pytest.mark.skipif(not shutil.which("chromium"), reason="no chromium here")
def test_a_browser_lays_frames_out_below_their_callers(tmp_path):
    text = profile_cell(stacks_profile())
    (tmp_path / "cell.html").write_text(f"<meta charset=utf-8><body>{text}{MEASURE}")
    flags = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")
    page = subprocess.run(
        ["chromium", *flags, f"--user-data-dir={tmp_path}", "--dump-dom", tmp_path / "cell.html"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    body = re.search(r'<body data-found="([^"]*)"', page)[1].replace("&quot;", '"')
    placed = json.loads(body.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
    frames = Cell(text).frames
    whole = placed[0][2] - placed[0][1]
    callers = []
    for (depth, _, title), (shown, left, right, top) in zip(frames, placed, strict=True):
        share = float(re.search(r"([\d.]+) %\)$", title)[1])
        assert shown == title
        assert right - left == pytest.approx(whole * share / 100, abs=1)
        del callers[depth - 1 :]
        if callers:
            assert callers[-1][0] - 1 <= left <= right <= callers[-1][1] + 1
            assert top == pytest.approx(callers[-1][2] + 16, abs=1)
        callers.append((left, right, top))
