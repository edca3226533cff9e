"""Every figure of every table of the page is the report's, at each level of detail."""

import io
import json
import re

import numpy as np
import pytest

from builders.critical_paths import MAIN
from builders.profile import empty_profile, hostile_profile, interrupted_profile, qsort_profile
from builders.sources import CLOCK
from builders.stacks import stacks_profile
from builders.switches import SWITCH, switched_profile
from builders.turns import REQUEST, profile_with_turns, turns_of
from prospect.figures.report.waiting import LockHolder
from prospect.profile.model import PATH_RAN
from prospect.records import replace
from prospect.render.registry import make_renderer

pytest.importorskip("selenium")

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

PROFILES = {"qsort": qsort_profile, "stacks": stacks_profile}
MODES = ("user", "kernel", "interrupt", "other")
TABLE = """
for (const more of document.querySelectorAll("#panel .more:not([hidden])")) more.click();
return [...document.querySelectorAll("#panel table")].map((table) => {
  const cells = (row) => [...row.children].map((cell) =>
    (cell.querySelector(".figure") || cell).textContent.trim());
  const heads = cells(table.tHead.rows[0]);
  return [...table.tBodies[0].rows].map((row) =>
    Object.fromEntries(cells(row).map((cell, i) => [heads[i], cell])));
});
"""


def rendered(profile, name, detail, **options):
    out = io.BytesIO()
    settings = {"detail": detail, "user_threshold_s": 0.01, "kernel_threshold_s": 0.0, **options}
    make_renderer(name, **settings).render(profile, out)
    return out.getvalue()


def tables_of(browser, tab):
    browser.find_element(By.ID, f"tab-{tab}").click()
    return browser.execute_script(TABLE)


def is_rounded(text, value):
    """Whether a number is what its text says, to the last of its digits."""
    number = text.replace(",", "")
    digits = len(number.partition(".")[2])
    return abs(float(number) - value) <= 0.5 * 10.0**-digits * (1 + 1e-9)


def is_time(text, seconds, half):
    """Whether "1.23 ± 0.04" is a time with its error bar."""
    figure, _, bar = text.partition(" ± ")
    if bar:
        return is_rounded(figure, seconds) and is_rounded(bar, half)
    return is_rounded(figure, seconds) and (half is None or seconds == 0)


def is_share(text, share):
    return is_rounded(text.removesuffix(" %"), 100 * share)


def check(found, expected, time="Time (s)"):
    """Compare rows that have the report's fields with those of a table, in any order."""
    assert found.keys() == expected.keys()
    for key, row in expected.items():
        assert is_time(found[key][time], row["seconds"], row["half_width_s"]), (found[key], row)
        assert int(found[key]["Samples"].replace(",", "")) == row["samples"]
        if "share" in row:
            share = found[key].get("Share", found[key].get("Share there"))
            assert is_share(share, row["share"])


@pytest.fixture(params=[(name, detail) for name in PROFILES for detail in ("2", "3", "4")])
def page(request, open_page):
    name, detail = request.param
    profile = PROFILES[name]()
    totals = {"calls": ("totals",)} if profile.stacks is not None else {}
    report = json.loads(rendered(profile, "json", detail, **totals))
    return open_page(rendered(profile, "html", detail)), report


def labelled(row):
    return row["name"] or f"[{re.sub(r'^.*/', '', row['object']).strip('[]')}]"


def test_the_tables_are_the_reports(page):
    browser, report = page
    event = report["events"][0]
    (functions,) = tables_of(browser, "functions")
    check(
        {(row["Function"], row["In"], row["Process"], row["Object"]): row for row in functions},
        {
            (labelled(row), mode, f"{process['name']} {process['pid']}", row["object"]): row
            for process in event["details"]
            for mode, table in process["functions"].items()
            for row in table["rows"]
        },
        "Self (s)",
    )
    (processes,) = tables_of(browser, "processes")
    found = {(row["Process"], row["PID"]): row for row in processes}
    shown = [row for row in event["processes"] if (row["name"], str(row["pid"])) in found]
    assert len(shown) == len(found) > 0
    for row in shown:
        cells = found[row["name"], str(row["pid"])]
        for title, mode in (("User", "user"), ("Kernel", "kernel"), ("Interrupt", "interrupt")):
            part = row[mode]
            assert is_time(cells[f"{title} (s)"], part["seconds"], part["half_width_s"])
        assert int(cells["Samples"]) == sum(row[mode]["samples"] for mode in MODES)


def test_services_are_a_column_where_there_are_several(opened):
    profile = qsort_profile()
    groups = [
        f"/system.slice/{name}.service" if name == "qsort" else ""
        for name in profile.processes.name
    ]
    browser = opened(replace(profile, processes=replace(profile.processes, control_group=groups)))
    (processes,) = tables_of(browser, "processes")
    services = {row["Process"]: row["Service"] for row in processes}
    assert services.pop("qsort") == "qsort.service"
    assert set(services.values()) == {""}


def test_events_of_one_name_are_told_apart(open_page):
    profile = stacks_profile()
    event = np.arange(len(profile.hits)) % 2
    twice = replace(
        profile,
        run=replace(profile.run, events=profile.run.events[:1] * 2),
        hits=replace(profile.hits, event=event.astype(np.uint16)),
    )
    reported = json.loads(rendered(twice, "json", "4", calls=("totals",)))
    second, calls = reported["events"][1], reported["calls"][1]
    browser = open_page(rendered(twice, "html", "4"))
    browser.execute_script("showEvent(1)")
    (functions,) = tables_of(browser, "functions")
    expected = [
        row["samples"]
        for process in second["details"]
        for table in process["functions"].values()
        for row in table["rows"]
    ]
    assert sorted(int(row["Samples"]) for row in functions) == sorted(expected)
    (totals,) = tables_of(browser, "totals")
    assert [int(row["Samples"]) for row in totals] == [
        row["total_samples"] for row in calls["functions"]
    ]
    assert second != reported["events"][0]


def test_kernel_entry_reasons_system_calls_and_totals_are_the_reports(page):
    browser, report = page
    event = report["events"][0]
    if report["options"]["detail"] == "4":
        entry_reasons = {
            ("", row["name"] or row["kind"]): row
            for row in (event["kernel_entry_reasons"] or {}).get("rows", [])
        }
    else:
        entry_reasons = {
            (f"{process['name']} {process['pid']}", row["name"] or row["kind"]): row
            for process in event["details"]
            for row in (process["kernel_entry_reasons"] or {"rows": []})["rows"]
        }
    tables = tables_of(browser, "entry_reasons")
    found = {
        (row.get("Process", ""), row["Entry reason"]): row for table in tables for row in table
    }
    check(found, entry_reasons)
    if event["system_calls"]:
        (calls,) = tables_of(browser, "calls")
        check(
            {row["System call"]: row for row in calls},
            {row["name"]: row for row in event["system_calls"]},
            "CPU (s)",
        )
    if report.get("calls"):
        (totals,) = tables_of(browser, "totals")
        expected = report["calls"][0]["functions"]
        assert [row["Function"] for row in totals] == [row["name"] for row in expected]
        for cells, row in zip(totals, expected, strict=True):
            assert is_time(cells["Total (s)"], row["total_s"], row["total_half_width_s"])
            assert is_time(cells["Self (s)"], row["self_s"], row["self_half_width_s"])
            assert int(cells["Samples"]) == row["total_samples"]


def test_the_facts_are_the_reports(page):
    browser, report = page
    tables = tables_of(browser, "facts")
    sources = report["events"][0]["symbol_quality"]["sources"]
    names = [row for table in tables for row in table if "Remedy" in row]
    assert [row["Source"] for row in names] == [row["label"] for row in sources]
    for cells, row in zip(names, sources, strict=True):
        assert int(cells["Samples"].replace(",", "")) == row["samples"]
        assert is_share(cells["Share"], row["share"])
    text = browser.find_element(By.ID, "panel").text
    for name, value in report["statistics"].items():
        assert f"{name.replace('_', ' ')}\n{value:,.10g}" in text
    for note in report["notes"]:
        assert note in text


def test_the_times_of_threads_and_waits_are_the_reports(open_page):
    profile = switched_profile(CLOCK, SWITCH, stacks=True)
    waiting = json.loads(rendered(profile, "json", "4"))["waiting"]
    browser = open_page(rendered(profile, "html", "4"))
    blockers, threads, stacks = tables_of(browser, "waiting")
    for found, expected, columns in (
        (blockers, waiting["blockers"], {"Blocked (s)": "seconds", "Longest (s)": "longest_s"}),
        (stacks, waiting["stacks"], {"Blocked (s)": "seconds", "Longest (s)": "longest_s"}),
        (
            threads,
            waiting["threads"],
            {
                f"{title} (s)": f"{title.replace(' ', '_').lower()}_s"
                for title in ("Life", "On CPU", "Blocked", "Runnable", "Longest", "User", "System")
            },
        ),
    ):
        assert len(found) == len(expected) > 0
        for cells, row in zip(found, expected, strict=True):
            assert int(cells["Waits"]) == row["waits"]
            for title, name in columns.items():
                value = row[name.removeprefix("on_")]
                assert cells[title] == "-" if value is None else is_rounded(cells[title], value)
    assert [row["What"] for row in blockers] == [row["name"] for row in waiting["blockers"]]


def test_the_holders_of_locks_are_the_reports(open_page, monkeypatch):
    holder = LockHolder("a mutex", "work", "", 0.25)
    holders = "prospect.figures.report.waiting.BlockedWaits.holders"
    monkeypatch.setattr(holders, lambda *_: (holder,))
    page = rendered(switched_profile(CLOCK, SWITCH, stacks=True), "html", "4")
    _, found, *_ = tables_of(open_page(page), "waiting")
    assert found == [
        {"Function": "work", "Called by": "-", "Lock": "a mutex", "Others waited (s)": "0.250000"}
    ]


@pytest.mark.parametrize("detail", ["2", "4", "k"])
def test_in_short_is_the_first_screen_of_the_text_report(open_page, detail):
    for profile in (qsort_profile(), interrupted_profile(), empty_profile(), hostile_profile()):
        text = rendered(profile, "text", detail).decode().splitlines()
        lines = json.loads(rendered(profile, "json", detail))["summary"]["lines"]
        assert lines == text[: len(lines)]
        browser = open_page(rendered(profile, "html", detail))
        (shown,) = browser.find_elements(By.CSS_SELECTOR, "#answer pre")
        assert shown.get_attribute("textContent").splitlines() == lines


def test_of_a_selection_the_page_says_what_in_short_is_of(open_page):
    browser = open_page(rendered(stacks_profile(), "html", "4"))
    answer = browser.find_element(By.ID, "answer")
    before = answer.find_element(By.TAG_NAME, "pre").text
    assert "Of the whole recording" not in answer.text
    browser.execute_script("refilter({ span: [0, view.base.data.stretches - 1] })")
    assert "Of the whole recording" in answer.text
    assert answer.find_element(By.TAG_NAME, "pre").text == before


def test_turns_and_the_pieces_of_the_slowest_are_the_reports(open_page):
    longer = [(PATH_RAN, MAIN, 100, -1)]
    turns = turns_of([REQUEST] * 6 + [longer], ("view", "report"), [0] * 6 + [1])
    profile = profile_with_turns(turns, [(2, MAIN, "f"), (3, MAIN, "f")])
    report = json.loads(rendered(profile, "json", "3"))["turns"]
    browser = open_page(rendered(profile, "html", "3"))
    kinds, slowest, parts = tables_of(browser, "turns")
    for cells, row in zip(kinds, report["kinds"], strict=True):
        assert cells["Kind"] == row["kind"]
        assert int(cells["Turns"]) == row["turns"]
        assert is_rounded(cells["Median (ms)"], row["median"]["value"] * 1000)
        assert is_rounded(cells["Longest (ms)"], row["longest_s"] * 1000)
    assert [cells["Length (ms)"] for cells in slowest] == ["100.000"] + ["25.000"] * 6
    rows = [(kind, row) for kind in report["kinds"] for row in kind["rows"]]
    for cells, (kind, row) in zip(parts, rows, strict=True):
        assert is_rounded(cells["A turn (ms)"], row["seconds"] / kind["turns"] * 1000)
    bars = browser.find_elements(By.CSS_SELECTOR, "#panel .slices.turn")
    assert [len(bar.find_elements(By.TAG_NAME, "i")) for bar in bars] == [1] + [len(REQUEST)] * 6
    # By the keyboard: the second turn's pieces.
    table = browser.find_elements(By.CSS_SELECTOR, "#panel table")[1]
    table.find_element(By.CSS_SELECTOR, "tbody tr").send_keys(Keys.ARROW_DOWN)
    browser.switch_to.active_element.send_keys(Keys.ENTER)
    pieces = browser.execute_script(TABLE)[2]
    assert [cells["Length (ms)"] for cells in pieces] == [f"{one[2]}.000" for one in REQUEST]
    assert [cells["Thread"] for cells in pieces[2:4]] == ["other process"] * 2
