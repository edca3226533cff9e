"""The Python interface of archives: `archive`, with a keyword for each option.

Documented in docs/python.md and docs/archive.md.
"""

from __future__ import annotations

import os

from prospect.analysis.archiving import SUFFIX, write_archive
from prospect.analysis.profile_request import Callbacks
from prospect.api.keywords import AnnouncedOptions, takes
from prospect.options import NamingOptions, needed, option


class ArchiveRequest(NamingOptions, AnnouncedOptions):
    """Arguments of `archive`."""

    path: str | os.PathLike[str] = needed(kw_only=False, doc="a perf.data file")
    output: str = option(default="", doc='the file to write, "" for `path` and ``.archive``')
    whole_images: bool = option(default=False, doc="keep programs and libraries with samples whole")


@takes(ArchiveRequest)
def archive(asked: ArchiveRequest) -> str:
    """Make a recording one file that is reported on elsewhere as it is here, and return its path.

    Raises:
        RecordingError: it cannot be read, is no whole recording, or is an archive already.
        RenderError: the archive cannot be written; an earlier one of that name stays.
        UsageError: the archive would replace its recording.
    """
    recording = os.fsdecode(asked.path)
    target = asked.output or recording + SUFFIX
    write_archive(
        recording, target, asked, Callbacks(asked.announce), whole_images=asked.whole_images
    )
    return target
