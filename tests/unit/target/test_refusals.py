"""What another machine is not asked for, said before it is connected to."""

from __future__ import annotations

import pytest

from prospect.announcing import silent
from prospect.errors import UsageError
from prospect.recording.opened_events import RecordOptions
from prospect.target.target_recording import record_on


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ({"compress": True}, "-z compresses recordings of this machine only"),
        ({"count_calls": "main"}, "--count-calls does not work with --target"),
        ({"events": ("/bin/true:main",)}, "probes in files do not work"),
    ],
)
def test_what_cannot_be_followed_there_is_refused(wanted, says):
    with pytest.raises(UsageError, match=says):
        record_on("nobody@nowhere.invalid", RecordOptions(**wanted), -1, silent)
