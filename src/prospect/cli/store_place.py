"""Where a store lies that nobody names."""

from __future__ import annotations

import os

_OF_ROOT = "/var/lib/prospect"


def usual_store() -> str:
    """Return the store of this user: root's, or below what XDG calls the state of programs."""
    if os.geteuid() == 0:
        return _OF_ROOT
    state = os.environ.get("XDG_STATE_HOME", "")
    if not state.startswith("/"):
        state = os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(state, "prospect")
