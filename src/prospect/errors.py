"""Every error that Prospect raises on purpose.

    ProspectError               one line for a person: what is wrong and what to do
    ├── UsageError              the command line or a keyword cannot be used as given
    ├── CaptureError            the kernel refused an event, a buffer or the command
    │   └── CommandError        COMMAND itself could not be started (has `exit_status`)
    ├── RecordingError          a perf.data file or stream cannot be read or written
    ├── ElfError                an ELF image is damaged or not ELF
    ├── StoreError              the store of a daemon cannot be used
    ├── SymbolError             a symbol source (System.map, map file, cache) is unusable
    └── RenderError             a report cannot be written
        └── PushError           a collector does not take a profile

UnreadRecordsWarning is a Python warning: a profile lacks something that its recording has.

The message is complete: the command line prints it after ``prospect:`` and exits
with `exit_status`; no traceback reaches a user.
"""

from __future__ import annotations


class ProspectError(Exception):
    """Base of all errors of this project; `str()` is one line meant for a person."""

    exit_status = 1


class UsageError(ProspectError):
    """The command line, or a keyword of the Python interface, cannot be used as given."""

    exit_status = 2


class CaptureError(ProspectError):
    """The kernel refused an event, a ring buffer or a privilege that is needed."""


class CommandError(CaptureError):
    """COMMAND could not be started; the status is the shell's: 127 not found, 126 not runnable."""

    def __init__(self, message: str, exit_status: int) -> None:
        super().__init__(message)
        self.exit_status = exit_status


class RecordingError(ProspectError):
    """A perf.data file or stream cannot be read or written."""


class ElfError(ProspectError):
    """An ELF image is damaged, truncated or not ELF at all."""


class SymbolError(ProspectError):
    """A symbol source (System.map, perf map file, cache entry) cannot be used."""


class StoreError(ProspectError):
    """A store of profiles over time cannot be opened, read or written."""


class RenderError(ProspectError):
    """A report cannot be written."""


class PushError(RenderError):
    """A collector does not take a profile; this does not affect the report and the recording."""


class PluginError(RenderError):
    """A format of another package failed; this does not affect the recording."""


class UnreadRecordsWarning(UserWarning):
    """A recording has unreadable records; the profile covers the rest."""
