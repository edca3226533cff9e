"""Appends records to a file as one Zstandard stream in COMPRESSED records, which perf unpacks too.

Defined by: ``zstd_compress_stream_to_records()`` and ``zstd_decompress_stream()`` in
``tools/perf/util/zstd.c``, Linux 6.18: a file has one stream, and each record unpacks to at most
the size that the feature COMPRESSED gives.
"""

from __future__ import annotations

import struct

from prospect.capture.sink import RecordSink

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

# Stack copies shrink 16:1; level 3 gives 20:1 and takes 1.5 times as long.
LEVEL = 1
_HEADER = struct.Struct("<IHH")
_PERF_RECORD_COMPRESSED = 81
_MOST_PAYLOAD_BYTES = 0xFFFF - _HEADER.size
# Bytes packed at a time, and the buffer that a reader needs for them and the rest of a block.
_STEP_BYTES = 1 << 18
UNPACKED_BYTES = 1 << 20


class CompressedSink(RecordSink):
    """Packs records into a `RecordSink`, which bounds and counts the bytes in the file.

    Args:
        mend: corrects whole records in place before they are packed.
    """

    keeps_records = False  # they are packed, and mended already

    def __init__(
        self, fd: int, bound_bytes: int = 0, mend: Callable[[bytearray], None] | None = None
    ) -> None:
        super().__init__(fd, bound_bytes)
        import zstandard  # noqa: PLC0415 - 10 ms, rarely asked for

        self.raw_bytes = 0
        self._mend = mend
        self._stream = zstandard.ZstdCompressor(level=LEVEL).compressobj()
        self._flush = zstandard.COMPRESSOBJ_FLUSH_BLOCK

    def append(self, buffers: Sequence[memoryview | bytes]) -> None:
        """Pack and write whole records; raises as `RecordSink.append`."""
        raw = bytearray().join(buffers)
        if self._mend:
            self._mend(raw)
        self.raw_bytes += len(raw)
        super().append(list(self._packed(memoryview(raw))))

    def compression(self) -> tuple[int, int, int]:
        """Return the level, the ratio of sizes, and the largest size that a record unpacks to."""
        ratio = max(round(self.raw_bytes / max(self.bytes_written, 1)), 1)
        return LEVEL, ratio, UNPACKED_BYTES

    def _packed(self, raw: memoryview) -> Iterator[bytes]:
        for at in range(0, len(raw), _STEP_BYTES):
            payload = self._stream.compress(raw[at : at + _STEP_BYTES])
            payload += self._stream.flush(self._flush)
            for begin in range(0, len(payload), _MOST_PAYLOAD_BYTES):
                piece = payload[begin : begin + _MOST_PAYLOAD_BYTES]
                size = _HEADER.size + len(piece)
                yield _HEADER.pack(_PERF_RECORD_COMPRESSED, 0, size) + piece
