"""A report that is returned, and written to a file as well: what the Python interface does."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from prospect.files.outputs import ReportFile

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

    Written = Callable[[BinaryIO], object]
    """Who writes a report to a file that is open."""


def returned_report(output: str, make: Callable[[], Written]) -> bytes:
    """Return a report, and put it in a file as well.

    Args:
        output: the file, "" for none. It is opened first: where that fails, nothing was computed
            in vain.
        make: computes the report.

    Raises:
        RenderError: the file cannot be written.
    """
    target = ReportFile(output) if output else None
    text = io.BytesIO()
    try:
        make()(text)
        if target:
            target.put(lambda out: out.write(text.getvalue()))
    finally:
        if target:
            target.close()
    return text.getvalue()


def as_text(report: bytes) -> str:
    """Return a report's text; names of processes and files may be no UTF-8."""
    return report.decode(errors="backslashreplace")
