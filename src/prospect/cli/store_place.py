"""Where a store lies that nobody names."""

from __future__ import annotations

import os

_OF_ROOT = "/var/lib/prospect"


def usual_store(target: str = "") -> str:
    """Return the store of this user: root's, or below what XDG calls the state of programs.

    Args:
        target: another machine, whose store lies beside this one's, below a directory for all.
    """
    if target:
        name = "".join(c if c.isalnum() or c in "@._-" else "_" for c in target)
        return os.path.join(f"{usual_store()}-targets", name.strip(".") or "_")
    if os.geteuid() == 0:
        return _OF_ROOT
    state = os.environ.get("XDG_STATE_HOME", "")
    if not state.startswith("/"):
        state = os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(state, "prospect")
