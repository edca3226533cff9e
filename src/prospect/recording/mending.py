"""Repair records that the kernel wrote wrong, so that perf reads them too.

Records of another machine are repaired here, after their arrival: there they leave memory as fast
as the connection takes them.
"""

from __future__ import annotations

import mmap
import os

from prospect.errors import RecordingError
from prospect.light import Descriptor
from prospect.perfdata.program_records import mend_program_records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from prospect.abi.attr import EventDescription
    from prospect.perfdata.program_records import Records


def mend_records(fd: int, begin: int, end: int, events: Sequence[EventDescription]) -> None:
    """Repair records if possible.

    Args:
        fd: a regular file.
        begin: the place of its first record.
        end: the end of its last one.
    """
    try:
        with Descriptor(os.open(f"/proc/self/fd/{fd}", os.O_RDWR | os.O_CLOEXEC)) as again:
            if begin < end <= os.fstat(again).st_size:
                with mmap.mmap(again, end) as data:
                    _mend(data, begin, events)
    except (OSError, ImportError, RecordingError):  # a report reads them anyway
        return


def mend_in_memory(records: bytearray, events: Sequence[EventDescription]) -> None:
    """Repair whole records before they are packed, after which this is impossible."""
    from prospect.perfdata.leaked_bits import clear_bits_in_memory  # noqa: PLC0415 - only with -z

    if not records:
        return
    clear_bits_in_memory(records)
    try:
        _mend(records, 0, events)
    except (ImportError, RecordingError):  # a report reads them anyway
        return


def _mend(data: Records, begin: int, events: Sequence[EventDescription]) -> None:
    mend_program_records(data, begin, events)
    if any(event.attr.shares_samples for event in events):
        from prospect.perfdata.shared_ids import mend_shared_ids  # noqa: PLC0415 - imports numpy

        mend_shared_ids(data, begin, events)


def mend_file(fd: int) -> None:
    """Repair the records of a complete recording."""
    from prospect.perfdata.file_header import read_events, read_file_header  # noqa: PLC0415 - not for this machine's recordings

    with Descriptor(os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC)) as again:
        try:
            file = memoryview(mmap.mmap(again, 0, prot=mmap.PROT_READ))
            header = read_file_header(file, "<")
            events = read_events(file, header, [])
        except (OSError, ValueError, RecordingError):  # the report says why
            return
    mend_records(fd, header.data.offset, sum(header.data), events)
