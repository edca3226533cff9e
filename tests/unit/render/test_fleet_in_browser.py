"""The answers about all hosts in a real browser, which follows their links.

Needs Chromium with its driver (Debian: chromium, chromium-driver) and selenium.
"""

from __future__ import annotations

import threading

import pytest

from builders.fleet import fleet_store
from builders.pages import text_of
from prospect.assembly.code.code import code_of_report
from prospect.options import DisassemblerOptions, NamingOptions
from prospect.render.html import HtmlRenderer
from prospect.web.server import LoopbackServer
from prospect.web.store_site import ShownStore, StoreSite

pytest.importorskip("duckdb")
pytest.importorskip("selenium")
from selenium.webdriver.support.ui import WebDriverWait

TOKEN = "a-token"


def until_shown(browser, text):
    WebDriverWait(browser, 30, 0.02).until(
        lambda found: found.execute_script(
            "return document.body.innerText.includes(arguments[0])", text
        )
    )


def test_a_browser_shows_the_answers_and_follows_their_links(tmp_path, browser):
    code = code_of_report(DisassemblerOptions(gdb_processes=1))
    path = str(fleet_store(tmp_path / "fleet"))
    site = StoreSite(ShownStore(path, [], HtmlRenderer(), NamingOptions(), code), TOKEN)
    with LoopbackServer(site, 0) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            browser.get(f"http://127.0.0.1:{server.server_port}/{TOKEN}/")
            browser.find_element("link text", "Top functions").click()
            until_shown(browser, "± 95 %, between hosts")
            rows = browser.find_elements("css selector", "tbody tr")
            assert [rows[at].text.split()[0] for at in range(3)] == ["f0", "f1", "f2"]
            # The bars are drawn to one scale: the policy of the page lets their style through.
            widths = browser.execute_script(
                "return [...document.querySelectorAll('svg.share .bar')]"
                ".map((one) => one.getBoundingClientRect().width)"
            )
            assert widths == sorted(widths, reverse=True)
            assert widths[0] > 60
            assert browser.execute_script("return document.scripts.length") == 0
            browser.find_element("link text", "Deploys").click()
            until_shown(browser, "First seen")
            browser.find_element("link text", "bb" * 6).click()
            until_shown(browser, "functions changed")
            assert "new 0.00 %" in text_of(browser, "tbody")
            browser.find_element("link text", "Over time").click()
            until_shown(browser, "Click where a span begins")
            assert browser.get_log("browser") == []
            browser.get("about:blank")
        finally:
            server.shutdown()
            thread.join()
