"""An address with a token → the desktop's browser, without showing the token to others.

Command lines are everybody's to read in /proc. So the browser is given a file that only this user
can read, and that leads on to the address. Jupyter Server opens its pages in the same way.
"""

from __future__ import annotations

import os
import tempfile
import webbrowser
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_PAGE = """<!DOCTYPE html>
<meta charset="utf-8"><meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0;url={address}">
<title>Prospect</title>
"""


@contextmanager
def opened_in_browser(address: str) -> Iterator[bool]:
    """Open an address in the browser; the file goes when the block ends.

    Yields:
        Whether there is a browser.

    Raises:
        OSError: there is no room for the file.
    """
    # Below this user's own directory, which others cannot enter.
    descriptor, name = tempfile.mkstemp(
        prefix="prospect-", suffix=".html", dir=os.environ.get("XDG_RUNTIME_DIR") or None
    )
    path = Path(name)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(_PAGE.format(address=escape(address)))
        yield webbrowser.open(path.as_uri())
    finally:
        path.unlink(missing_ok=True)
