"""A real browser for the pages: one for all tests, and none of its scripts may complain."""

import os
import shutil
import tempfile

import pytest

from builders.pages import whole_report

FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")


@pytest.fixture(scope="session")
def browser():
    """Chromium by its driver (Debian: chromium, chromium-driver), through selenium."""
    webdriver = pytest.importorskip("selenium.webdriver")
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        pytest.skip("no chromium with chromedriver here")
    service = pytest.importorskip("selenium.webdriver.chrome.service")
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for flag in FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    # It leaves directories behind in what it takes for the system's. Their paths have to be short:
    # a socket is in them.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        environment = os.environ | {"TMPDIR": directory}
        started = service.Service(shutil.which("chromedriver"), env=environment)
        driver = webdriver.Chrome(service=started, options=options)
        yield driver
        driver.quit()


@pytest.fixture
def open_page(browser, tmp_path):
    """Open a page; at the end, no script may have complained."""
    wait = pytest.importorskip("selenium.webdriver.support.ui").WebDriverWait

    def open_it(page, *, width=1280, theme="light"):
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        # A click while the page still scrolls would miss.
        features = [
            {"name": "prefers-color-scheme", "value": theme},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        path = tmp_path / "page.html"
        path.write_bytes(page)
        browser.get(path.as_uri())
        is_opened = "return performance.getEntriesByName('opened').length > 0"
        wait(browser, 60).until(lambda driver: driver.execute_script(is_opened))
        return browser

    yield open_it
    assert browser.get_log("browser") == []


@pytest.fixture
def opened(open_page):
    """Open the page of a profile."""

    def open_it(profile, *, width=1280, theme="light", **options):
        return open_page(whole_report(profile, **options), width=width, theme=theme)

    return open_it
