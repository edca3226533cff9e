"""COMPRESSED records → the records packed in them.

Comes in: the payloads of PERF_RECORD_COMPRESSED and COMPRESSED2, in order. Goes out: bytes of
one stream of records, cut anywhere.
Source: ``zstd_decompress_stream()`` in ``tools/perf/util/zstd.c`` and
``perf_session__process_compressed_event()`` in ``tools/perf/util/tool.c``, Linux 6.18: one
Zstandard stream runs through all records of a file.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from prospect.errors import RecordingError
from prospect.perfdata import format as fmt

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zstandard import ZstdDecompressionObj

# Bytes unpacked at a time. Zstandard makes at most 128 KiB of 4 bytes, so one step of a hostile
# stream yields 8 MiB at most.
_STEP_BYTES = 256
# Refuse a stream that unpacks to more than this and so many times its size. Stack copies of 64 KiB
# at level 22 reach a ratio of 1500; a decompression bomb comes close to 32768.
_FREE_BYTES = 64 << 20
_MAX_RATIO = 4096


class Unpacker:
    """Unpacks the payloads of a recording's COMPRESSED records, one after the other."""

    def __init__(self) -> None:
        self._stream: ZstdDecompressionObj | None = None
        self._allowed_bytes = _FREE_BYTES

    def unpack(self, payload: memoryview) -> Iterator[bytes]:
        """Yield what the next payload adds to the stream of records, all of it, in pieces.

        Raises:
            RecordingError: the payload is damaged, or unpacks to more than any recording does;
                nothing behind it can be unpacked.
        """
        # Few recordings are compressed; the library takes 10 ms to load.
        import zstandard  # noqa: PLC0415 - 10 ms, few are compressed

        if self._stream is None:
            # Like ZSTD_decompressStream(), go on with the next frame where one ends.
            self._stream = zstandard.ZstdDecompressor().decompressobj(read_across_frames=True)
        for at in range(0, len(payload), _STEP_BYTES):
            step = payload[at : at + _STEP_BYTES]
            try:
                unpacked = self._stream.decompress(step)
            except zstandard.ZstdError as error:
                raise RecordingError(f"compressed records are damaged: {error}") from error
            self._allowed_bytes += _MAX_RATIO * len(step) - len(unpacked)
            if self._allowed_bytes < 0:
                raise RecordingError("compressed records unpack to more than a recording can hold")
            yield unpacked


def compressed_payload(record: memoryview, type_: int, order: str) -> memoryview:
    """Return the compressed bytes of a COMPRESSED or COMPRESSED2 record.

    Raises:
        RecordingError: the record is cut, or gives a size larger than itself.
    """
    if type_ == fmt.PERF_RECORD_COMPRESSED:
        return record[fmt.RECORD_HEADER_BYTES :]
    if len(record) < fmt.RECORD_HEADER_BYTES + 8:
        raise RecordingError("a compressed record is cut")
    (size,) = struct.unpack_from(order + "Q", record, fmt.RECORD_HEADER_BYTES)
    payload = record[fmt.RECORD_HEADER_BYTES + 8 :]
    if size > len(payload):
        raise RecordingError(f"a compressed record claims {size} bytes and has {len(payload)}")
    return payload[:size]
