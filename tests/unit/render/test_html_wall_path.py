"""The critical path on the page: what is drawn of it, how keys go along it, and how it is said."""

import numpy as np
import pytest

from builders.critical_paths import CHILD, MAIN, MS, OTHER, path_of, profile_of
from builders.pages import text_of, whole_report
from prospect.figures.stacks.stack_weights import stack_samples
from prospect.profile.model import PATH_BLOCKED, PATH_RAN, PATH_WAITED
from prospect.records import replace
from prospect.render.html import stacks as drawing
from prospect.render.html.cells import stack_names
from prospect.render.html.stacks import drawn_path

PIECES = [
    (PATH_RAN, MAIN, 100, -1),
    (PATH_RAN, MAIN, 100, -1),
    (PATH_WAITED, CHILD, 50, -1),
    (PATH_RAN, CHILD, 250, -1),
    (PATH_BLOCKED, OTHER, 100, 0),
    (PATH_RAN, MAIN, 400, -1),
]
SAMPLES = [(50, MAIN, "f"), (300, CHILD, "g"), (800, MAIN, "f"), (801, MAIN, "f")]


def profile(pieces=PIECES, samples=SAMPLES):
    found = profile_of(path_of(pieces), samples)
    return replace(found, run=replace(found.run, end_ns=found.run.begin_ns + 1000 * MS))


def drawn(found):
    return drawn_path(stack_names(stack_samples(found, "4")), found.wall)


def test_pieces_of_one_thread_in_one_state_are_one():
    found = drawn(profile())
    assert found.is_whole
    assert found.begin_ns.tolist() == [at * MS for at in (0, 200, 250, 500, 600)]
    assert found.state.tolist() == [PATH_RAN, PATH_WAITED, PATH_RAN, PATH_BLOCKED, PATH_RAN]
    assert found.end_ns == 1000 * MS
    main, child = found.thread[0], found.thread[1]
    # A thread without samples has no row on the page.
    assert found.thread.tolist() == [main, child, child, 2, main]
    assert {main, child} == {0, 1}


def test_a_long_path_is_that_of_moments(monkeypatch):
    monkeypatch.setattr(drawing, "MOST_PIECES", 10)
    turns = [(PATH_RAN, tid, ms, -1) for tid, ms in [(MAIN, 200), (CHILD, 300)] + [(OTHER, 1)] * 1]
    turns += [(PATH_RAN, (MAIN, CHILD)[at % 2], 1, -1) for at in range(499)]
    found = drawn(profile(turns))
    assert not found.is_whole
    assert len(found.begin_ns) <= 10
    assert found.begin_ns[:2].tolist() == [0, 200 * MS]
    assert (np.diff(found.begin_ns) > 0).all()


def test_a_profile_without_samples_has_a_page_all_the_same():
    assert drawn(profile(samples=())).thread.tolist() == [0] * 5
    assert b"</html>" in whole_report(profile(samples=()))


@pytest.fixture
def page(opened):
    """The page of a path over two threads and one without samples."""

    def open_it(width):
        browser = opened(profile(), width=width)
        browser.execute_script("byId('heat').focus()")
        return browser

    return open_it


def pressed(browser, keys):
    browser.find_element("id", "heat").send_keys(keys)
    return text_of(browser, "#time-text")


@pytest.mark.parametrize("width", [1440, 390])
def test_keys_go_along_the_path_over_the_rows_of_threads(page, width):
    browser = page(width)
    assert browser.execute_script("return view.lanes") == "thread"
    rows = browser.execute_script("return heat.lanes.map((row) => laneName(row.lane))")
    assert rows == [f"comm {MAIN}", f"comm {CHILD}"]
    assert pressed(browser, "n") == f"critical path: comm {MAIN} ran for 0.200000 s from 0.000 s on"
    assert pressed(browser, "nn").startswith(f"critical path: comm {CHILD} ran for 0.250000 s")
    assert "a thread without samples was blocked for 0.100000 s" in pressed(browser, "n")
    assert pressed(browser, "pp").startswith(f"critical path: comm {CHILD} waited for a CPU")
    label = browser.find_element("id", "heat").get_attribute("aria-label")
    assert "The critical path changes threads 3 times" in label
    overflow = "return document.documentElement.scrollWidth > document.documentElement.clientWidth"
    assert not browser.execute_script(overflow)


INK = "return heat.canvas.toDataURL()"


def test_the_path_is_drawn_and_can_be_left_out(page):
    browser = page(1440)
    with_path = browser.execute_script(INK)
    browser.find_element("id", "path-shown").click()
    without = browser.execute_script(INK)
    assert with_path != without
    assert pressed(browser, "n") == ""
    browser.find_element("id", "path-shown").click()
    assert browser.execute_script(INK) == with_path


def test_a_page_without_a_path_has_no_switch_for_it(opened):
    browser = opened(replace(profile(), wall=None))
    assert not browser.find_element("id", "path-label").is_displayed()
    assert browser.execute_script("return view.lanes") == "cpu"
