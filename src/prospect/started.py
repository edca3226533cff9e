"""Restore the environment and the ignored signals that the command `prospect` was started with.

Its shell and its interpreter change both; `scripts/prospect` stores them in an environment
variable. Without that, as with ``python -m prospect``, the environment stays as it is, and no
signal that Python ignores counts as ignored.
Source: proc_pid_stat(5), field 33.
"""

from __future__ import annotations

import os

VARIABLE = b"PROSPECT_STARTED"
_IGNORED = 33 - 3  # the first field after the name is the third

ignored_signals: frozenset[int] = frozenset()


def restore() -> None:
    """Restore this process's environment and name, and set `ignored_signals`."""
    import binascii  # noqa: PLC0415 - only if there is something to restore

    global ignored_signals  # noqa: PLW0603 - a process is started once
    encoded, _, stat = os.environb.pop(VARIABLE).partition(b" ")
    try:
        blocks = binascii.a2b_base64(encoded).split(b"\0")
        bits = int(stat.rpartition(b") ")[2].split()[_IGNORED])
    except (ValueError, IndexError):
        return  # another program set the variable
    ignored_signals = frozenset(one for one in range(1, 32) if bits >> (one - 1) & 1)
    before = dict(block.split(b"=", 1) for block in blocks if block.find(b"=") > 0)
    if before:
        for name in os.environb.keys() - before.keys():
            del os.environb[name]
        for name, value in before.items():
            if os.environb.get(name) != value:
                os.environb[name] = value
    try:
        fd = os.open("/proc/self/comm", os.O_WRONLY | os.O_CLOEXEC)
        os.write(fd, b"prospect")
        os.close(fd)
    except OSError:
        pass  # the name only helps users
