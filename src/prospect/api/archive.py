"""The Python interface of archives: `archive`, with a keyword for each option.

Documented in docs/python.md and docs/archive.md.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from prospect.analysis.archiving import SUFFIX, write_archive
from prospect.analysis.wanted import Sinks
from prospect.api.keywords import chosen, takes
from prospect.options import NamingOptions

if TYPE_CHECKING:
    from typing import Unpack

    from prospect.announcing import Announce
    from prospect.options import NamingKeywords


@takes(NamingOptions)
def archive(
    path: str | os.PathLike[str],
    *,
    output: str = "",
    whole_images: bool = False,
    announce: Announce | None = None,
    **keywords: Unpack[NamingKeywords],
) -> str:
    """Make a recording one file that is reported on elsewhere as it is here, and return its path.

    Args:
        path: a perf.data file.
        output: the file to write, "" for `path` and ``.archive``.
        whole_images: keep programs and libraries with hits whole.
        announce: called with what is being done, and how far it is.
        **keywords: see `prospect.options.NamingOptions`.

    Raises:
        RecordingError: it cannot be read, is no whole recording, or is an archive already.
        RenderError: the archive cannot be written; an earlier one of that name stays.
        UsageError: the archive would replace its recording.
    """
    recording = os.fsdecode(path)
    target = output or recording + SUFFIX
    naming = chosen(NamingOptions, keywords)
    write_archive(recording, target, naming, Sinks(announce), whole_images=whole_images)
    return target
