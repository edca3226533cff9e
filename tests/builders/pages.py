"""Reports that leave nothing out, and what a browser shows of their page."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from prospect.render.registry import make_renderer

if TYPE_CHECKING:
    from prospect.profile.model import Profile


def whole_report(profile: Profile, name: str = "html", **options: Any) -> bytes:
    """Return a report of every process and function, in any format."""
    out = io.BytesIO()
    settings = {"detail": "4", "user_threshold_s": 0.0, "kernel_threshold_s": 0.0, **options}
    make_renderer(name, **settings).render(profile, out)
    return out.getvalue()


def text_of(browser: Any, selector: str) -> str:
    """Return the text of the first element that a selector names."""
    return browser.find_element("css selector", selector).text


def cells_of(browser: Any) -> list[list[str]]:
    """Return the text of each cell of the table that the page shows, by rows."""
    return browser.execute_script(
        "return [...document.querySelectorAll('#panel tbody tr')]"
        ".map((row) => [...row.cells].map((cell) => cell.innerText.trim()))"
    )
