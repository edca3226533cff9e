"""Reports as bytes, and the contents of their page in a browser."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from prospect.render.registry import make_renderer

if TYPE_CHECKING:
    from prospect.profile.model import Profile


def report_of(profile: Profile, name: str, **options: Any) -> bytes:
    """Return a report in any format."""
    out = io.BytesIO()
    make_renderer(name, **options).render(profile, out)
    return out.getvalue()


def whole_report(profile: Profile, name: str = "html", **options: Any) -> bytes:
    """Return a report of every process and function, in any format."""
    settings = {"detail": "4", "user_threshold_s": 0.0, "kernel_threshold_s": 0.0, **options}
    return report_of(profile, name, **settings)


def text_of(browser: Any, selector: str) -> str:
    """Return the text of the first element that a selector names."""
    return browser.find_element("css selector", selector).text


def cells_of(browser: Any) -> list[list[str]]:
    """Return the text of each cell of the table that the page shows, by rows."""
    return browser.execute_script(
        "return [...document.querySelectorAll('#panel tbody tr')]"
        ".map((row) => [...row.cells].map((cell) => cell.innerText.trim()))"
    )
