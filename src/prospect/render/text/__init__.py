"""The text report: Prospect's sections under Prospect's titles, one file a section."""

from __future__ import annotations

from prospect.render.text.report import TextRenderer

__all__ = ["TextRenderer"]
