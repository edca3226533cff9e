"""RecordBlock: whole records in one buffer.

What capture and perfdata hand out and what `events` takes in: a live ring, a file's data
section, an unpacked compressed record and a pipe all look like this.
"""

from __future__ import annotations

from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class RecordBlock(NamedTuple):
    """Records back to back, little-endian, none of them cut but the last one of a cut recording.

    Attributes:
        data: bytes-like buffer; it ends where the last record does, unless that is damaged or cut.
        origin: where it came from, for messages: a path, ``"<pipe>"``, ``"cpu 3"``.
        file_offset: where `data` begins in that file, -1 where there is none.
        cpu: CPU of the ring that it came from, -1 where rings are mixed.
        may_end_cut: whether the recording was cut at its end, within a record maybe.
        release: called with how many bytes of it will hardly be looked at again; None for nobody.
        resume: called with the offset in `data` of a record of perf's own that is not made of whole
            words; gives the records from there on as blocks. None if there are no such records.
    """

    data: memoryview
    origin: str = ""
    file_offset: int = -1
    cpu: int = -1
    may_end_cut: bool = False
    release: Callable[[int], None] | None = None
    resume: Callable[[int], Iterable[RecordBlock]] | None = None
