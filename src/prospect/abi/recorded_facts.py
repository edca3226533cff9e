"""The input of the stages: blocks of records, and facts about the recording.

A live ring, a file's data section, an unpacked compressed record and a pipe all give `RecordBlock`s
to `events`. `perfdata` fills `RecordingInfo` from a file's header and feature sections, `capture`
from the live machine. Only `pipeline` reads it.
"""

from __future__ import annotations

from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from prospect.abi.attr import EventDescription


class RecordBlock(NamedTuple):
    """Consecutive little-endian records; only the last one of a truncated recording may be cut.

    Attributes:
        data: ends where the last record does, unless that is damaged or cut.
        origin: its source, for messages: a path, ``"<pipe>"``, ``"cpu 3"``.
        file_offset: where `data` begins in that file, -1 if there is none.
        cpu: CPU of the ring that it came from, -1 if rings are mixed.
        may_end_cut: whether the recording was truncated, perhaps within a record.
        release: called with the number of its bytes that will hardly be read again.
        resume: called with the offset in `data` of a record of perf's own whose size is no multiple
            of 8; gives the records from there on as blocks. None if there are no such records.
    """

    data: memoryview
    origin: str = ""
    file_offset: int = -1
    cpu: int = -1
    may_end_cut: bool = False
    release: Callable[[int], None] | None = None
    resume: Callable[[int], Iterable[RecordBlock]] | None = None


class BuildId(NamedTuple):
    """An entry of HEADER_BUILD_ID: the build id of an object that had hits."""

    name: bytes
    build_id: bytes
    pid: int = -1
    cpumode: int = 0


class KeptImage(NamedTuple):
    """A mapped file that the recording holds, whole or in pieces, because it may vanish.

    Attributes:
        file: major and minor number of the device, and inode, as mappings have them.
        build_id: b"" for none.
        path: as mapped.
        pieces: (offset in the file, length) of each.
        content: returns the pieces, concatenated; raises ValueError if they are damaged.
        modified_ns: when the file was modified, since the epoch; 0 if unknown.
    """

    file: tuple[int, int, int]
    build_id: bytes
    path: bytes
    size: int
    pieces: tuple[tuple[int, int], ...]
    content: Callable[[], bytes | memoryview]
    modified_ns: int = 0


class RecordingInfo(NamedTuple):
    """Facts about the recorded machine and run; empty or zero if unknown.

    Attributes:
        command_line: the recorder's own argument vector.
        first_sample_ns, last_sample_ns: feature SAMPLE_TIME, 0 if absent.
        started_at: seconds since 1970, feature CLOCK_DATA (``perf record -k``).
        ended_at: when it ended, if the recorder wrote that (simpleperf), seconds since 1970.
        recorded_at: when the file was last written, seconds since 1970. The file may be a copy, so
            the recording ended then or before.
        perf_version: the recorder's version string (``prospect-0.1.0`` for our own).
        extras: Prospect's own feature section (JSON), documented in docs/recording.md.
        tracing_data: feature TRACING_DATA: the formats of tracepoints; only written.
        named_by: the user with whose rights file names in the recording are read; ours for root.
        compression: level and ratio of packed records, and the most bytes that one unpacks to; only
            written.
        archive: the section that `prospect archive` added.
        target: the host that recorded it, as given to `--target`; the host does not know that name.
        images: mapped files that it holds.
        image_section: the same, encoded; only written.
    """

    origin: str = ""
    events: tuple[EventDescription, ...] = ()
    hostname: str = ""
    os_release: str = ""
    arch: str = ""
    cpus_online: int = 0
    cpus_available: int = 0
    cpu_description: str = ""
    cpuid: str = ""
    total_memory_kib: int = 0
    command_line: tuple[str, ...] = ()
    perf_version: str = ""
    build_ids: tuple[BuildId, ...] = ()
    first_sample_ns: int = 0
    last_sample_ns: int = 0
    started_at: float = 0.0
    ended_at: float = 0.0
    recorded_at: float = 0.0
    named_by: int = 0
    extras: dict[str, Any] = {}  # noqa: RUF012 - read only; a NamedTuple needs a plain default
    tracing_data: bytes = b""
    compression: tuple[int, ...] = ()
    archive: bytes | memoryview = b""
    target: str = ""
    images: tuple[KeptImage, ...] = ()
    image_section: bytes = b""
