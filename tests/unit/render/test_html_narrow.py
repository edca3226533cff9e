"""Pages on a phone: nothing scrolls sideways, rows say what they are and how long, fingers do."""

import io

import numpy as np
import pytest

from builders.hostile_names import with_hostile_names
from builders.pages import whole_report
from builders.profile import qsort_profile
from builders.sources import CLOCK
from builders.stacks import random_stacks_profile, stacks_profile
from builders.switches import SWITCH, switched_profile
from prospect.estimate.compare.compared_sides import compare
from prospect.estimate.compare.comparison import CompareOptions
from prospect.records import replace
from prospect.render.diff_registry import diff_writer

pytest.importorskip("selenium")

from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select

PHONE = 390
NARROWEST = 320

# For each tab: how much wider than the window the page is, and each table than its place.
OVERFLOW = """
const wider = (element) => element.scrollWidth - element.clientWidth;
return [...document.querySelectorAll("#tabs button")].map((tab) => {
  byId(tab.id).click();
  const tables = [...document.querySelectorAll(".scroll")];
  return [tab.id, wider(document.documentElement), ...tables.map(wider)];
});
"""
# Two pictures later: what follows a new size has followed.
SETTLED = "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(done));"
# Of the rows of the table shown: top of its name and its time, and the texts of its cells.
ROWS = """
return [...document.querySelectorAll("#panel tbody tr")].map((row) => {
  const top = (selector) => row.querySelector(selector).getBoundingClientRect().top;
  const others = [...row.querySelectorAll("td:not(.name, .main)")]
    .filter((cell) => cell.dataset.title && cell.textContent);
  return {
    name: top("td.name"), main: top("td.main"),
    others: Math.min(...others.map((cell) => cell.getBoundingClientRect().top)),
    titles: others.map((cell) => getComputedStyle(cell, "::before").content),
    texts: [...row.cells].map((cell) => cell.innerText.trim()).filter(Boolean),
    bar: row.querySelector(".bar").getBoundingClientRect().width,
  };
});
"""


def diff_page_of(before, after):
    out = io.BytesIO()
    options = CompareOptions(stacks=True, scope="4", per="run")
    diff_writer("html")(compare([before], [after], options), out)
    return out.getvalue()


@pytest.fixture
def touched(open_page, browser):
    """Open a page on a phone that is touched."""

    def open_it(page, width=PHONE):
        touch(browser, enabled=True)
        return open_page(page, width=width)

    yield open_it
    touch(browser, enabled=False)


def touch(browser, *, enabled):
    points = {"maxTouchPoints": 1} if enabled else {}
    browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": enabled, **points})


def resize(browser, *, width, mobile):
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": mobile}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.execute_async_script(SETTLED)
    if mobile:  # a scroll bar takes no room there
        assert browser.execute_script("return document.documentElement.clientWidth") == width


def drag_finger(browser, element, *places):
    """Put a finger on an element, move it from place to place, and take it off."""
    browser.execute_script(
        "arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", element
    )
    box = browser.execute_script(
        "const box = arguments[0].getBoundingClientRect(); return [box.x, box.y]", element
    )
    kinds = ["touchStart", *["touchMove"] * (len(places) - 1), "touchEnd"]
    for kind, place in zip(kinds, [*places, None], strict=True):
        points = [{"x": box[0] + place[0], "y": box[1] + place[1]}] if place else []
        browser.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})


PAGES = {
    "report": lambda: whole_report(qsort_profile()),
    "waits": lambda: whole_report(switched_profile(CLOCK, SWITCH, stacks=True)),
    "hostile": lambda: whole_report(with_hostile_names(stacks_profile())),
    "diff": lambda: diff_page_of(
        with_hostile_names(stacks_profile()), with_hostile_names(qsort_profile())
    ),
}


@pytest.mark.parametrize("name", PAGES)
def test_nothing_is_wider_than_a_phone_on_any_tab(name, touched, browser):
    touched(PAGES[name]())
    for width in (PHONE, NARROWEST):
        resize(browser, width=width, mobile=True)
        browser.execute_script("if (view.event) chooseFrame(0)")
        tabs = browser.execute_script(OVERFLOW)
        assert len(tabs) >= 4
        for tab, *wider in tabs:
            assert max(wider) <= 0, (width, tab, wider)


def test_nothing_is_wider_than_a_window_of_any_width(open_page, browser):
    open_page(PAGES["report"]())
    for width in (1600, 1280, 1000, 800, 640):
        resize(browser, width=width, mobile=False)
        for tab, of_page, *_ in browser.execute_script(OVERFLOW):
            assert of_page <= 0, (width, tab)


def test_a_row_has_its_name_first_then_its_time_and_loses_no_figure(open_page, touched):
    page = whole_report(qsort_profile())
    wide = open_page(page, width=1280).execute_script(ROWS)
    narrow = touched(page).execute_script(ROWS)
    assert len(narrow) == len(wide) > 3
    assert [row["texts"] for row in narrow] == [row["texts"] for row in wide]
    for row in narrow:
        assert row["name"] < row["main"] < row["others"]
        assert '"Samples "' in row["titles"]
    # Bars of a table are compared: all have the same length for the same time.
    assert len({row["bar"] for row in wide}) == len({row["bar"] for row in narrow}) == 1


def test_a_finger_selects_a_stretch_of_time_and_a_row(touched):
    browser = touched(whole_report(random_stacks_profile(4000, 40, 6)))
    heat = browser.find_element(By.ID, "heat")
    drag_finger(browser, heat, (150, 10), (200, 12), (260, 12))
    first, last = browser.execute_script("return view.filter.span")
    assert last > first
    assert 0 < browser.execute_script("return view.sums.totalSamples[0]") < 4000
    assert browser.execute_script("return heat.lane") >= 24  # WCAG 2.2, 2.5.8
    drag_finger(browser, heat, (10, 5))
    assert browser.execute_script("return view.filter.lane") == {"kind": "cpu", "row": 0}


def test_a_tap_zooms_the_flame_graph_and_shows_the_function(touched):
    browser = touched(whole_report(stacks_profile()))
    assert browser.execute_script("return flame.rowHeight") >= 24
    drag_finger(browser, browser.find_element(By.ID, "flame-canvas"), (300, 2 * 26 + 12))
    steps = browser.find_elements(By.CSS_SELECTOR, "#path button")
    assert [step.text for step in steps][-1] == "main"
    assert browser.find_element(By.ID, "function").is_displayed()
    assert not browser.find_element(By.ID, "tip").is_displayed()


def test_all_cpus_of_a_large_machine_are_in_the_map(open_page):
    profile = random_stacks_profile(4000, 20, 6)
    cpu = np.arange(len(profile.samples)).astype(np.uint16) % 128
    tid = 1000 + np.arange(len(profile.samples)).astype(np.int32) % 60
    browser = open_page(
        whole_report(replace(profile, samples=replace(profile.samples, cpu=cpu, tid=tid)))
    )
    lanes, height = browser.execute_script("return [heat.lanes.length, heat.canvas.offsetHeight]")
    assert lanes == 128
    assert height < 1000
    Select(browser.find_element(By.ID, "lanes")).select_by_value("thread")
    threads = browser.execute_script("return sortedLanes().length")
    assert threads > 48
    assert f"the busiest 48 of {threads:,} threads" in browser.find_element(By.ID, "time-note").text


def test_hostile_names_of_all_kinds_stay_text(open_page):
    for name in ("hostile", "diff"):
        browser = open_page(PAGES[name]())
        browser.execute_script("chooseFrame(0); search('script')")
        for tab in browser.execute_script("return [...byId('tabs').children].map((one) => one.id)"):
            browser.execute_script("byId(arguments[0]).click()", tab)
            text = browser.execute_script("return document.body.innerText + document.title")
            assert not set(text) & {"\x1b", "\u202e", "\u2066", "\x07", "\r"}
            strange = "img, iframe, a, object, main script, main b b, [onmouseover], [onerror]"
            assert browser.find_elements(By.CSS_SELECTOR, strange) == []
        assert "<img src=x onerror=alert(1)>" in browser.execute_script(
            "return document.documentElement.textContent"
        )
        # However long a name is, other rows stay on the screen.
        heights = browser.execute_script(
            "byId('tab-functions').click();"
            "return [...document.querySelectorAll('#panel tbody tr, #answer li, #function h2')]"
            ".map((row) => row.offsetHeight)"
        )
        assert 0 < max(heights) < 400
