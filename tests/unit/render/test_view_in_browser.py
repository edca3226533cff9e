"""A served page in a real browser: what it asks for, when, and that names stay text.

Needs Chromium with its driver (Debian: chromium, chromium-driver) and selenium.
"""

import threading
from contextlib import contextmanager

import numpy as np
import pytest

from builders.annotated import (
    LOOP,
    LOOP_LINES,
    SOURCE,
    annotated_loop,
    code_table,
    hostile_code,
    sampled_loop,
)
from builders.pages import text_of
from builders.profile import hostile_profile
from builders.stacks import random_stacks_profile, stacks_profile
from prospect.assembly.code.code import code_of_report
from prospect.figures.stacks.stack_weights import stack_samples
from prospect.options import DisassemblerOptions
from prospect.records import replace
from prospect.render.html import HtmlRenderer
from prospect.render.html import cells as cells_module
from prospect.render.html.cells import event_parts, stack_names
from prospect.web.recording_answers import CodeFinder, serve_profile
from prospect.web.server import LoopbackServer
from prospect.web.site import Site

pytest.importorskip("selenium")

from selenium.webdriver import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

SIZE = {"width": 1280, "height": 900, "deviceScaleFactor": 1, "mobile": False}
TOKEN = "a-token"
CHOICE = code_of_report(DisassemblerOptions(gdb_processes=1))


class Code:
    """Stands for the files behind a profile, and remembers what was asked."""

    def __init__(self, code):
        self.code = code
        self.asked = []

    def describe(self, profile, choice):
        self.asked += choice.choose(profile).tolist()
        return self.code


@contextmanager
def served(profile, code=None):
    renderer = HtmlRenderer("4", 0.0, 0.0)
    site = Site(serve_profile(profile, renderer, CodeFinder(code, CHOICE)), TOKEN)
    with LoopbackServer(site, 0) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def opened(browser):
    """Serve a profile and open its page; no script may complain, nothing else may be asked."""

    @contextmanager
    def open_it(profile, code=None):
        with served(profile, code) as origin:
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", SIZE)
            browser.get(f"{origin}/{TOKEN}/")
            until(browser, "performance.getEntriesByName('opened').length > 0")
            yield browser
            assert browser.get_log("browser") == []
            assert {url.split("/")[2] for url in requested(browser)} == {origin.split("/")[2]}
            # While there is still somebody to answer what the page may ask for yet.
            browser.get("about:blank")

    return open_it


def requested(browser):
    """Return the addresses of all that the page has asked for, itself included."""
    return browser.execute_script(
        "return performance.getEntries().map((one) => one.name)"
        ".filter((name) => /^[a-z]+:/.test(name))"
    )


def until(browser, condition):
    WebDriverWait(browser, 30, 0.02).until(
        lambda found: found.execute_script(f"return {condition}")
    )


def select_an_eighth(browser):
    browser.execute_script(
        "const n = view.base.data.stretches / 8; refilter({ span: [n, 2 * n - 1] })"
    )


def test_without_the_token_there_is_nothing(browser):
    with served(stacks_profile()) as origin:
        for path in ("/", "/other/", "/data/report", f"/{TOKEN}"):
            browser.get(origin + path)
            assert "404" in text_of(browser, "body")
    browser.get("about:blank")
    browser.get_log("browser")


def test_the_page_is_the_one_of_the_file(opened):
    with opened(stacks_profile()) as browser:
        assert browser.execute_script("return view.sums.totalSamples[0]") == 30
        assert browser.execute_script("return document.scripts.length") == 1
        ActionChains(browser).send_keys("/", "vfs", Keys.ENTER).perform()
        steps = browser.find_elements(By.CSS_SELECTOR, "#path button")
        assert steps[-1].text == "vfs_read"
        assert text_of(browser, "#found").startswith("found in 20 %")
        # All that there is fits on the page: no part of it was asked for.
        assert not [url for url in requested(browser) if "/part?" in url]
        browser.refresh()
        until(browser, "performance.getEntriesByName('opened').length > 0")


def test_a_function_that_is_chosen_brings_its_code(opened):
    profile = annotated_loop()
    work = profile.functions.name.index("work")
    code = Code(code_table({work: LOOP}, LOOP_LINES, SOURCE))
    with opened(profile, code) as browser:
        assert code.asked == []
        rows = browser.find_elements(By.CSS_SELECTOR, "#panel tbody tr")
        next(row for row in rows if "work" in row.text).click()
        until(browser, "document.querySelector('#function .code table') !== null")
        text = text_of(browser, "#function .code")
        assert "imul   %edi,%eax" in text
        assert "return x * y;" in text
        assert "mix.h:9" in text
        assert code.asked == [work]
        # A selection fills the panel anew, but the code is here already.
        browser.execute_script("refilter({ scope: 'command' })")
        until(browser, "document.querySelector('#function .code table') !== null")
        assert code.asked == [work]


def test_instructions_follow_the_selection(opened):
    profile = sampled_loop()
    work = profile.functions.name.index("work")
    code = Code(code_table({work: LOOP}, LOOP_LINES, SOURCE))
    location = profile.hits.location_index.take(profile.samples.hit_index)
    in_work = profile.locations.function_index.take(location) == work
    address = profile.locations.address.take(location)
    times = (profile.samples.time_ns - profile.run.begin_ns).astype(np.int64)
    shown = """
    const table = document.querySelector("#function .code table");
    return Object.fromEntries([...table.tBodies[0].rows].map((row) =>
      [parseInt(row.cells[0].textContent, 16), row.cells[3].textContent]));
    """
    with opened(replace(profile, code=None), code) as browser:
        browser.execute_script("chooseFrame(view.block.labels.indexOf('work'))")
        until(browser, "document.querySelector('#function .code table') !== null")
        assert "the whole interval" in text_of(browser, "#function .code")
        select_an_eighth(browser)
        until(browser, "document.querySelector('#function .code table') !== null")
        assert "of the selection" in text_of(browser, "#function .code")
        assert "≈±" in text_of(browser, "#function .code")
        assert "mix.h:9" in text_of(browser, "#function .code")
        span = browser.execute_script("return spanTimes(view.filter.span)")
        in_span = (times >= span["begin_ns"]) & (times < span["end_ns"])
        counts = np.unique(address[in_work & in_span], return_counts=True)
        expected = dict(zip(*(column.tolist() for column in counts), strict=True))
        between = expected.pop(0x1007)  # at no instruction's first byte
        found = browser.execute_script(shown)
        assert {int(at): int(hits) for at, hits in found.items()} == expected
        assert f"{between} samples are between" in text_of(browser, "#function .code")
        browser.execute_script("refilter({ span: null, lane: { kind: 'cpu', row: 3 } })")
        until(browser, "document.querySelector('#function .code table') !== null")
        counts = np.unique(address[in_work & (profile.samples.cpu == 3)], return_counts=True)
        expected = dict(zip(*(column.tolist() for column in counts), strict=True))
        del expected[0x1007]
        found = browser.execute_script(shown)
        assert {int(at): int(hits) for at, hits in found.items()} == expected
        assert code.asked == [work]  # its file was read once


def test_code_that_cannot_be_had_says_why(opened):
    with opened(stacks_profile()) as browser:
        browser.execute_script("chooseFrame(view.block.labels.indexOf('work'))")
        until(browser, "document.querySelector('#function .code h3') !== null")
        assert "another tool's profile" in text_of(browser, "#function .code")


def test_hostile_code_and_names_are_inert(opened):
    inert = "img, iframe, a, object, main script"
    profile = hostile_code()
    with opened(profile, Code(profile.code)) as browser:
        browser.execute_script("chooseFrame(0)")
        until(browser, "document.querySelector('#function .code table') !== null")
        text = browser.execute_script("return document.body.innerText")
        assert not set(text) & {"\x1b", "\u202e", "\u2066", "\x07"}
        assert browser.find_elements(By.CSS_SELECTOR, inert) == []
    with opened(hostile_profile()) as browser:
        for tab in [
            one.get_attribute("id")
            for one in browser.find_elements(By.CSS_SELECTOR, "#tabs button")
        ]:
            browser.find_element(By.ID, tab).click()
            assert browser.find_elements(By.CSS_SELECTOR, inert) == []


@pytest.fixture
def few_rows(monkeypatch):
    """A page with room for few rows of the flame graph."""
    monkeypatch.setattr(cells_module, "_NODES", 400)


@pytest.mark.usefixtures("few_rows")
def test_a_selection_brings_its_own_stacks(opened):
    profile = random_stacks_profile(4000, 400, 12)
    with opened(profile) as browser:
        until(browser, "view.event !== view.base")  # the whole, once asked for
        select_an_eighth(browser)
        hits = browser.execute_script("return view.sums.totalSamples[0]")
        assert hits == 500
        until(browser, "view.event !== view.base && view.sums.totalSamples[0] === 500")
        browser.execute_script("refilter({ scope: 'process', process: 3 })")
        coarse = browser.execute_script("return view.sums.totalSamples[0]")
        until(browser, "view.event !== view.base && view.event.data.is_whole")
        assert browser.execute_script("return view.sums.totalSamples[0]") == coarse
        labels = browser.execute_script(
            "return [...view.event.frame].map((frame) => frameNames(view.block, frame).label)"
        )
        assert "(smaller ones together)" not in labels
        assert "approximate" in text_of(browser, "#panel")
        browser.find_element(By.ID, "selection-clear").click()
        assert browser.execute_script("return view.sums.totalSamples[0]") == 4000


@pytest.mark.usefixtures("few_rows")
def test_what_was_put_together_comes_apart_when_it_is_zoomed_to(opened):
    with opened(random_stacks_profile(4000, 400, 12)) as browser:
        find = """
        const { event, block } = view;
        for (let i = event.size - 1; i > 0; i--) {
          if (event.frame[i] === block.first_thread_frame - 1 && event.depth[i] > 4) {
            focusOn(i);
            return event.frame[event.parent[i]];
          }
        }"""
        caller = browser.execute_script(find)
        assert caller is not None
        until(browser, f"view.event.frame[view.focus] === {caller}")
        assert browser.execute_script("return view.event.end[view.focus] - view.focus") > 1
        assert browser.execute_script("return lacksStacks()") is False
        assert browser.execute_script("return view.sums.totalSamples[0]") == 4000


@pytest.mark.usefixtures("few_rows")
def test_the_search_finds_what_the_page_has_no_room_for(opened):
    profile = random_stacks_profile(4000, 400, 12)
    sampled = event_parts(stack_names(stack_samples(profile, "4")), 0).tree.frame_index
    with opened(profile) as browser:
        absent = browser.execute_script(
            "const met = new Set(view.event.frame);"
            "return arguments[0].find((frame) => !met.has(frame))",
            sampled.tolist(),
        )
        label = browser.execute_script(f"return view.block.labels[{absent}]")
        browser.find_element(By.ID, "search").send_keys(label)
        until(browser, f"[...view.event.frame].includes({absent})")
        assert not text_of(browser, "#found").startswith("found in 0 %")
        browser.find_element(By.ID, "search").send_keys(Keys.ENTER)
        # Whenever another part arrives the path is made anew.
        last = "[...document.querySelectorAll('#path button')].at(-1).textContent"
        until(browser, f"{last} === view.block.labels[{absent}]")


def test_a_stretch_of_time_can_be_looked_at_closer(opened):
    with opened(random_stacks_profile(16000, 100, 6)) as browser:
        heat = browser.find_element(By.ID, "heat")
        assert not browser.find_element(By.ID, "closer").is_displayed()
        drag = ActionChains(browser).move_to_element_with_offset(heat, 0, -8)
        drag.click_and_hold().move_by_offset(60, 0).release().perform()
        hits, times = browser.execute_script(
            "return [view.sums.totalSamples[0], spanTimes(view.filter.span)]"
        )
        assert 0 < hits < 4000
        browser.find_element(By.ID, "closer").click()
        until(browser, "isCloser()")
        data = browser.execute_script(
            "const { begin_ns, end_ns } = view.base.data; return [begin_ns, end_ns]"
        )
        assert data == [times["begin_ns"], times["end_ns"]]
        assert browser.execute_script("return view.sums.totalSamples[0]") == hits
        assert "s to" in text_of(browser, "#selection-text")
        assert "approximate" in text_of(browser, "#panel")
        select_an_eighth(browser)
        assert 0 < browser.execute_script("return view.sums.totalSamples[0]") < hits
        ActionChains(browser).send_keys(Keys.ESCAPE, Keys.ESCAPE).perform()
        assert browser.execute_script("return view.sums.totalSamples[0]") == 16000
        assert not browser.find_element(By.ID, "selection").is_displayed()


def test_a_server_that_has_gone_is_said(browser):
    with served(random_stacks_profile(4000, 40, 6)) as origin:
        browser.get(f"{origin}/{TOKEN}/")
        until(browser, "performance.getEntriesByName('opened').length > 0")
        browser.execute_script("refilter({ span: [2, 9] })")
    browser.find_element(By.ID, "closer").click()
    until(browser, "!document.getElementById('state').hidden")
    assert "does not answer any more" in text_of(browser, "#state")
    browser.get("about:blank")
    browser.get_log("browser")
