"""The instructions on the page, in a real browser.

Needs Chromium with its driver (Debian: chromium, chromium-driver) and selenium.
"""

import json

import numpy as np
import pytest

from builders.annotated import LOOP, annotated_loop, hostile_code, sampled_loop
from builders.pages import cells_of, text_of, whole_report
from prospect.render.html import instructions as instructions_module

pytest.importorskip("selenium")
from selenium.webdriver import ActionChains
from selenium.webdriver.common.by import By


def test_instructions_stand_with_their_source(opened):
    browser = opened(annotated_loop(), disassemble=1)
    browser.find_element(By.ID, "tab-code").click()
    rows = {row[0]: row for row in cells_of(browser)}
    report = json.loads(whole_report(annotated_loop(), "json", disassemble=1))
    tables = (t for p in report["events"][0]["details"] for t in p["functions"].values())
    table = next(table for table in tables if table["disassembly"])
    expected = table["disassembly"][0]["instructions"]
    assert [rows[f"{row['address']:x}"][3] for row in expected] == [
        str(row["samples"]) for row in expected
    ]
    assert rows["1002"][4] == "imul   %edi,%eax"
    assert "mix.h:9" in rows["1002"][-1]
    assert "return x * y;" in rows["1002"][-1]


def listed_code(browser, selector="#panel"):
    """Return hits, times and shares of the instructions that are listed, by address."""
    script = """
    return [...document.querySelectorAll(arguments[0] + " table")].flatMap((table) => {
      if (!table.caption.textContent.startsWith("Instructions of")) return [];
      const text = (cell) => (cell.querySelector(".figure") || cell).textContent;
      const heads = [...table.tHead.rows[0].cells].map(text);
      return [...table.tBodies[0].rows].map((row) =>
        Object.fromEntries([...row.cells].map((cell, i) => [heads[i], text(cell)])));
    });
    """
    rows = browser.execute_script(script, selector)
    return {int(row["Address"], 16): row for row in rows}


def expected_code(profile, name, chosen):
    """Count chosen samples of a function in numpy: hits by address, and the period of each."""
    location = profile.hits.location_index.take(profile.samples.hit_index)
    function = profile.functions.name.index(name)
    chosen = chosen & (profile.locations.function_index.take(location) == function)
    address, place = np.unique(profile.locations.address[location[chosen]], return_inverse=True)
    period = np.bincount(place, profile.samples.period[chosen])
    hits = np.bincount(place)
    return {
        one: (count, seconds)
        for one, count, seconds in zip(
            address.tolist(),
            hits.tolist(),
            (period * profile.run.events[0].seconds_per_period).tolist(),
            strict=True,
        )
    }


def check_code(rows, expected, instructions):
    """Compare listed instructions with counted ones; what is between instructions is no row."""
    all_s = sum(seconds for _, seconds in expected.values())
    known = {address: row for address, row in expected.items() if address in instructions}
    assert {address: int(row["Samples"].replace(",", "")) for address, row in rows.items()} == {
        address: hits for address, (hits, _) in known.items()
    }
    for address, (hits, seconds) in known.items():
        figure, bar = rows[address]["Time (s)"].split(" ≈± ")
        half = 1.96 * seconds / hits**0.5
        assert float(figure) == pytest.approx(seconds, abs=0.6 * 10.0 ** -len(figure.split(".")[1]))
        assert float(bar) == pytest.approx(half, abs=0.6 * 10.0 ** -len(bar.split(".")[1]))
        share = float(rows[address]["Share"].removesuffix(" %"))
        assert share == pytest.approx(100 * seconds / all_s, abs=0.51)
    hottest = max(known.items(), key=lambda item: item[1][0])[0]
    assert [at for at, row in rows.items() if row[""] == "hottest"] == [hottest]


def test_instructions_follow_a_selection_of_time_cpu_thread_and_process(opened):
    profile = sampled_loop(period=True)
    instructions = [row[0] for row in LOOP]
    browser = opened(profile, disassemble=2)
    browser.find_element(By.ID, "tab-code").click()
    assert "text report's figures" in text_of(browser, "#panel")
    times = (profile.samples.time_ns - profile.run.begin_ns).astype(np.int64)
    process = profile.hits.process_index.take(profile.samples.hit_index)

    heat = browser.find_element(By.ID, "heat")
    drag = ActionChains(browser).move_to_element_with_offset(heat, 0, -8)
    drag.click_and_hold().move_by_offset(150, 0).release().perform()
    span = browser.execute_script("return spanTimes(view.filter.span)")
    in_span = (times >= span["begin_ns"]) & (times < span["end_ns"])
    assert 100 < np.count_nonzero(in_span) < 3000
    assert "counted on this page" in text_of(browser, "#panel")
    expected = expected_code(profile, "work", in_span)
    check_code(listed_code(browser), expected, instructions)
    between = sum(hits for at, (hits, _) in expected.items() if at not in instructions)
    assert f"{between} samples are between" in text_of(browser, "#panel")
    # The other half of the time has another hottest instruction.
    earlier = expected_code(profile, "work", times < span["begin_ns"])
    assert max(earlier, key=earlier.get) != max(expected, key=expected.get)

    browser.execute_script("chooseFrame(view.block.labels.indexOf('work'))")
    check_code(listed_code(browser, "#function"), expected, instructions)
    for change, chosen in (
        ("span: null, lane: { kind: 'cpu', row: 2 }", profile.samples.cpu == 2),
        ("lane: { kind: 'thread', row: 4 }", profile.samples.tid == 101),
        ("lane: null, scope: 'command'", process == 0),
        ("scope: 'process', process: 1, span: [0, 9]", (process == 1) & (times < 10**10 // 128)),
    ):
        browser.execute_script(f"refilter({{ {change} }})")
        is_whole = "command" in change  # then they are the report's own
        assert browser.execute_script("return isDetailed()") == is_whole
        if not is_whole:
            expected = expected_code(profile, "work", chosen)
            check_code(listed_code(browser, "#function"), expected, instructions)
    assert browser.find_elements(By.CSS_SELECTOR, "#panel details")


def test_functions_that_a_page_has_no_room_for_say_so(opened, monkeypatch):
    monkeypatch.setattr(instructions_module, "_MOST_CELLS", 10)
    browser = opened(sampled_loop(), disassemble=2)
    browser.find_element(By.ID, "tab-code").click()
    assert listed_code(browser)
    browser.execute_script("refilter({ span: [0, 9] })")
    assert listed_code(browser) == {}
    for title in browser.find_elements(By.CSS_SELECTOR, "#panel summary")[:2]:
        title.click()
    assert "has no room" in text_of(browser, "#panel")


def test_hostile_code_is_inert(opened):
    browser = opened(hostile_code(), disassemble=2)
    browser.find_element(By.ID, "tab-code").click()
    text = browser.execute_script("return document.body.innerText")
    assert not set(text) & {"\x1b", "\u202e", "\u2066", "\x07"}
    assert browser.find_elements(By.CSS_SELECTOR, "img, iframe, a, object, main script") == []
