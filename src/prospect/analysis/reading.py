"""Read a file that a user names as a profile, whichever tool wrote it.

The first bytes, never the name, show whether it is a recording by Prospect or perf, which the
pipeline reads. `other_tools` reads everything else.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from prospect.analysis.pipeline import build_profile
from prospect.perfdata.format import MAGIC, MAGIC_SWAPPED, MAGIC_VERSION_1
from prospect.perfdata.reader import STDIN, open_recording

if TYPE_CHECKING:
    from prospect.analysis.profile_request import Callbacks, ProfileRequest
    from prospect.options import NamingOptions
    from prospect.profile.model import Profile

_HEAD_BYTES = 1 << 16
_MAGICS = (MAGIC, MAGIC_SWAPPED, MAGIC_VERSION_1)


def read_profile(
    path: str,
    naming: NamingOptions | None = None,
    wanted: ProfileRequest | None = None,
    sinks: Callbacks | None = None,
    program: str = "",
) -> Profile:
    """Read a recording or a profile of another tool.

    `path` is "-" for a recording on standard input; `program` wrote a gmon.out, "" for ``a.out``
    next to it.

    Raises:
        RecordingError: the file cannot be read, or is of an unknown kind.
    """
    head = b"" if path == STDIN else _head(path)
    if head and not head.startswith(_MAGICS):
        from prospect.analysis.other_tools import profile_of_other_tool  # noqa: PLC0415 - rarely read

        profile = profile_of_other_tool(path, head, program)
        if profile is not None:
            return profile
    with open_recording(path) as recording:
        return build_profile(recording, naming, wanted, sinks)


def _head(path: str) -> bytes:
    """Return the first bytes of a regular file, none for anything else."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return b""
    try:
        is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
        return os.pread(descriptor, _HEAD_BYTES, 0) if is_file else b""
    except OSError:
        return b""
    finally:
        os.close(descriptor)
