"""The JSON report: the same figures as the text report, for programs."""

from __future__ import annotations

from prospect.render.json.report import JsonRenderer

__all__ = ["JsonRenderer"]
