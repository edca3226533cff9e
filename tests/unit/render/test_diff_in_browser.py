"""The page of a comparison in a real browser: the text's figures, and the picture of the tree."""

import io

import numpy as np
import pytest

from builders.profile import hostile_profile, qsort_profile
from builders.runs import run_of, stacked_run
from builders.stacks import stacks_profile
from prospect.estimate.compare.compared_sides import compare
from prospect.estimate.compare.comparison import CompareOptions
from prospect.render.diff_registry import diff_writer

pytest.importorskip("selenium")

from selenium.webdriver import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

BEFORE = {"parse": 4000, "f.isra.0": 800, "removed": 300, "k:copy": 500, "": 40, "half": 25}
AFTER = {"parse": 5000, "f": 780, "added": 200, "k:copy": 510, "": 35, "half": 25}
HEADS = ("A", "B", "Change", "±", "Relative", "95 % from", "to")


def rendered(comparison, name="html", **options):
    out = io.BytesIO()
    diff_writer(name, **options)(comparison, out)
    return out.getvalue()


def compared(before, after, **options):
    return compare(
        before, after, CompareOptions(**{"stacks": True, "scope": "4", "per": "run", **options})
    )


def replicates():
    sides = [
        [
            run_of({name: count + step for name, count in side.items()}, origin=f"{letter}{step}")
            for step in (0, 9, 17)
        ]
        for letter, side in (("a", BEFORE), ("b", AFTER))
    ]
    condition = {"fail_if": "slower by 3% at 95%", "per": "A=1000,B=1100 requests"}
    return compared(*sides, **condition)


CASES = {
    "once": lambda: compared([run_of(BEFORE)], [run_of(AFTER)]),
    "replicates": replicates,
    "processes": lambda: compared([qsort_profile()], [qsort_profile(wall_seconds=5.0)]),
    "gone": lambda: compared([run_of({"f": 30, "g": 20})], [run_of({"f": 45})]),
}


@pytest.fixture
def opened(open_page):
    def open_it(comparison, *, width=1280, theme="light", **options):
        return open_page(rendered(comparison, **options), width=width, theme=theme)

    return open_it


def rows_of(browser, tab):
    """Return the rows of a tab's table, by its heads without their units."""
    browser.find_element(By.ID, f"tab-{tab}").click()
    script = """
    const cells = (row) => [...row.children].map((cell) => cell.textContent);
    const table = document.querySelector("#panel table");
    if (!table) return [];
    const heads = cells(table.tHead.rows[0]).map((head) => head.replace(/ [(].*[)]/, ""));
    return [...table.tBodies[0].rows].map((row) =>
      Object.fromEntries(cells(row).map((cell, i) => [heads[i], cell])));
    """
    return browser.execute_script(script)


@pytest.mark.parametrize("rows", [3, 20])
@pytest.mark.parametrize("case", CASES)
def test_each_figure_of_each_table_is_the_texts(opened, case, rows):
    comparison = CASES[case]()
    whole = rendered(comparison, "text", rows=rows).decode()
    text = whole.partition("The comparison\n")[2]
    sections = {
        part.splitlines()[0]: [line.split() for line in part.splitlines()[2:]]
        for part in text.split("-" * 79 + "\n")[2::2]
        for part in [part + text.split(part, 1)[1].split("\n\n")[0]]
    }
    browser = opened(comparison, rows=rows)
    for tab, title, name in (
        ("total", "Total", "Part"),
        ("processes", "By process", "Process"),
        ("objects", "By object", "Object"),
        ("functions", "By function", "Function"),
    ):
        lines = sections[title]
        found = rows_of(browser, tab)
        assert len(found) == sum(len(line) > 6 and line[0] not in "-A" for line in lines)
        for row in found:
            figures = [row[head] for head in HEADS if row[head]]
            mark = ["*"] if row["*"] else []
            names = row[name].split() if tab == "total" else row["Mode"].split()
            assert any(
                line[: len([*mark, *figures, *names])] == [*mark, *figures, *names]
                for line in lines
            )


def test_what_is_said_in_short_and_of_the_recordings_is_the_texts(opened):
    comparison = replicates()
    text = rendered(comparison, "text").decode()
    browser = opened(comparison)
    answer = browser.find_element(By.ID, "answer").text
    assert text.splitlines()[-1] in answer
    assert "Grew most: parse +" in answer
    assert "Shrank most: removed -" in answer
    compared_line = next(line for line in text.splitlines() if line.startswith("Compared"))
    assert compared_line in browser.find_element(By.ID, "run").text
    assert [row["Recording"] for row in rows_of(browser, "recordings")] == [
        f"{letter}{step}" for letter in "ab" for step in (0, 9, 17)
    ]
    notes = notes_of(browser)
    assert all(note in notes for note in comparison.notes)
    assert f"of {comparison.tested} rows tested" in notes


def weights(browser):
    return browser.execute_script("return Array.from(view.sums.total)")


def test_the_picture_is_as_wide_as_the_chosen_side_and_shows_what_is_gone(opened):
    comparison = compared([run_of({"f": 300, "old": 100})], [run_of({"f": 500, "new": 200})])
    browser = opened(comparison)
    labels = browser.execute_script("return [...view.event.frame].map(labelOfFrame)")
    place = {label: row for row, label in enumerate(labels)}
    others = browser.find_element(By.ID, "others")
    side = Select(browser.find_element(By.ID, "side"))
    seen = {}
    for value in ("b", "a", "sum"):
        side.select_by_value(value)
        for _ in range(1 if value == "sum" else 2):
            total = weights(browser)
            key = value + ("+" if value != "sum" and others.is_selected() else "")
            seen[key] = [
                round(total[place[name]], 3) for name in ("all samples", "f", "old", "new")
            ]
            if value != "sum":
                others.click()
    assert seen == {
        "b+": [0.8, 0.5, 0.1, 0.2],
        "b": [0.7, 0.5, 0.0, 0.2],
        "a+": [0.6, 0.3, 0.1, 0.2],
        "a": [0.4, 0.3, 0.1, 0.0],
        "sum": [1.1, 0.8, 0.1, 0.2],
    }


def test_only_significant_rows_have_a_colour_and_the_side_that_grew_is_red(opened):
    before = run_of({"f": 300, "old": 100, "same": 400})
    after = run_of({"f": 600, "new": 200, "same": 403})
    browser = opened(compared([before], [after]))
    script = """
    return [...view.event.frame].map((frame, row) =>
      [labelOfFrame(frame), flame.look.fill(row), flame.look.mark(row), flame.look.lines(row)[1]]);
    """
    rows = {row[0]: row[1:] for row in browser.execute_script(script)}
    grey = browser.execute_script("return colour('--same')")
    assert rows["same"][:2] == [grey, ""]
    assert "not significant" in rows["same"][2]
    for name, is_red in (("f", True), ("new", True), ("old", False)):
        red, blue = int(rows[name][0][1:3], 16), int(rows[name][0][5:], 16)
        assert (red > blue + 20) if is_red else (blue > red + 20)
    assert [rows[name][1] for name in ("f", "new", "old")] == ["▲ ", "▲ ", "▼ "]
    assert "(new): significant" in rows["new"][2]
    assert "(gone): significant" in rows["old"][2]
    light = browser.execute_script("return flame.look.fill(0)")
    ActionChains(browser).send_keys("t").perform()
    assert browser.execute_script("drawFlame(); return flame.look.fill(0)") != light


def test_a_function_shows_its_change_and_its_calls_on_both_sides(opened):
    browser = opened(compared([stacks_profile()], [stacks_profile()]))
    press = ActionChains(browser).send_keys("/", "vfs", Keys.ENTER)
    press.perform()
    function = browser.find_element(By.ID, "function")
    assert function.is_displayed()
    titles = [caption.text for caption in function.find_elements(By.TAG_NAME, "caption")]
    assert titles == ["In itself", "Called by, with what it calls"]
    (called_by,) = calls_of(browser)
    assert called_by["Function"] == "do_syscall_64"
    assert float(called_by["Change"]) == 0.0
    ActionChains(browser).send_keys(Keys.ESCAPE * 12).perform()
    assert not function.is_displayed()
    assert browser.execute_script("return view.focus") == 0


def calls_of(browser, table=0):
    """Return the rows of callers, or of callees, by their heads, with the colour of each bar."""
    script = """
    const table = document.querySelectorAll("#function .pair table")[arguments[0]];
    const text = (row) => [...row.children].map((cell) => cell.textContent);
    const heads = text(table.tHead.rows[0]).map((head) => head.replace(/ [(].*[)]/, ""));
    return [...table.tBodies[0].rows].map((row) => ({
      ...Object.fromEntries(text(row).map((cell, i) => [heads[i], cell])),
      bar: row.querySelector(".fill").classList[1],
      hasWhisker: row.querySelector(".whisker") !== null,
    }));
    """
    return browser.execute_script(script, table)


def test_callers_are_tested_and_grey_where_the_change_is_not_significant(opened):
    before = stacked_run({"main;a;f": 400, "main;b;f": 400, "main;c;f": 4, "main;old;f": 90})
    after = stacked_run({"main;a;f": 900, "main;b;f": 402, "main;c;f": 5, "main": 4})
    comparison = compared([before], [after])
    calls, names = comparison.stacks.calls, comparison.stacks.name
    browser = opened(comparison)
    browser.execute_script("chooseFrame(view.block.labels.indexOf('f'))")
    rows = {row["Function"]: row for row in calls_of(browser)}
    assert {name: row["bar"] for name, row in rows.items()} == {
        "a": "grew",
        "b": "same",
        "c": "same",
        "old": "shrank",
    }
    assert {name for name, row in rows.items() if row["*"]} == {"a", "old"}
    assert [rows["a"][head] for head in ("A", "B", "Relative")] == ["0.40", "0.90", "+125%"]
    assert rows["old"]["Relative"] == "gone"
    assert (rows["c"]["±"], rows["c"]["hasWhisker"]) == ("", False)  # too few hits to tell
    callee = calls.callee == names.index("f")
    for name in ("a", "b", "old"):
        (row,) = np.flatnonzero(callee & (calls.caller == names.index(name)))
        assert float(rows[name]["±"]) == pytest.approx(calls.half_width[row], abs=0.005)
        assert rows[name]["hasWhisker"]
    grey = browser.execute_script(
        "return getComputedStyle(document.querySelector('#function .pair .unsure')).color"
        " === getComputedStyle(document.querySelector('.quiet')).color"
    )
    assert grey
    browser.execute_script("chooseFrame(view.block.labels.indexOf('main'))")
    callees = {row["Function"]: row["bar"] for row in calls_of(browser, 1)}
    assert callees == {"a": "grew", "b": "same", "c": "same", "old": "shrank"}
    assert f"{len(calls)} pairs of caller" in notes_of(browser)


def notes_of(browser):
    browser.find_element(By.ID, "tab-recordings").click()
    return browser.find_element(By.ID, "panel").text


def test_a_comparison_without_stacks_has_its_tables(opened):
    browser = opened(compared([run_of(BEFORE)], [run_of(AFTER)], stacks=False))
    assert not browser.find_element(By.ID, "stacks").is_displayed()
    assert rows_of(browser, "functions")[0]["Function"] == "removed"
    ActionChains(browser).send_keys(
        "w", "/", "pa", Keys.ENTER, Keys.ESCAPE, Keys.ARROW_DOWN
    ).perform()
    browser.find_element(By.CSS_SELECTOR, "#answer button").click()


def test_hostile_names_are_inert(opened):
    after = run_of({"<img src=x onerror=alert(1)>\x1b[2J\u202e": 60}, command=("\x07<script>",))
    browser = opened(compared([hostile_profile()], [after], per="3 \x1b[5m<b>turns"))
    assert browser.execute_script("return document.scripts.length") == 1
    for tab in ("functions", "objects", "processes", "total", "recordings"):
        browser.find_element(By.ID, f"tab-{tab}").click()
        text = browser.execute_script("return document.body.innerText + document.title")
        assert not set(text) & {"\x1b", "\u202e", "\u2066", "\x07"}
    assert browser.find_elements(By.CSS_SELECTOR, "img, iframe, a, object, main script") == []


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_is_wider_than_the_window(opened, width, theme):
    browser = opened(replicates(), width=width, theme=theme)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
