"""``prospect archive``: make a recording one file that can be reported on elsewhere.

Nothing here is on the way to a command's exec: numpy and all stages may be imported.
"""

from __future__ import annotations

import gc
import os
from typing import TYPE_CHECKING

from prospect.cli.option_table import DEFAULT_RECORDING
from prospect.cli.progress import progress
from prospect.cli.terminal import say
from prospect.errors import RecordingError

if TYPE_CHECKING:
    from prospect.cli.option_table import Settings


def run(settings: Settings, words: list[str], _command_line: tuple[str, ...]) -> int:
    """Archive the recording that is named.

    Raises:
        ProspectError: the recording cannot be archived, or the archive not be written.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as in report
    gc.disable()
    from prospect.archiving import SUFFIX, ArchiveOptions, write_archive
    from prospect.pipeline import PipelineOptions

    recording = words[0] if words else DEFAULT_RECORDING
    if recording == DEFAULT_RECORDING and not os.path.lexists(recording):
        raise RecordingError(f"no {recording} here; make one with: prospect record COMMAND")
    output = settings.save or recording + SUFFIX
    with progress("reading the recording, its images and their debug information ...") as tell:
        naming = PipelineOptions(
            system_map=settings.system_map or None,
            kernel_image=settings.kernel_image or None,
            use_cache=settings.use_cache,
            debuginfod_s=settings.debuginfod_s,
            announce=tell,
        )
        made = write_archive(recording, output, ArchiveOptions(settings.whole_images, naming))
    if output != "-":
        say(
            f"{output}: the recording's {made.recording_bytes} bytes and {made.added_bytes} more; "
            f"prospect report {output} shows it on any machine"
        )
    return 0
