"""Pages for those who use a keyboard, a screen reader, paper, or no scripts; and for all eyes."""

import pytest

from builders.pages import whole_report
from builders.profile import qsort_profile
from builders.stacks import random_stacks_profile, stacks_profile

pytest.importorskip("selenium")

from selenium.webdriver import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

LEAST_CONTRAST = 4.5  # of text, level AA: WCAG 2.2, 1.4.3

FOCUS = """
const { activeElement: at } = document;
const { outlineStyle, outlineWidth } = getComputedStyle(at);
const isVisible = outlineStyle !== "none" && parseFloat(outlineWidth) >= 1;
return [at.id || at.className || at.tagName, isVisible];
"""

# Contrast of each pair of colours that the page writes with, by the names of its style, and of the
# flame graphs' labels on every colour that a row may have: WCAG 2.2, relative luminance.
CONTRASTS = """
const luminance = (rgb) => rgb.map((part) => part / 255)
  .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
  .reduce((sum, part, i) => sum + part * [0.2126, 0.7152, 0.0722][i], 0);
const probe = document.body.appendChild(document.createElement("i"));
const rgb = (style) => {
  probe.style.color = style;
  return getComputedStyle(probe).color.match(/[\\d.]+/g).slice(0, 3).map(Number);
};
const contrast = (one, other) => {
  const [dark, light] = [one, other].map((style) => luminance(rgb(style))).sort((a, b) => a - b);
  return (light + 0.05) / (dark + 0.05);
};
const pairs = [
  ...["text", "quiet", "accent"].flatMap((ink) => ["back", "card"].map((paper) => [ink, paper])),
  ["warn", "warn-back"], ["text", "thread"], ["quiet", "dim"],
  ...["thread", "found", "same"].map((paper) => ["flame-text", paper]),
];
const found = pairs.map((pair) =>
  [pair.join(" on "), contrast(...pair.map((name) => colour(`--${name}`)))]);
const isDark = document.documentElement.dataset.theme === "dark";
const rows = new Set();
KIND_HUES.forEach((_, kind) => {
  for (let name = 0; name < 400; name++) rows.add(kindColour(kind, hashOf(`name ${name}`), isDark));
});
for (const row of rows) found.push([`a label on ${row}`, contrast(colour("--flame-text"), row)]);
probe.remove();
return found;
"""


def press(browser, *keys):
    ActionChains(browser).send_keys(*keys).perform()


def test_tab_leads_once_round_all_that_can_be_used_and_shows_where_it_is(open_page):
    browser = open_page(whole_report(random_stacks_profile(4000, 40, 6)))
    places, visible = [], []
    while len(places) < 60 and (not places or "BODY" not in places[-1]):
        press(browser, Keys.TAB)
        place, is_visible = browser.execute_script(FOCUS)
        places.append(place)
        visible.append(is_visible or place == "BODY")
    named = [place for place in places if place not in {"BUTTON", "link"}]
    for wanted in ("scope", "search", "theme", "help-open", "lanes", "heat", "flame"):
        assert wanted in named
    assert "tab-functions" in named
    assert "tab-processes" not in named  # arrows lead there
    # A table is one place, however many rows it has.
    assert named.count("choice") == 1
    assert named[-1] == "BODY"
    assert all(visible)


def test_arrows_move_in_a_table_and_enter_chooses(open_page):
    browser = open_page(whole_report(random_stacks_profile(4000, 40, 6)))
    browser.execute_script("document.querySelector('tr.choice').focus()")
    press(browser, Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_UP)
    index = "return document.activeElement.sectionRowIndex"
    assert browser.execute_script(index) == 1
    press(browser, Keys.END)
    last = browser.execute_script("return document.activeElement.parentElement.rows.length - 1")
    assert browser.execute_script(index) == last > 1
    press(browser, Keys.ARROW_DOWN)
    assert browser.execute_script(index) == last
    press(browser, Keys.HOME, Keys.ENTER)
    name = browser.execute_script("return currentFunctions()[0].label")
    assert browser.find_element(By.CSS_SELECTOR, "#function h2").text.startswith(name)


def test_rows_of_the_map_of_time_are_chosen_by_arrows(open_page):
    browser = open_page(whole_report(random_stacks_profile(4000, 40, 6)))
    browser.execute_script("byId('heat').focus()")
    lane = "return view.filter.lane && view.filter.lane.row"
    press(browser, Keys.ARROW_DOWN, Keys.ARROW_DOWN)
    assert browser.execute_script(lane) == 1
    assert browser.find_element(By.ID, "selection-text").text.endswith("s of CPU time")
    press(browser, Keys.ARROW_UP, Keys.ARROW_UP)
    assert browser.execute_script(lane) is None


def test_tables_tabs_and_pictures_say_what_they_are(open_page):
    browser = open_page(whole_report(qsort_profile()), width=390)
    roles = browser.execute_script(
        "return [...document.querySelectorAll('#panel table, #panel tr, #panel td, #panel th')]"
        ".map((one) => [one.tagName, one.getAttribute('role')].join(' '))"
    )
    assert set(roles) == {"TABLE grid", "TR row", "TD gridcell", "TH columnheader"}
    assert browser.find_element(By.CSS_SELECTOR, "#panel table").get_attribute("aria-label")
    selected = browser.find_elements(By.CSS_SELECTOR, "[role=tab][aria-selected=true]")
    assert [tab.text for tab in selected] == ["Functions"]
    unnamed = browser.execute_script(
        "const controls = 'button, select, input, [role=img], [role=application]';"
        "return [...document.querySelectorAll(controls)]"
        ".filter((one) => !(one.ariaLabel || one.textContent.trim() || one.labels?.length))"
        ".map((one) => one.outerHTML)"
    )
    assert unnamed == []


def test_keys_and_strange_names_are_explained_where_they_are_seen(open_page):
    browser = open_page(whole_report(stacks_profile()))
    hint = browser.find_element(By.CSS_SELECTOR, "#stacks .keyboard")
    assert hint.is_displayed()
    assert "search" in hint.text
    kinds = browser.find_element(By.ID, "kinds").text.split()
    present = browser.execute_script(
        "const { frame_kind: kinds, first_thread_frame: threads } = view.block;"
        "return [...new Set([...kinds].slice(0, threads - 2))]"
    )
    assert kinds == [
        *[["user", "kernel", "inlined", "runtime"][kind] for kind in sorted(present)],
        "thread",
    ]
    press(browser, "?")
    assert "[fn 2 of 3]" in browser.find_element(By.ID, "help").text
    assert browser.execute_script("return byId('help').scrollTop") == 0


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_all_text_has_the_contrast_of_level_aa(theme, open_page):
    browser = open_page(whole_report(stacks_profile()), theme=theme)
    shown = "return document.documentElement.dataset.theme"
    assert browser.execute_script(shown) == theme
    contrasts = browser.execute_script(CONTRASTS)
    assert len(contrasts) > 100
    assert [pair for pair in contrasts if pair[1] < LEAST_CONTRAST] == []
    press(browser, "t")
    assert browser.execute_script(shown) != theme


def test_paper_is_light_and_has_no_controls(open_page, browser):
    open_page(whole_report(qsort_profile()), theme="dark")
    browser.execute_script("dispatchEvent(new Event('beforeprint'))")
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert browser.execute_script("return document.documentElement.dataset.theme") == "light"
    for control in ("controls", "help-open"):
        assert not browser.find_element(By.ID, control).is_displayed()
    assert browser.find_element(By.ID, "answer").is_displayed()
    assert browser.find_element(By.CSS_SELECTOR, "#panel table").is_displayed()
    assert browser.find_element(By.ID, "flame-canvas").is_displayed()
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    browser.execute_script("dispatchEvent(new Event('afterprint'))")
    assert browser.execute_script("return document.documentElement.dataset.theme") == "dark"


def test_without_scripts_a_line_says_where_the_figures_are(browser, tmp_path):
    path = tmp_path / "page.html"
    path.write_bytes(whole_report(qsort_profile()))
    disabled = "Emulation.setScriptExecutionDisabled"
    browser.execute_cdp_cmd(disabled, {"value": True})
    try:
        browser.get(path.as_uri())
        text = browser.find_element(By.TAG_NAME, "body").text
        assert "prospect report" in text
        assert "Opening" not in text
        assert not browser.find_element(By.ID, "controls").is_displayed()
    finally:
        browser.execute_cdp_cmd(disabled, {"value": False})
