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
    from zstandard import ZstdDecompressionWriter

# What a hostile file can make a reader unpack: at once, and in all as a multiple of its size.
# A record has less than 64 KiB, and recordings reach ratios of 5 to 50.
_MAX_RECORD_OUTPUT_BYTES = 64 << 20
_MAX_RATIO = 256


class Unpacker:
    """Unpacks the payloads of a recording's COMPRESSED records, one after the other."""

    def __init__(self) -> None:
        self._output = _BoundedOutput()
        self._writer: ZstdDecompressionWriter | None = None

    def unpack(self, payload: memoryview) -> list[bytes]:
        """Return what the next payload adds to the stream of records, in pieces.

        Raises:
            RecordingError: the payload is damaged, or unpacks to more than any recording does;
                nothing behind it can be unpacked.
        """
        # Few recordings are compressed; the library takes 10 ms to load.
        import zstandard  # noqa: PLC0415 - see above

        if self._writer is None:
            unpacker = zstandard.ZstdDecompressor()
            self._writer = unpacker.stream_writer(self._output, closefd=False)  # type: ignore[arg-type]  # it needs write() only
        self._output.allow(len(payload))
        try:
            self._writer.write(payload)
        except zstandard.ZstdError as error:
            raise RecordingError(f"compressed records are damaged: {error}") from error
        return self._output.drain()


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


class _BoundedOutput:
    """What the decompressor writes into; refuses more than a recording can honestly hold."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._allowed_bytes = _MAX_RECORD_OUTPUT_BYTES
        self._record_bytes = 0

    def allow(self, compressed_bytes: int) -> None:
        """Begin the next record, of so many compressed bytes."""
        self._allowed_bytes += _MAX_RATIO * compressed_bytes
        self._record_bytes = 0

    def write(self, piece: bytes) -> int:
        """Take the next piece; the decompressor calls this."""
        self._record_bytes += len(piece)
        self._allowed_bytes -= len(piece)
        if self._record_bytes > _MAX_RECORD_OUTPUT_BYTES or self._allowed_bytes < 0:
            raise RecordingError("compressed records unpack to more than a recording can hold")
        self._pieces.append(piece)
        return len(piece)

    def drain(self) -> list[bytes]:
        """Return the pieces taken since the last call."""
        pieces, self._pieces = self._pieces, []
        return pieces
