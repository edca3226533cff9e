"""``prospect archive``: turn a recording into one file for reports on other machines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.cli.analysis import Unread, get_ready, sinks
from prospect.cli.operands import STDIN, readable
from prospect.cli.progress import Progress
from prospect.cli.terminal import say
from prospect.shell import shell_operand

if TYPE_CHECKING:
    from prospect.options import Settings


def run(settings: Settings, words: list[str], _command_line: tuple[str, ...]) -> int:
    """Archive the named recording; return 1 if it has unreadable records.

    Raises:
        ProspectError: the recording cannot be archived, or the archive cannot be written.
    """
    get_ready()
    from prospect.analysis.archiving import SUFFIX, write_archive

    recording = words[0] if words else ""
    if recording != STDIN:  # which `archive` itself refuses
        recording = readable(recording, "archive")
    output = settings.save or recording + SUFFIX
    unread = Unread()
    with Progress("reading the recording") as progress:
        made = write_archive(
            recording, output, settings, sinks(progress, unread), whole_images=settings.whole_images
        )
    if output != "-":
        say(
            f"{output}: the recording's {made.recording_bytes} bytes and {made.added_bytes} more; "
            f"prospect report {shell_operand(output)} shows it on any machine"
        )
    return unread.exit_status()
