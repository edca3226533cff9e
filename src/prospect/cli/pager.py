"""A report that is longer than the terminal → the person's pager, as git does it, but by no shell.

Comes in: text that is fit for a terminal. Imported once a report is shown on one.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess

_USUAL_PAGER = "less"
# What git gives: quit where all fits one screen, take colours, leave the text on the screen.
_LESS_OPTIONS = "FRX"


def show_paged(text: bytes) -> bool:
    """Show text by ``$PAGER``, ``less`` where it is not set, and wait until that ends.

    Returns:
        False where nothing was shown: it fits the terminal, or there is no such program.
    """
    if text.count(b"\n") < shutil.get_terminal_size().lines:
        return False
    try:
        words = shlex.split(os.environ.get("PAGER", _USUAL_PAGER))
    except ValueError:  # an open quote
        return False
    program = shutil.which(words[0]) if words else None
    if program is None or words == ["cat"]:
        return False
    environment = {"LESS": _LESS_OPTIONS, "LV": "-c", **os.environ}
    try:
        pager = subprocess.Popen([program, *words[1:]], stdin=subprocess.PIPE, env=environment)
    except OSError:
        return False
    # Ctrl-C is the pager's: it ends a search there.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        pager.communicate(text)  # a pager that is left early is no error
    finally:
        signal.signal(signal.SIGINT, before)
    return True
