"""The report as one page for a browser: pictures and tables of the text report's figures."""

from __future__ import annotations

from prospect.render.html.page import HtmlRenderer

__all__ = ["HtmlRenderer"]
