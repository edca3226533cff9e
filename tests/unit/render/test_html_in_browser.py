"""The page in a real browser: what it shows, what it does, and that names stay text.

Needs Chromium with its driver (Debian: chromium, chromium-driver) and selenium.
"""

import contextlib
import json

import numpy as np
import pytest

from builders.pages import cells_of, text_of, whole_report
from builders.profile import empty_profile, hostile_profile, qsort_profile
from builders.stacks import random_stacks_profile, stacks_profile
from prospect.records import replace
from prospect.render.text.style import percent, percent_digits

pytest.importorskip("selenium")

from selenium.webdriver import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys


def press(browser, *keys):
    ActionChains(browser).send_keys(*keys).perform()


def path_of(browser):
    return [step.text for step in browser.find_elements(By.CSS_SELECTOR, "#path button")]


def zoomed(browser):
    return path_of(browser)[-1]


def shown_part(browser):
    """What the line below the flame graph says of the row with the cursor."""
    return text_of(browser, "#flame-text")


def test_what_another_tool_counted_is_called_so(opened):
    profile = stacks_profile()
    event = replace(profile.run.events[0], name="delay", unit="nanoseconds", counts="contentions")
    browser = opened(replace(profile, run=replace(profile.run, events=(event,))))
    titles = [one.text for one in browser.find_elements(By.CSS_SELECTOR, "#panel thead th")]
    assert "Contentions" in titles
    assert "Samples" not in titles
    browser.execute_script("refilter({ span: [0, 1] })")
    assert text_of(browser, "#selection-text").endswith(" s of delay")
    assert "±" not in text_of(browser, "#panel")
    event = replace(
        event, name="space", unit="bytes", counts="", seconds_per_period=0.0, seconds_per_hit=0.0
    )
    browser = opened(replace(profile, run=replace(profile.run, events=(event,))))
    titles = [one.text for one in browser.find_elements(By.CSS_SELECTOR, "#panel thead th")]
    assert "Bytes" in titles
    browser.execute_script("refilter({ span: [0, 1] })")
    assert text_of(browser, "#selection-text").endswith(" bytes")


def test_the_figures_are_those_of_the_report(opened):
    profile = qsort_profile()
    browser = opened(profile)
    report = json.loads(whole_report(profile, "json"))
    expected = {
        (row["name"], mode, f"{process['name']} {process['pid']}"): row
        for process in report["events"][0]["details"]
        for mode, table in process["functions"].items()
        for row in table["rows"]
        if row["name"]
    }
    with contextlib.suppress(StopIteration):
        next(b for b in browser.find_elements(By.CSS_SELECTOR, ".more") if b.is_displayed()).click()
    found = {}
    for _, name, time, hits, mode, process, _, _ in cells_of(browser):
        found[name, mode, process.strip()] = (time, int(hits.replace(",", "")))
    assert expected.keys() <= found.keys()
    for key, row in expected.items():
        time, hits = found[key]
        assert hits == row["samples"]
        seconds = float(time.split(" ± ")[0])
        assert seconds == pytest.approx(
            row["seconds"], abs=max(row["half_width_s"] or 0.001, 0.001)
        )


def test_shares_have_the_digits_of_the_text_report(opened):
    profile = random_stacks_profile(40_000, 400, 6)
    tables = [
        table
        for process in json.loads(whole_report(profile, "json"))["events"][0]["details"]
        for table in process["functions"].values()
    ]
    expected = {
        (f"{row['samples']:,}", percent(row["share"], percent_digits(table["samples"])))
        for table in tables
        for row in table["rows"]
    }
    shares = {(cells[3], cells[6].replace(" %", "%")) for cells in cells_of(opened(profile))}
    assert shares
    assert shares <= expected
    assert max(table["samples"] for table in tables) >= 1000


def test_rows_that_cannot_be_told_apart_are_marked_and_bars_have_whiskers(opened):
    profile = qsort_profile()
    browser = opened(profile)
    report = json.loads(whole_report(profile, "json"))
    rows = [
        row
        for process in report["events"][0]["details"]
        for table in process["functions"].values()
        for row in table["rows"]
    ]
    marks = browser.find_elements(By.CSS_SELECTOR, "#panel abbr.like")
    assert len(marks) == min(sum(row["tied"] for row in rows), len(marks))
    assert bool(marks) == any(row["tied"] for row in rows)
    assert browser.find_elements(By.CSS_SELECTOR, "#panel .whisker")


def test_a_click_on_a_head_sorts_and_another_turns_round(opened):
    browser = opened(stacks_profile())

    def hits():
        return [int(row[3]) for row in cells_of(browser)]

    head = browser.find_element(By.XPATH, "//*[@id='panel']//th/button[text()='Samples']")
    head.click()
    assert hits() == sorted(hits(), reverse=True)
    head.click()
    assert hits() == sorted(hits())
    assert len(set(hits())) > 1


def test_keys_move_zoom_and_go_back(opened):
    browser = opened(stacks_profile())
    assert path_of(browser) == ["all samples"]
    press(browser, Keys.ARROW_DOWN)
    assert shown_part(browser).startswith("comm ·")
    press(browser, Keys.ARROW_LEFT)
    assert shown_part(browser).startswith("a b;c ·")
    press(browser, Keys.ARROW_RIGHT, Keys.ARROW_DOWN)
    assert shown_part(browser).startswith("main ·")
    press(browser, Keys.ENTER)
    assert path_of(browser) == ["all samples", "comm", "main"]
    assert text_of(browser, "#function h2").startswith("main")
    press(browser, Keys.ESCAPE)
    assert zoomed(browser) == "comm"
    press(browser, Keys.ESCAPE, Keys.ESCAPE)
    assert path_of(browser) == ["all samples"]
    assert not browser.find_element(By.ID, "function").is_displayed()
    press(browser, "?")
    assert browser.find_element(By.ID, "help").is_displayed()
    press(browser, Keys.ESCAPE)
    assert not browser.find_element(By.ID, "help").is_displayed()


def test_a_click_in_the_flame_graph_zooms_and_shows_callers_and_callees(opened):
    browser = opened(stacks_profile())
    canvas = browser.find_element(By.ID, "flame-canvas")
    # All samples, threads, main of the wider thread: the third row, to the right.
    right, third_row = canvas.size["width"] // 3, 50 - canvas.size["height"] // 2
    ActionChains(browser).move_to_element_with_offset(canvas, right, third_row).click().perform()
    assert zoomed(browser) == "main"
    calls = browser.find_elements(By.CSS_SELECTOR, "#function .pair table")
    called_by, callees = (
        {
            row.find_elements(By.TAG_NAME, "td")[0].text: row.text
            for row in table.find_elements(By.CSS_SELECTOR, "tbody tr")
        }
        for table in calls
    )
    assert list(called_by) == ["comm"]
    assert set(callees) == {"work", "read", "jitted", "[libc.so.6]"}
    assert callees["work"].endswith(" 10")
    assert callees["read"].endswith(" 6")


def test_the_search_finds_marks_and_goes_to_the_widest(opened):
    browser = opened(stacks_profile())
    press(browser, "/")
    press(browser, "WORK")
    assert text_of(browser, "#found").startswith("found in 70 %")  # 21 of 30 are in /usr/bin/work
    press(browser, Keys.ENTER)
    assert zoomed(browser) == "main"
    press(browser, "/")
    press(browser, "vfs", Keys.ENTER)
    assert zoomed(browser) == "vfs_read"
    assert text_of(browser, "#found").startswith("found in 20 %")


def test_a_stretch_of_time_is_followed_by_pictures_and_tables(opened):
    profile = random_stacks_profile(4000, 40, 6)
    browser = opened(profile)
    assert "4,000" in browser.execute_script("return countText(view.sums.totalSamples[0])")
    heat = browser.find_element(By.ID, "heat")
    drag = ActionChains(browser).move_to_element_with_offset(heat, 0, -8)
    drag.click_and_hold().move_by_offset(150, 0).release().perform()
    assert browser.find_element(By.ID, "selection").is_displayed()
    first, last = browser.execute_script("return view.filter.span")
    each = 4000 / browser.execute_script("return view.event.data.stretches")
    selected = browser.execute_script("return view.sums.totalSamples[0]")
    assert abs(selected - each * (last - first + 1)) <= 2
    hits = [int(row[4].replace(",", "")) for row in cells_of(browser)]
    assert 0 < sum(hits) <= selected
    assert "approximate" in text_of(browser, "#panel")
    browser.find_element(By.ID, "selection-clear").click()
    assert browser.execute_script("return view.sums.totalSamples[0]") == 4000
    assert not browser.find_element(By.ID, "selection").is_displayed()


def test_a_lane_and_a_process_can_be_chosen(opened):
    browser = opened(random_stacks_profile(4000, 40, 6))
    heat = browser.find_element(By.ID, "heat")
    on_name = 10 - heat.size["width"] // 2
    ActionChains(browser).move_to_element_with_offset(
        heat, on_name, 8 - heat.size["height"] // 2
    ).click().perform()
    assert "CPU 0" in text_of(browser, "#selection-text")
    assert 800 < browser.execute_script("return view.sums.totalSamples[0]") < 1200
    press(browser, Keys.ESCAPE)
    browser.find_element(By.ID, "tab-processes").click()
    row = browser.find_elements(By.CSS_SELECTOR, "#panel tbody tr")[0]
    name = row.find_elements(By.TAG_NAME, "td")[0].text
    row.click()
    assert name in text_of(browser, "#selection-text")
    hits = browser.execute_script("return view.sums.totalSamples[0]")
    assert 0 < hits < 1000


def choose_scope(browser, scope):
    browser.find_element(By.CSS_SELECTOR, f"#scope [value={scope}]").click()


def with_a_waiting_command(profile, row=2):
    """Let bash, which has few hits, be the command, and all others its descendants."""
    processes = profile.processes
    command = np.arange(len(processes)) == row
    everyone = np.ones(len(processes), bool)
    return replace(
        profile, processes=replace(processes, is_command=command, is_descendant=everyone)
    )


def test_what_the_report_does_not_detail_is_counted_on_the_page(opened):
    browser = opened(with_a_waiting_command(qsort_profile()), detail="2")
    assert browser.execute_script("return view.filter.scope") == "command"
    assert "text report's figures" in text_of(browser, "#panel")
    choose_scope(browser, "all")
    assert "text report's figures" not in text_of(browser, "#panel")
    listed = browser.execute_script("return currentFunctions().map((row) => row.samples)")
    assert sum(listed) == browser.execute_script("return view.sums.totalSamples[0]") > 0
    browser.find_element(By.ID, "tab-processes").click()
    assert "text report's figures" in text_of(browser, "#panel")


def test_a_command_without_samples_begins_with_what_it_started(opened):
    profile = qsort_profile()
    idle = len(profile.processes) - 2
    assert idle not in profile.hits.process_index
    browser = opened(with_a_waiting_command(profile, idle), detail="2")
    assert browser.execute_script("return view.filter.scope") == "descendants"
    assert browser.find_element(By.ID, "scope").get_attribute("value") == "descendants"


def test_hostile_names_are_inert_and_shown_as_text(opened):
    browser = opened(hostile_profile())
    assert browser.execute_script("return document.scripts.length") == 1
    assert browser.find_elements(By.CSS_SELECTOR, "img, iframe, a, object, main script") == []
    tabs = browser.find_elements(By.CSS_SELECTOR, "#tabs button")
    for name in [tab.get_attribute("id") for tab in tabs]:
        browser.find_element(By.ID, name).click()
        text = browser.execute_script("return document.body.innerText + document.title")
        assert not set(text) & {"\x1b", "\u202e", "\u2066", "\x07"}
    assert browser.find_elements(By.CSS_SELECTOR, "img, iframe, a, object, main script") == []


def test_a_page_without_samples_says_so(opened):
    browser = opened(empty_profile())
    assert text_of(browser, "#state").startswith("No samples in ")
    assert "-H" in text_of(browser, "#state")
    assert "Statistics" in text_of(browser, "main")
    controls = browser.find_elements(By.CSS_SELECTOR, "header select, header input")
    assert not any(control.is_displayed() for control in controls)
